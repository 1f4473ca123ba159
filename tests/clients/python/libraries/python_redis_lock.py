"""python-redis-lock: waits with BLPOP for what the release script pushes."""

import logging
import time

import redis
import redis_lock

from helpers import new_name
from libraries import LONG_S, LONGER_S, PATIENCE_S, Library, Lock

# It warns of every refusal, and these checks cause many.
logging.getLogger("redis_lock").setLevel(logging.ERROR)


class PythonRedisLock(Lock):
    def __init__(self, lock):
        self.lock = lock

    def acquire(self):
        try:
            return self.lock.acquire(blocking=False)
        except redis.ResponseError as error:
            # It first checks whether it holds the lock itself, with a GET that fails on other
            # libraries' key types.
            if str(error).startswith("WRONGTYPE"):
                return False
            raise

    def wait(self):
        return self.lock.acquire(timeout=PATIENCE_S)

    def extend(self):
        self.lock.extend(LONGER_S)

    def release(self):
        try:
            self.lock.release()
        except redis_lock.NotAcquired:
            return False
        return True

    def release_as_stranger(self):
        return self.release()


class PythonRedis(Library):
    package = "python-redis-lock"
    prefix = "lock:"

    def __init__(self, server):
        self.server = server
        self.client = redis.Redis(**server.options())

    def lock(self, name, ttl_s=LONG_S):
        return PythonRedisLock(redis_lock.Lock(self.client, name, expire=ttl_s))

    def pttl(self, key):
        return self.client.pttl(key)


def no_ttl(library):
    name = new_name()
    lock = redis_lock.Lock(library.client, name)
    assert lock.acquire(blocking=False)
    assert library.pttl(library.key_of(name)) == -1
    lock.release()


def watchdog(library):
    """A thread renews the lock, so that it outlives its TTL."""
    name = new_name()
    with redis_lock.Lock(library.client, name, expire=1, auto_renewal=True):
        time.sleep(2.5)
        assert not library.lock(name).acquire(), "the lock was not renewed"
    assert library.lock(name).acquire()


def reset(library):
    """Takes the lock from whoever holds it, and wakes who waits."""
    name = new_name()
    mine = library.lock(name)
    assert mine.acquire()
    redis_lock.Lock(library.client, name).reset()
    assert library.lock(name).wait()
    assert mine.release() is False


def reset_all(library):
    """Takes all locks of a database from whoever holds them. The script names no keys, it looks for them."""
    client = redis.Redis(**library.server.options(), db=9)
    names = [new_name() for _ in range(3)]
    for name in names:
        assert redis_lock.Lock(client, name, expire=LONG_S).acquire(blocking=False)
    redis_lock.reset_all(client)
    for name in names:
        assert redis_lock.Lock(client, name, expire=LONG_S).acquire(blocking=False)


PythonRedis.more = (no_ttl, watchdog, reset, reset_all)
LIBRARY = PythonRedis
