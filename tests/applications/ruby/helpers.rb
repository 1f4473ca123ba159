# Helpers for several applications.

require "tempfile"

PATIENCE_S = 60
LINES_OF_A_LOG = 40
HOST, PORT = ENV.fetch("REDLOCK_ADDRESS").split(":")
# Sidekiq reads its address from there.
ENV["REDIS_URL"] = "redis://#{HOST}:#{PORT}/0"

# Runs the block as one check. If it fails, the program ends with a sentence that names it.
def check(name)
  yield
  puts "#{name}\tpassed"
rescue StandardError => error
  raise "the check #{name} failed: #{error.message}"
end

# Reports a feature that not every server with this protocol has, and that the application can do
# without.
def has(name)
  puts "#{name}\t#{yield ? "passed" : "none"}"
end

def expect(expected, actual, what)
  raise "#{what} should be #{expected.inspect}, not #{actual.inspect}" unless expected == actual
end

def eventually(what)
  limit = now + PATIENCE_S
  until yield
    raise "gave up waiting until #{what}" if now > limit
    sleep 0.05
  end
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# Runs a command of an installed package, such as a worker, and ends it as an operator would. Its
# log is shown if a check fails.
def background(*command)
  log = Tempfile.new
  worker = Background.new(Process.spawn(*command, chdir: __dir__, in: File::NULL, out: log, err: log), log)
  begin
    yield worker
  rescue StandardError
    warn worker.lines.last(LINES_OF_A_LOG)
    raise
  ensure
    worker.end
  end
end

class Background
  def initialize(process, log)
    @process, @log = process, log
  end

  def lines
    File.readlines(@log.path)
  end

  def kill
    send_signal("KILL")
    Process.wait(@process)
    @process = nil
  end

  def end
    return unless @process
    send_signal("TERM")
    eventually("a worker ends when it is asked to") { Process.wait(@process, Process::WNOHANG) }
    @process = nil
  end

  private

  def send_signal(name)
    Process.kill(name, @process)
  end
end
