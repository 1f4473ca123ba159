# The jobs that a shop has, and how its workers do them. Loaded by who enqueues them, and by `sidekiq`.

require "sidekiq"

# Sidekiq 6.4 is older than what this redis-rb warns of.
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

# It goes on until somebody says that it may end.
class Long
  include Sidekiq::Job

  def perform
    Sidekiq.redis { |redis| redis.incr("shop:long") }
    sleep 0.05 until Sidekiq.redis { |redis| redis.get("shop:enough") }
  end
end
