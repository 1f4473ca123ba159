"""The paces every lock goes through, in the order the table shows them."""

import time
from concurrent.futures import ThreadPoolExecutor

from helpers import eventually, middle, new_name
from libraries import LONG_S, PATIENCE_S

SHORT_S = 1


def check(library):
    name = new_name()
    mine, other = library.lock(name), library.lock(name)
    key = library.key_of(name)
    report("acquire", lambda: acquire(mine))
    middle()
    report("refuse", lambda: refuse(other))
    report("extend", lambda: extend(library, key, mine))
    report("stranger", lambda: stranger(library, key, other))
    report("release", lambda: release(library, key, mine, other))
    for rest in (expire, wait, *library.more):
        report(rest.__name__.replace("_", "-"), lambda: rest(library))
    print("all locks held", flush=True)


def report(name, action):
    try:
        action()
    except NotImplementedError:
        print(f"{name}\tnone", flush=True)
    except Exception as error:
        raise AssertionError(f"the check {name} failed") from error
    else:
        print(f"{name}\tpassed", flush=True)


def acquire(mine):
    assert mine.acquire(), "a free lock was refused"


def refuse(other):
    assert not other.acquire(), "two hold one lock"


def extend(library, key, mine):
    mine.extend()
    left_ms = library.pttl(key)
    assert left_ms > LONG_S * 1000, f"{left_ms} ms left after an extension"


def stranger(library, key, other):
    assert other.release_as_stranger() is not True, "a stranger was told that it had released the lock"
    assert library.pttl(key) > 0, "a stranger released the lock"
    refuse(other)


def release(library, key, mine, other):
    assert mine.release() is not False, "the holder was told that it does not hold the lock"
    assert library.pttl(key) == -2, "the released lock is still there"
    assert other.acquire(), "a released lock was refused"
    assert other.release() is not False


def expire(library):
    name = new_name()
    late, following = library.lock(name, SHORT_S), library.lock(name)
    assert late.acquire()
    eventually(following.acquire)
    assert late.release() is not True, "the late holder was told that it had released the lock"
    assert library.pttl(library.key_of(name)) > 0, "the late holder released somebody else's lock"
    assert following.release() is not False


def wait(library):
    name = new_name()
    first, second = library.lock(name), library.lock(name)

    def take_and_release():
        # In one thread: some libraries keep the token thread-local.
        return second.wait() and second.release() is not False

    assert first.acquire()
    with ThreadPoolExecutor() as pool:
        waiter = pool.submit(take_and_release)
        time.sleep(0.3)
        assert not waiter.done(), "somebody who waits got the lock, or an error, while it was held"
        assert first.release() is not False
        assert waiter.result(PATIENCE_S), "who waits does not get the lock"
