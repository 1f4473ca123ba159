# Locks of Ruby's clients, exactly as applications take them, against the server at REDLOCK_ADDRESS.

require_relative "client"
require_relative "checks"

HOLD_MS = 120_000

def main(action, *arguments)
  case action
  when "list" then CLIENTS.each { |id, client| say(id, client.name, client.version, client.keys) }
  when "check" then Checks.new(client(*arguments)).run
  when "hold" then hold(*arguments)
  when "try" then try(*arguments)
  else raise "no such action: #{action}"
  end
rescue StandardError => error
  abort error.message
end

def hold(id, *keys)
  each_name(id, keys) do |key, name|
    raise "#{key} is not free" unless client(id).lock(name).acquire(HOLD_MS)
    say("held", key)
  end
end

def try(id, *keys)
  each_name(id, keys) do |key, name|
    say(client(id).lock(name).acquire(HOLD_MS) ? "taken" : "refused", key)
  end
end

# Yields the keys that the library can use, with the name that an application gives for each.
def each_name(id, keys)
  keys.each do |key|
    name = client(id).name_of(key)
    yield key, name if name
  end
end

def say(*fields)
  puts fields.join("\t")
  $stdout.flush
end

main(*ARGV)
