//! The data Redis as shown to the operator: in `INFO redlock`, and on the status page.

use std::fmt;

use serde::Serialize;

use super::upstream::Upstream;

/// Current knowledge about the data Redis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// Its address, or `unknown` until a sentinel has named one.
    pub address: String,
    /// `up`, `down` or `unknown`.
    pub state: &'static str,
    /// Time in this state; 0 before the first probe.
    pub since_seconds: u64,
    /// Reason why it cannot be used; empty if it can.
    pub reason: String,
}

impl Description {
    /// Describes the result of the last probe.
    pub fn of(upstream: &Upstream) -> Self {
        let seen = upstream.health().seen();
        Self {
            address: upstream.address().unwrap_or_else(|| "unknown".to_owned()),
            state: seen.word(),
            since_seconds: seen.since.map_or(0, |since| since.elapsed().as_secs()),
            reason: seen.trouble.unwrap_or_default(),
        }
    }

    /// Whether it can be used.
    pub fn is_up(&self) -> bool {
        self.state == "up"
    }
}

/// # Format
/// Fields as in `INFO`. A comma or a line break in the reason would end its field, so both are replaced.
impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, state, since_seconds, reason } = self;
        let reason = reason.replace(['\r', '\n', ','], " ");
        write!(f, "address={address},state={state},since_seconds={since_seconds},reason={reason}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_field() {
        let reason = "it says:\r\na, b".to_owned();
        let address = "h:1/0".to_owned();
        let description = Description { address, state: "down", since_seconds: 7, reason };
        let shown = "address=h:1/0,state=down,since_seconds=7,reason=it says:  a  b";
        assert_eq!((description.to_string().as_str(), description.is_up()), (shown, false));
    }
}
