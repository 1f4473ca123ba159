//! Parsers for single values. Each error says which values are valid.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::master_addr::split_host_port;
use crate::catalogue::events::EventClasses;

pub(super) const HOUR_MS: u64 = 3_600_000;

pub(super) const DAY_MS: u64 = 24 * HOUR_MS;

pub(super) const YEAR_MS: u64 = 365 * DAY_MS;

/// Parses a value, or none if the text is `word`.
pub(super) fn unless<T>(
    word: &str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> impl FnOnce(&str) -> Result<Option<T>, String> {
    move |text| if text == word { Ok(None) } else { read(text).map(Some) }
}

/// Parses a duration as people write it, `50ms`, `1s`, `2h 30m`; a bare number is milliseconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(ms) = text.parse() {
        return Ok(Duration::from_millis(ms));
    }
    humantime::parse_duration(text).map_err(|_| "is not a duration such as 50ms or 1s".to_owned())
}

/// Parses a duration in a range of milliseconds.
pub(super) fn duration_within(
    range_ms: RangeInclusive<u64>,
) -> impl FnOnce(&str) -> Result<Duration, String> {
    move |text| {
        let range =
            Duration::from_millis(*range_ms.start())..=Duration::from_millis(*range_ms.end());
        let value = duration(text)?;
        if range.contains(&value) {
            return Ok(value);
        }
        let [low, high] = [range.start(), range.end()].map(shown_duration);
        Err(format!("must be from {low} to {high}"))
    }
}

/// Parses the TTL of a lock.
pub(super) fn lease(text: &str) -> Result<Duration, String> {
    duration_within(1..=LONGEST_LEASE_MS)(text)
}

/// A thousand years, which some libraries use for "forever". A much longer time could not be added to a clock.
const LONGEST_LEASE_MS: u64 = 31_557_600_000_000;

/// Formats a duration in the form that [`duration`] reads, without spaces.
pub(super) fn shown_duration(duration: &Duration) -> String {
    humantime::format_duration(*duration).to_string().replace(' ', "")
}

/// Parses a number in a range, which excludes NaN.
pub(super) fn number_within<T>(range: RangeInclusive<T>) -> impl FnOnce(&str) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    move |text| {
        let value = text.parse().map_err(|_| "is not a number that fits".to_owned())?;
        if range.contains(&value) {
            return Ok(value);
        }
        Err(format!("must be from {} to {}", range.start(), range.end()))
    }
}

/// Parses classes of events of keys. The error is that of Redis.
pub(super) fn event_classes(text: &str) -> Result<EventClasses, String> {
    let unknown = || "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned();
    EventClasses::read(text).ok_or_else(unknown)
}

/// Parses a size in bytes within a range, with the units of `redis.conf` (`memtoull` in `util.c`): `1k` is 1,000 bytes,
/// `1kb` is 1,024.
pub(super) fn bytes_within(
    range: RangeInclusive<usize>,
) -> impl FnOnce(&str) -> Result<usize, String> {
    move |text| {
        let value = bytes(text).ok_or("is not a size in bytes such as 1048576 or 1mb")?;
        if range.contains(&value) {
            return Ok(value);
        }
        Err(format!("must be from {} to {} bytes", range.start(), range.end()))
    }
}

fn bytes(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1_000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(factor)
}

/// Parses a boolean in the words people use in environment variables.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// Parses `host:port` to listen on; port 0 lets the system choose one.
pub(super) fn listen_address(text: &str) -> Result<String, String> {
    match split_host_port(text) {
        Ok((_, Some(_))) => Ok(text.to_owned()),
        _ => Err("is not host:port, such as 127.0.0.1:6379 or [::1]:6379".to_owned()),
    }
}

/// Parses an address or the path of a socket at which operators ask.
pub(super) fn admin_place(text: &str) -> Result<String, String> {
    match text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => listen_address(text).map_err(|_| {
            "is neither host:port, such as 127.0.0.1:9379, nor the path of a socket, such as /run/admin.sock"
                .to_owned()
        }),
    }
}

/// Parses any path.
pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    Ok(text.into())
}

/// Parses the version reported to clients. Drivers compare it number by number, hence strictly `d.d.d`.
pub(super) fn redis_version(text: &str) -> Result<String, String> {
    let number =
        |part: &str| part.bytes().all(|byte| byte.is_ascii_digit()) && part.parse::<u32>().is_ok();
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() == 3 && parts.into_iter().all(number) {
        return Ok(text.to_owned());
    }
    Err("must be three numbers with dots, such as 7.4.0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_without_a_unit_is_milliseconds() {
        assert_eq!(duration("50"), Ok(Duration::from_millis(50)));
        assert_eq!(duration("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        for nonsense in ["", "-1", "fifty", "50 parsecs"] {
            assert!(duration(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn the_ends_of_a_range_belong_to_it() {
        let read = |text: &str| duration_within(1..=10_000)(text);
        assert!(read("1ms").is_ok() && read("10s").is_ok());
        assert_eq!(read("0"), Err("must be from 1ms to 10s".to_owned()));
        assert!(read("10001ms").is_err());
        assert!(number_within(0.0..=0.5)("0.5").is_ok());
        assert!(number_within(0.0..=0.5)("NaN").is_err());
        assert!(number_within(0..=100_u32)("-1").is_err());
    }

    #[test]
    fn a_lease_can_be_added_to_any_clock() {
        assert_eq!(lease("1000years"), Ok(Duration::from_millis(LONGEST_LEASE_MS)));
        for text in ["0", "1001years", "500000000000years", "18446744073709551615"] {
            assert_eq!(lease(text), Err("must be from 1ms to 1000years".to_owned()), "{text}");
        }
        assert!(lease("999999999999999999999years").is_err());
    }

    #[test]
    fn sizes_have_the_units_of_redis_conf() {
        for (text, expected) in [
            ("1048576", Some(1_048_576)),
            ("1mb", Some(1_048_576)),
            ("1M", Some(1_000_000)),
            ("64KB", Some(65_536)),
            ("7b", Some(7)),
            ("mb", None),
            ("1 mb", None),
            ("1.5mb", None),
            ("99999999999999999999gb", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn a_version_has_exactly_three_numbers() {
        assert!(redis_version("7.4.0").is_ok());
        for wrong in ["7.4", "7.4.0-rc1", "7.4.0.1", "7..0", "v7.4.0", "+7.4.0"] {
            assert!(redis_version(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_listen_address_has_a_port() {
        for right in ["127.0.0.1:6379", "[::]:0", "localhost:1"] {
            assert!(listen_address(right).is_ok(), "{right}");
        }
        for wrong in ["", "6379", ":6379", "localhost", "::1:6379", "h:99999"] {
            assert!(listen_address(wrong).is_err(), "{wrong}");
        }
    }
}
