require "redis-namespace"

# kenn/redis-mutex 4: `SETNX` with the time at which the lock expires, and `GETSET` to take over an
# expired one. These are its commands, through the namespace it uses. The key has no TTL: the
# clients' clocks decide how long a lock lasts.
class RedisMutex < Lock
  def initialize(name)
    @redis, @name = Redis::Namespace.new(:RedisMutex, redis: connect), name
  end

  def acquire(ttl_ms)
    now = Time.now.to_f
    @expires_at = now + ttl_ms / 1000.0
    begin
      return true if @redis.setnx(@name, @expires_at)
    end until (holder = @redis.get(@name))
    holder.to_f <= now && @redis.getset(@name, @expires_at).to_f <= now
  end

  def release
    @redis.get(@name) == @expires_at.to_s && @redis.del(@name) == 1
  end
end

CLIENTS["redis-mutex"] = Client.new(
  "redis-mutex (its commands on redis-namespace)", "4.0.2", key: "RedisMutex:%s"
) { |name| RedisMutex.new(name) }
