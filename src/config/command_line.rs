//! The command line: settings, and the task to carry out with them.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::file::UnreadableFile;
use super::typed::Typed;

/// A Redis-protocol proxy that makes N independent masters look like one, and takes locks by majority.
#[derive(Parser)]
#[command(name = "redlock-proxy", version, max_term_width = 100)]
pub struct Cli {
    /// The settings on the command line and in the environment.
    #[command(flatten)]
    pub given: GivenSettings,
    /// Check all settings, print them on one line and exit.
    #[arg(long)]
    pub test_config: bool,
    /// The task, if it is not to serve.
    #[command(subcommand)]
    pub action: Option<CliAction>,
}

/// Settings, and a file with more of them.
#[derive(Args)]
pub struct GivenSettings {
    /// The settings.
    #[command(flatten)]
    pub typed: Typed,
    /// TOML file with settings, named like the flags without the leading dashes.
    #[arg(long, value_name = "FILE", env = "REDLOCK_PROXY_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
}

/// The subcommands that also accept settings, so that these may stand before or after their names.
const WITH_SETTINGS: [&str; 3] = ["check", "settle", "learn"];

/// A task other than to serve the configured masters.
#[derive(Subcommand)]
pub enum CliAction {
    /// Start local masters, a data Redis and a proxy in front of them, to try it out (settings go before `dev`).
    Dev(DevArgs),
    /// Query every master once, print a table, and exit with 1 if a proxy could not serve with them.
    Check(Box<GivenSettings>),
    /// Show the contents of a key on each master, make those that vote agree, and exit with 1 if they still differ.
    Settle(Box<SettleArgs>),
    /// Pass everything through to --data, watch for locks, and print their patterns as settings.
    Learn(Box<LearnArgs>),
    /// Exit with 0 if a proxy answers, otherwise with 1: for health checks of containers.
    Health(HealthArgs),
    /// Print a manual page, or completions for a shell.
    Generate(GenerateArgs),
}

/// The words after `dev`.
#[derive(Args)]
pub struct DevArgs {
    /// Number of masters to start.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=crate::decision::quorum::MAX_MASTERS as i64))]
    pub masters: u8,
    /// Address for clients. [default: 127.0.0.1:6379]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
}

/// The words after `settle`.
#[derive(Args)]
pub struct SettleArgs {
    /// The key.
    #[arg(value_name = "KEY")]
    pub key: OsString,
    /// Database that the key is in.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub db: u16,
    /// Remove every lock on the key first, whoever holds it: two clients may then both have it.
    #[arg(long)]
    pub release_locks: bool,
    /// The settings.
    #[command(flatten)]
    pub given: GivenSettings,
}

/// The words after `learn`.
#[derive(Args)]
pub struct LearnArgs {
    /// Time to watch. [default: until it is interrupted]
    #[arg(long = "for", value_name = "DURATION")]
    pub span: Option<String>,
    /// The settings.
    #[command(flatten)]
    pub given: GivenSettings,
}

/// The words after `health`.
#[derive(Args)]
pub struct HealthArgs {
    /// Proxy to ask. [default: the address it would listen on]
    #[arg(long, value_name = "HOST:PORT")]
    pub connect: Option<String>,
    /// Password to give. [default: the configured requirepass]
    #[arg(long)]
    pub password: Option<String>,
}

/// The words after `generate`.
#[derive(Args)]
pub struct GenerateArgs {
    /// Text to print.
    pub what: Generated,
}

/// A text that is made from the flags.
#[derive(Clone, Copy, ValueEnum)]
pub enum Generated {
    /// For `man`.
    Man,
    /// For `bash-completion`.
    Bash,
    /// For `compinit`.
    Zsh,
    /// For `fish`.
    Fish,
}

impl Cli {
    /// Parses a command line and the environment. An empty environment variable counts as unset, because compose files
    /// pass on optional variables as `${VARIABLE:-}`.
    ///
    /// # Errors
    /// Returns an error for wrong usage, and also for `--help` and `--version`: see [`clap::Error::exit_code`].
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let command = Self::command().mut_args(|arg| match arg.get_env().map(std::env::var_os) {
            Some(Some(value)) if value.is_empty() => arg.env(Resettable::Reset),
            _ => arg,
        });
        // The environment is read only once, and any flag overrides it.
        let without_environment = |after: Command| after.mut_args(|arg| arg.env(Resettable::Reset));
        let command = WITH_SETTINGS
            .into_iter()
            .fold(command, |command, name| command.mut_subcommand(name, without_environment));
        Self::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    /// Returns the settings of all three sources: flags override the environment, which overrides the file.
    ///
    /// # Errors
    /// Returns an error if there is a configuration file that cannot be read.
    pub fn settings(&self) -> Result<Typed, UnreadableFile> {
        let after = self.action.as_ref().and_then(CliAction::given);
        let layers = || after.into_iter().chain([&self.given]);
        let config = layers().find_map(|given| given.config.as_deref());
        let file = config.map(Typed::read_file).transpose()?;
        let typed = layers().map(|given| given.typed.clone()).chain(file);
        Ok(typed.reduce(Typed::or).unwrap_or_default())
    }
}

impl CliAction {
    /// Returns the settings after the name of a subcommand.
    fn given(&self) -> Option<&GivenSettings> {
        match self {
            Self::Check(given) => Some(given),
            Self::Settle(args) => Some(&args.given),
            Self::Learn(args) => Some(&args.given),
            _ => None,
        }
    }
}

impl Generated {
    /// Writes the text.
    ///
    /// # Errors
    /// Returns an error if `out` fails.
    pub fn write(self, out: &mut impl io::Write) -> io::Result<()> {
        let mut command = Cli::command();
        let shell = match self {
            Self::Man => return manual(command, out),
            Self::Bash => Shell::Bash,
            Self::Zsh => Shell::Zsh,
            Self::Fish => Shell::Fish,
        };
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, "redlock-proxy", &mut text);
        out.write_all(&text)
    }
}

/// Writes the manual page. It has no date, but an empty placeholder is needed, or the version would take its place.
fn manual(command: Command, out: &mut impl io::Write) -> io::Result<()> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    out.write_all(text.replacen("redlock-proxy 1  ", "redlock-proxy 1 \"\" ", 1).as_bytes())
}

/// Returns the first sentence of a usage error; clap's own text has several paragraphs.
pub fn one_sentence(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let sentence = first.split_whitespace().collect::<Vec<_>>().join(" ");
    match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(similar)) => format!("{sentence}, did you mean {similar}?"),
        _ => sentence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    fn read(line: &str) -> Result<Cli, clap::Error> {
        Cli::read(line.split_whitespace().map(OsString::from))
    }

    fn typed(line: &str) -> Typed {
        read(line).ok().unwrap().given.typed
    }

    fn sentence(line: &str) -> String {
        match read(line) {
            Ok(_) => panic!("accepted: {line}"),
            Err(error) => one_sentence(&error),
        }
    }

    #[test]
    fn clap_finds_no_contradiction() {
        Cli::command().debug_assert();
    }

    #[test]
    fn both_spellings_of_masters_add_up() {
        let typed = typed("redlock-proxy --master a:1 --masters b:2,c:3");
        assert_eq!(typed.list("masters"), ["a:1", "b:2", "c:3"]);
    }

    #[test]
    fn a_switch_may_be_given_a_value() {
        let switch = |line: &str| typed(line).word("allow-flush").map(str::to_owned);
        assert_eq!(switch("redlock-proxy"), None);
        assert_eq!(switch("redlock-proxy --allow-flush").as_deref(), Some("true"));
        assert_eq!(switch("redlock-proxy --allow-flush=no").as_deref(), Some("no"));
    }

    #[test]
    fn a_usage_error_is_one_sentence() {
        for (line, expected) in [
            ("redlock-proxy --nonsense", "unexpected argument '--nonsense' found"),
            (
                "redlock-proxy --vote-time 1",
                "unexpected argument '--vote-time' found, did you mean --vote-timeout?",
            ),
            ("redlock-proxy serve", "unrecognized subcommand 'serve'"),
            (
                "redlock-proxy dev --masters 99",
                "invalid value '99' for '--masters <N>': 99 is not in 1..=31",
            ),
        ] {
            assert_eq!(sentence(line), expected);
        }
    }

    /// The help is written by hand, so that clap's own defaults do not override the file's settings.
    #[test]
    fn the_help_tells_the_real_defaults() {
        let mut words = vec![OsString::from("redlock-proxy"), "--master=a:1".into()];
        for arg in Cli::command().get_arguments() {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            if let Some((_, default)) = help.split_once("[default: ") {
                let (flag, default) = (arg.get_long().unwrap(), default.trim_end_matches(']'));
                words.push(format!("--{flag}={default}").into());
            }
        }
        assert!(words.len() > 10, "the defaults are in the help: {words:?}");
        let settings = Settings::from_typed(&Cli::read(words).ok().unwrap().given.typed).unwrap();
        assert_eq!(settings, Settings::try_new(settings.masters.clone()).unwrap());
    }
}
