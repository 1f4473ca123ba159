//! A master's standing, in words.

use super::facts::{Bar, Doubt};

/// Reason why a master is out of the roster or about to be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Cause {
    /// A different process answers than before.
    #[error("it was restarted and may have forgotten locks")]
    Restarted,
    /// The master had not been running for long when the cluster was founded, but others had.
    #[error("it started recently and may have forgotten locks")]
    Young,
    /// The mark is missing or has changed.
    #[error("its data was flushed or replaced, or its mark was removed")]
    Flushed,
    /// The master followed another instance or evicted keys.
    #[error("{0}")]
    Doubted(Doubt),
    /// The master's clock deviates from ours and has expired locks too early or too late.
    #[error("its clock has {0}, and keys expire by that clock")]
    Clock(String),
    /// The operator has given its place to another instance.
    #[error("it takes the place of another instance")]
    Replaced,
    /// Another proxy has excluded the master from the roster.
    #[error("another proxy found that it had forgotten locks")]
    Elsewhere,
}

impl Cause {
    /// Names of the kinds, in the order of [`Cause::kind`].
    pub const KINDS: [&str; 7] =
        ["restarted", "young", "flushed", "doubted", "clock", "elsewhere", "replaced"];

    /// Returns the index of the cause's kind in [`Cause::KINDS`].
    pub fn kind(&self) -> usize {
        match self {
            Self::Restarted => 0,
            Self::Young => 1,
            Self::Flushed => 2,
            Self::Doubted(_) => 3,
            Self::Clock(_) => 4,
            Self::Elsewhere => 5,
            Self::Replaced => 6,
        }
    }
}

/// Whether a master may vote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MasterStanding {
    /// This proxy does not serve yet or has not seen the master.
    Waiting,
    /// The master may vote.
    Voter,
    /// The master has forgotten, and its data is being restored.
    Probation(Cause),
    /// The master must not vote as it is configured or behaves now.
    Barred(Bar),
    /// The master is not a member.
    Stranger(&'static str),
}

impl MasterStanding {
    /// Returns the standing as one word for people. It does not show whether the master can be reached.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Voter => "voter",
            Self::Waiting => "waiting",
            Self::Probation(_) => "probation",
            Self::Barred(_) | Self::Stranger(_) => "barred",
        }
    }

    /// Returns why the master may not vote, other than being out of reach.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Probation(cause) => Some(cause.to_string()),
            Self::Barred(bar) => Some(bar.to_string()),
            Self::Stranger(why) => Some((*why).to_owned()),
            Self::Waiting | Self::Voter => None,
        }
    }
}
