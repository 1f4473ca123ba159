//! What the flags mean. A [`Settings`] is checked when it is made; past this file nobody has to ask
//! again whether a value makes sense.

mod access;
mod data;
mod learning;
pub mod live;
mod master_addr;
mod memory;
mod secret;
mod sentinel;
mod shown;
mod tls;
pub mod typed;
mod values;

use std::path::PathBuf;
use std::time::Duration;

use crate::config::typed::{Typed, Word};
use crate::decision::quorum::{MAX_MASTERS, Quorum};

use shown::differences;

pub use data::{Data, DataAddr, DataPlace, InvalidDataAddr};
pub use learning::Learning;
pub use live::Live;
pub use master_addr::{InvalidMasterAddr, MasterAddr};
pub use memory::MemoryLimit;
pub use secret::Secret;
pub use sentinel::SentinelAddr;
pub use tls::{MasterTls, TlsListen};

/// Everything that can be configured about the serving proxy.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The independent masters, 1 to 31 of them, no two at the same address.
    pub masters: Vec<MasterAddr>,
    /// Where everything goes that is no lock; `None`: all keys are locks.
    pub data: Option<Data>,
    /// `host:port` to accept clients on; port 0 lets the system choose, `None` is nowhere.
    pub listen: Option<String>,
    /// Where to accept clients by TLS.
    pub tls: Option<TlsListen>,
    /// Where to accept clients of this host.
    pub unix_socket: Option<UnixSocket>,
    /// How masters with `rediss://` are known.
    pub master_tls: MasterTls,
    /// `host:port` for operators; `None` is nowhere.
    pub admin: Option<String>,
    /// Names by which operators ask that port. One that begins with a dot stands for all that end with it.
    pub admin_host: Vec<String>,
    /// How long a verdict waits for a minority of masters that is silent.
    pub vote_timeout: Duration,
    /// How long a client waits while a quorum of masters is silent.
    pub patience: Duration,
    /// The longest TTL a client may ask for; `None` accepts all that Redis accepts.
    pub max_ttl: Option<Duration>,
    /// The clock drift factor of Redlock: how far apart the rates of two clocks may be.
    pub drift: f64,
    /// How often a claim in which nobody won is tried again.
    pub split_vote_retries: u32,
    /// The longest random pause before such a retry.
    pub split_vote_delay: Duration,
    /// Whether to refuse strangers that need no password and no certificate (`protected-mode` of redis.conf).
    pub protected_mode: bool,
    /// The largest request, headers included, in bytes.
    pub max_request_bytes: usize,
    /// How many threads serve, each with its own event loop and links.
    pub workers: usize,
    /// How long a master that has forgotten its locks must not vote when they cannot be copied to it; `None`
    /// is the longest TTL, or [`Settings::RESTART_WAIT`].
    pub restart_wait: Option<Duration>,
    /// Whether masters that are all young vote at once.
    pub cold_start: ColdStart,
    /// Where a running proxy hands over to its successor; `None` is nowhere.
    pub handover: Option<PathBuf>,
    /// What can change while the proxy runs, as it is at the start.
    pub live: Live,
}

/// What becomes of a lock that is claimed without a TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTtl {
    /// It stays until it is released, as in Redis.
    Keep,
    /// The claim is refused.
    Reject,
    /// It gets this TTL.
    Lease(Duration),
}

/// A socket in the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSocket {
    /// Its path.
    pub path: PathBuf,
    /// Who may connect, as in `chmod`; `None` is as the umask says.
    pub mode: Option<u32>,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object for each line, for log collectors.
    Json,
}

/// One sentence about what is wrong with a setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSetting(String);

impl InvalidSetting {
    fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl Settings {
    /// How long a client waits while a quorum is silent: not less than for a minority.
    pub fn patience(&self) -> Duration {
        self.patience.max(self.vote_timeout)
    }

    /// The defaults for these masters.
    ///
    /// # Errors
    /// No master, more than [`MAX_MASTERS`], or one of them twice: it would cast two votes.
    pub fn try_new(masters: Vec<MasterAddr>) -> Result<Self, InvalidSetting> {
        Ok(Self::without_check(checked_masters(masters)?))
    }

    fn without_check(masters: Vec<MasterAddr>) -> Self {
        Self {
            masters,
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
            protected_mode: true,
            max_request_bytes: 1 << 20,
            workers: 1,
            restart_wait: None,
            cold_start: ColdStart::Trust,
            handover: None,
            live: Live::default(),
        }
    }

    /// How long a master waits unless that or a longest TTL is set.
    pub const RESTART_WAIT: Duration = Duration::from_secs(60);

    /// How long a master that has forgotten its locks must not vote, when they cannot be copied to it.
    pub fn restart_wait(&self) -> Duration {
        self.restart_wait.or(self.max_ttl).unwrap_or(Self::RESTART_WAIT)
    }

    /// The meaning of what was typed; what was not typed has its default.
    ///
    /// # Errors
    /// The first value that is malformed or out of its range.
    pub fn from_typed(typed: &Typed) -> Result<Self, InvalidSetting> {
        let mut masters = parse_masters(typed)?;
        access::log_in(&mut masters, typed)?;
        let mut settings = Self::try_new(masters)?;
        settings.apply(typed)?;
        Ok(settings)
    }

    /// Like [`Settings::from_typed`], for masters that were started for the occasion.
    ///
    /// # Errors
    /// As there, and when masters were typed after all.
    pub fn with_own_masters(
        typed: &Typed,
        masters: Vec<MasterAddr>,
    ) -> Result<Self, InvalidSetting> {
        if typed.masters.is_some() {
            let reason = "masters cannot be named for `dev`, which starts its own";
            return Err(InvalidSetting::new(reason));
        }
        if given(&typed.handover).is_some() {
            let reason = "handover has no use for `dev`, whose masters end with it";
            return Err(InvalidSetting::new(reason));
        }
        let mut settings = Self::try_new(masters)?;
        settings.apply(typed)?;
        Ok(settings)
    }

    /// The lines that tell an operator what has just started.
    pub fn start_lines(&self, listening_on: &[String]) -> Vec<String> {
        let quorum = Quorum::of(self.masters.len());
        let (n, needed) = (quorum.masters(), quorum.needed());
        let mut lines = vec![
            format!("redlock-proxy {}", env!("CARGO_PKG_VERSION")),
            format!("listening on {}", listening_on.join(", ")),
            format!("masters: {}", self.master_list(", ")),
            format!("quorum: {needed} of {n}"),
            format!("tolerates: {} of {n} masters down", quorum.tolerates()),
        ];
        lines.extend(self.data.iter().flat_map(Data::start_lines));
        lines
    }

    /// Why this number of masters is a doubtful choice, if it is one.
    pub fn warning(&self) -> Option<String> {
        match self.masters.len() {
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
        use values::{bytes_within, duration_within, listen_address, number_within, switch};

        self.data = Data::from_typed(typed, &self.masters)?;
        set(&mut self.listen, "listen", &typed.listen, |text| match text {
            "none" => Ok(None),
            _ => listen_address(text).map(Some),
        })?;
        self.tls = TlsListen::from_typed(typed)?;
        self.unix_socket = access::unix_socket(typed)?;
        self.master_tls = MasterTls::from_typed(typed)?;
        set_given(&mut self.admin, "admin", &typed.admin, |text| listen_address(text).map(Some))?;
        self.admin_host = access::admin_host(typed)?;
        set(
            &mut self.vote_timeout,
            "vote-timeout",
            &typed.vote_timeout,
            duration_within(1..=10_000),
        )?;
        set(&mut self.patience, "patience", &typed.patience, duration_within(1..=60_000))?;
        set(&mut self.max_ttl, "max-ttl", &typed.max_ttl, max_ttl)?;
        set(&mut self.drift, "drift", &typed.drift, number_within(0.0..=0.5))?;
        let (retries, delay) = (&typed.split_vote_retries, &typed.split_vote_delay);
        set(&mut self.split_vote_retries, "split-vote-retries", retries, number_within(0..=100))?;
        set(&mut self.split_vote_delay, "split-vote-delay", delay, duration_within(1..=10_000))?;
        set(&mut self.protected_mode, "protected-mode", &typed.protected_mode, switch)?;
        let request_bytes = bytes_within(MIN_REQUEST_BYTES..=MAX_REQUEST_BYTES);
        set(
            &mut self.max_request_bytes,
            "max-request-bytes",
            &typed.max_request_bytes,
            request_bytes,
        )?;
        set(&mut self.workers, "workers", &typed.workers, number_within(1..=64))?;
        set(&mut self.restart_wait, "restart-wait", &typed.restart_wait, |text| {
            if text == "auto" { Ok(None) } else { duration_within(0..=YEAR_MS)(text).map(Some) }
        })?;
        set(&mut self.cold_start, "cold-start", &typed.cold_start, cold_start)?;
        self.handover = given(&typed.handover).map(PathBuf::from);
        self.live.apply(typed)?;
        access::require_entrance(self)?;
        self.require_protection(&self.live)
    }

    /// Refuses to serve strangers, unless that was asked for.
    ///
    /// # Errors
    /// With `live`, they would need no password.
    pub fn require_protection(&self, live: &Live) -> Result<(), InvalidSetting> {
        access::require_protection(self, live)
    }

    /// The names of the settings in which `other` differs and that stay as they are until the next start.
    pub fn fixed_differences(&self, other: &Self) -> Vec<&'static str> {
        let mut names = differences(&self.fixed_fields(), &other.fixed_fields());
        // Their passwords are not shown.
        if self.masters != other.masters && !names.contains(&"masters") {
            names.push("masters");
        }
        if self.data != other.data && !names.contains(&"data") {
            names.push("data");
        }
        names
    }

    fn master_list(&self, separator: &str) -> String {
        let masters: Vec<String> = self.masters.iter().map(ToString::to_string).collect();
        masters.join(separator)
    }
}

impl LogFormat {
    /// The meaning of what was typed.
    ///
    /// # Errors
    /// It is neither `text` nor `json`.
    pub fn from_typed(typed: &Typed) -> Result<Self, InvalidSetting> {
        let mut format = Self::default();
        set(&mut format, "log-format", &typed.log_format, |text| match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("must be text or json".to_owned()),
        })?;
        Ok(format)
    }
}

fn parse_masters(typed: &Typed) -> Result<Vec<MasterAddr>, InvalidSetting> {
    let words = typed.masters.as_deref().unwrap_or_default();
    let parse = |(i, word): (usize, &Word)| {
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

/// What was typed; an empty word is none, as in the environment.
fn given(word: &Option<Word>) -> Option<&str> {
    word.as_deref().filter(|text| !text.is_empty())
}

/// Like [`set`], for settings that an empty word leaves as they are.
fn set_given<T>(
    slot: &mut T,
    name: &str,
    word: &Option<Word>,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<(), InvalidSetting> {
    given(word).map_or(Ok(()), |_| set(slot, name, word, parse))
}

/// Puts the meaning of `word`, if there is one, into `slot`.
fn set<T>(
    slot: &mut T,
    name: &str,
    word: &Option<Word>,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<(), InvalidSetting> {
    if let Some(word) = word {
        let refused = |reason| InvalidSetting(format!("{name} `{}` {reason}", &**word));
        *slot = parse(word).map_err(refused)?;
    }
    Ok(())
}

fn max_ttl(text: &str) -> Result<Option<Duration>, String> {
    match text {
        "none" => Ok(None),
        _ => values::lease(text).map(Some),
    }
}

fn no_ttl(text: &str) -> Result<NoTtl, String> {
    match (text, text.strip_prefix("lease=")) {
        ("keep", _) => Ok(NoTtl::Keep),
        ("reject", _) => Ok(NoTtl::Reject),
        (_, Some(ttl)) => values::lease(ttl).map(NoTtl::Lease),
        _ => Err("must be keep, reject or lease=<duration>".to_owned()),
    }
}

fn cold_start(text: &str) -> Result<ColdStart, String> {
    match text {
        "trust" => Ok(ColdStart::Trust),
        "wait" => Ok(ColdStart::Wait),
        _ => Err("must be trust or wait".to_owned()),
    }
}

fn redis_version(text: &str) -> Result<Option<String>, String> {
    match text {
        "auto" => Ok(None),
        _ => values::redis_version(text).map(Some),
    }
}

/// Less would not hold the requests of common client libraries during their handshake.
const MIN_REQUEST_BYTES: usize = 1 << 10;

/// `proto-max-bulk-len` of Redis.
const MAX_REQUEST_BYTES: usize = 512 << 20;

const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;

const NO_MASTERS: &str = "no masters are named: use --master host:port for each, REDLOCK_PROXY_MASTERS \
     or `masters` in the --config file, or try `redlock-proxy dev`";

/// What becomes of masters that are all young when a cluster is founded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColdStart {
    /// They are a first deployment: they vote at once.
    Trust,
    /// They may have lost their memory together: they wait.
    Wait,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::acl::Users;

    fn masters(n: usize) -> Vec<MasterAddr> {
        (1..=n).map(|i| format!("10.0.0.{i}:6379").parse().unwrap()).collect()
    }

    fn typed(toml: &str) -> Typed {
        toml::from_str(toml).unwrap()
    }

    fn refusal(toml: &str) -> String {
        let toml = format!("masters = 'a:1'\n{toml}");
        Settings::from_typed(&typed(&toml)).expect_err(&toml).to_string()
    }

    /// `config/redlock-proxy.toml` is the manual of the settings: it must tell the truth.
    #[test]
    fn the_example_file_shows_every_setting_with_its_default() {
        let example = include_str!("../../config/redlock-proxy.toml");
        let setting =
            |line: &&str| line.starts_with('#') && line[1..].starts_with(char::is_alphabetic);
        let uncommented: Vec<_> = example.lines().filter(setting).map(|line| &line[1..]).collect();
        let typed = typed(&uncommented.join("\n"));
        let settings = Settings::from_typed(&typed).unwrap();
        assert_eq!(settings, Settings::try_new(settings.masters.clone()).unwrap());
        assert_eq!(LogFormat::from_typed(&typed), Ok(LogFormat::default()));
        assert_eq!(uncommented.len(), Typed::settings().count(), "one line for each setting");
    }

    #[test]
    fn the_example_file_as_delivered_sets_nothing() {
        let typed = typed(include_str!("../../config/redlock-proxy.toml"));
        assert!(typed == Typed::default());
    }

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        for (line, sentence) in [
            ("vote-timeout = 0", "vote-timeout `0` must be from 1ms to 10s"),
            ("vote-timeout = '11s'", "vote-timeout `11s` must be from 1ms to 10s"),
            ("max-ttl = 0", "max-ttl `0` must be from 1ms to 1000years"),
            ("no-ttl = 'lease=0'", "no-ttl `lease=0` must be from 1ms to 1000years"),
            ("drift = 0.51", "drift `0.51` must be from 0 to 0.5"),
            ("split-vote-retries = 101", "split-vote-retries `101` must be from 0 to 100"),
            ("split-vote-delay = 0", "split-vote-delay `0` must be from 1ms to 10s"),
            ("workers = 65", "workers `65` must be from 1 to 64"),
            ("max-clients = 0", "max-clients `0` must be from 1 to 2147483647"),
            ("max-clients-per-user = -1", "max-clients-per-user `-1` is not a number that fits"),
            ("users = ['al +@none']", "users: al: `+@none` is not a command or category"),
            (
                "max-request-bytes = 1023",
                "max-request-bytes `1023` must be from 1024 to 536870912 bytes",
            ),
            ("no-ttl = 'lease'", "no-ttl `lease` must be keep, reject or lease=<duration>"),
            ("allow-flush = 'maybe'", "allow-flush `maybe` must be true or false"),
            (
                "redis-version = '7'",
                "redis-version `7` must be three numbers with dots, such as 7.4.0",
            ),
        ] {
            assert_eq!(refusal(line), sentence);
        }
    }

    /// What is added to an instant or handed to a master must not wrap there.
    #[test]
    fn numbers_beyond_all_bounds_are_refused_with_one_sentence() {
        let extremes = ["18446744073709551615", "-9223372036854775808", "1e308", "inf", "NaN"];
        let durations = ["500000000000years", "18446744073709551615s", "18446744073709551615h"];
        for name in [
            "vote-timeout",
            "patience",
            "max-ttl",
            "no-ttl",
            "drift",
            "split-vote-retries",
            "split-vote-delay",
            "max-request-bytes",
            "workers",
            "restart-wait",
            "max-clients",
            "max-clients-per-user",
            "max-memory-clients",
            "timeout",
            "tcp-keepalive",
            "max-output-bytes",
            "slowlog-log-slower-than",
            "slowlog-max-len",
            "drain-timeout",
        ] {
            let lease = if name == "no-ttl" { "lease=" } else { "" };
            for extreme in extremes.iter().chain(&durations) {
                let refusal = refusal(&format!("{name} = '{lease}{extreme}'"));
                let is_clear = refusal.contains(" must be ") || refusal.contains(" is not a ");
                assert!(is_clear && refusal.starts_with(name), "{refusal}");
            }
        }
    }

    #[test]
    fn the_longest_times_can_be_added_to_a_clock() {
        let settings = Settings::from_typed(&typed(
            "masters = 'a:1'\nvote-timeout = '10s'\nmax-ttl = '1000years'\nno-ttl = 'lease=1000years'
             timeout = '365days'\ndrain-timeout = '1h'",
        ));
        let settings = settings.unwrap();
        let times = [settings.restart_wait(), settings.vote_timeout, settings.live.timeout];
        let now = crate::time::clock::now();
        assert!(times.iter().all(|time| now.checked_add(3 * *time).is_some()));
        let NoTtl::Lease(lease) = settings.live.no_ttl else { panic!("it was typed") };
        assert_eq!(lease.as_millis() as i64, 31_557_600_000_000);
    }

    #[test]
    fn values_mean_what_they_say() {
        let settings = Settings::from_typed(&typed(
            "masters = 'a:1, b:2'\nmax-ttl = '1h'\nno-ttl = 'lease=30s'\nrequirepass = 'pw'
             max-request-bytes = '2mb'\nallow-flush = true\nredis-version = '7.2.4'\ndrift = 0",
        ));
        let expected = Settings {
            max_ttl: Some(Duration::from_secs(3600)),
            max_request_bytes: 2 << 20,
            drift: 0.0,
            live: Live {
                no_ttl: NoTtl::Lease(Duration::from_secs(30)),
                requirepass: Some(Secret::new("pw")),
                users: Arc::new(Users::parse([], Some("pw")).unwrap()),
                allow_flush: true,
                redis_version: Some("7.2.4".to_owned()),
                ..Live::default()
            },
            ..Settings::try_new(vec!["a:1".parse().unwrap(), "b:2".parse().unwrap()]).unwrap()
        };
        assert_eq!(settings, Ok(expected));
    }

    #[test]
    fn one_to_thirty_one_different_masters() {
        assert!(Settings::try_new(masters(1)).is_ok());
        assert!(Settings::try_new(masters(31)).is_ok());
        let too_many = Settings::try_new(masters(32)).unwrap_err();
        assert_eq!(too_many.to_string(), "32 masters are too many: at most 31");
        assert_eq!(Settings::try_new(vec![]).unwrap_err().to_string(), NO_MASTERS);
    }

    #[test]
    fn one_address_written_twice_is_found() {
        let error =
            Settings::from_typed(&typed("masters = ['Host', 'b:1', 'redis://:x@host:6379']"));
        assert!(error.unwrap_err().to_string().starts_with("master host:6379 is named twice"));
    }

    #[test]
    fn a_malformed_master_is_named_by_its_place_not_its_text() {
        let error =
            Settings::from_typed(&typed("masters = 'a:1,redis://:hunter2@b:x'")).unwrap_err();
        let expected = "master 2 has no valid port: a port is a number from 1 to 65535";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn start_lines_tell_quorum_and_tolerance() {
        let mut with_password = masters(4);
        with_password.push("redis://:hunter2@e:1".parse().unwrap());
        let settings = Settings::try_new(with_password).unwrap();
        let lines = settings.start_lines(&["127.0.0.1:7000".to_owned()]);
        assert_eq!(
            lines[1..],
            [
                "listening on 127.0.0.1:7000",
                "masters: 10.0.0.1:6379, 10.0.0.2:6379, 10.0.0.3:6379, 10.0.0.4:6379, e:1",
                "quorum: 3 of 5",
                "tolerates: 2 of 5 masters down",
            ]
        );
    }

    #[test]
    fn no_limit_for_a_user_is_zero() {
        let limit = |toml: &str| {
            let typed = typed(&format!("masters = 'a:1'\n{toml}"));
            Settings::from_typed(&typed).unwrap().live.max_clients_per_user
        };
        let limits = ["", "max-clients-per-user = 0", "max-clients-per-user = 2"].map(limit);
        assert_eq!(limits, [None, None, Some(2)]);
    }

    #[test]
    fn doubtful_numbers_of_masters_are_warned_about() {
        let warned = |n| Settings::try_new(masters(n)).unwrap().warning().is_some();
        assert_eq!((1..=7).filter(|n| warned(*n)).collect::<Vec<_>>(), [1, 2, 4, 6]);
    }

    #[test]
    fn what_stays_until_the_next_start_is_named_when_it_differs() {
        let settings = |toml: &str| {
            Settings::from_typed(&typed(&format!("masters = 'redis://:a@a:1'\n{toml}"))).unwrap()
        };
        let ours = settings("");
        let differences = |theirs: Settings| ours.fixed_differences(&theirs);
        assert_eq!(differences(settings("drift = 0.1\nmax-clients = 7")), ["drift"]);
        assert_eq!(differences(settings("workers = 2\nadmin = 'a:1'")), ["admin", "workers"]);
        let other = Settings::from_typed(&typed("masters = 'redis://:b@a:1'")).unwrap();
        assert_eq!(differences(other), ["masters"], "its password is another one");
        assert!(differences(settings("max-clients = 7")).is_empty());
    }

    #[test]
    fn all_settings_are_shown_by_their_names() {
        let settings = Settings::try_new(masters(1)).unwrap();
        let shown = [settings.fixed_fields(), settings.live.fields()].concat();
        let mut shown: Vec<_> = shown.iter().map(|(name, _)| *name).collect();
        let secrets = [
            "master-user",
            "master-password-file",
            "data-user",
            "data-password-file",
            "data-sentinel-password-file",
            "requirepass-file",
            "log-format",
        ];
        let all = Typed::settings().map(|name| name.replace('_', "-"));
        let mut all: Vec<_> = all.filter(|name| !secrets.contains(&name.as_str())).collect();
        shown.sort_unstable();
        all.sort_unstable();
        assert_eq!(shown, all);
    }

    #[test]
    fn the_one_line_form_hides_passwords() {
        let line = Settings::from_typed(&typed(
            "masters = 'redis://u:hunter2@a:1'\nrequirepass = 'hunter3'\nusers = ['al on >hunter4']",
        ))
        .unwrap()
        .to_string();
        assert!(line.contains("masters=a:1 ") && line.contains("requirepass=***"), "{line}");
        assert!(line.contains(" users=al,default "), "{line}");
        assert!(!line.contains("hunter"), "{line}");
    }
}
