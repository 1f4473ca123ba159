# The lock of the Redis documentation: `SET NX PX`, and a script to release it.
class PlainLock < Lock
  def initialize(redis, key)
    @redis, @key, @token = redis, key, SecureRandom.uuid
  end

  def acquire(ttl_ms)
    @redis.set(@key, @token, nx: true, px: ttl_ms)
  end

  def prolong(ttl_ms)
    @redis.eval(script("plain-extend"), keys: [@key], argv: [@token, ttl_ms]) == 1
  end

  def release
    @redis.eval(script("plain-release"), keys: [@key], argv: [@token]) == 1
  end
end

CLIENTS["redis-rb"] = Client.new("redis-rb", Redis::VERSION) { |name| PlainLock.new(connect, name) }

# The same lock, with the parser and the socket of hiredis.
CLIENTS["redis-rb-hiredis"] = Client.new("redis-rb with hiredis", Redis::VERSION) do |name|
  PlainLock.new(connect(driver: :hiredis), name)
end
