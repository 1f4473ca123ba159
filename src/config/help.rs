//! Ends of the help texts.

/// End of the short help.
pub(super) const SHORT_EXAMPLES: &str = "\
Examples:
  redlock-proxy dev
  redlock-proxy --master redis1:6379 --master redis2:6379 --master redis3:6379

All settings: redlock-proxy --help";

/// End of the long help.
pub(super) const EXAMPLES: &str = "\
Examples:
  Try it: three local masters, a data Redis, and the proxy on 127.0.0.1:6379.
    redlock-proxy dev

  Serve all keys as locks on three masters.
    redlock-proxy --master redis1:6379 --master redis2:6379 --master redis3:6379

  Serve the locks at the address where the application has all its keys.
    redlock-proxy --masters redis1,redis2,redis3 --data redis://redis0:6379/0 --lock-keys 'lock:*'

  Read the settings from a file, after a look at whether they can work.
    redlock-proxy --config /etc/redlock-proxy/redlock-proxy.toml check
    redlock-proxy --config /etc/redlock-proxy/redlock-proxy.toml

  Replace a master while everything runs.
    redlock-proxy members replace redis3:6379 redis4:6379

Each setting may also be given in the environment, as REDLOCK_PROXY_ and its name, and in the
file. A flag overrides the environment, which overrides the file.";

/// End of the help of a subcommand that accepts settings.
pub(super) const AFTER_SETTINGS: &str =
    "Settings may stand before or after its name: redlock-proxy --help shows them.";
