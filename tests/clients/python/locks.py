"""Locks of redis-py and redlock-py, exactly as applications take them, against whatever listens at REDLOCK_ADDRESS."""

import asyncio
import os
import threading
import time
import uuid

import redis
import redis.asyncio
from redis.exceptions import LockError, LockNotOwnedError
from redlock import Redlock

HOST, PORT = os.environ["REDLOCK_ADDRESS"].rsplit(":", 1)
PATIENCE_S = 20


def main():
    for protocol in (2, 3):
        client = redis.Redis(host=HOST, port=int(PORT), protocol=protocol)
        for test in SYNC_TESTS:
            print(f"redis-py {redis.__version__} RESP{protocol} {test.__name__}", flush=True)
            test(client)
        for test in ASYNC_TESTS:
            print(f"redis-py {redis.__version__} RESP{protocol} {test.__name__}", flush=True)
            asyncio.run(with_async_client(test, protocol))
    print("redlock-py", flush=True)
    redlock_py_excludes()
    print("all locks held", flush=True)


def lock_excludes(client):
    key = new_key()
    mine, other = client.lock(key, timeout=60), client.lock(key, timeout=60)
    assert mine.acquire(blocking=False)
    assert not other.acquire(blocking=False)
    assert mine.locked() and mine.owned() and not other.owned()
    mine.release()
    assert not mine.locked()
    assert other.acquire(blocking=False)
    other.release()


def lock_in_a_with_block(client):
    key = new_key()
    with client.lock(key, timeout=60):
        assert not client.lock(key, timeout=60).acquire(blocking=False)
    assert client.get(key) is None


def only_the_holder_releases(client):
    key = new_key()
    mine, thief = client.lock(key, timeout=60), client.lock(key, timeout=60)
    assert mine.acquire(blocking=False)
    for theft in (thief.release, thief.reacquire):
        thief.local.token = b"stolen"
        expect(LockNotOwnedError, theft)
    assert mine.owned()
    mine.release()


def lock_is_reacquired(client):
    key = new_key()
    lock = client.lock(key, timeout=60)
    assert lock.acquire(blocking=False)
    client.pexpire(key, 20_000)
    assert lock.reacquire()
    assert 20_000 < client.pttl(key) <= 60_000
    lock.release()


def an_additive_extension_is_refused_by_name(client):
    """redis-py's extend script adds to the TTL that is left. Scripts of that kind do not run yet: the error names the
    script, and the lock stays as it was."""
    key = new_key()
    lock = client.lock(key, timeout=60)
    assert lock.acquire(blocking=False)
    try:
        lock.extend(60)
    except redis.exceptions.ResponseError as error:
        assert lock.lua_extend.sha in str(error), error
    else:
        raise AssertionError("extended: test lock_is_extended instead")
    assert client.pttl(key) <= 60_000
    lock.release()


def lock_without_timeout_stays(client):
    key = new_key()
    lock = client.lock(key)
    assert lock.acquire(blocking=False)
    assert client.pttl(key) == -1
    lock.release()
    assert not client.exists(key)


def expired_lock_is_lost(client):
    key = new_key()
    lock = client.lock(key, timeout=0.05)
    assert lock.acquire(blocking=False)
    eventually(lambda: not lock.locked())
    expect(LockNotOwnedError, lock.reacquire)
    expect(LockError, lock.release)
    assert client.lock(key, timeout=60).acquire(blocking=False)
    client.delete(key)


def waiter_gets_the_lock(client):
    key = new_key()
    first = client.lock(key, timeout=60, thread_local=False)
    assert first.acquire(blocking=False)
    second = client.lock(key, timeout=60, sleep=0.01, blocking_timeout=PATIENCE_S)
    releaser = threading.Thread(target=first.release)
    releaser.start()
    assert second.acquire()
    releaser.join()
    second.release()


def plain_commands(client):
    key = new_key()
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


def pipeline_of_claims(client):
    keys = [new_key() for _ in range(100)]
    pipeline = client.pipeline(transaction=False)
    for key in keys + keys:
        pipeline.set(key, "mine", nx=True, px=60_000)
    assert pipeline.execute() == [True] * 100 + [None] * 100
    assert client.delete(*keys) == 100


def databases_are_separate(client):
    key = new_key()
    other = redis.Redis(host=HOST, port=int(PORT), db=3)
    assert client.set(key, "zero", nx=True, px=60_000)
    assert other.set(key, "three", nx=True, px=60_000)
    assert (client.get(key), other.get(key)) == (b"zero", b"three")
    assert client.delete(key) == other.delete(key) == 1


async def async_lock_excludes(client):
    key = new_key()
    mine, other = client.lock(key, timeout=60), client.lock(key, timeout=60)
    assert await mine.acquire(blocking=False)
    assert not await other.acquire(blocking=False)
    assert await mine.reacquire()
    await mine.release()
    async with client.lock(key, timeout=60):
        assert not await other.acquire(blocking=False)
    assert await client.get(key) is None


async def async_counter_loses_nothing(client):
    """Twenty tasks increment a plain variable, each only while it holds the lock."""
    key, counter, inside = new_key(), 0, False

    async def increment():
        nonlocal counter, inside
        async with client.lock(key, timeout=60, sleep=0.005, blocking_timeout=PATIENCE_S):
            assert not inside, "two tasks hold one lock"
            inside, seen = True, counter
            await asyncio.sleep(0)
            counter, inside = seen + 1, False

    await asyncio.gather(*(increment() for _ in range(20)))
    assert counter == 20


def redlock_py_excludes():
    key = new_key()
    manager = Redlock([{"host": HOST, "port": int(PORT)}], retry_count=1)
    lock = manager.lock(key, 60_000)
    assert lock and lock.validity > 0
    assert not manager.lock(key, 60_000)
    manager.unlock(lock)
    lock = manager.lock(key, 60_000)
    assert lock
    manager.unlock(lock)


async def with_async_client(test, protocol):
    client = redis.asyncio.Redis(host=HOST, port=int(PORT), protocol=protocol)
    try:
        await test(client)
    finally:
        await client.aclose()


def eventually(condition):
    limit = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit, "gave up waiting"
        time.sleep(0.01)


def expect(error, action):
    try:
        action()
    except error:
        return
    raise AssertionError(f"{action} should raise {error}")


def new_key():
    return f"lock {uuid.uuid4()}"


SYNC_TESTS = [
    lock_excludes,
    lock_in_a_with_block,
    only_the_holder_releases,
    lock_is_reacquired,
    an_additive_extension_is_refused_by_name,
    lock_without_timeout_stays,
    expired_lock_is_lost,
    waiter_gets_the_lock,
    plain_commands,
    pipeline_of_claims,
    databases_are_separate,
]
ASYNC_TESTS = [async_lock_excludes, async_counter_loses_nothing]

if __name__ == "__main__":
    main()
