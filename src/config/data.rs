//! The application's existing Redis, and the names of its keys that are locks.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::access::secret_from;
use super::typed::Typed;
use super::values::{YEAR_MS, duration_within, switch};
use super::{InvalidMasterAddr, InvalidSetting, MasterAddr, Secret, SentinelAddr, sentinel};
use crate::names::lock_names::LockNames;

/// The Redis for everything other than locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Its address and login.
    pub address: DataAddr,
    /// Names of keys that go to the masters instead.
    pub locks: LockNames,
    /// Whether each claim must also be made here, because old instances of the application still take their locks here.
    pub has_locks: bool,
    /// Time with requests but without a match after which a pattern is warned about; zero: never.
    pub warn_unmatched_after: Duration,
}

impl Data {
    /// Whether the data Redis is at this address, `host:port`.
    pub fn is_at(&self, address: &str) -> bool {
        matches!(&self.address.place, DataPlace::Tcp(data) if data.to_string() == address)
    }
}

/// The address of the data Redis.
///
/// Displays without user and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataAddr {
    /// The instance.
    pub place: DataPlace,
    /// The ACL user; `None` is Redis's `default` user.
    pub user: Option<String>,
    /// The password to send in `AUTH`.
    pub password: Option<Secret>,
    /// The database of clients that select none.
    pub db: u32,
}

/// The kind of address of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataPlace {
    /// By TCP, perhaps with TLS over it.
    Tcp(MasterAddr),
    /// By a socket on this host.
    Unix(PathBuf),
    /// By TCP, at the address that sentinels report.
    Sentinel(SentinelAddr),
}

/// Why a text is not the address of the data Redis. Like [`InvalidMasterAddr`], it never quotes the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum InvalidDataAddr {
    #[error("{0}")]
    Tcp(#[from] InvalidMasterAddr),
    #[error(
        "has no valid database: write a number, redis://host:port/0 or sentinel://host:port/NAME/0"
    )]
    Database,
    #[error("has no absolute path: write unix:/path/to/redis.sock")]
    Path,
    #[error("has an unknown option: only ?db=NUMBER may follow a path")]
    Option,
    #[error("names no sentinel: write sentinel://host:port,host:port/NAME")]
    NoSentinel,
    #[error("does not say which master its sentinels are to name: write sentinel://host:port/NAME")]
    NoName,
    #[error(
        "has a name that no sentinel knows: names of masters have letters, digits, dots, dashes and underscores"
    )]
    Name,
}

impl FromStr for DataAddr {
    type Err = InvalidDataAddr;

    fn from_str(text: &str) -> Result<Self, InvalidDataAddr> {
        match text.strip_prefix("unix:") {
            Some(path) => unix(path),
            None => sentinel::split(text).map_or_else(|| tcp(text), by_sentinel),
        }
    }
}

fn unix(text: &str) -> Result<DataAddr, InvalidDataAddr> {
    let (path, options) = text.split_once('?').unwrap_or((text, ""));
    let path = path.strip_prefix("//").unwrap_or(path);
    if !path.starts_with('/') {
        return Err(InvalidDataAddr::Path);
    }
    let db = match options.split_once('=') {
        None if options.is_empty() => 0,
        Some(("db", number)) => database(number)?,
        _ => return Err(InvalidDataAddr::Option),
    };
    Ok(DataAddr { place: DataPlace::Unix(path.into()), user: None, password: None, db })
}

/// Parses `redis://user:password@host:port/db`. All but the database is written as for a master.
fn tcp(text: &str) -> Result<DataAddr, InvalidDataAddr> {
    let after_scheme = text.find("://").map_or(0, |at| at + 3);
    let after_login = text.rfind('@').map_or(after_scheme, |at| at + 1);
    let path = text[after_login..].find('/').map_or(text.len(), |at| after_login + at);
    let (endpoint, db) = text.split_at(path);
    let mut master: MasterAddr = endpoint.parse()?;
    let db = match db.trim_start_matches('/') {
        "" => 0,
        number => database(number)?,
    };
    let (user, password) = (master.user.take(), master.password.take());
    Ok(DataAddr { place: DataPlace::Tcp(master), user, password, db })
}

fn by_sentinel(
    split: Result<(SentinelAddr, sentinel::Login, &str), InvalidDataAddr>,
) -> Result<DataAddr, InvalidDataAddr> {
    let (sentinel, (user, password), db) = split?;
    let db = if db.is_empty() { 0 } else { database(db)? };
    Ok(DataAddr { place: DataPlace::Sentinel(sentinel), user, password, db })
}

fn database(number: &str) -> Result<u32, InvalidDataAddr> {
    let is_number = number.bytes().all(|digit| digit.is_ascii_digit());
    number.parse().ok().filter(|_| is_number).ok_or(InvalidDataAddr::Database)
}

impl fmt::Display for DataAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            DataPlace::Tcp(address) => write!(f, "{address}/{}", self.db),
            DataPlace::Unix(path) => write!(f, "unix:{}?db={}", path.display(), self.db),
            DataPlace::Sentinel(sentinel) => write!(f, "{sentinel}/{}", self.db),
        }
    }
}

impl Data {
    /// Traffic for this long usually involves a lock.
    pub const WARN_UNMATCHED_AFTER: Duration = Duration::from_secs(3600);

    /// Returns the lines that tell an operator where requests go.
    pub(super) fn start_lines(&self) -> [String; 2] {
        let patterns = self.locks.keys.iter().map(|pattern| String::from_utf8_lossy(pattern));
        let patterns: Vec<_> = patterns.collect();
        let locks = match &patterns[..] {
            [] => "no key is a lock: name some with --lock-keys".to_owned(),
            _ => format!("locks: {}", patterns.join(", ")),
        };
        [format!("data: {}", self.address), locks]
    }

    /// Returns the data Redis, if configured.
    ///
    /// # Errors
    /// Returns an error if its address is malformed or a master's, or patterns were given without it.
    pub(super) fn from_typed(
        typed: &Typed,
        masters: &[MasterAddr],
    ) -> Result<Option<Self>, InvalidSetting> {
        let unmatched_after = typed.read("warn-unmatched-after", duration_within(0..=YEAR_MS))?;
        let Some(text) = typed.given("data") else {
            return nothing_without_it(typed).map(|()| None);
        };
        let invalid = |why| InvalidSetting(format!("data {why}"));
        let mut address: DataAddr = text.trim().parse().map_err(invalid)?;
        log_in(&mut address, typed)?;
        log_in_at_sentinels(&mut address.place, typed)?;
        if let DataPlace::Tcp(data) = &address.place
            && masters.iter().any(|master| master.host == data.host && master.port == data.port)
        {
            return Err(InvalidSetting(format!(
                "data {data} is also a master: data needs a Redis of its own, which takes no part in votes"
            )));
        }
        let locks = LockNames {
            keys: patterns(typed, "lock-keys"),
            channels: patterns(typed, "lock-channels"),
        };
        let has_locks = also_claims(typed)?;
        if has_locks && locks.keys.is_empty() {
            return Err(InvalidSetting(
                "also-claim-on-data needs lock-keys: name the patterns of your locks".to_owned(),
            ));
        }
        let warn_unmatched_after = unmatched_after.unwrap_or(Self::WARN_UNMATCHED_AFTER);
        Ok(Some(Self { address, locks, has_locks, warn_unmatched_after }))
    }
}

fn also_claims(typed: &Typed) -> Result<bool, InvalidSetting> {
    let word = typed.given("also-claim-on-data");
    let refused = |why| InvalidSetting(format!("also-claim-on-data {why}"));
    word.map_or(Ok(false), |word| switch(word.trim()).map_err(refused))
}

fn nothing_without_it(typed: &Typed) -> Result<(), InvalidSetting> {
    let also_claims = also_claims(typed)?;
    let is_used = |name: &&&str| match **name {
        "also-claim-on-data" => also_claims,
        name => typed.list(name).iter().any(|word| !word.is_empty()),
    };
    match ABOUT_DATA.iter().find(is_used) {
        Some(name) => Err(InvalidSetting(format!(
            "{name} has no effect without data: set data to the Redis for everything other than locks"
        ))),
        None => Ok(()),
    }
}

const ABOUT_DATA: [&str; 6] = [
    "lock-keys",
    "lock-channels",
    "data-user",
    "data-password-file",
    "also-claim-on-data",
    "data-sentinel-password-file",
];

fn log_in(address: &mut DataAddr, typed: &Typed) -> Result<(), InvalidSetting> {
    let (user, file) = (typed.given("data-user"), typed.given("data-password-file"));
    if address.password.is_some() && (user.is_some() || file.is_some()) {
        return Err(InvalidSetting::new(
            "data contains a password, so data-user and data-password-file have no effect: set it in one place",
        ));
    }
    if let Some(path) = file {
        address.password = Some(secret_from("data-password-file", path)?);
        address.user = user.map(str::to_owned);
    } else if user.is_some() {
        return Err(InvalidSetting::new(
            "data-user has no password: name the file that holds it with data-password-file",
        ));
    }
    Ok(())
}

fn log_in_at_sentinels(place: &mut DataPlace, typed: &Typed) -> Result<(), InvalidSetting> {
    match (place, typed.given("data-sentinel-password-file")) {
        (_, None) => Ok(()),
        (DataPlace::Sentinel(sentinel), Some(path)) => {
            sentinel.password = Some(secret_from("data-sentinel-password-file", path)?);
            Ok(())
        }
        (_, Some(_)) => Err(InvalidSetting::new(
            "data-sentinel-password-file has no effect unless data lists sentinels: write sentinel://host:port/NAME",
        )),
    }
}

fn patterns(typed: &Typed, name: &str) -> Vec<Box<[u8]>> {
    let words = typed.list(name).iter();
    words.filter(|word| !word.is_empty()).map(|word| word.as_bytes().into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> DataAddr {
        text.parse().unwrap_or_else(|error| panic!("{text} {error}"))
    }

    #[test]
    fn an_address_in_every_form() {
        for (text, shown) in [
            ("redis://h", "h:6379/0"),
            ("redis://h:1/3", "h:1/3"),
            ("rediss://al:p%2Fw@h:1/", "h:1/0"),
            ("redis://:p@w/x@h/2", "h:6379/2"),
            ("h:1", "h:1/0"),
            ("unix:/run/redis.sock", "unix:/run/redis.sock?db=0"),
            ("unix:///run/redis.sock?db=4", "unix:/run/redis.sock?db=4"),
        ] {
            assert_eq!(parsed(text).to_string(), shown, "{text}");
        }
        let data = parsed("rediss://al:p%2Fw@h:1/7");
        assert_eq!((data.user.as_deref(), data.db), (Some("al"), 7));
        assert_eq!(data.password.as_ref().map(Secret::expose), Some("p/w"));
        assert!(matches!(data.place, DataPlace::Tcp(address) if address.is_tls));
    }

    #[test]
    fn what_is_refused_and_why() {
        for (text, why) in [
            ("redis://h/x", InvalidDataAddr::Database),
            ("redis://h/+1", InvalidDataAddr::Database),
            ("redis://h/1/2", InvalidDataAddr::Database),
            ("unix:redis.sock", InvalidDataAddr::Path),
            ("unix:/s?x=1", InvalidDataAddr::Option),
            ("http://h", InvalidMasterAddr::Scheme.into()),
            ("redis://h:0", InvalidMasterAddr::Port.into()),
        ] {
            assert_eq!(text.parse::<DataAddr>(), Err(why), "{text}");
        }
    }
}
