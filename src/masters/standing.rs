//! How a master stands, in words.

use super::facts::{Bar, Doubt};

/// Why a master is out of the roster, or about to be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Cause {
    /// Another process answers than before.
    #[error("it was restarted and may have forgotten locks")]
    Restarted,
    /// It had not been running for long when the cluster was founded, and others had.
    #[error("it was started a short while ago and may have forgotten locks")]
    Young,
    /// Its mark is gone, or another one.
    #[error("somebody has flushed or replaced its data, or removed its mark")]
    Flushed,
    /// It followed another instance, or evicted keys.
    #[error("{0}")]
    Doubted(Doubt),
    /// Its clock does not go as ours does, and has ended locks too early or too late.
    #[error("its clock has {0}, and keys end by it")]
    Clock(String),
    /// Another proxy has put it out.
    #[error("another proxy has found that it forgot")]
    Elsewhere,
}

impl Cause {
    /// The kinds, in the order of [`Cause::kind`].
    pub const KINDS: [&str; 6] = ["restarted", "young", "flushed", "doubted", "clock", "elsewhere"];

    /// The place of its kind among [`Cause::KINDS`].
    pub fn kind(&self) -> usize {
        match self {
            Self::Restarted => 0,
            Self::Young => 1,
            Self::Flushed => 2,
            Self::Doubted(_) => 3,
            Self::Clock(_) => 4,
            Self::Elsewhere => 5,
        }
    }
}

/// Whether a master may vote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// This proxy does not serve yet, or has not seen the master.
    Waiting,
    /// It may.
    Voter,
    /// It has forgotten, and is given back what it forgot.
    Probation(Cause),
    /// Not as it is.
    Barred(Bar),
    /// It is no member.
    Stranger(&'static str),
}

impl Standing {
    /// In one word, for people; it does not tell whether the master can be reached.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Voter => "voter",
            Self::Waiting => "waiting",
            Self::Probation(_) => "probation",
            Self::Barred(_) | Self::Stranger(_) => "barred",
        }
    }

    /// Why it may not vote, apart from being out of reach.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Probation(cause) => Some(cause.to_string()),
            Self::Barred(bar) => Some(bar.to_string()),
            Self::Stranger(why) => Some((*why).to_owned()),
            Self::Waiting | Self::Voter => None,
        }
    }
}
