"""redlock-py: Redlock on the client's side, with one server."""

import redis
import redlock

from libraries import LONG_S, PATIENCE_S, Library, Lock

RETRY_DELAY_S = 0.02


class RedlockPyLock(Lock):
    def __init__(self, client, name, ttl_s):
        self.once = redlock.Redlock([client], retry_count=1, retry_delay=RETRY_DELAY_S)
        self.patient = redlock.Redlock([client], retry_count=int(PATIENCE_S / RETRY_DELAY_S), retry_delay=RETRY_DELAY_S)
        self.name, self.ttl_ms = name, int(ttl_s * 1000)

    def acquire(self):
        self.held = self.once.lock(self.name, self.ttl_ms)
        return bool(self.held)

    def wait(self):
        self.held = self.patient.lock(self.name, self.ttl_ms)
        return bool(self.held)

    def release(self):
        self.once.unlock(self.held)

    def release_as_stranger(self):
        self.once.unlock(redlock.Lock(LONG_S * 1000, self.name, b"stolen"))


class RedlockPy(Library):
    package = "redlock-py"

    def __init__(self, server):
        self.client = redis.Redis(**server.options())

    def lock(self, name, ttl_s=LONG_S):
        return RedlockPyLock(self.client, name, ttl_s)

    def pttl(self, key):
        return self.client.pttl(key)


LIBRARY = RedlockPy
