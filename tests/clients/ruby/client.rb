# What a check knows of a client, and the list of them.

require "redis"
require "securerandom"

# `keys` is the Redis type of its keys, `key` what the library makes of a name ("%s"). With an anonymous lock Redis does
# not know one holder from another. `expires` says whether a lock runs out by itself. `more` are checks of what only this
# client has. The block makes a holder.
class Client
  attr_reader :name, :version, :keys, :anonymous, :expires, :more

  def initialize(name, version, keys: "string", key: "%s", anonymous: false, expires: true, more: {}, &holder)
    @name, @version, @keys, @key, @holder = name, version, keys, key, holder
    @anonymous, @expires, @more = anonymous, expires, more
  end

  # A holder with a connection and a token of its own.
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

# One who may hold a lock: has `acquire(ttl_ms)` and `release`, which say whether they did, and `prolong(ttl_ms)`
# where the library has such a thing.
class Lock
  # Waits for the lock, the way the library does. Most have no other way than to ask again and again.
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
