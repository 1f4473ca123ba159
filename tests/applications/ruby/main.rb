# Takes one application of `applications.tsv` through its checks. `run` calls it with the name of the program.

application, program = ARGV
$LOAD_PATH.unshift(__dir__)
$stdout.sync = true

begin
  require "programs/#{program}"
  run
rescue StandardError => error
  warn error.full_message(highlight: false)
  warn "#{application}: #{error.message.gsub(/\s+/, " ")}"
  # Without tidying up what a failed check has left open: the sentence stays the last line.
  exit!(1)
end
