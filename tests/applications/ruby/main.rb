# Runs the checks of one application from `applications.tsv`. `run` passes the name of the program.

application, program = ARGV
$LOAD_PATH.unshift(__dir__)
$stdout.sync = true

begin
  require "programs/#{program}"
  run
rescue StandardError => error
  warn error.full_message(highlight: false)
  warn "#{application}: #{error.message.gsub(/\s+/, " ")}"
  # Exits without cleaning up after a failed check, so that its sentence stays the last line.
  exit!(1)
end
