//! The silence of a master that owes answers: its limit and its detection.
//!
//! It is measured in heartbeats, so that a busy worker does not mistake its own silence for the master's.

use std::time::Duration;

/// Vote timeouts of silence after which the proxy tears a connection down. It waits at least [`LEAST_SILENCE`], because
/// a fork or an fsync may take that long. It also waits at least as long as a client may wait for the master.
const SILENT_VOTE_TIMEOUTS: u32 = 10;
const LEAST_SILENCE: Duration = Duration::from_millis(500);

/// Heartbeats within the allowed silence.
const HEARTBEATS: u32 = 5;

/// Returns the interval between two heartbeats.
pub(super) fn heartbeat_interval(vote_timeout: Duration, patience: Duration) -> Duration {
    longest_silence(vote_timeout, patience) / HEARTBEATS
}

/// Returns how long a master that owes an answer may be silent.
fn longest_silence(vote_timeout: Duration, patience: Duration) -> Duration {
    (vote_timeout * SILENT_VOTE_TIMEOUTS).max(LEAST_SILENCE).max(patience + patience / 4)
}

/// The silence at the other end of one connection.
#[derive(Debug, Default)]
pub struct Silence {
    /// Whether anything has been read since the last heartbeat.
    heard: bool,
    heartbeats: u32,
}

impl Silence {
    /// Notes that something has been read.
    pub fn ends(&mut self) {
        self.heard = true;
    }

    /// Counts a heartbeat of a master that `owes` answers or not. Returns whether it has been silent for too long.
    pub fn lasts_too_long(&mut self, owes: bool) -> bool {
        let heard = std::mem::take(&mut self.heard);
        self.heartbeats = if owes && !heard { self.heartbeats + 1 } else { 0 };
        self.heartbeats >= HEARTBEATS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_owes_an_answer_is_too_silent() {
        let mut silence = Silence::default();
        let mut beats = |count, owes| (0..count).any(|_| silence.lasts_too_long(owes));
        assert!(!beats(2 * HEARTBEATS, false));
        assert!(!beats(HEARTBEATS - 1, true));
        assert!(!beats(1, false), "all was answered");
        assert!(!beats(HEARTBEATS - 1, true));
        assert!(beats(1, true));
    }

    #[test]
    fn whatever_is_heard_ends_the_silence() {
        let mut silence = Silence::default();
        for _ in 0..3 {
            assert!(!(1..HEARTBEATS).any(|_| silence.lasts_too_long(true)));
            silence.ends();
        }
    }

    #[test]
    fn nobody_is_given_up_while_somebody_may_wait() {
        let ms = Duration::from_millis;
        assert_eq!(longest_silence(ms(10), ms(100)), LEAST_SILENCE);
        assert_eq!(longest_silence(ms(100), ms(100)), ms(1000));
        assert_eq!(longest_silence(ms(100), ms(4000)), ms(5000));
    }
}
