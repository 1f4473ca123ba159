//! What the number of voters means for locks, in words for operators.

use serde::Serialize;

use super::{MasterSet, Quorum};

/// What it means that [`Quorum::spare`] is zero.
pub const NONE_TO_SPARE: &str = "one more failure stops all locks";

/// How many masters of a cluster vote, and what that means for locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outlook {
    /// `good`: all vote; `wait`: a quorum votes; `bad`: none does.
    pub kind: &'static str,
    /// The same in words.
    pub text: String,
}

impl Outlook {
    /// Returns the outlook with these voters.
    pub fn with(voters: MasterSet, quorum: Quorum) -> Self {
        let (all, needed) = (quorum.masters(), quorum.needed());
        let vote = format!("{} of {all} masters vote", voters.len());
        let (kind, text) = match quorum.spare(voters) {
            None => ("bad", format!("{vote}, and {needed} are needed: no lock can be taken")),
            Some(_) if voters.len() == all => ("good", format!("{vote}, {needed} are needed")),
            Some(0) => ("wait", format!("{vote}: {NONE_TO_SPARE}")),
            Some(_) => ("wait", format!("{vote}, {needed} are needed")),
        };
        Self { kind, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_number_of_voters_means_is_said() {
        let outlook = |voters, masters| {
            let Outlook { kind, text } =
                Outlook::with(MasterSet::first(voters), Quorum::of(masters));
            format!("{kind}: {text}")
        };
        for (voters, masters, expected) in [
            (1, 1, "good: 1 of 1 masters vote, 1 are needed"),
            (3, 3, "good: 3 of 3 masters vote, 2 are needed"),
            (2, 3, "wait: 2 of 3 masters vote: one more failure stops all locks"),
            (4, 5, "wait: 4 of 5 masters vote, 3 are needed"),
            (2, 5, "bad: 2 of 5 masters vote, and 3 are needed: no lock can be taken"),
        ] {
            assert_eq!(outlook(voters, masters), expected);
        }
    }
}
