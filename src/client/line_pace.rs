//! The pace of log lines about clients: whatever they do, one line a second.

use std::time::Duration;

use crate::time::clock::Instant;

/// Minimum time between two lines.
const SAY_AGAIN: Duration = Duration::from_secs(1);

/// Lines of one kind.
#[derive(Debug, Default)]
pub(super) struct LinePace {
    said: Option<Instant>,
    /// Clients that are not in the log yet.
    untold: u64,
}

impl LinePace {
    /// Counts a client that belongs into the log.
    pub(super) fn count(&mut self) {
        self.untold += 1;
    }

    /// Returns the number of clients since the last line, if it is time for another one.
    pub(super) fn due(&mut self, now: Instant) -> Option<u64> {
        if self.said.is_some_and(|said| now.saturating_duration_since(said) < SAY_AGAIN) {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::clock;

    #[test]
    fn a_flood_takes_a_line_a_second() {
        let (mut lines, start) = (LinePace::default(), clock::now());
        let mut due = |now| {
            lines.count();
            lines.due(now)
        };
        assert_eq!(due(start), Some(1));
        assert!((1..1000).all(|ms| due(start + Duration::from_millis(ms)).is_none()));
        assert_eq!(due(start + SAY_AGAIN), Some(1000));
    }
}
