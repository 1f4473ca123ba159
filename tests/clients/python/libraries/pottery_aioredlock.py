"""pottery's `AIORedlock`: the same as its `Redlock`, as coroutines."""

import redis.asyncio
from pottery import AIORedlock, ReleaseUnlockedLock

from helpers import new_name
from libraries import LONG_S, LONGER_S, PATIENCE_S, Library, Lock
from libraries.background import Background


class PotteryAsyncioLock(Lock):
    def __init__(self, library, name, ttl_s):
        self.run = library.run
        self.lock = AIORedlock(key=name, masters={library.client}, auto_release_time=ttl_s, raise_on_redis_errors=True)

    def acquire(self):
        return self.run(self.lock.acquire(blocking=False))

    def wait(self):
        return self.run(self.lock.acquire(timeout=PATIENCE_S))

    def extend(self):
        self.lock.auto_release_time = LONGER_S
        self.run(self.lock.extend())

    def release(self):
        try:
            self.run(self.lock.release())
        except ReleaseUnlockedLock:
            return False
        return True

    def release_as_stranger(self):
        # Its last attempt to take the lock has left it a token that nobody holds.
        return self.release()


class PotteryAsyncio(Library):
    package = "pottery"
    prefix = "redlock:"

    def __init__(self, server):
        self.run = Background().run
        self.client = self.run(connect(server))

    def lock(self, name, ttl_s=LONG_S):
        return PotteryAsyncioLock(self, name, ttl_s)

    def pttl(self, key):
        return self.run(self.client.pttl(key))


async def connect(server):
    return redis.asyncio.Redis(**server.options())


def locked(library):
    """Tells how long the lock is valid, by a script that returns a PTTL."""

    async def story(lock):
        assert await lock.locked() == 0
        async with lock:
            assert LONG_S / 2 < await lock.locked() <= LONG_S
        assert await lock.locked() == 0

    library.run(story(library.lock(new_name()).lock))


PotteryAsyncio.more = (locked,)
LIBRARY = PotteryAsyncio
