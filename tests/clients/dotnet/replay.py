"""Replays what .NET's lock libraries send, and needs to see what they need to see.

    replay.py list              one line per client: id, name, version, type of key
    replay.py check ID          everything the library promises
    replay.py hold ID KEY...    takes the keys and leaves them held
    replay.py try ID KEY...     tries to take the keys once

REDLOCK_ADDRESS names what to test, REDLOCK_PASSWORD the password if it asks for one.
"""

import os
import sys
from dataclasses import dataclass, field

import checks
import locks
import shared_checks
import shared_locks
import stackexchange
from expect import expect

HELD_MS = 120_000


@dataclass(frozen=True)
class Client:
    id: str
    name: str
    version: str
    keys: str
    lock: type
    multiplexer: stackexchange.Version = stackexchange.V2
    more: dict = field(default_factory=dict)

    def connect(self):
        address = os.environ.get("REDLOCK_ADDRESS") or sys.exit("REDLOCK_ADDRESS: host:port of what to test")
        return stackexchange.Multiplexer(self.multiplexer, address, os.environ.get("REDLOCK_PASSWORD"))


LOCK_TAKE = {
    "query": checks.query,
    "no ttl": checks.no_ttl,
    "taken while watched": checks.taken_while_watched,
    "keep alive": checks.keep_alive,
}
EXTEND_TAKES = {"extend takes": checks.extend_takes}

CLIENTS = [
    *(
        Client(f"stackexchange-{version.number[0]}", "StackExchange.Redis LockTake", version.number, "string",
               locks.StackExchangeLock, version, LOCK_TAKE)
        for version in (stackexchange.V1, stackexchange.V2, stackexchange.V3)
    ),
    Client("redlocknet", "RedLock.net", "2.3.2", "string", locks.RedLockNet, more=EXTEND_TAKES),
    Client("redlocknet-crlf", "RedLock.net, scripts with CRLF", "2.3.2", "string", locks.RedLockNetCrlf, more=EXTEND_TAKES),
    Client("redlock-cs", "redlock-cs", "2.0.8", "string", locks.RedlockCs, stackexchange.V1),
    Client("redlock-cs-crlf", "redlock-cs, scripts with CRLF", "2.0.8", "string", locks.RedlockCsCrlf, stackexchange.V1),
    Client("distributedlock", "DistributedLock.Redis", "1.1.1", "string", locks.DistributedLock),
    Client("distributedlock-1.1.0", "DistributedLock.Redis, keys as arguments", "1.1.0", "string", locks.DistributedLock110),
    Client("distributedlock-rw", "DistributedLock.Redis reader/writer, scripts reworded", "1.1.1", "string", shared_locks.Writer,
           more={"readers": shared_checks.readers}),
    Client("distributedlock-semaphore", "DistributedLock.Redis semaphore, scripts reworded", "1.1.1", "zset",
           shared_locks.Semaphore, more={"semaphore": shared_checks.semaphore}),
]


def main(words):
    match words:
        case ["list"]:
            for client in CLIENTS:
                print(client.id, f"{client.name} (wire replay)", client.version, client.keys, sep="\t")
        case ["check", id]:
            check(find(id))
        case ["hold", id, *keys]:
            hold(find(id), keys)
        case ["try", id, *keys]:
            try_(find(id), keys)
        case _:
            sys.exit(__doc__)


def check(client):
    paces = checks.Paces(client)
    for name, run in {**checks.COMMON, **client.more}.items():
        print(name, run(paces) or "passed", sep="\t", flush=True)
    print("all locks held")


def hold(client, keys):
    for key, taken in take_each(client, keys):
        expect(taken, f"{key} is held by another")
        print("held", key, sep="\t")


def try_(client, keys):
    for key, taken in take_each(client, keys):
        print("taken" if taken else "refused", key, sep="\t")


def take_each(client, keys):
    redis = client.connect()
    for key in filter(client.lock.can_name, keys):
        yield key, client.lock(redis, key).take(HELD_MS)


def find(id):
    for client in CLIENTS:
        if client.id == id:
            return client
    sys.exit(f"no client {id!r}: see `list`")


if __name__ == "__main__":
    main(sys.argv[1:])
