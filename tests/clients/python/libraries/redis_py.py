"""redis-py's `Lock`."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import redis
from redis.exceptions import LockError, LockNotOwnedError

from helpers import eventually, expect, new_name
from libraries import LONG_S, LONGER_S, PATIENCE_S, Library, Lock

STOLEN = b"stolen"


class RedisPyLock(Lock):
    def __init__(self, lock):
        self.lock = lock

    def acquire(self):
        return self.lock.acquire(blocking=False)

    def wait(self):
        return self.lock.acquire(blocking_timeout=PATIENCE_S)

    def extend(self):
        # Adds to the remaining time.
        assert self.lock.extend(LONGER_S - LONG_S + 5)

    def release(self):
        try:
            self.lock.release()
        except LockError:
            return False
        return True

    def release_as_stranger(self):
        # Without a token the library would not even ask the server.
        self.lock.local.token = STOLEN
        expect(LockNotOwnedError, self.lock.reacquire)
        expect(LockNotOwnedError, lambda: self.lock.extend(1))
        return self.release()


class RedisPy(Library):
    package = "redis"

    def __init__(self, server):
        self.server = server
        self.client = redis.Redis(**server.options())

    def lock(self, name, ttl_s=LONG_S):
        return RedisPyLock(self.client.lock(name, timeout=ttl_s, sleep=0.01))

    def pttl(self, key):
        return self.client.pttl(key)


def reacquire(library):
    """Sets the TTL back to what the lock was made with."""
    name = new_name()
    lock = library.client.lock(name, timeout=LONG_S)
    assert lock.acquire(blocking=False)
    library.client.pexpire(name, 20_000)
    assert lock.reacquire()
    assert 20_000 < library.pttl(name) <= LONG_S * 1000
    lock.release()


def no_ttl(library):
    name = new_name()
    lock = library.client.lock(name)
    assert lock.acquire(blocking=False)
    assert library.pttl(name) == -1
    expect(LockError, lambda: lock.extend(1))
    lock.release()
    assert library.pttl(name) == -2


def with_block(library):
    name = new_name()
    with library.client.lock(name, timeout=LONG_S) as lock:
        assert lock.locked() and lock.owned()
        assert not library.lock(name).acquire()
    assert not lock.locked()


def thread_local(library):
    """The token belongs to the thread that took the lock, unless the lock is made without that."""
    own, shared = (library.client.lock(new_name(), timeout=LONG_S, thread_local=local) for local in (True, False))
    assert own.acquire(blocking=False) and shared.acquire(blocking=False)
    with ThreadPoolExecutor() as pool:
        expect((LockError, AttributeError), lambda: pool.submit(own.release).result())
        pool.submit(shared.release).result()
    assert own.owned() and not shared.locked()
    own.release()


def crowd(library):
    """Eight threads increment a plain variable, each only while it holds the lock."""
    name, counter = new_name(), 0
    inside = threading.Lock()

    def increment():
        nonlocal counter
        with library.client.lock(name, timeout=LONG_S, sleep=0.005, blocking_timeout=PATIENCE_S):
            assert inside.acquire(blocking=False), "two threads hold one lock"
            seen = counter
            time.sleep(0.001)
            counter = seen + 1
            inside.release()

    with ThreadPoolExecutor(8) as pool:
        for turn in [pool.submit(increment) for _ in range(24)]:
            turn.result()
    assert counter == 24


def commands(library):
    """Locks without a library, and the timestamp lock of old."""
    client, key = library.client, new_name()
    assert client.set(key, "mine", nx=True, px=60_000) is True
    assert client.set(key, "other", nx=True, ex=60) is None
    assert client.get(key) == b"mine"
    assert client.getset(key, "next") == b"mine"
    assert client.set(key, "kept", xx=True, keepttl=True) is True
    assert client.setnx(key, "other") is False
    assert client.delete(key) == 1
    assert client.getset(key, "first") is None
    assert client.delete(key) == 1
    expect(redis.ResponseError, lambda: client.execute_command("SET", key))


def pipeline(library):
    keys = [new_name() for _ in range(100)]
    batch = library.client.pipeline(transaction=False)
    for key in keys + keys:
        batch.set(key, "mine", nx=True, px=60_000)
    assert batch.execute() == [True] * 100 + [None] * 100
    assert library.client.delete(*keys) == 100


def databases(library):
    key, zero = new_name(), library.client
    three = redis.Redis(**library.server.options(), db=3)
    assert zero.set(key, "zero", nx=True, px=60_000)
    assert three.set(key, "three", nx=True, px=60_000)
    assert (zero.get(key), three.get(key)) == (b"zero", b"three")
    assert zero.delete(key) == three.delete(key) == 1


def cached(library):
    """What one client has cached, it drops once another one changes it."""
    if library.server.protocol != 3:
        raise NotImplementedError
    # Not in all versions.
    from redis.cache import CacheConfig
    from redis.connection import CacheProxyConnection

    # The servers that the checks run against are older. `--redis-version 7.4.0` would have the proxy say otherwise.
    CacheProxyConnection.MIN_ALLOWED_VERSION = "7.0.0"
    client = redis.Redis(**library.server.options(), cache_config=CacheConfig())
    name = new_name()
    for number in range(20):
        library.client.set(name, number)
        eventually(lambda expected=b"%d" % number: client.get(name) == expected)
        client.get(name)
    assert client.get_cache().size > 0, "nothing was cached"
    lock = client.lock(name + " lock", timeout=LONG_S)
    assert client.get(lock.name) is None
    assert lock.acquire(blocking=False) and lock.owned()
    eventually(lambda: client.get(lock.name) == lock.local.token)
    lock.release()
    eventually(lambda: client.get(lock.name) is None)


RedisPy.more = (reacquire, no_ttl, with_block, thread_local, crowd, commands, pipeline, databases, cached)
LIBRARY = RedisPy
