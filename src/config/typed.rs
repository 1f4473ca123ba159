//! What was typed: on the command line, in the environment, in the configuration file.
//!
//! Nothing is judged here but spelling; what the words mean is the business of [`crate::config`].
//! All three places fill in the same [`Typed`], and [`Typed::or`] lays them over each other.

use std::ffi::OsString;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use serde::{Deserialize, Deserializer};

/// A Redis-protocol proxy that makes N independent masters look like one, and takes locks by majority.
#[derive(Parser)]
#[command(name = "redlock-proxy", version, max_term_width = 100)]
pub struct Cli {
    /// The settings on the command line and in the environment.
    #[command(flatten)]
    pub typed: Typed,
    /// A TOML file with settings, named as here without the dashes in front.
    #[arg(long, value_name = "FILE", env = "REDLOCK_PROXY_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
    /// Check all settings, print them on one line and exit.
    #[arg(long)]
    pub test_config: bool,
    /// Something else than serving.
    #[command(subcommand)]
    pub action: Option<Action>,
}

/// How [`Action::Check`] is typed.
const CHECK: &str = "check";

/// How [`Action::Settle`] is typed.
const SETTLE: &str = "settle";

/// How [`Action::Learn`] is typed.
const LEARN: &str = "learn";

/// What to do instead of serving the configured masters.
#[derive(Subcommand)]
pub enum Action {
    /// Start local masters, a data Redis and a proxy before them, for a first try (settings go before `dev`).
    Dev(DevArgs),
    /// Ask every master about itself, print a table, and exit with 1 if a proxy could not serve with them.
    Check(Box<CheckArgs>),
    /// Show what each master holds under a key, and make those that vote hold the same; exit with 1 if they then do not.
    Settle(Box<SettleArgs>),
    /// Pass everything through to --data, watch for locks, and print their patterns as settings at the end.
    Learn(Box<LearnArgs>),
    /// Exit with 0 if a proxy answers, else with 1: for health checks of containers.
    Health(HealthArgs),
    /// Print a manual page, or what completes these words in a shell.
    Generate(GenerateArgs),
}

/// The words after `generate`.
#[derive(Args)]
pub struct GenerateArgs {
    /// What to print.
    pub what: Generated,
}

/// What can be made of the flags.
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

impl Generated {
    /// Writes it.
    ///
    /// # Errors
    /// When `out` does not take it.
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

/// The manual page. It has no date, and what is left out without a trace would be taken for the version.
fn manual(command: clap::Command, out: &mut impl io::Write) -> io::Result<()> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    out.write_all(text.replacen("redlock-proxy 1  ", "redlock-proxy 1 \"\" ", 1).as_bytes())
}

/// The words after `dev`.
#[derive(Args)]
pub struct DevArgs {
    /// How many masters to start.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=crate::decision::quorum::MAX_MASTERS as i64))]
    pub masters: u8,
    /// Where clients connect. [default: 127.0.0.1:6379]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<Word>,
}

/// The words after `check`: the settings may as well stand before it.
#[derive(Args)]
pub struct CheckArgs {
    /// The settings.
    #[command(flatten)]
    pub typed: Typed,
    /// A TOML file with settings.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The words after `settle`: the settings may as well stand before it.
#[derive(Args)]
pub struct SettleArgs {
    /// The key.
    #[arg(value_name = "KEY")]
    pub key: OsString,
    /// The database that the key is in.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub db: u16,
    /// Remove every lock on the key first, whoever holds it: two clients may then both have it.
    #[arg(long)]
    pub release_locks: bool,
    /// The settings.
    #[command(flatten)]
    pub typed: Typed,
    /// A TOML file with settings.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The words after `learn`: the settings may as well stand before it.
#[derive(Args)]
pub struct LearnArgs {
    /// How long to watch. [default: until it is interrupted]
    #[arg(long = "for", value_name = "DURATION")]
    pub span: Option<Word>,
    /// The settings.
    #[command(flatten)]
    pub typed: Typed,
    /// A TOML file with settings.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The words after `health`.
#[derive(Args)]
pub struct HealthArgs {
    /// The proxy to ask. [default: the address it would listen on]
    #[arg(long, value_name = "HOST:PORT")]
    pub connect: Option<String>,
    /// The password to give. [default: the configured requirepass]
    #[arg(long)]
    pub password: Option<String>,
}

/// The settings as somebody spelled them; `None` where they said nothing.
///
/// The fields have the same names as flags, as environment variables (`REDLOCK_PROXY_...`) and as
/// keys of the configuration file.
#[derive(Args, Clone, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[allow(missing_docs, reason = "these comments are the text of --help")]
pub struct Typed {
    /// A master: host:port, redis:// or (by TLS) rediss://user:password@host:port; repeat it, or separate by
    /// commas.
    #[arg(
        long = "master",
        visible_alias = "masters",
        value_name = "HOST:PORT",
        value_delimiter = ','
    )]
    #[arg(env = "REDLOCK_PROXY_MASTERS", hide_env_values = true)]
    #[serde(deserialize_with = "one_or_many")]
    pub masters: Option<Vec<Word>>,

    /// The Redis for everything that is no lock: redis://user:password@host:port/db, rediss://, unix:/path, or
    /// sentinel://user:password@host:port,host:port/NAME/db. If not set, all keys are locks.
    #[arg(long, value_name = "URL", env = "REDLOCK_PROXY_DATA", hide_env_values = true)]
    pub data: Option<Word>,

    /// The user there, if its URL names none.
    #[arg(long, value_name = "NAME", env = "REDLOCK_PROXY_DATA_USER", hide_env_values = true)]
    pub data_user: Option<Word>,

    /// A file with that user's password.
    #[arg(
        long,
        value_name = "FILE",
        env = "REDLOCK_PROXY_DATA_PASSWORD_FILE",
        hide_env_values = true
    )]
    pub data_password_file: Option<Word>,

    /// A file with the password of the sentinels themselves, if data names some.
    #[arg(
        long,
        value_name = "FILE",
        env = "REDLOCK_PROXY_DATA_SENTINEL_PASSWORD_FILE",
        hide_env_values = true
    )]
    pub data_sentinel_password_file: Option<Word>,

    /// Which keys are locks beside that data, such as lock:*; repeat it, or separate by commas.
    #[arg(
        long,
        value_name = "PATTERN",
        value_delimiter = ',',
        env = "REDLOCK_PROXY_LOCK_KEYS",
        hide_env_values = true
    )]
    #[serde(deserialize_with = "one_or_many")]
    pub lock_keys: Option<Vec<Word>>,

    /// Which channels tell of locks; repeat it, or separate by commas.
    #[arg(
        long,
        value_name = "PATTERN",
        value_delimiter = ',',
        env = "REDLOCK_PROXY_LOCK_CHANNELS",
        hide_env_values = true
    )]
    #[serde(deserialize_with = "one_or_many")]
    pub lock_channels: Option<Vec<Word>>,

    /// Take every lock on that data Redis as well, as long as old instances of the application still do. [default: false]
    #[arg(
        long,
        value_name = "BOOL",
        env = "REDLOCK_PROXY_ALSO_CLAIM_ON_DATA",
        hide_env_values = true
    )]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub also_claim_on_data: Option<Word>,

    /// How long there may be requests, and none for a name that a pattern of --lock-keys or --lock-channels matches, before
    /// that is warned of; 0s: for ever. [default: 1h]
    #[arg(
        long,
        value_name = "DURATION",
        env = "REDLOCK_PROXY_WARN_UNMATCHED_AFTER",
        hide_env_values = true
    )]
    pub warn_unmatched_after: Option<Word>,

    /// Where clients connect, or none. [default: 127.0.0.1:6379]
    #[arg(long, value_name = "HOST:PORT", env = "REDLOCK_PROXY_LISTEN", hide_env_values = true)]
    pub listen: Option<Word>,

    /// Where clients connect by TLS, beside --listen.
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "REDLOCK_PROXY_TLS_LISTEN",
        hide_env_values = true
    )]
    pub tls_listen: Option<Word>,

    /// The proxy's certificate and those that lead to its authority, in PEM format.
    #[arg(long, value_name = "FILE", env = "REDLOCK_PROXY_TLS_CERT_FILE", hide_env_values = true)]
    pub tls_cert_file: Option<Word>,

    /// Its private key.
    #[arg(long, value_name = "FILE", env = "REDLOCK_PROXY_TLS_KEY_FILE", hide_env_values = true)]
    pub tls_key_file: Option<Word>,

    /// Who has signed the clients' certificates, in PEM format.
    #[arg(
        long,
        value_name = "FILE",
        env = "REDLOCK_PROXY_TLS_CA_CERT_FILE",
        hide_env_values = true
    )]
    pub tls_ca_cert_file: Option<Word>,

    /// Whether clients must show a certificate: yes (if not set, with tls-ca-cert-file), optional or no.
    #[arg(
        long,
        value_name = "RULE",
        env = "REDLOCK_PROXY_TLS_AUTH_CLIENTS",
        hide_env_values = true
    )]
    pub tls_auth_clients: Option<Word>,

    /// Where clients of this host connect without a network, beside --listen.
    #[arg(long, value_name = "PATH", env = "REDLOCK_PROXY_UNIXSOCKET", hide_env_values = true)]
    pub unixsocket: Option<Word>,

    /// The mode of that socket, such as 770; if not set, as the umask says.
    #[arg(long, value_name = "MODE", env = "REDLOCK_PROXY_UNIXSOCKETPERM", hide_env_values = true)]
    pub unixsocketperm: Option<Word>,

    /// The user of masters whose URL names none.
    #[arg(long, value_name = "NAME", env = "REDLOCK_PROXY_MASTER_USER", hide_env_values = true)]
    pub master_user: Option<Word>,

    /// A file with the password of masters whose URL has none.
    #[arg(
        long,
        value_name = "FILE",
        env = "REDLOCK_PROXY_MASTER_PASSWORD_FILE",
        hide_env_values = true
    )]
    pub master_password_file: Option<Word>,

    /// Who has signed the certificates of rediss:// masters; if not set, whom the system trusts.
    #[arg(
        long,
        value_name = "FILE",
        env = "REDLOCK_PROXY_MASTER_TLS_CA_CERT_FILE",
        hide_env_values = true
    )]
    pub master_tls_ca_cert_file: Option<Word>,

    /// The certificate that such masters are shown.
    #[arg(
        long,
        value_name = "FILE",
        env = "REDLOCK_PROXY_MASTER_TLS_CERT_FILE",
        hide_env_values = true
    )]
    pub master_tls_cert_file: Option<Word>,

    /// Its private key.
    #[arg(
        long,
        value_name = "FILE",
        env = "REDLOCK_PROXY_MASTER_TLS_KEY_FILE",
        hide_env_values = true
    )]
    pub master_tls_key_file: Option<Word>,

    /// The name in the certificates of such masters; if not set, the host in their address.
    #[arg(
        long,
        value_name = "NAME",
        env = "REDLOCK_PROXY_MASTER_TLS_SERVER_NAME",
        hide_env_values = true
    )]
    pub master_tls_server_name: Option<Word>,

    /// Where operators find metrics and the status page, by HTTP.
    #[arg(long, value_name = "HOST:PORT", env = "REDLOCK_PROXY_ADMIN", hide_env_values = true)]
    pub admin: Option<Word>,

    /// A name by which they ask it, beside addresses and localhost; repeat it, or separate by commas.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        env = "REDLOCK_PROXY_ADMIN_HOST",
        hide_env_values = true
    )]
    #[serde(deserialize_with = "one_or_many")]
    pub admin_host: Option<Vec<Word>>,

    /// How long a verdict waits for a silent minority of masters. [default: 50ms]
    #[arg(
        long,
        value_name = "DURATION",
        env = "REDLOCK_PROXY_VOTE_TIMEOUT",
        hide_env_values = true
    )]
    pub vote_timeout: Option<Word>,

    /// How long a client waits while a quorum of masters is silent. [default: 1.5s]
    #[arg(long, value_name = "DURATION", env = "REDLOCK_PROXY_PATIENCE", hide_env_values = true)]
    pub patience: Option<Word>,

    /// The longest TTL a client may ask for. [default: none]
    #[arg(long, value_name = "DURATION", env = "REDLOCK_PROXY_MAX_TTL", hide_env_values = true)]
    pub max_ttl: Option<Word>,

    /// The clock drift factor of Redlock. [default: 0.01]
    #[arg(long, value_name = "FACTOR", env = "REDLOCK_PROXY_DRIFT", hide_env_values = true)]
    pub drift: Option<Word>,

    /// How often a claim that nobody won is tried again. [default: 3]
    #[arg(
        long,
        value_name = "N",
        env = "REDLOCK_PROXY_SPLIT_VOTE_RETRIES",
        hide_env_values = true
    )]
    pub split_vote_retries: Option<Word>,

    /// The longest random pause before such a retry. [default: 20ms]
    #[arg(
        long,
        value_name = "DURATION",
        env = "REDLOCK_PROXY_SPLIT_VOTE_DELAY",
        hide_env_values = true
    )]
    pub split_vote_delay: Option<Word>,

    /// What a lock without a TTL becomes: keep, reject or lease=DURATION. [default: keep]
    #[arg(long, value_name = "RULE", env = "REDLOCK_PROXY_NO_TTL", hide_env_values = true)]
    pub no_ttl: Option<Word>,

    /// The password that clients must give; better in the environment or the file.
    #[arg(
        long,
        value_name = "PASSWORD",
        env = "REDLOCK_PROXY_REQUIREPASS",
        hide_env_values = true
    )]
    pub requirepass: Option<Word>,

    /// A file with that password.
    #[arg(
        long,
        value_name = "FILE",
        env = "REDLOCK_PROXY_REQUIREPASS_FILE",
        hide_env_values = true
    )]
    pub requirepass_file: Option<Word>,

    /// Who else may log in; only in the file, because `ps` and `/proc` show what is typed elsewhere.
    #[arg(skip)]
    #[serde(deserialize_with = "many")]
    pub users: Option<Vec<Word>>,

    /// Refuse to listen for other hosts without a password or client certificates. [default: true]
    #[arg(long, value_name = "BOOL", env = "REDLOCK_PROXY_PROTECTED_MODE", hide_env_values = true)]
    pub protected_mode: Option<Word>,

    /// How many clients may be connected at a time. [default: 10000]
    #[arg(long, value_name = "N", env = "REDLOCK_PROXY_MAX_CLIENTS", hide_env_values = true)]
    pub max_clients: Option<Word>,

    /// How many of them may be logged in as one user; 0 is no limit. [default: 0]
    #[arg(
        long,
        value_name = "N",
        env = "REDLOCK_PROXY_MAX_CLIENTS_PER_USER",
        hide_env_values = true
    )]
    pub max_clients_per_user: Option<Word>,

    /// Disconnect clients that send nothing for so long; 0 never. [default: 0]
    #[arg(long, value_name = "DURATION", env = "REDLOCK_PROXY_TIMEOUT", hide_env_values = true)]
    pub timeout: Option<Word>,

    /// After so much silence ask whether a client is still there; 0 never. [default: 5m]
    #[arg(
        long,
        value_name = "DURATION",
        env = "REDLOCK_PROXY_TCP_KEEPALIVE",
        hide_env_values = true
    )]
    pub tcp_keepalive: Option<Word>,

    /// The largest request, headers included, such as 1048576 or 64kb. [default: 1mb]
    #[arg(
        long,
        value_name = "BYTES",
        env = "REDLOCK_PROXY_MAX_REQUEST_BYTES",
        hide_env_values = true
    )]
    pub max_request_bytes: Option<Word>,

    /// Disconnect clients with more bytes of replies that they do not read, such as 64mb. [default: 64mb]
    #[arg(
        long,
        value_name = "BYTES",
        env = "REDLOCK_PROXY_MAX_OUTPUT_BYTES",
        hide_env_values = true
    )]
    pub max_output_bytes: Option<Word>,

    /// Disconnect the greediest clients when all take more memory: bytes, %, or 0. [default: 256mb]
    #[arg(
        long,
        value_name = "BYTES",
        env = "REDLOCK_PROXY_MAX_MEMORY_CLIENTS",
        hide_env_values = true
    )]
    pub max_memory_clients: Option<Word>,

    /// Note requests that took more microseconds in SLOWLOG; 0 all, -1 none. [default: 10000]
    #[arg(
        long,
        value_name = "MICROSECONDS",
        env = "REDLOCK_PROXY_SLOWLOG_LOG_SLOWER_THAN",
        hide_env_values = true
    )]
    #[arg(allow_negative_numbers = true)]
    pub slowlog_log_slower_than: Option<Word>,

    /// How many of them are kept. [default: 128]
    #[arg(long, value_name = "N", env = "REDLOCK_PROXY_SLOWLOG_MAX_LEN", hide_env_values = true)]
    pub slowlog_max_len: Option<Word>,

    /// How many threads serve clients. [default: 1]
    #[arg(long, value_name = "N", env = "REDLOCK_PROXY_WORKERS", hide_env_values = true)]
    pub workers: Option<Word>,

    /// How to log: text or json; RUST_LOG says what. [default: text]
    #[arg(long, value_name = "FORMAT", env = "REDLOCK_PROXY_LOG_FORMAT", hide_env_values = true)]
    pub log_format: Option<Word>,

    /// How long a restarted master must not vote if its locks cannot be copied back: the longest TTL in
    /// use; auto is max-ttl, or 1m. [default: auto]
    #[arg(
        long,
        value_name = "DURATION",
        env = "REDLOCK_PROXY_RESTART_WAIT",
        hide_env_values = true
    )]
    pub restart_wait: Option<Word>,

    /// Whether masters that were all started a short while ago vote at once: trust or wait.
    /// [default: trust]
    #[arg(long, value_name = "RULE", env = "REDLOCK_PROXY_COLD_START", hide_env_values = true)]
    pub cold_start: Option<Word>,

    /// How long to finish what is in flight when told to stop. [default: 10s]
    #[arg(
        long,
        value_name = "DURATION",
        env = "REDLOCK_PROXY_DRAIN_TIMEOUT",
        hide_env_values = true
    )]
    pub drain_timeout: Option<Word>,

    /// A socket through which a running proxy hands its clients over to the one that is started in its place.
    #[arg(long, value_name = "PATH", env = "REDLOCK_PROXY_HANDOVER", hide_env_values = true)]
    pub handover: Option<Word>,

    /// Allow FLUSHDB and FLUSHALL. [default: false]
    #[arg(long, value_name = "BOOL", env = "REDLOCK_PROXY_ALLOW_FLUSH", hide_env_values = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub allow_flush: Option<Word>,

    /// The Redis version that clients are told, such as 7.4.0. [default: auto]
    #[arg(
        long,
        value_name = "VERSION",
        env = "REDLOCK_PROXY_REDIS_VERSION",
        hide_env_values = true
    )]
    pub redis_version: Option<Word>,
}

/// The value of one setting as it was spelled.
///
/// It has no `Debug`: it may be a password.
#[derive(Clone, PartialEq)]
pub struct Word(String);

/// Why a configuration file could not be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum UnreadableFile {
    #[error("cannot read {}: {why}", path.display())]
    Io { path: PathBuf, why: io::Error },
    #[error("{} line {line}: {why}", path.display())]
    Syntax { path: PathBuf, line: usize, why: String },
}

impl Cli {
    /// Reads a command line and the environment. An environment variable that is empty counts as not
    /// set, because `${VARIABLE:-}` is how compose files pass on what may be missing.
    ///
    /// # Errors
    /// Wrong usage, and also `--help` and `--version`: see [`clap::Error::exit_code`].
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let command = Self::command().mut_args(|arg| match arg.get_env().map(std::env::var_os) {
            Some(Some(value)) if value.is_empty() => arg.env(Resettable::Reset),
            _ => arg,
        });
        // The environment is read once, and less than any flag.
        let without_environment =
            |after: clap::Command| after.mut_args(|arg| arg.env(Resettable::Reset));
        let command = command
            .mut_subcommand(CHECK, without_environment)
            .mut_subcommand(SETTLE, without_environment)
            .mut_subcommand(LEARN, without_environment);
        Self::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    /// The settings of all three places: flags beat the environment, the environment beats the file.
    ///
    /// # Errors
    /// There is a configuration file, and it cannot be read.
    pub fn settings(&self) -> Result<Typed, UnreadableFile> {
        let (mut typed, mut config) = (self.typed.clone(), self.config.as_deref());
        let after = match &self.action {
            Some(Action::Check(after)) => Some((&after.typed, &after.config)),
            Some(Action::Learn(after)) => Some((&after.typed, &after.config)),
            Some(Action::Settle(after)) => Some((&after.typed, &after.config)),
            _ => None,
        };
        if let Some((after, file)) = after {
            typed = after.clone().or(typed);
            config = file.as_deref().or(config);
        }
        let file = config.map(Typed::read_file).transpose()?;
        Ok(typed.or(file.unwrap_or_default()))
    }
}

impl Typed {
    /// What this says, and where it says nothing, what `below` says.
    #[must_use]
    pub fn or(self, below: Self) -> Self {
        Self {
            masters: self.masters.or(below.masters),
            data: self.data.or(below.data),
            data_user: self.data_user.or(below.data_user),
            data_password_file: self.data_password_file.or(below.data_password_file),
            data_sentinel_password_file: self
                .data_sentinel_password_file
                .or(below.data_sentinel_password_file),
            lock_keys: self.lock_keys.or(below.lock_keys),
            lock_channels: self.lock_channels.or(below.lock_channels),
            also_claim_on_data: self.also_claim_on_data.or(below.also_claim_on_data),
            warn_unmatched_after: self.warn_unmatched_after.or(below.warn_unmatched_after),
            listen: self.listen.or(below.listen),
            tls_listen: self.tls_listen.or(below.tls_listen),
            tls_cert_file: self.tls_cert_file.or(below.tls_cert_file),
            tls_key_file: self.tls_key_file.or(below.tls_key_file),
            tls_ca_cert_file: self.tls_ca_cert_file.or(below.tls_ca_cert_file),
            tls_auth_clients: self.tls_auth_clients.or(below.tls_auth_clients),
            unixsocket: self.unixsocket.or(below.unixsocket),
            unixsocketperm: self.unixsocketperm.or(below.unixsocketperm),
            master_user: self.master_user.or(below.master_user),
            master_password_file: self.master_password_file.or(below.master_password_file),
            master_tls_ca_cert_file: self.master_tls_ca_cert_file.or(below.master_tls_ca_cert_file),
            master_tls_cert_file: self.master_tls_cert_file.or(below.master_tls_cert_file),
            master_tls_key_file: self.master_tls_key_file.or(below.master_tls_key_file),
            master_tls_server_name: self.master_tls_server_name.or(below.master_tls_server_name),
            admin: self.admin.or(below.admin),
            admin_host: self.admin_host.or(below.admin_host),
            vote_timeout: self.vote_timeout.or(below.vote_timeout),
            patience: self.patience.or(below.patience),
            max_ttl: self.max_ttl.or(below.max_ttl),
            drift: self.drift.or(below.drift),
            split_vote_retries: self.split_vote_retries.or(below.split_vote_retries),
            split_vote_delay: self.split_vote_delay.or(below.split_vote_delay),
            no_ttl: self.no_ttl.or(below.no_ttl),
            requirepass: self.requirepass.or(below.requirepass),
            requirepass_file: self.requirepass_file.or(below.requirepass_file),
            users: self.users.or(below.users),
            protected_mode: self.protected_mode.or(below.protected_mode),
            max_clients: self.max_clients.or(below.max_clients),
            max_clients_per_user: self.max_clients_per_user.or(below.max_clients_per_user),
            timeout: self.timeout.or(below.timeout),
            tcp_keepalive: self.tcp_keepalive.or(below.tcp_keepalive),
            max_request_bytes: self.max_request_bytes.or(below.max_request_bytes),
            max_output_bytes: self.max_output_bytes.or(below.max_output_bytes),
            max_memory_clients: self.max_memory_clients.or(below.max_memory_clients),
            slowlog_log_slower_than: self.slowlog_log_slower_than.or(below.slowlog_log_slower_than),
            slowlog_max_len: self.slowlog_max_len.or(below.slowlog_max_len),
            workers: self.workers.or(below.workers),
            log_format: self.log_format.or(below.log_format),
            restart_wait: self.restart_wait.or(below.restart_wait),
            cold_start: self.cold_start.or(below.cold_start),
            drain_timeout: self.drain_timeout.or(below.drain_timeout),
            handover: self.handover.or(below.handover),
            allow_flush: self.allow_flush.or(below.allow_flush),
            redis_version: self.redis_version.or(below.redis_version),
        }
    }

    fn read_file(path: &Path) -> Result<Self, UnreadableFile> {
        let path_buf = || path.to_owned();
        let text = std::fs::read_to_string(path)
            .map_err(|why| UnreadableFile::Io { path: path_buf(), why })?;
        toml::from_str(&text).map_err(|error| UnreadableFile::Syntax {
            path: path_buf(),
            line: line_of(&text, &error),
            why: one_line(error.message()),
        })
    }
}

impl From<&str> for Word {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Deref for Word {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A TOML string, or a number or truth value without quotes.
impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a value must be a string, a number, true or false")]
        enum Scalar {
            Text(String),
            Whole(i64),
            Fraction(f64),
            Truth(bool),
        }
        Ok(Self(match Scalar::deserialize(deserializer)? {
            Scalar::Text(text) => text,
            Scalar::Whole(number) => number.to_string(),
            Scalar::Fraction(number) => number.to_string(),
            Scalar::Truth(truth) => truth.to_string(),
        }))
    }
}

/// The one sentence of a usage error; clap's own text has several paragraphs.
pub fn one_sentence(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let sentence = one_line(first.trim_start_matches("error: "));
    match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(similar)) => format!("{sentence}, did you mean {similar}?"),
        _ => sentence,
    }
}

/// A list in a file, or one string with commas as in the environment.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Word>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a value must be a list of strings, or one string with commas")]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(Some(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(text) => text.split(',').map(Word::from).collect(),
        OneOrMany::Many(texts) => texts.into_iter().map(Word).collect(),
    }))
}

/// A list. What is found instead is not quoted: it may be a password.
fn many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Word>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "users must be a list of strings")]
    enum Many {
        Words(Vec<String>),
    }
    let Many::Words(words) = Many::deserialize(deserializer)?;
    Ok(Some(words.into_iter().map(Word).collect()))
}

fn line_of(text: &str, error: &toml::de::Error) -> usize {
    let start = error.span().map_or(0, |span| span.start).min(text.len());
    text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The first clause of a message: serde appends the names of all settings to an unknown one.
fn one_line(message: &str) -> String {
    let clause = message.split(", expected one of").next().unwrap_or_default();
    clause.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    impl Typed {
        /// The names of all settings that `Settings` and `--log-format` are made of.
        pub(crate) fn settings() -> impl Iterator<Item = String> {
            let own = ["config", "test_config", "help", "version"];
            let args = Cli::command().get_arguments().map(|arg| arg.get_id().to_string()).collect();
            let args: Vec<String> = args;
            let typed = args.into_iter().filter(move |arg| !own.contains(&arg.as_str()));
            typed.chain([ONLY_IN_THE_FILE.to_owned()])
        }
    }

    /// What must not be typed where others can read it.
    const ONLY_IN_THE_FILE: &str = "users";

    fn read(line: &str) -> Result<Cli, clap::Error> {
        Cli::read(line.split_whitespace().map(OsString::from))
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
        let cli = read("redlock-proxy --master a:1 --masters b:2,c:3").ok().unwrap();
        let masters = cli.typed.masters.unwrap();
        assert_eq!(masters.iter().map(|word| &**word).collect::<Vec<_>>(), ["a:1", "b:2", "c:3"]);
    }

    #[test]
    fn a_switch_may_be_given_a_value() {
        let switch = |line: &str| read(line).ok().unwrap().typed.allow_flush.map(|word| word.0);
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

    #[test]
    fn each_setting_has_a_flag_a_variable_and_a_key_of_the_same_name() {
        for arg in
            Cli::command().get_arguments().filter(|arg| arg.get_long() != Some("test-config"))
        {
            let Some(env) = arg.get_env() else { continue };
            let name = arg.get_id().as_str();
            let upper = name.to_uppercase();
            assert_eq!(env.to_str(), Some(format!("REDLOCK_PROXY_{upper}").as_str()));
            let key = name.replace('_', "-");
            let in_file = toml::from_str::<Typed>(&format!("{key} = 'x'"));
            assert_eq!(
                in_file.is_ok_and(|typed| typed != Typed::default()),
                name != "config",
                "{key}"
            );
        }
    }

    #[test]
    fn users_are_in_the_file_only() {
        let ids = Cli::command();
        assert!(ids.get_arguments().all(|arg| arg.get_id() != ONLY_IN_THE_FILE));
        let users = |toml: &str| toml::from_str::<Typed>(toml).map(|typed| typed.users);
        let names = users("users = ['alice on >pw', 'bob']").unwrap().unwrap();
        assert_eq!(names.iter().map(|word| &**word).collect::<Vec<_>>(), ["alice on >pw", "bob"]);
        let refused = users("users = 'alice on >hunter2'").err().unwrap();
        assert_eq!(one_line(refused.message()), "users must be a list of strings");
    }

    /// The help is written by hand, so that clap's own defaults cannot hide the file's settings.
    #[test]
    fn the_help_tells_the_real_defaults() {
        let mut words = vec![OsString::from("redlock-proxy"), "--master=a:1".into()];
        for arg in Cli::command().get_arguments() {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            if let Some((_, default)) = help.split_once("[default: ") {
                words.push(
                    format!("--{}={}", arg.get_long().unwrap(), default.trim_end_matches(']'))
                        .into(),
                );
            }
        }
        assert!(words.len() > 10, "the defaults are in the help: {words:?}");
        let settings = Settings::from_typed(&Cli::read(words).ok().unwrap().typed).unwrap();
        assert_eq!(settings, Settings::try_new(settings.masters.clone()).unwrap());
    }

    #[test]
    fn the_upper_layer_wins_and_the_lower_one_fills_the_gaps() {
        let upper: Typed = toml::from_str("drift = 0.1").unwrap();
        let lower: Typed = toml::from_str("drift = 0.2\nworkers = 2").unwrap();
        let both: Typed = toml::from_str("drift = 0.1\nworkers = 2").unwrap();
        assert!(upper.or(lower) == both);
    }

    #[test]
    fn every_setting_of_a_lower_layer_comes_through() {
        let line = |name: String| match name.as_str() {
            ONLY_IN_THE_FILE => format!("{name} = ['x']\n"),
            _ => format!("{} = 'x'\n", name.replace('_', "-")),
        };
        let all: String = Typed::settings().map(line).collect();
        let all: Typed = toml::from_str(&all).unwrap();
        assert!(Typed::default().or(all.clone()) == all);
    }
}
