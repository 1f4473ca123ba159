//! Settings whose value is one of a few words.

use std::fmt;
use std::time::Duration;

use super::InvalidSetting;
use super::typed::Typed;
use super::values::{lease, shown_duration};

/// Treatment of a lock that is claimed without a TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTtl {
    /// It stays until it is released, as in Redis.
    Keep,
    /// The claim is rejected.
    Reject,
    /// It gets this TTL.
    Lease(Duration),
}

/// Treatment of masters that belong to no cluster yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColdStart {
    /// If all are young this is a first deployment: they vote at once.
    Trust,
    /// They may have lost their memory together: they wait.
    Wait,
    /// No cluster is founded. At least one master of the list must belong to one.
    Join,
}

/// The format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line, for log collectors.
    Json,
}

impl NoTtl {
    /// Parses `keep`, `reject` or `lease=30s`.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("lease=")) {
            ("keep", _) => Ok(Self::Keep),
            ("reject", _) => Ok(Self::Reject),
            (_, Some(ttl)) => lease(ttl).map(Self::Lease),
            _ => Err("must be keep, reject or lease=<duration>".to_owned()),
        }
    }
}

impl ColdStart {
    /// Parses `trust`, `wait` or `join`.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        match text {
            "trust" => Ok(Self::Trust),
            "wait" => Ok(Self::Wait),
            "join" => Ok(Self::Join),
            _ => Err("must be trust, wait or join".to_owned()),
        }
    }
}

impl LogFormat {
    /// Returns the typed format, or the default.
    ///
    /// # Errors
    /// Returns an error if it is neither `text` nor `json`.
    pub fn from_typed(typed: &Typed) -> Result<Self, InvalidSetting> {
        let word = typed.word("log-format").unwrap_or("text");
        Self::read(word).map_err(|why| InvalidSetting::of("log-format", word, &why))
    }

    /// Parses `text` or `json`.
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("must be text or json".to_owned()),
        }
    }
}

impl fmt::Display for NoTtl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("keep"),
            Self::Reject => f.write_str("reject"),
            Self::Lease(ttl) => write!(f, "lease={}", shown_duration(ttl)),
        }
    }
}

impl fmt::Display for ColdStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trust => "trust",
            Self::Wait => "wait",
            Self::Join => "join",
        })
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}
