require "digest"

# leandromoreira/redlock-rb 1 and 2: one script takes and extends the lock. These are its commands,
# through redis-rb.
class RedlockRb < Lock
  SCRIPTS = %w[unlock lock pttl].to_h { |name| [name, script("redlock-rb-#{name}")] }

  def initialize(name)
    @redis, @name, @value = connect, name, SecureRandom.uuid
  end

  # A refused attempt is taken back, as Redlock requires.
  def acquire(ttl_ms)
    granted = send_script("lock", @value, ttl_ms, "yes")
    release unless granted
    !granted.nil?
  end

  def prolong(ttl_ms)
    !send_script("lock", @value, ttl_ms, "no").nil?
  end

  def release
    send_script("unlock", @value) == 1
  end

  # Returns the value that holds the lock, and its remaining time.
  def remaining
    send_script("pttl")
  end

  private

  # Sends scripts by SHA1. If one is missing, loads all of them.
  def send_script(name, *arguments)
    sha1 = Digest::SHA1.hexdigest(SCRIPTS.fetch(name))
    @redis.evalsha(sha1, keys: [@name], argv: arguments)
  rescue Redis::CommandError => error
    raise unless error.message.include?("NOSCRIPT")
    SCRIPTS.each_value { |text| @redis.script(:load, text) }
    @redis.evalsha(sha1, keys: [@name], argv: arguments)
  end
end

RedlockRb::REENTRANT = lambda do |checks|
  lock = checks.client.lock(name = checks.new_name)
  checks.expect("the holder is refused") { lock.acquire(60_000) && lock.acquire(60_000) }
  checks.expect("a second holder is let in") { checks.refused?(name) }
  checks.expect("one release is not enough") { lock.release && !checks.refused?(name) }
end

RedlockRb::REMAINING = lambda do |checks|
  lock = checks.client.lock(checks.new_name)
  checks.expect("a free lock has time left") { lock.remaining == [nil, -2] }
  checks.expect("a free lock is refused") { lock.acquire(60_000) }
  value, ttl_ms = lock.remaining
  checks.expect("the time left is wrong") { value && ttl_ms.between?(1, 65_000) }
  checks.expect("the holder may not release") { lock.release }
  checks.expect("a released lock has time left") { lock.remaining == [nil, -2] }
end

CLIENTS["redlock-rb"] = Client.new(
  "redlock-rb (its scripts on redis-rb)", "2.0.6",
  more: { "reentrant" => RedlockRb::REENTRANT, "remaining" => RedlockRb::REMAINING }
) { |name| RedlockRb.new(name) }
