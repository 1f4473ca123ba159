# The common checks of a client's lock.
class Checks
  PATIENCE_S = 20
  LONG_MS = 90_000
  LONGER_MS = 180_000
  SHORT_MS = 1_500

  attr_reader :client, :redis

  def initialize(client)
    @client = client
    @redis = connect
    @name = new_name
    @holder = client.lock(@name)
  end

  # The lock that `acquire` takes is held until `release`, with the harness's turn in between.
  def run
    check("acquire") { acquire }
    middle
    check("refuse") { refuse }
    check("extend", @holder.respond_to?(:prolong)) { extend_it }
    check("stranger") { stranger }
    check("release") { release }
    check("expire", client.expires) { expire }
    check("wait") { wait }
    client.more.each { |name, more| check(name) { more.call(self) } }
    say("all locks held")
  end

  def acquire
    expect("a free lock is refused") { @holder.acquire(LONG_MS) }
  end

  def refuse
    expect("a second holder is let in") { refused?(@name) }
  end

  def extend_it
    expect("the holder may not extend") { @holder.prolong(LONGER_MS) }
    expect("the TTL has not grown") { pttl(@name) > LONG_MS }
  end

  # The stranger held the lock once, lost it, and does not know. If the lock is anonymous, it never
  # held it.
  def stranger
    stranger, holder = client.lock(name = new_name), client.lock(name)
    unless client.anonymous
      expect("a free lock is refused") { stranger.acquire(LONG_MS) }
      redis.del(client.key(name))
    end
    expect("a lost lock is not free") { holder.acquire(LONG_MS) }
    stranger_does_not_extend(stranger, name) if stranger.respond_to?(:prolong)
    expect("a stranger may release") { !stranger.release }
    expect("a stranger has released") { refused?(name) }
    expect("the holder may not release") { holder.release }
  end

  def stranger_does_not_extend(stranger, name)
    expect("a stranger may extend") { !stranger.prolong(LONGER_MS) }
    expect("a stranger has extended") { pttl(name) < LONGER_MS - 30_000 }
  end

  def release
    expect("the holder may not release") { @holder.release }
    following = client.lock(@name)
    expect("a released lock is refused") { following.acquire(LONG_MS) }
    expect("the next holder may not release") { following.release }
  end

  def expire
    sleeper = client.lock(name = new_name)
    expect("a free lock is refused") { sleeper.acquire(SHORT_MS) }
    eventually("the lock does not run out") { client.lock(name).acquire(LONG_MS) }
    expect("a lock that ran out was still there") { !sleeper.release }
    expect("the next holder has lost the lock") { refused?(name) }
  end

  def wait
    holder = client.lock(name = new_name)
    expect("a free lock is refused") { holder.acquire(LONG_MS) }
    waiting = waiter(name)
    expect("the waiter is let in") { !waiting.join(0.3) }
    expect("the holder may not release") { holder.release }
    expect("the waiter never gets the lock") { waiting.join(PATIENCE_S) }
  end

  def refused?(name)
    !client.lock(name).acquire(60_000)
  end

  # The remaining TTL according to Redis, independent of the library.
  def pttl(name)
    redis.pttl(client.key(name))
  end

  def new_name
    "lock #{SecureRandom.hex(8)}"
  end

  def expect(complaint)
    raise complaint unless yield
  end

  def eventually(complaint, patience_s = PATIENCE_S)
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + patience_s
    until yield
      raise complaint if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
      sleep 0.01
    end
  end

  private

  # Lets the harness break a server in the middle of the checks.
  def middle
    return unless (file = ENV["REDLOCK_MIDDLE"])
    File.write(file, "")
    eventually("nobody made #{file}.done", 30) { File.exist?("#{file}.done") }
  end

  def check(name, exists = true)
    yield if exists
    say(name, exists ? "passed" : "none")
  rescue StandardError => error
    raise "#{client.name}: #{name}: #{error.message}"
  end

  # Joining the thread raises any error that occurs while it waits.
  def waiter(name)
    Thread.new { client.lock(name).wait }.tap { |thread| thread.report_on_exception = false }
  end
end
