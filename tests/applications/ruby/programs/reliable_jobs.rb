# The same jobs, with workers that keep a job until it is done.

require "sidekiq-reliable-fetch"
require_relative "../programs/sidekiq_jobs"

Sidekiq.configure_server do |config|
  config.options[:semi_reliable_fetch] = true
  config.options[:cleanup_interval] = Integer(ENV.fetch("CLEANUP_INTERVAL_S"))
  config.options[:lease_interval] = 1
  Sidekiq::ReliableFetch.setup_reliable_fetch!(config)
end
