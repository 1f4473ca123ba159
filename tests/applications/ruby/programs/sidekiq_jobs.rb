# The jobs of a shop, and the way its workers do them. Loaded by the program that enqueues them, and
# by `sidekiq`.

require "sidekiq"

# Sidekiq 6.4 is older than the deprecations that this redis-rb warns about.
Redis.silence_deprecations = true
Sidekiq.options[:poll_interval_average] = 1

class CountVisit
  include Sidekiq::Job

  def perform
    Sidekiq.redis { |redis| redis.incr("shop:visits") }
  end
end

class SendMail
  include Sidekiq::Job
  sidekiq_options queue: "mails"

  def perform(customer)
    Sidekiq.redis { |redis| redis.rpush("shop:mails", customer) }
  end
end

class SucceedAtLast
  include Sidekiq::Job
  sidekiq_retry_in { 1 }

  def perform
    tries = Sidekiq.redis { |redis| redis.incr("shop:tries") }
    raise "try #{tries} fails" if tries < 3
  end
end

class Hopeless
  include Sidekiq::Job
  sidekiq_options retry: 0

  def perform
    raise "no such customer"
  end
end

# Runs until it may end.
class Long
  include Sidekiq::Job

  def perform
    Sidekiq.redis { |redis| redis.incr("shop:long") }
    sleep 0.05 until Sidekiq.redis { |redis| redis.get("shop:enough") }
  end
end
