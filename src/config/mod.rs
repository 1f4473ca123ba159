//! The settings: the words that were typed, and their meaning.
//!
//! [`table::GROUPS`] has a row for each. A [`Settings`] is checked when it is created, so other modules need not
//! validate values again.

mod access;
pub mod command_line;
mod data;
mod file;
mod help;
mod learning;
pub mod live;
mod master_addr;
mod memory;
mod rules;
mod secret;
mod sentinel;
mod setting;
mod shards;
pub mod table;
mod tls;
pub mod typed;
mod values;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::decision::quorum::{MAX_MASTERS, Quorum};
use crate::net::admin_socket::path_of;

use self::setting::Access;
use self::typed::Typed;

pub use data::{Data, DataAddr, DataPlace, InvalidDataAddr};
pub use file::UnreadableFile;
pub use learning::Learning;
pub use live::Live;
pub use master_addr::{InvalidMasterAddr, MasterAddr};
pub use memory::MemoryLimit;
pub use rules::{ColdStart, LogFormat, NoTtl};
pub use secret::Secret;
pub use sentinel::SentinelAddr;
pub use setting::Setting;
pub use shards::{MAX_SHARDS, ShardSetting};
pub use tls::{MasterTls, TlsListen};

/// Masters that may be added to a list while a proxy runs. More need a start with the new list.
const ROOM: usize = 2;

/// Masters for which there is room however short the list is. It may name but one of the members.
const LEAST_ROOM: usize = 9;

/// Everything that can be configured about the serving proxy.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The independent masters, 1 to 31 of them, no two at the same address. Those of all shards if there are several,
    /// until [`Settings::of_shard`] chooses one.
    pub masters: Vec<MasterAddr>,
    /// The clusters behind one address in ascending order of their names; empty if the masters are one cluster.
    pub shards: Vec<ShardSetting>,
    /// The shard whose masters these are; `None` if all are.
    pub shard: Option<usize>,
    /// The Redis for everything other than locks; `None`: all keys are locks.
    pub data: Option<Data>,
    /// `host:port` on which to accept clients; port 0 lets the system choose, `None` disables it.
    pub listen: Option<String>,
    /// The address and certificates for clients that use TLS.
    pub tls: Option<TlsListen>,
    /// The socket for clients on this host.
    pub unix_socket: Option<UnixSocket>,
    /// The certificates for masters with `rediss://`.
    pub master_tls: MasterTls,
    /// `host:port` for operators; `None` disables it.
    pub admin: Option<String>,
    /// Host names accepted on that port. One with a leading dot stands for all names that end with it.
    pub admin_host: Vec<String>,
    /// Time that a verdict waits for a silent minority of masters.
    pub vote_timeout: Duration,
    /// Time that a client waits for a silent quorum of masters.
    pub patience: Duration,
    /// Maximum TTL that a client may ask for; `None` accepts everything that Redis accepts.
    pub max_ttl: Option<Duration>,
    /// The clock drift factor of Redlock: the maximum difference between the rates of two clocks.
    pub drift: f64,
    /// Maximum retries of a claim that nobody won.
    pub split_vote_retries: u32,
    /// Maximum random pause before such a retry.
    pub split_vote_delay: Duration,
    /// Maximum time that a claim of a client that polls for a held key waits for the key; zero if none waits.
    pub fair_waiting: Duration,
    /// Whether to refuse remote clients that need neither a password nor a certificate (`protected-mode` of
    /// redis.conf).
    pub protected_mode: bool,
    /// Maximum request size in bytes, headers included.
    pub max_request_bytes: usize,
    /// Number of serving threads, each with its own event loop and links.
    pub workers: usize,
    /// Time for which a master that has forgotten its locks must not vote if they cannot be copied to it; `None` is the
    /// longest TTL, or [`Settings::RESTART_WAIT`].
    pub restart_wait: Option<Duration>,
    /// Whether masters vote at once if all of them are young.
    pub cold_start: ColdStart,
    /// Whether this process has started the masters itself, so that they have had nothing to forget.
    pub starts_masters: bool,
    /// The socket at which a running proxy hands over to its successor; `None` disables it.
    pub handover: Option<PathBuf>,
    /// Initial values of the settings that can change while the proxy runs.
    pub live: Live,
}

/// A socket in the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSocket {
    /// Its path.
    pub path: PathBuf,
    /// Its mode, as for `chmod`; `None` leaves it to the umask.
    pub mode: Option<u32>,
}

/// One sentence about a wrong setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSetting(String);

impl InvalidSetting {
    fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }

    /// Creates the error for a `word` that cannot be the value of the setting called `name`.
    fn of(name: &str, word: &str, why: &str) -> Self {
        Self(format!("{name} `{word}` {why}"))
    }
}

impl Settings {
    /// Returns the quorum of these masters.
    pub fn quorum(&self) -> Quorum {
        Quorum::of(self.masters.len())
    }

    /// Returns the number of masters for which there is room: those of the list, and as many as may be added while the
    /// proxy runs.
    pub fn places(&self) -> usize {
        (self.masters.len() + ROOM).clamp(LEAST_ROOM, MAX_MASTERS)
    }

    /// Returns how long a client waits for a silent quorum: at least as long as for a minority.
    pub fn patience(&self) -> Duration {
        self.patience.max(self.vote_timeout)
    }

    /// Returns the socket files on which the proxy listens: for clients, and for operators.
    pub fn socket_files(&self) -> impl Iterator<Item = &Path> {
        let clients = self.unix_socket.as_ref().map(|socket| socket.path.as_path());
        let operators = self.admin.as_ref().and_then(|place| path_of(place));
        clients.into_iter().chain(operators)
    }

    /// Returns the defaults for these masters.
    ///
    /// # Errors
    /// Returns an error for no masters, more than [`MAX_MASTERS`], or a duplicate, which would cast two votes.
    pub fn try_new(masters: Vec<MasterAddr>) -> Result<Self, InvalidSetting> {
        Ok(Self::without_check(checked_masters(masters)?))
    }

    fn without_check(masters: Vec<MasterAddr>) -> Self {
        Self {
            masters,
            shards: Vec::new(),
            shard: None,
            data: None,
            listen: Some("127.0.0.1:6379".to_owned()),
            tls: None,
            unix_socket: None,
            master_tls: MasterTls::default(),
            admin: None,
            admin_host: Vec::new(),
            vote_timeout: Duration::from_millis(50),
            patience: Duration::from_millis(1500),
            max_ttl: None,
            drift: 0.01,
            split_vote_retries: 3,
            split_vote_delay: Duration::from_millis(20),
            fair_waiting: Duration::from_millis(5),
            protected_mode: true,
            max_request_bytes: 1 << 20,
            workers: 1,
            restart_wait: None,
            cold_start: ColdStart::Trust,
            starts_masters: false,
            handover: None,
            live: Live::default(),
        }
    }

    /// Time that a master waits unless that or a longest TTL is set.
    pub const RESTART_WAIT: Duration = Duration::from_secs(60);

    /// Returns how long a master that has forgotten its locks must not vote if they cannot be copied to it.
    pub fn restart_wait(&self) -> Duration {
        self.restart_wait.or(self.max_ttl).unwrap_or(Self::RESTART_WAIT)
    }

    /// Parses the typed settings; all others have their defaults.
    ///
    /// # Errors
    /// Returns an error for the first value that is malformed or out of range.
    pub fn from_typed(typed: &Typed) -> Result<Self, InvalidSetting> {
        let shards = shards::parse(typed)?;
        let mut settings = if shards.is_empty() {
            let mut masters = parse_masters(typed)?;
            access::log_in(&mut masters, typed)?;
            Self::try_new(masters)?
        } else {
            Self::without_check(shards.iter().flat_map(|shard| shard.masters.clone()).collect())
        };
        settings.shards = shards;
        settings.apply(typed)?;
        Ok(settings)
    }

    /// Like [`Settings::from_typed`], for masters started by the caller.
    ///
    /// # Errors
    /// Returns an error as [`Settings::from_typed`] does, and also if masters were typed.
    pub fn with_own_masters(
        typed: &Typed,
        masters: Vec<MasterAddr>,
    ) -> Result<Self, InvalidSetting> {
        if typed.has("masters") || typed.has("shards") {
            let reason = "masters cannot be named for `dev`, which starts its own";
            return Err(InvalidSetting::new(reason));
        }
        if typed.given("handover").is_some() {
            let reason = "handover is useless with `dev`, whose masters stop with it";
            return Err(InvalidSetting::new(reason));
        }
        let mut settings = Self { starts_masters: true, ..Self::try_new(masters)? };
        settings.apply(typed)?;
        Ok(settings)
    }

    /// Returns the lines that describe the started proxy to an operator.
    pub fn start_lines(&self, listening_on: &[String]) -> Vec<String> {
        let mut lines = vec![
            format!("redlock-proxy {}", env!("CARGO_PKG_VERSION")),
            format!("listening on {}", listening_on.join(", ")),
        ];
        lines.extend(self.clusters().iter().flat_map(Self::cluster_lines));
        lines.extend(self.data.iter().flat_map(Data::start_lines));
        lines
    }

    fn cluster_lines(&self) -> Vec<String> {
        let quorum = self.quorum();
        let (n, needed) = (quorum.masters(), quorum.needed());
        let masters: Vec<String> = self.masters.iter().map(ToString::to_string).collect();
        let mut lines = vec![format!("masters: {}", masters.join(", "))];
        lines.extend(match self.is_whole_list() {
            true => vec![
                format!("quorum: {needed} of {n}"),
                format!("tolerates: {} of {n} masters down", quorum.tolerates()),
            ],
            false => {
                vec!["joins the cluster of these masters: its roster decides the quorum".to_owned()]
            }
        });
        let of_shard = self.shard_name().map(|name| format!("shard {name}: ")).unwrap_or_default();
        lines.into_iter().map(|line| of_shard.clone() + &line).collect()
    }

    /// Whether the list stands for all members. A proxy that joins a cluster finds the others through it.
    fn is_whole_list(&self) -> bool {
        self.cold_start != ColdStart::Join
    }

    /// Returns why a number of masters is a doubtful choice, if one is.
    pub fn warning(&self) -> Option<String> {
        self.clusters().iter().find_map(Self::warning_of_cluster)
    }

    fn warning_of_cluster(&self) -> Option<String> {
        match self.masters.len() {
            _ if !self.is_whole_list() => None,
            1 => Some("with 1 master no lock can be taken while it is down: use 3 or 5".to_owned()),
            2 => Some(
                "with 2 masters both must be up, so they are down more often than 1: use 3 or 5"
                    .to_owned(),
            ),
            n if n % 2 == 0 => Some(format!(
                "with {n} masters no more may be down than with {}: use an odd number",
                n - 1
            )),
            _ => None,
        }
    }

    fn apply(&mut self, typed: &Typed) -> Result<(), InvalidSetting> {
        self.data = Data::from_typed(typed, &self.masters)?;
        self.tls = TlsListen::from_typed(typed)?;
        self.unix_socket = access::unix_socket(typed)?;
        self.master_tls = MasterTls::from_typed(typed)?;
        self.admin_host = access::admin_host(typed)?;
        for setting in table::all() {
            setting.apply(self, typed)?;
        }
        self.live.requirepass = access::requirepass(typed)?;
        self.live.users = access::users(typed, self.live.requirepass.as_ref())?;
        access::require_entrance(self)?;
        self.require_protection(&self.live)
    }

    /// Refuses to serve unprotected, unless that was requested.
    ///
    /// # Errors
    /// Returns an error if remote clients would need no password with `live`.
    pub fn require_protection(&self, live: &Live) -> Result<(), InvalidSetting> {
        access::require_protection(self, live)
    }

    /// Returns the name and value of each setting that is fixed until the next start, without passwords.
    pub fn fixed_fields(&self) -> Vec<(&'static str, String)> {
        table::fixed().map(|(name, access)| (name, (access.show)(self))).collect()
    }

    /// Returns the names of settings that differ in `other` and are fixed until the next start.
    pub fn fixed_differences(&self, other: &Self) -> Vec<&'static str> {
        let differs =
            |(name, access): (_, &Access<Self>)| access.is_different(self, other).then_some(name);
        table::fixed().filter_map(differs).collect()
    }
}

/// Shows all settings on one line, by their names in the configuration file, without passwords.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = [self.fixed_fields(), self.live.fields()].concat();
        let words: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&words.join(" "))
    }
}

fn parse_masters(typed: &Typed) -> Result<Vec<MasterAddr>, InvalidSetting> {
    let words = typed.list("masters");
    let parse = |(i, word): (usize, &String)| {
        let number = i + 1;
        word.trim().parse().map_err(|why| InvalidSetting(format!("master {number} {why}")))
    };
    words.iter().enumerate().map(parse).collect()
}

fn checked_masters(masters: Vec<MasterAddr>) -> Result<Vec<MasterAddr>, InvalidSetting> {
    if masters.is_empty() {
        return Err(InvalidSetting::new(NO_MASTERS));
    }
    if masters.len() > MAX_MASTERS {
        let count = masters.len();
        return Err(InvalidSetting(format!("{count} masters are too many: at most {MAX_MASTERS}")));
    }
    for (i, master) in masters.iter().enumerate() {
        let same = |other: &&MasterAddr| other.host == master.host && other.port == master.port;
        if masters[..i].iter().any(|other| same(&other)) {
            let reason = "is named twice, and one instance must not vote twice";
            return Err(InvalidSetting(format!("master {master} {reason}")));
        }
    }
    Ok(masters)
}

const NO_MASTERS: &str = "no masters are named: use --master host:port for each, REDLOCK_PROXY_MASTERS \
     or `masters` in the --config file, or try `redlock-proxy dev`";

#[cfg(test)]
mod tests;
