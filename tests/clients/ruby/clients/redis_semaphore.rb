# dv/redis-semaphore 0.3: the permits are the elements of a list, and clients wait for one in
# `BLPOP`. These are its commands, through redis-rb.
class RedisSemaphore < Lock
  def initialize(name, permits: 1)
    @redis, @name, @permits, @mine = connect, name, permits, []
  end

  # A lock does not expire by itself: see `release_stale`.
  def acquire(_ttl_ms)
    create unless created?
    grab(@redis.lpop(key("AVAILABLE")))
  end

  # Redis wakes it as soon as there is a permit.
  def wait
    create unless created?
    grab(@redis.blpop(key("AVAILABLE")).last)
  end

  # Permits are numbers: any object that holds one with that number releases it.
  def release
    return false unless @mine.any? { |permit| @redis.hexists(key("GRABBED"), permit) }
    give_back(@mine.pop)
  end

  def give_back(permit)
    _, available = @redis.multi do |transaction|
      transaction.hdel(key("GRABBED"), permit)
      transaction.lpush(key("AVAILABLE"), permit)
    end
    available.positive?
  end

  # Releases the permits of clients that have been silent for that long. A timestamp lock keeps
  # others from doing the same.
  def release_stale(silent_s)
    now = server_time
    return unless @redis.setnx(key("release_locks"), now + 11)
    @redis.hgetall(key("GRABBED")).each { |permit, since| give_back(permit) if since.to_f + silent_s < now }
    @redis.del(key("release_locks"))
  end

  private

  def grab(permit)
    return false if permit.nil?
    @mine.push(permit)
    @redis.hset(key("GRABBED"), permit, server_time)
    true
  end

  def created?
    known = @redis.getset(key("EXISTS"), "1")
    @redis.set(key("VERSION"), "1") if known && @redis.get(key("VERSION")).nil?
    known
  end

  # A client that does not finish this leaves a semaphore that is forgotten after ten seconds.
  def create
    @redis.expire(key("EXISTS"), 10)
    @redis.multi do |transaction|
      transaction.del(key("GRABBED"))
      transaction.del(key("AVAILABLE"))
      @permits.times { |permit| transaction.rpush(key("AVAILABLE"), permit) }
      transaction.set(key("VERSION"), "1")
      transaction.persist(key("EXISTS"))
    end
  end

  def server_time
    seconds, microseconds = @redis.time
    seconds + microseconds / 1e6
  end

  def key(part)
    "SEMAPHORE:#{@name}:#{part}"
  end
end

RedisSemaphore::PERMITS = lambda do |checks|
  name = checks.new_name
  one, two, three = Array.new(3) { RedisSemaphore.new(name, permits: 2) }
  checks.expect("a permit is refused") { one.acquire(60_000) && two.acquire(60_000) }
  checks.expect("a third is let in") { !three.acquire(60_000) }
  checks.expect("the holder may not release") { one.release }
  checks.expect("a released permit is refused") { three.acquire(60_000) }
end

RedisSemaphore::STALE = lambda do |checks|
  silent, following = checks.client.lock(name = checks.new_name), checks.client.lock(name)
  checks.expect("a free lock is refused") { silent.acquire(60_000) }
  following.release_stale(60)
  checks.expect("a permit is taken away too soon") { !following.acquire(60_000) }
  checks.eventually("a permit is not taken away") do
    following.release_stale(1)
    following.acquire(60_000)
  end
end

CLIENTS["redis-semaphore"] = Client.new(
  "redis-semaphore (its commands on redis-rb)", "0.3.1",
  keys: "list", key: "SEMAPHORE:%s:AVAILABLE", anonymous: true, expires: false,
  more: { "semaphore" => RedisSemaphore::PERMITS, "stale" => RedisSemaphore::STALE }
) { |name| RedisSemaphore.new(name) }
