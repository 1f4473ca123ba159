# Sidekiq behind a long backlog: jobs that wait, fail, are retried and die, and the numbers for them
# on its web pages.

require "helpers"
require "programs/sidekiq_jobs"
require "programs/sidekiq_pages"
require "sidekiq/api"

BACKLOG = 20_000
BATCH = 1_000

def run
  pages = Pages.new
  check("backlog") { fill_backlog(pages) }
  check("pages of a queue") { look_at_a_queue(pages) }
  has("memory on the dashboard") { tells(pages, "used_memory_human", "used_memory_peak_human") }
  background("sidekiq", "-r", "./programs/sidekiq_jobs.rb", "-c", "5", "-q", "mails", "-q", "default") do
    check("all work is done") { work_off_the_backlog(pages) }
    check("later") { mail_later }
    check("retry") { retry_and_succeed }
    check("morgue") { die_and_live(pages) }
    check("busy") { look_at_a_worker(pages) }
    check("quiet") { Sidekiq::ProcessSet.new.each(&:quiet!) && eventually("the worker is quiet") { process["quiet"] == "true" } }
  end
  check("worker gone") { eventually("no process is left") { Sidekiq::ProcessSet.new.size.zero? } }
  check("clear a queue") { clear(pages) }
end

def fill_backlog(pages)
  (BACKLOG / BATCH).times { Sidekiq::Client.push_bulk("class" => CountVisit, "args" => [[]] * BATCH) }
  expect(BACKLOG, Sidekiq::Queue.new.size, "the size of the queue")
  expect(BACKLOG, pages.stats("enqueued"), "what the page says is enqueued")
  expect([0, 0, 0], pages.stats("processed", "failed", "processes"), "what else the page says")
  raise "the oldest job waits for no time" unless Sidekiq::Queue.new.latency.positive?
end

def look_at_a_queue(pages)
  pages.get("/").match?(/Redis/i) or raise "the dashboard does not tell of Redis"
  expect(25, pages.get("/queues/default").scan(/^ *CountVisit$/).size, "the jobs on a page")
  pages.get("/queues").include?("/queues/default") or raise "the page of queues has no queue"
  tells(pages, "redis_version", "uptime_in_days", "connected_clients") or raise "the dashboard does not tell of the server: #{pages.server}"
end

# Shown below the numbers of the dashboard.
def tells(pages, *fields)
  fields.none? { |field| pages.server[field].to_s.empty? }
end

def work_off_the_backlog(pages)
  # The other queue has priority.
  SendMail.perform_async("first")
  eventually("a mail is sent") { list("shop:mails") == ["first"] }
  eventually("the queue is empty") { Sidekiq::Queue.new.size.zero? }
  eventually("the page says so") { pages.stats("processed", "enqueued", "busy") == [BACKLOG + 1, 0, 0] }
  expect(BACKLOG.to_s, get("shop:visits"), "the visits")
  expect([BACKLOG + 1], Sidekiq::Stats::History.new(1).processed.values, "what was processed today")
end

def mail_later
  SendMail.perform_in(2, "second")
  expect(1, Sidekiq::ScheduledSet.new.size, "the jobs for later")
  eventually("a mail is sent later") { list("shop:mails") == %w[first second] }
  expect(0, Sidekiq::ScheduledSet.new.size, "the jobs for later, once done")
end

def retry_and_succeed
  SucceedAtLast.perform_async
  eventually("the third try is made") { get("shop:tries") == "3" }
  eventually("nothing is tried again") { Sidekiq::RetrySet.new.size.zero? }
end

def die_and_live(pages)
  Hopeless.perform_async
  eventually("a job is dead") { pages.stats("dead") == 1 }
  pages.get("/morgue").include?("no such customer") or raise "the page of the dead does not tell why"
  before = Sidekiq::Stats.new.failed
  pages.post("/morgue/all/retry", from: "/morgue")
  eventually("it has failed again") { pages.stats("failed") > before && pages.stats("dead") == 1 }
  pages.post("/morgue/all/delete", from: "/morgue")
  expect(0, pages.stats("dead"), "the dead, once buried")
end

def look_at_a_worker(pages)
  Long.perform_async
  eventually("the page shows what is done") { pages.get("/busy").include?("Long") && pages.stats("busy") == 1 }
  expect(["Long"], Sidekiq::WorkSet.new.map { |_, _, work| work["payload"]["class"] }, "what is done")
  Sidekiq.redis { |redis| redis.set("shop:enough", 1) }
  eventually("all is done") { pages.stats("busy").zero? }
end

def clear(pages)
  3.times { CountVisit.perform_async }
  pages.post("/queues/default", from: "/queues", form: "delete=Delete")
  expect(0, pages.stats("enqueued"), "what is enqueued, once cleared")
end

def process
  Sidekiq::ProcessSet.new.first
end

def get(key)
  Sidekiq.redis { |redis| redis.get(key) }
end

def list(key)
  Sidekiq.redis { |redis| redis.lrange(key, 0, -1) }
end
