"""The scripts of .NET's lock libraries, byte for byte, with the SHA1 that each of them goes by."""

import hashlib


def known(text, sha1):
    assert hashlib.sha1(text.encode()).hexdigest() == sha1, text
    return text


# RedLock.net and redlock-cs send the line endings of their sources as built.
def with_crlf(text, sha1):
    return known(text.replace("\n", "\r\n"), sha1)


REDLOCK_NET_UNLOCK = known(
    """if redis.call('get', KEYS[1]) == ARGV[1] then
	return redis.call('del', KEYS[1])
else
	return 0
end""",
    "18b2a577dbe847b16bebde190d69a1613d68e60e",
)
REDLOCK_NET_UNLOCK_CRLF = with_crlf(REDLOCK_NET_UNLOCK, "cb0427378f700ddb2f0e9394dbb0a40bd6dba04a")

REDLOCK_NET_EXTEND = known(
    """local currentVal = redis.call('get', KEYS[1])
if (currentVal == false) then
	return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) and 1 or 0
elseif (currentVal == ARGV[1]) then
	return redis.call('pexpire', KEYS[1], ARGV[2])
else
	return -1
end""",
    "9f614a785a5f9ae8c6396c6b4bf94d2087342603",
)
REDLOCK_NET_EXTEND_CRLF = with_crlf(REDLOCK_NET_EXTEND, "3e7c6bf3e080bb97a92e77362149c26252b98212")

REDLOCK_CS_UNLOCK = known(
    """
            if redis.call("get",KEYS[1]) == ARGV[1] then
                return redis.call("del",KEYS[1])
            else
                return 0
            end""",
    "bcbea205a1f0d62a22dcffeaac518c3f3a73065b",
)
REDLOCK_CS_UNLOCK_CRLF = with_crlf(REDLOCK_CS_UNLOCK, "c26c0ae6e3a95d997036b76d9cf197e31bbe6bfc")

DISTRIBUTED_LOCK_RELEASE = known(
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
    "2e47b373b4dbd63ee966d2eb9fe24ed6a138ad4e",
)
DISTRIBUTED_LOCK_EXTEND = known(
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0",
    "e95849a1757fe494b3c802dc09b717d0c074eb21",
)

# Up to 1.1.0 the key was an argument as well.
DISTRIBUTED_LOCK_1_1_0_RELEASE = known(
    "if redis.call('get', ARGV[1]) == ARGV[2] then return redis.call('del', ARGV[1]) end return 0",
    "d0dada9c1dfc9ec23dd124919a35b6e72da5a780",
)
DISTRIBUTED_LOCK_1_1_0_EXTEND = known(
    "if redis.call('get', ARGV[1]) == ARGV[2] then return redis.call('pexpire', ARGV[1], ARGV[3]) end return 0",
    "6294299faa74c6d411ac7d0da9416eef4a07d268",
)
