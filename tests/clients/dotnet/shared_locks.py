"""DistributedLock.Redis's locks that several may hold: readers beside one writer, and a semaphore.

The scripts take the keys and arguments that the library's take, call the same commands on them and give the same answers; their
words are our own.
"""

from expect import expect, expect_type
from locks import DistributedLock

READER_TAKE = """
local writer, readers, id, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
if redis.call('EXISTS', writer) ~= 0 then return 0 end
redis.call('SADD', readers, id)
if redis.call('PTTL', readers) < tonumber(ttl) then redis.call('PEXPIRE', readers, ttl) end
return 1"""

READER_EXTEND = """
local readers, id, ttl = KEYS[1], ARGV[1], ARGV[2]
if redis.call('SISMEMBER', readers, id) ~= 1 then return 0 end
if redis.call('PTTL', readers) < tonumber(ttl) then redis.call('PEXPIRE', readers, ttl) end
return 1"""

READER_RELEASE = "redis.call('SREM', KEYS[1], ARGV[1])"

WRITER_TAKE = """
local writer, readers, id, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local held = redis.call('GET', writer)
local waiting = held == id .. '_WRITERWAITING'
if held and not waiting then return 0 end
if redis.call('SCARD', readers) > 0 then
    if waiting then redis.call('PEXPIRE', writer, ttl) end
    return 0
end
redis.call('SET', writer, id, 'PX', ttl)
return 1"""

NOW = """
redis.replicate_commands()
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
"""

SEMAPHORE_TAKE = NOW + """
local holders, permits, ttl, id, ttl_of_all = KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
redis.call('ZREMRANGEBYSCORE', holders, '-inf', now)
if redis.call('ZCARD', holders) >= permits then return 0 end
redis.call('ZADD', holders, now + ttl, id)
if redis.call('PTTL', holders) < tonumber(ttl_of_all) then redis.call('PEXPIRE', holders, ttl_of_all) end
return 1"""

SEMAPHORE_EXTEND = NOW + """
local holders, ttl, id, ttl_of_all = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local changed = redis.call('ZADD', holders, 'XX', 'CH', now + ttl, id)
if redis.call('PTTL', holders) < tonumber(ttl_of_all) then redis.call('PEXPIRE', holders, ttl_of_all) end
return changed"""


class Writer(DistributedLock):
    """Named by the key it holds. What readers hold is beside it."""

    SUFFIX = ".writer"

    @property
    def readers(self):
        return self.key.removesuffix(self.SUFFIX) + ".readers"

    def take(self, ttl_ms):
        return said_yes(self.redis.script(WRITER_TAKE, [self.key, self.readers], [self.token, ttl_ms]))

    def announce(self, ttl_ms):
        """Keeps new readers out while those that are in finish."""
        waiting = DistributedLock(self.redis, self.key)
        waiting.token = self.token + b"_WRITERWAITING"
        return waiting.take(ttl_ms)


class Reader(Writer):
    def take(self, ttl_ms):
        return said_yes(self.redis.script(READER_TAKE, [self.key, self.readers], [self.token, ttl_ms]))

    def extend(self, ttl_ms):
        return said_yes(self.redis.script(READER_EXTEND, [self.readers], [self.token, ttl_ms]))

    def release(self):
        """Its script returns nothing, so nobody learns whether it held."""
        reply = self.redis.script(READER_RELEASE, [self.readers], [self.token])
        expect(reply is None, f"a reader's release: {reply!r}")


class Semaphore(DistributedLock):
    permits = 1

    def take(self, ttl_ms):
        arguments = [self.permits, ttl_ms, self.token, self._ttl_of_all(ttl_ms)]
        return said_yes(self.redis.script(SEMAPHORE_TAKE, [self.key], arguments))

    def extend(self, ttl_ms):
        arguments = [ttl_ms, self.token, self._ttl_of_all(ttl_ms)]
        return said_yes(self.redis.script(SEMAPHORE_EXTEND, [self.key], arguments))

    def release(self):
        return said_yes(self.redis.run("ZREM", self.key, self.token))

    @staticmethod
    def _ttl_of_all(ttl_ms):
        """The sorted set outlives its members, whose scores are when they run out."""
        return 3 * ttl_ms


class SemaphoreOfTwo(Semaphore):
    permits = 2


def said_yes(reply):
    expect_type(reply, int, "a script's answer")
    return reply == 1
