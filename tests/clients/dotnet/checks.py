"""What every exclusive lock promises, in an order that leaves one held while a master may die."""

import os
import threading
import time
import uuid
from pathlib import Path

from expect import expect, expect_reply, expect_type
from resp import PATIENCE_S

HOLD_MS = 60_000
EXTENDED_MS = 90_000
SHORT_MS = 1_500
RETRY_S = 0.02
MIDDLE_S = 30


class Paces:
    """Two strangers, each over connections of its own, and the lock that one of them holds."""

    def __init__(self, client):
        self.kind = client.lock
        self.mine, self.other = client.connect(), client.connect()
        self.key = self.new_key()
        self.held = self.kind(self.mine, self.key)

    def new_key(self):
        return f"lock:{uuid.uuid4()}{self.kind.SUFFIX}"

    def pttl(self, key):
        reply = self.mine.run("PTTL", key)
        expect_type(reply, int, "PTTL")
        return reply

    def take(self, redis, key, ttl_ms=HOLD_MS):
        lock = self.kind(redis, key)
        expect(lock.take(ttl_ms), "a free lock was refused")
        return lock

    def refuse(self, key):
        for redis in (self.mine, self.other):
            expect(not self.kind(redis, key).take(HOLD_MS), "a second holder got the lock")

    def release(self, lock):
        expect(lock.release(), "the holder was told that it holds nothing")


def acquire(paces):
    expect(paces.held.take(HOLD_MS), "a free lock was refused")
    middle()


def refuse(paces):
    paces.refuse(paces.key)


def extend(paces):
    before = paces.pttl(paces.key)
    if paces.held.extend(EXTENDED_MS) is None:
        return "none"
    after = paces.pttl(paces.key)
    expect(after > before + (EXTENDED_MS - HOLD_MS) / 2, f"extended, but the lock does not live longer: {before} {after}")
    paces.refuse(paces.key)


def stranger(paces):
    for redis in (paces.mine, paces.other):
        stranger = paces.kind(redis, paces.key)
        expect(not stranger.release(), "a stranger released")
        expect(not stranger.extend(EXTENDED_MS), "a stranger extended")
    paces.refuse(paces.key)


def release(paces):
    paces.release(paces.held)
    expect(not paces.held.release(), "released twice")
    paces.release(paces.take(paces.other, paces.key))


def expire(paces):
    key = paces.new_key()
    late = paces.take(paces.mine, key, SHORT_MS)
    following = paces.kind(paces.other, key)
    eventually("the lock ran out", lambda: following.take(HOLD_MS))
    expect(not late.release(), "released what had run out")
    paces.release(following)


def wait(paces):
    """None of them is told of a release: they look again and again."""
    key = paces.new_key()
    first, second = paces.take(paces.mine, key), paces.kind(paces.other, key)
    releaser = threading.Timer(10 * RETRY_S, first.release)
    releaser.start()
    eventually("the waiter gets the lock", lambda: second.take(HOLD_MS))
    releaser.join()
    paces.release(second)


COMMON = {
    "acquire": acquire,
    "refuse": refuse,
    "extend": extend,
    "stranger": stranger,
    "release": release,
    "expire": expire,
    "wait": wait,
}


def query(paces):
    lock = paces.take(paces.mine, paces.new_key())
    expect_reply(lock.query(), lock.token, "LockQuery")
    paces.release(lock)
    expect(lock.query() is None, "LockQuery of a free lock")


def no_ttl(paces):
    lock = paces.kind(paces.mine, paces.new_key())
    expect(lock.take_for_ever(), "a free lock was refused")
    expect_reply(paces.pttl(lock.key), -1, "PTTL")
    paces.refuse(lock.key)
    paces.release(lock)


def taken_while_watched(paces):
    """The holder's lock runs out between its GET and its EXEC, and another takes it."""
    lock = paces.take(paces.mine, paces.new_key())
    following = paces.kind(paces.other, lock.key)

    def another_takes_it():
        expect_reply(paces.other.run("DEL", lock.key), 1, "DEL")
        expect(following.take(HOLD_MS), "a free lock was refused")

    expect(not lock.release(another_takes_it), "released another's lock")
    paces.release(following)


def keep_alive(paces):
    paces.mine.keep_alive()


def extend_takes(paces):
    key = paces.new_key()
    mine, other = paces.kind(paces.mine, key), paces.kind(paces.other, key)
    answers = [lock.extend_and_tell_conflict(HOLD_MS) for lock in (mine, mine, other)]
    expect(answers == [1, 1, -1], f"takes, extends, is told of a conflict: {answers}")
    paces.release(mine)


def middle():
    """Lets whoever started the suite kill a master while a lock is held: a file appears, and one beside it is the answer."""
    here = os.environ.get("REDLOCK_MIDDLE")
    if not here:
        return
    Path(here).touch()
    eventually(f"{here}.done appears", Path(here + ".done").exists, MIDDLE_S, 0.01)


def eventually(what, comes_true, patience_s=PATIENCE_S, pause_s=RETRY_S):
    deadline = time.monotonic() + patience_s
    while not comes_true():
        expect(time.monotonic() < deadline, f"never: {what}")
        time.sleep(pause_s)
