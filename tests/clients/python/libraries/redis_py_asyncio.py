"""redis-py's `Lock` for asyncio."""

import asyncio

import redis.asyncio
from redis.exceptions import LockError, LockNotOwnedError

from helpers import expect, new_name
from libraries import LONG_S, LONGER_S, PATIENCE_S, Library, Lock
from libraries.background import Background


class RedisPyAsyncioLock(Lock):
    def __init__(self, lock, run):
        self.lock, self.run = lock, run

    def acquire(self):
        return self.run(self.lock.acquire(blocking=False))

    def wait(self):
        return self.run(self.lock.acquire(blocking_timeout=PATIENCE_S))

    def extend(self):
        assert self.run(self.lock.extend(LONGER_S - LONG_S + 5))

    def release(self):
        try:
            self.run(self.lock.release())
        except LockError:
            return False
        return True

    def release_as_stranger(self):
        self.lock.local.token = b"stolen"
        expect(LockNotOwnedError, lambda: self.run(self.lock.reacquire()))
        expect(LockNotOwnedError, lambda: self.run(self.lock.extend(1)))
        return self.release()


class RedisPyAsyncio(Library):
    package = "redis"

    def __init__(self, server):
        self.run = Background().run
        self.client = self.run(connect(server))

    def lock(self, name, ttl_s=LONG_S):
        # The token would be thread-local, but this lock is made in one thread and used in another.
        lock = self.client.lock(name, timeout=ttl_s, sleep=0.01, thread_local=False)
        return RedisPyAsyncioLock(lock, self.run)

    def pttl(self, key):
        return self.run(self.client.pttl(key))


async def connect(server):
    return redis.asyncio.Redis(**server.options())


def reacquire(library):
    async def story(client):
        name = new_name()
        lock = client.lock(name, timeout=LONG_S)
        assert await lock.acquire(blocking=False)
        await client.pexpire(name, 20_000)
        assert await lock.reacquire()
        assert 20_000 < await client.pttl(name) <= LONG_S * 1000
        await lock.release()

    library.run(story(library.client))


def with_block(library):
    async def story(client):
        name = new_name()
        async with client.lock(name, timeout=LONG_S) as lock:
            assert await lock.owned()
            assert not await client.lock(name, timeout=LONG_S).acquire(blocking=False)
        assert await client.get(name) is None

    library.run(story(library.client))


def crowd(library):
    """Twenty tasks increment a plain variable, each only while it holds the lock."""

    async def story(client):
        name, counter, inside = new_name(), 0, False

        async def increment():
            nonlocal counter, inside
            async with client.lock(name, timeout=LONG_S, sleep=0.005, blocking_timeout=PATIENCE_S):
                assert not inside, "two tasks hold one lock"
                inside, seen = True, counter
                await asyncio.sleep(0)
                counter, inside = seen + 1, False

        await asyncio.gather(*(increment() for _ in range(20)))
        assert counter == 20

    library.run(story(library.client))


RedisPyAsyncio.more = (reacquire, with_block, crowd)
LIBRARY = RedisPyAsyncio
