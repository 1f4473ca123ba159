"""The exclusive locks of .NET: each is one holder's view of one key.

`take`, `extend` and `release` say what the library would tell its caller.
"""

import os
import uuid

import scripts
from expect import expect_reply, expect_type
from stackexchange import OK


class Lock:
    """StringSet with When.NotExists, which all of them take their lock with."""

    SUFFIX = ""  # appended by the library to every name

    @classmethod
    def can_name(cls, key):
        return key.endswith(cls.SUFFIX)

    def __init__(self, redis, key):
        self.redis = redis
        self.key = key
        self.token = self.new_token()

    def new_token(self):
        return str(uuid.uuid4()).encode()

    def take(self, ttl_ms):
        reply = self.redis.run("SET", self.key, self.token, *expiry(ttl_ms), "NX")
        if reply is not None:
            expect_reply(reply, OK, "SET NX")
        return reply is not None


class StackExchangeLock(Lock):
    """LockTake, LockQuery, LockExtend and LockRelease: no script, a transaction under a condition."""

    def query(self):
        return self.redis.run("GET", self.key)

    def take_for_ever(self):
        """TimeSpan.MaxValue."""
        return self._integer(self.redis.run("SETNX", self.key, self.token)) == 1

    def extend(self, ttl_ms):
        if self.redis.compares_on_server:
            return self.redis.run("SET", self.key, self.token, *expiry(ttl_ms), "IFEQ", self.token) is not None
        unit, number = expiry(ttl_ms)
        command = "EXPIRE" if unit == "EX" else "PEXPIRE"
        return self.redis.if_equal(self.key, self.token, (command, self.key, number))

    def release(self, between=lambda: None):
        if self.redis.compares_on_server:
            between()
            return self._integer(self.redis.run("DELEX", self.key, "IFEQ", self.token)) == 1
        return self.redis.if_equal(self.key, self.token, ("DEL", self.key), between)

    @staticmethod
    def _integer(reply):
        expect_type(reply, int, "an integer")
        return reply


class ScriptedLock(Lock):
    """Released, and mostly extended, by a script that answers 1 if the token held the key."""

    unlock_script = extend_script = None

    def release(self):
        return self.evaluate(self.unlock_script, self.token) == 1

    def extend(self, ttl_ms):
        if self.extend_script is None:
            return None
        return self.evaluate(self.extend_script, self.token, ttl_ms) == 1

    def evaluate(self, script, *arguments):
        reply = self.redis.script(script, [self.key], arguments)
        expect_type(reply, int, "the script's answer")
        return reply


class RedLockNet(ScriptedLock):
    unlock_script = scripts.REDLOCK_NET_UNLOCK
    extend_script = scripts.REDLOCK_NET_EXTEND

    def extend_and_tell_conflict(self, ttl_ms):
        """1: held, also if nobody held it before. -1: another holds it, which is how RedLock.net's instance summary gets its
        `Conflicted`."""
        return self.evaluate(self.extend_script, self.token, ttl_ms)


class RedLockNetCrlf(RedLockNet):
    unlock_script = scripts.REDLOCK_NET_UNLOCK_CRLF
    extend_script = scripts.REDLOCK_NET_EXTEND_CRLF


class RedlockCs(ScriptedLock):
    unlock_script = scripts.REDLOCK_CS_UNLOCK

    def new_token(self):
        return uuid.uuid4().bytes


class RedlockCsCrlf(RedlockCs):
    unlock_script = scripts.REDLOCK_CS_UNLOCK_CRLF


class DistributedLock(ScriptedLock):
    unlock_script = scripts.DISTRIBUTED_LOCK_RELEASE
    extend_script = scripts.DISTRIBUTED_LOCK_EXTEND

    def new_token(self):
        return f"host_{os.getpid()}_{uuid.uuid4().hex}".encode()


class DistributedLock110(DistributedLock):
    """Its LuaScript.Prepare passes the key twice: as a key and as the first argument, where the script looks."""

    unlock_script = scripts.DISTRIBUTED_LOCK_1_1_0_RELEASE
    extend_script = scripts.DISTRIBUTED_LOCK_1_1_0_EXTEND

    def evaluate(self, script, *arguments):
        return super().evaluate(script, self.key, *arguments)


def expiry(ttl_ms):
    """StackExchange.Redis says whole seconds as seconds."""
    return ("PX", ttl_ms) if ttl_ms % 1000 else ("EX", ttl_ms // 1000)
