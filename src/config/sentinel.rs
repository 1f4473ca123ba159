//! A data Redis found through sentinels: `sentinel://user:password@host:port,host:port/NAME/db`, or
//! `rediss+sentinel://` for TLS to both the sentinels and the Redis.

use std::fmt;

use super::master_addr::{parse_credentials, split_host_port};
use super::{InvalidDataAddr, InvalidMasterAddr, MasterAddr, Secret};

/// The sentinels that know the address of a Redis, and its name.
///
/// Displays without passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentinelAddr {
    /// The sentinels, at least one, in the order given.
    pub sentinels: Vec<MasterAddr>,
    /// Their name for the Redis: `sentinel monitor NAME ...` in `sentinel.conf`.
    pub name: String,
    /// The password of the sentinels themselves (`requirepass` in `sentinel.conf`).
    pub password: Option<Secret>,
    /// Whether connections to them and to the Redis use TLS.
    pub is_tls: bool,
}

/// User and password for the Redis, as far as its URL has them.
pub(super) type Login = (Option<String>, Option<Secret>);

impl SentinelAddr {
    /// Returns the address of the Redis, given a sentinel's answer.
    pub fn master_at(&self, host: &str, port: u16) -> MasterAddr {
        let host = host.to_ascii_lowercase();
        MasterAddr { host, port, user: None, password: None, is_tls: self.is_tls }
    }
}

impl fmt::Display for SentinelAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { TLS_SCHEME } else { SCHEME };
        let sentinels: Vec<_> = self.sentinels.iter().map(ToString::to_string).collect();
        write!(f, "{scheme}{}/{}", sentinels.join(","), self.name)
    }
}

/// Splits such a URL into the sentinels, the login of the Redis, and the text of its database. Returns `None` if it has
/// another scheme.
pub(super) fn split(text: &str) -> Option<Result<(SentinelAddr, Login, &str), InvalidDataAddr>> {
    let plain = text.strip_prefix(SCHEME).map(|rest| (false, rest));
    let (is_tls, rest) =
        plain.or_else(|| text.strip_prefix(TLS_SCHEME).map(|rest| (true, rest)))?;
    Some(parse(is_tls, rest))
}

fn parse(is_tls: bool, rest: &str) -> Result<(SentinelAddr, Login, &str), InvalidDataAddr> {
    // From the right: a password that is not percent-encoded may contain an `@`, but names may not.
    let (credentials, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (name, db) = path.split_once('/').unwrap_or((path, ""));
    if hosts.is_empty() {
        return Err(InvalidDataAddr::NoSentinel);
    }
    if name.is_empty() {
        return Err(InvalidDataAddr::NoName);
    }
    // The characters that `sentinel.conf` allows.
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)) {
        return Err(InvalidDataAddr::Name);
    }
    let login = parse_credentials(credentials)?;
    let sentinels = hosts.split(',').map(|host| sentinel(is_tls, host));
    let sentinels = sentinels.collect::<Result<_, _>>()?;
    Ok((SentinelAddr { sentinels, name: name.to_owned(), password: None, is_tls }, login, db))
}

fn sentinel(is_tls: bool, text: &str) -> Result<MasterAddr, InvalidMasterAddr> {
    let (host, port) = split_host_port(text.trim())?;
    let port = port.unwrap_or(SENTINEL_PORT);
    if port == 0 {
        return Err(InvalidMasterAddr::Port);
    }
    Ok(MasterAddr { host, port, user: None, password: None, is_tls })
}

const SCHEME: &str = "sentinel://";
const TLS_SCHEME: &str = "rediss+sentinel://";

/// The port of a sentinel unless its configuration says otherwise.
const SENTINEL_PORT: u16 = 26379;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DataAddr, DataPlace};

    fn parsed(text: &str) -> (DataAddr, SentinelAddr) {
        let data: DataAddr = text.parse().unwrap_or_else(|error| panic!("{text} {error}"));
        let DataPlace::Sentinel(sentinel) = data.place.clone() else { panic!("{text}") };
        (data, sentinel)
    }

    #[test]
    fn sentinels_in_every_form() {
        for (text, shown) in [
            ("sentinel://h/m", "sentinel://h:26379/m/0"),
            (
                "sentinel://a:1,B:2,[::1]/my-Master.1_x/3",
                "sentinel://a:1,b:2,[::1]:26379/my-Master.1_x/3",
            ),
            ("sentinel://al:p@w/x@h:1/m/", "sentinel://h:1/m/0"),
            ("rediss+sentinel://h:1/m", "rediss+sentinel://h:1/m/0"),
        ] {
            assert_eq!(parsed(text).0.to_string(), shown, "{text}");
        }
    }

    #[test]
    fn credentials_are_those_of_the_redis() {
        let (data, sentinel) = parsed("sentinel://al:p%2Fw@a:1,b:2/m/7");
        assert_eq!((data.user.as_deref(), data.db), (Some("al"), 7));
        assert_eq!(data.password.as_ref().map(Secret::expose), Some("p/w"));
        assert_eq!(sentinel.password, None);
        assert!(sentinel.sentinels.iter().all(|it| it.user.is_none() && it.password.is_none()));
    }

    #[test]
    fn a_master_is_reached_as_its_sentinels_are() {
        let plain = parsed("sentinel://h/m").1.master_at("10.0.0.5", 7);
        assert_eq!((plain.to_string().as_str(), plain.is_tls), ("10.0.0.5:7", false));
        assert!(parsed("rediss+sentinel://h/m").1.master_at("Host", 7).is_tls);
    }

    #[test]
    fn what_is_refused_and_why() {
        for (text, why) in [
            ("sentinel://", InvalidDataAddr::NoSentinel),
            ("sentinel:///m", InvalidDataAddr::NoSentinel),
            ("sentinel://h:1", InvalidDataAddr::NoName),
            ("sentinel://h:1/", InvalidDataAddr::NoName),
            ("sentinel://h:1//0", InvalidDataAddr::NoName),
            ("sentinel://h:1/my master", InvalidDataAddr::Name),
            ("sentinel://h:1/m?db=1", InvalidDataAddr::Name),
            ("sentinel://h:1/m/x", InvalidDataAddr::Database),
            ("sentinel://h:1/m/0/0", InvalidDataAddr::Database),
            ("sentinel://h:1,/m", InvalidMasterAddr::Host.into()),
            ("sentinel://h:1,:2/m", InvalidMasterAddr::Host.into()),
            ("sentinel://h:0/m", InvalidMasterAddr::Port.into()),
            ("sentinel://al@h:1/m", InvalidMasterAddr::UserWithoutPassword.into()),
            ("sentinels://h:1/m", InvalidMasterAddr::Scheme.into()),
        ] {
            assert_eq!(text.parse::<DataAddr>(), Err(why), "{text}");
        }
    }
}
