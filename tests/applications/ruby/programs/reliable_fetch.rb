# Sidekiq with GitLab's reliable fetch: another worker does the jobs of a killed one, and only one
# at a time looks for such jobs.

require "helpers"
require "programs/sidekiq_jobs"

LEASE = "reliable-fetcher-cleanup-lock"
CLEANS = "Cleaning working queues"
HOUR_S = 3_600
THREADS = 2

def run
  check("killed in a job") { kill_in_a_job }
  worker(HOUR_S) do |first|
    check("job of a killed worker") { done_by_another(first) }
    worker(HOUR_S) { |second| check("one cleans") { work_together(first, second) } }
  end
  check("lease held") do
    # Held at the end.
    left = Sidekiq.redis { |redis| redis.ttl(LEASE) }
    raise "the lease ends in #{left} s" unless (1..HOUR_S).cover?(left)
  end
end

def kill_in_a_job
  worker(1) do |worker|
    Long.perform_async
    eventually("the job is begun") { get("shop:long") == "1" }
    worker.kill
  end
  # As if it had been dead for a minute.
  heartbeat, = Sidekiq.redis { |redis| redis.scan_each(match: "reliable-fetcher-heartbeat-*").to_a }
  Sidekiq.redis { |redis| redis.del(heartbeat) }
end

def done_by_another(worker)
  eventually("it looks for what is left") { cleaned(worker) == 1 }
  eventually("the job is begun again") { get("shop:long") == "2" }
  Sidekiq.redis { |redis| redis.set("shop:enough", 1) }
  eventually("nobody has a job any more") { Sidekiq.redis { |redis| redis.keys("working:*") }.empty? }
end

# Enqueues as many jobs as both can do at a time, so that each gets its share.
def work_together(first, second)
  Sidekiq.redis { |redis| redis.del("shop:enough") }
  (2 * THREADS).times { Long.perform_async }
  eventually("both work") { get("shop:long") == (2 + 2 * THREADS).to_s }
  Sidekiq.redis { |redis| redis.set("shop:enough", 1) }
  expect([1, 0], [cleaned(first), cleaned(second)], "how often each has cleaned")
end

def worker(cleanup_interval_s, &block)
  ENV["CLEANUP_INTERVAL_S"] = cleanup_interval_s.to_s
  background("sidekiq", "-r", "./programs/reliable_jobs.rb", "-c", THREADS.to_s, "-q", "mails", "-q", "default", &block)
end

def cleaned(worker)
  worker.lines.count { |line| line.include?(CLEANS) }
end

def get(key)
  Sidekiq.redis { |redis| redis.get(key) }
end
