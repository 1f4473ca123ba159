"""pottery's `Redlock`: Redlock on the client's side, with one server."""

import redis
from pottery import Redlock, ReleaseUnlockedLock

from helpers import new_name
from libraries import LONG_S, LONGER_S, PATIENCE_S, Library, Lock


class PotteryLock(Lock):
    def __init__(self, client, name, ttl_s):
        self.lock = Redlock(key=name, masters={client}, auto_release_time=ttl_s, raise_on_redis_errors=True)

    def acquire(self):
        return self.lock.acquire(blocking=False)

    def wait(self):
        return self.lock.acquire(timeout=PATIENCE_S)

    def extend(self):
        self.lock.auto_release_time = LONGER_S
        self.lock.extend()

    def release(self):
        try:
            self.lock.release()
        except ReleaseUnlockedLock:
            return False
        return True

    def release_as_stranger(self):
        # Its last attempt to take the lock has left it a token that nobody holds.
        return self.release()


class Pottery(Library):
    package = "pottery"
    prefix = "redlock:"

    def __init__(self, server):
        self.client = redis.Redis(**server.options())

    def lock(self, name, ttl_s=LONG_S):
        return PotteryLock(self.client, name, ttl_s)

    def pttl(self, key):
        return self.client.pttl(key)


def locked(library):
    """Tells how long the lock is valid, by a script that returns a PTTL."""
    lock = library.lock(new_name()).lock
    assert lock.locked() == 0
    with lock:
        assert LONG_S / 2 < lock.locked() <= LONG_S
    assert lock.locked() == 0


Pottery.more = (locked,)
LIBRARY = Pottery
