//! The command line: settings, and the task to carry out with them.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::file::UnreadableFile;
use super::help;
use super::typed::Typed;

/// A Redis-protocol proxy that makes N independent masters look like one, and takes locks by majority.
#[derive(Parser)]
#[command(name = "redlock-proxy", version, max_term_width = 100)]
#[command(after_help = help::SHORT_EXAMPLES, after_long_help = help::EXAMPLES)]
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
    /// Start local masters and a proxy in front of them, to try it out.
    ///
    /// Settings go before `dev`.
    Dev(DevArgs),
    /// Query every master once, and say whether a proxy could serve with them.
    ///
    /// Exits with 1 if it could not.
    Check(Box<GivenSettings>),
    /// Show what each master has under a key, and make those that vote agree.
    ///
    /// Exits with 1 if they still differ.
    Settle(Box<SettleArgs>),
    /// Watch an application, and print which of its keys are locks.
    ///
    /// Everything is passed through to --data. The patterns are printed as settings.
    Learn(Box<LearnArgs>),
    /// Exit with 0 if a proxy answers, otherwise with 1.
    ///
    /// For health checks of containers.
    Health(HealthArgs),
    /// Show the members of a running proxy's cluster, or replace one.
    Members(Box<MembersArgs>),
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

/// The words after `members`.
#[derive(Args)]
pub struct MembersArgs {
    /// Change to make.
    #[command(subcommand)]
    pub change: Option<MembersChange>,
    /// Admin port, or Unix socket, of the proxy to ask. [default: the configured one, or 127.0.0.1:9379]
    #[arg(long, value_name = "HOST:PORT|PATH", global = true)]
    pub connect: Option<String>,
    /// User to give. [default: the default user]
    #[arg(long, value_name = "NAME", global = true)]
    pub user: Option<String>,
    /// Password to give. [default: the configured requirepass]
    #[arg(long, global = true)]
    pub password: Option<String>,
}

/// A change of the members.
#[derive(Subcommand)]
pub enum MembersChange {
    /// Give a member's place to another, empty Redis, and wait until it votes.
    Replace {
        /// Address of the member, as the proxy knows it.
        #[arg(value_name = "OLD")]
        old: String,
        /// Address of the new Redis, at which all proxies reach it.
        #[arg(value_name = "NEW")]
        new: String,
    },
    /// Add an empty Redis, and wait until it votes. Add two to three members, so that two may be lost.
    Add {
        /// Address of the new Redis, at which all proxies reach it.
        #[arg(value_name = "NEW")]
        new: String,
    },
    /// Remove a member.
    Remove {
        /// Address of the member, as the proxy knows it.
        #[arg(value_name = "OLD")]
        old: String,
    },
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
        let command = WITH_SETTINGS
            .into_iter()
            .fold(command, |command, name| command.mut_subcommand(name, after_settings));
        // The end of the help says it for all of them.
        let command = command.mut_args(|arg| arg.hide_env(true));
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

/// Returns a subcommand that accepts settings, without them in its help. The environment is read only once, and any flag
/// overrides it.
fn after_settings(subcommand: Command) -> Command {
    let root = Cli::command();
    let is_setting = |arg: &Arg| root.get_arguments().any(|other| other.get_id() == arg.get_id());
    let subcommand = subcommand.mut_args(|arg| match is_setting(&arg) && arg.get_id() != "help" {
        true => arg.env(Resettable::Reset).hide(true),
        false => arg,
    });
    subcommand.after_help(help::AFTER_SETTINGS)
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
    if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg)
        && is_setting(word)
    {
        return format!("{sentence} here: settings go before the subcommand");
    }
    let similar = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand];
    match similar.into_iter().find_map(|kind| error.get(kind)) {
        Some(ContextValue::String(similar)) => format!("{sentence}, did you mean {similar}?"),
        Some(ContextValue::Strings(similar)) if !similar.is_empty() => {
            format!("{sentence}, did you mean {}?", similar.join(" or "))
        }
        _ => sentence,
    }
}

/// Whether a word is the flag of a setting.
fn is_setting(word: &str) -> bool {
    let name = word.trim_start_matches("--").split('=').next();
    Cli::command().get_arguments().any(|arg| arg.get_long() == name)
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
            ("redlock-proxy begin", "unrecognized subcommand 'begin'"),
            ("redlock-proxy chek", "unrecognized subcommand 'chek', did you mean check?"),
            (
                "redlock-proxy dev --master a:1",
                "unexpected argument '--master' found here: settings go before the subcommand",
            ),
            (
                "redlock-proxy dev --masters 99",
                "invalid value '99' for '--masters <N>': 99 is not in 1..=31",
            ),
        ] {
            assert_eq!(sentence(line), expected);
        }
    }

    fn help(line: &str) -> String {
        match read(line) {
            Ok(_) => panic!("no help: {line}"),
            Err(help) => help.render().to_string(),
        }
    }

    #[test]
    fn the_short_help_fits_on_a_screen_and_the_long_one_has_headings() {
        let (short, long) = (help("redlock-proxy -h"), help("redlock-proxy --help"));
        assert!(short.lines().count() <= 40, "{short}");
        for flag in ["--master ", "--data ", "--lock-keys ", "--listen ", "--admin ", "--config "] {
            assert!(short.contains(flag), "{flag} is missing: {short}");
        }
        let headings =
            ["Listening:", "Masters:", "Locks:", "Data:", "Limits:", "Security:", "Operation:"];
        let places: Vec<_> = headings.map(|heading| long.find(heading)).to_vec();
        assert!(places.is_sorted() && places[0].is_some(), "{places:?}: {long}");
    }

    #[test]
    fn a_subcommand_shows_its_own_flags_only() {
        for name in ["check", "settle", "learn", "dev", "health", "members"] {
            let shown = help(&format!("redlock-proxy {name} --help"));
            assert!(!shown.contains("--vote-timeout"), "{shown}");
        }
        assert!(help("redlock-proxy settle --help").contains("--release-locks"));
    }

    /// The help is written by hand, so that clap's own defaults do not override the file's settings.
    #[test]
    fn the_help_tells_the_real_defaults() {
        let mut words = vec![OsString::from("redlock-proxy"), "--master=a:1".into()];
        for arg in Cli::command().get_arguments() {
            let help =
                arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
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
