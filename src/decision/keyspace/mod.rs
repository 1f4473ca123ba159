//! Keys as registers that a quorum of masters agrees on, alone or several at once, beside the leases of the fast path.
//!
//! CASPaxos (Rystsov 2018) for each key, with three additions. Programs run in place, so what they overwrite is gone on
//! that master. A program over several keys is accepted on all of them or on none, on each master. And leases are written
//! by claims that know nothing of ballots, so that a key may hold one where a master has missed a register.
//!
//! ```text
//!             quorum, known              quorum applied
//!  Preparing -----------------> Applying ---------------> done
//!   ^   | ^                      ^  |
//!   |   | | more keys            |  | refused, or unanswered
//!   |   | quorum, to be adopted  |  |
//!   |   +-----> Adopting --------+  |
//!   +-------------------------------+
//! ```
//!
//! * [`slot`] is what a master keeps and does: the specification of its scripts;
//! * [`settle`] finds out of promises what the keys hold;
//! * [`proposer`] is what a worker does;
//! * [`early`] is what follows a round that is beyond an end;
//! * [`reading`] is reading without a promise;
//! * [`remembered`] is what is known of the last programs;
//! * [`remains`] is what is left of leases that nobody has;
//! * [`copying`] is what a master is given that has forgotten;
//! * [`flush`] is emptying a database;
//! * [`tombstone`] tells when a master may forget a key, and what it then still knows.

pub mod copying;
pub mod early;
pub mod flush;
pub mod proposer;
pub mod reading;
pub mod remains;
pub mod remembered;
pub mod settle;
pub mod slot;
#[cfg(test)]
mod tests;
pub mod tombstone;

use std::fmt::Debug;
use std::hash::Hash;

use settle::Holding;

/// A change of some keys that every master runs in place.
///
/// The same program on the same keys must leave the same and reply the same on every master.
pub trait Program: Clone + Debug + Eq + Hash {
    /// The name of a key.
    type Key: Clone + Debug + Ord + Hash;
    /// What a register holds. The default is an absent key.
    type Value: Clone + Debug + Default + Eq + Hash;
    /// A lease, down to its generation: an extension makes another one of it.
    type Lease: Clone + Debug + Eq + Hash;
    /// What the client is answered.
    type Reply: Clone + Debug + Eq + Hash;

    /// Returns the keys, each once.
    fn keys(&self) -> Vec<Self::Key>;

    /// Whether a register with this value exists, or existed until its end.
    fn is_present(value: &Self::Value) -> bool;

    /// When the value ends, in microseconds since the epoch; `None`: never.
    fn end_us(value: &Self::Value) -> Option<u64>;

    /// Whether a master that shows `one` may hold `other` just as well, or have held it before it forgot.
    fn may_stand_for(one: &Self::Lease, other: &Self::Lease) -> bool {
        one == other
    }

    /// Whether votes for a lease count for a short time only, or it is all that is left of a register with this value. Of any
    /// other it is not known when they do not count any more.
    fn is_over_in_time(_lease: &Self::Lease, _value: &Self::Value) -> bool {
        true
    }

    /// Whether it is sent only where all masters that answer hold what it runs on. A program that may change several keys is: it may
    /// have been run by one master, and come to nothing as another key was gone on with. What that master held before is
    /// overwritten then, and one of the others may forget it.
    fn needs_all(&self) -> bool {
        self.keys().len() > 1
    }

    /// Whether it is to run on what its keys turned out to hold. Otherwise it ends without having run.
    fn may_run(&self, _holdings: &[Holding<Self>], _now_us: u64) -> bool {
        true
    }

    /// The same, of a register that exists or existed.
    fn end_if_present(value: &Self::Value) -> Option<u64> {
        Self::end_us(value).filter(|_| Self::is_present(value))
    }

    /// Whether a register with this value exists for clients.
    ///
    /// Time is that of ballots: a promise is also one that nothing is decided in the time before it. So what has ended for
    /// one reader has ended for all that come after, whatever their clocks say.
    fn lives(value: &Self::Value, now_us: u64) -> bool {
        Self::is_present(value) && Self::end_us(value).is_none_or(|end_us| now_us < end_us)
    }
}

/// A program that runs here: what masters run is text.
pub trait Runs: Program {
    /// Returns what the keys hold afterwards, in their order, and the reply. `None`: nothing was written to it. What has
    /// ended by `now_us` is seen as absent.
    fn run(&self, seen: &[Seen<'_, Self>], now_us: u64) -> (Vec<Option<Self::Value>>, Self::Reply);
}

/// What a program finds under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen<'a, P: Program> {
    /// A register, absent ones too.
    Register(&'a P::Value),
    /// A lease. What is written to the key takes its place.
    Lease(&'a P::Lease),
}
