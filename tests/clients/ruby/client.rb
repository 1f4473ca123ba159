# A client as the checks see it, and the list of clients.

require "redis"
require "securerandom"

# `keys` is the Redis type of its keys, `key` the format of a key for a name ("%s"). With an
# anonymous lock, Redis cannot distinguish holders. `expires` says whether a lock expires by itself.
# `more` are the checks that only this client has. The block makes a holder.
class Client
  attr_reader :name, :version, :keys, :anonymous, :expires, :more

  def initialize(name, version, keys: "string", key: "%s", anonymous: false, expires: true, more: {}, &holder)
    @name, @version, @keys, @key, @holder = name, version, keys, key, holder
    @anonymous, @expires, @more = anonymous, expires, more
  end

  # Returns a holder with its own connection and token.
  def lock(name)
    @holder.call(name)
  end

  def key(name)
    @key % name
  end

  def name_of(key)
    prefix, suffix = @key.split("%s", 2)
    key[prefix.length..].delete_suffix(suffix) if key.start_with?(prefix) && key.end_with?(suffix)
  end
end

# A potential lock holder: has `acquire(ttl_ms)` and `release`, which return whether they succeeded,
# and `prolong(ttl_ms)` if the library supports it.
class Lock
  # Waits for the lock as the library does. Most can only retry.
  def wait
    sleep 0.05 until acquire(60_000)
  end
end

def connect(**options)
  host, port = ENV.fetch("REDLOCK_ADDRESS").split(":")
  Redis.new(host: host, port: Integer(port), **options)
end

def script(name)
  File.read("#{__dir__}/scripts/#{name}.lua")
end

def client(id)
  CLIENTS.fetch(id) { raise "no such client: #{id}" }
end

CLIENTS = {}
Dir["#{__dir__}/clients/*.rb"].sort.each { |file| require file }
