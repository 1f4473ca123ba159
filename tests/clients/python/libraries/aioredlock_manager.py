"""aioredlock, over aioredis 1: one script takes a lock and extends it, and refuses with an error."""

import asyncio

import aioredis
from aioredlock import Aioredlock, LockError
from aioredlock.lock import Lock as HeldLock

from helpers import new_name
from libraries import LONG_S, LONGER_S, PATIENCE_S, Library, Lock
from libraries.background import Background

RETRY_DELAY_S = 0.02


class AioredlockLock(Lock):
    def __init__(self, library, name, ttl_s):
        self.run, self.once, self.patient = library.run, library.once, library.patient
        self.name, self.ttl_s = name, ttl_s

    def acquire(self):
        return self.take(self.once)

    def wait(self):
        return self.take(self.patient)

    def take(self, manager):
        try:
            self.held = self.run(manager.lock(self.name, self.ttl_s))
        except LockError:
            return False
        return True

    def extend(self):
        self.run(self.once.extend(self.held, LONGER_S))

    def release(self):
        return self.unlock(self.held)

    def release_as_stranger(self):
        return self.unlock(HeldLock(self.once, self.name, id="stolen", lock_timeout=LONG_S, valid=True))

    def unlock(self, lock):
        try:
            self.run(self.once.unlock(lock))
        except LockError:
            return False
        return True


class AioredlockLibrary(Library):
    package = "aioredlock"

    def __init__(self, server):
        self.run = Background().run
        self.address = f"redis://{server.host}:{server.port}"
        self.run(self.connect())

    async def connect(self):
        self.once = self.manager(retry_count=1)
        self.patient = self.manager(retry_count=int(PATIENCE_S / RETRY_DELAY_S))
        self.client = await aioredis.create_redis(self.address)

    def manager(self, **options):
        delays = {"retry_delay_min": RETRY_DELAY_S, "retry_delay_max": RETRY_DELAY_S}
        return Aioredlock([self.address], **delays, **options)

    def lock(self, name, ttl_s=LONG_S):
        return AioredlockLock(self, name, ttl_s)

    def pttl(self, key):
        async def ask():
            return await self.client.pttl(key)

        return self.run(ask())


def watchdog(library):
    """A task renews a lock that was taken without a TTL."""
    name = new_name()

    async def story():
        manager = library.manager(retry_count=1, internal_lock_timeout=1)
        lock = await manager.lock(name)
        await asyncio.sleep(2.5)
        assert await manager.is_locked(lock), "the lock was not renewed"
        return manager, lock

    manager, lock = library.run(story())
    assert not library.lock(name).acquire()
    library.run(manager.unlock(lock))
    assert library.lock(name).acquire()


def get_lock(library):
    """Makes the lock anew from its token, by a script that returns a TTL."""
    name = new_name()
    mine = library.lock(name)
    assert mine.acquire()
    again = library.run(library.once.get_lock(name, mine.held.id))
    assert LONG_S / 2 < again.lock_timeout <= LONG_S
    library.run(library.once.unlock(again))
    assert library.pttl(name) == -2


AioredlockLibrary.more = (watchdog, get_lock)
LIBRARY = AioredlockLibrary
