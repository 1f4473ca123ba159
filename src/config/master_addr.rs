//! The address and login of a master: `host:port`, `redis://user:password@host:port`, or `rediss://` for TLS.

use std::fmt;
use std::str::FromStr;

use super::Secret;

/// The address of one master, with its credentials.
///
/// Displays as `host:port`, never with the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterAddr {
    /// A name or an IP address in lower case; IPv6 without brackets.
    pub host: String,
    /// The TCP port, never 0.
    pub port: u16,
    /// The ACL user; `None` is Redis's `default` user.
    pub user: Option<String>,
    /// The password to send in `AUTH` or `HELLO`.
    pub password: Option<Secret>,
    /// Whether the connection uses TLS.
    pub is_tls: bool,
}

impl FromStr for MasterAddr {
    type Err = InvalidMasterAddr;

    fn from_str(text: &str) -> Result<Self, InvalidMasterAddr> {
        match split_scheme(text) {
            None => parse_endpoint(text),
            Some(("redis", rest)) => parse_url(rest),
            Some(("rediss", rest)) => Ok(MasterAddr { is_tls: true, ..parse_url(rest)? }),
            Some(_) => Err(InvalidMasterAddr::Scheme),
        }
    }
}

impl MasterAddr {
    /// Returns the address of another master, `host:port`, with the same login and the same use of TLS.
    ///
    /// # Errors
    /// Returns an error if `place` is no such address.
    pub fn at(&self, place: &str) -> Result<Self, InvalidMasterAddr> {
        let Self { host, port, .. } = parse_endpoint(place)?;
        Ok(Self { host, port, ..self.clone() })
    }
}

impl fmt::Display for MasterAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Why a text is not the address of a master.
///
/// No variant carries the text itself: it may contain a password, even if the URL is split wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum InvalidMasterAddr {
    #[error("has an unknown scheme: write host:port, redis:// or rediss://user:password@host:port")]
    Scheme,
    #[error("has a database or options in its URL: clients choose the database with SELECT")]
    Path,
    #[error("names a user without a password: write redis://user:password@host:port")]
    UserWithoutPassword,
    #[error("has credentials that are not valid percent-encoded UTF-8")]
    Encoding,
    #[error("has credentials but no redis:// in front: write redis://user:password@host:port")]
    CredentialsWithoutScheme,
    #[error("has no valid host: write host:port, and an IPv6 address in brackets, [::1]:6379")]
    Host,
    #[error("has no valid port: a port is a number from 1 to 65535")]
    Port,
}

/// Splits `host`, `host:port`, `[ipv6]` or `[ipv6]:port`, and removes the brackets.
pub(super) fn split_host_port(text: &str) -> Result<(String, Option<u16>), InvalidMasterAddr> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or(InvalidMasterAddr::Host)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| InvalidMasterAddr::Host)?;
            let port = match after.strip_prefix(':') {
                None if after.is_empty() => None,
                None => return Err(InvalidMasterAddr::Host),
                Some(port) => Some(port),
            };
            (host, port)
        }
        None => match text.split_once(':') {
            Some((host, port)) => (checked_name(host)?, Some(port)),
            None => (checked_name(text)?, None),
        },
    };
    let port = match port {
        None => None,
        Some(digits) => Some(parse_port(digits)?),
    };
    Ok((host.to_ascii_lowercase(), port))
}

fn split_scheme(text: &str) -> Option<(&str, &str)> {
    text.split_once("://")
}

fn parse_endpoint(text: &str) -> Result<MasterAddr, InvalidMasterAddr> {
    if text.contains('@') {
        return Err(InvalidMasterAddr::CredentialsWithoutScheme);
    }
    let (host, port) = split_host_port(text)?;
    let port = port.unwrap_or(DEFAULT_PORT);
    if port == 0 {
        return Err(InvalidMasterAddr::Port);
    }
    Ok(MasterAddr { host, port, user: None, password: None, is_tls: false })
}

fn parse_url(rest: &str) -> Result<MasterAddr, InvalidMasterAddr> {
    // From the right: a password that is not percent-encoded may contain an `@`.
    let (credentials, rest) = match rest.rsplit_once('@') {
        Some((credentials, rest)) => (Some(credentials), rest),
        None => (None, rest),
    };
    let endpoint = rest.strip_suffix('/').unwrap_or(rest);
    if endpoint.contains(['/', '?', '#']) {
        return Err(InvalidMasterAddr::Path);
    }
    let (user, password) = parse_credentials(credentials.unwrap_or_default())?;
    Ok(MasterAddr { user, password, ..parse_endpoint(endpoint)? })
}

/// Splits `user:password`, both percent-encoded and both optional.
pub(super) fn parse_credentials(
    text: &str,
) -> Result<(Option<String>, Option<Secret>), InvalidMasterAddr> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let user = Some(percent_decode(user)?).filter(|user| !user.is_empty());
    let password = Some(percent_decode(password)?).filter(|password| !password.is_empty());
    if user.is_some() && password.is_none() {
        return Err(InvalidMasterAddr::UserWithoutPassword);
    }
    Ok((user, password.map(Secret::new)))
}

fn percent_decode(text: &str) -> Result<String, InvalidMasterAddr> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut pieces = text.split('%');
    decoded.extend_from_slice(pieces.next().unwrap_or_default().as_bytes());
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2).ok_or(InvalidMasterAddr::Encoding)?;
        // `from_str_radix` alone would also accept a sign.
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(InvalidMasterAddr::Encoding);
        }
        decoded.push(u8::from_str_radix(digits, 16).map_err(|_| InvalidMasterAddr::Encoding)?);
        decoded.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(decoded).map_err(|_| InvalidMasterAddr::Encoding)
}

/// Checks a host name or an IPv4 address. Rejects a bare number, which would be a port, or a count of masters.
fn checked_name(host: &str) -> Result<&str, InvalidMasterAddr> {
    let well_formed = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    let number = host.bytes().all(|byte| byte.is_ascii_digit());
    if host.chars().all(well_formed) && !number { Ok(host) } else { Err(InvalidMasterAddr::Host) }
}

fn parse_port(digits: &str) -> Result<u16, InvalidMasterAddr> {
    if digits.contains(':') {
        return Err(InvalidMasterAddr::Host);
    }
    digits.parse().map_err(|_| InvalidMasterAddr::Port)
}

/// Port of a Redis URL without one.
const DEFAULT_PORT: u16 = 6379;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> MasterAddr {
        text.parse().unwrap_or_else(|error| panic!("{text} {error}"))
    }

    fn refused(text: &str) -> InvalidMasterAddr {
        text.parse::<MasterAddr>().expect_err(text)
    }

    #[test]
    fn host_and_port_in_every_form() {
        for (text, shown) in [
            ("10.0.0.1:7000", "10.0.0.1:7000"),
            ("redis-1.example.org", "redis-1.example.org:6379"),
            ("Redis_A:1", "redis_a:1"),
            ("[::1]:6380", "[::1]:6380"),
            ("redis://[::1]", "[::1]:6379"),
            ("redis://h:1/", "h:1"),
        ] {
            assert_eq!(parsed(text).to_string(), shown, "{text}");
        }
        assert_eq!(parsed("[::1]:6380").host, "::1", "ready for a connect call");
    }

    #[test]
    fn credentials_are_percent_decoded_and_never_displayed() {
        let master = parsed("redis://al%40ice:p%3a%2Fw%25@h:1");
        assert_eq!(master.user.as_deref(), Some("al@ice"));
        assert_eq!(master.password.as_ref().map(Secret::expose), Some("p:/w%"));
        assert_eq!(master.to_string(), "h:1");
        assert!(!format!("{master:?}").contains("p:/w%"));
    }

    #[test]
    fn two_letters_more_ask_for_tls() {
        assert!(parsed("rediss://:pw@h:1").is_tls);
        assert!(!parsed("redis://:pw@h:1").is_tls && !parsed("h:1").is_tls);
    }

    #[test]
    fn a_password_alone_belongs_to_the_default_user() {
        let master = parsed("redis://:pass@word@h");
        assert_eq!(master.user, None);
        assert_eq!(master.password.as_ref().map(Secret::expose), Some("pass@word"));
    }

    #[test]
    fn what_is_refused_and_why() {
        use InvalidMasterAddr::*;
        for (text, why) in [
            ("http://h:1", Scheme),
            ("redis://h:1/0", Path),
            ("redis://h:1?protocol=3", Path),
            ("redis://user@h:1", UserWithoutPassword),
            ("redis://:%zz@h:1", Encoding),
            ("redis://:%+1@h:1", Encoding),
            ("redis://:%ff@h:1", Encoding),
            ("redis://:a%4@h:1", Encoding),
            ("user:password@h:1", CredentialsWithoutScheme),
            ("", Host),
            (":6379", Host),
            ("3", Host),
            ("a b:1", Host),
            ("::1", Host),
            ("fe80::1:6379", Host),
            ("[::1", Host),
            ("[::1]6379", Host),
            ("[nonsense]:1", Host),
            ("h:", Port),
            ("h:0", Port),
            ("h:65536", Port),
            ("h:port", Port),
        ] {
            assert_eq!(refused(text), why, "{text}");
        }
    }
}
