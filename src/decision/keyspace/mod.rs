//! Keys as registers that a quorum of masters agrees on, alone or several at once, alongside the leases of the fast
//! path.
//!
//! CASPaxos (Rystsov 2018) for each key, with three additions. Programs run in place, so the state that they overwrite
//! is gone on that master. Each master accepts a program over several keys on all of them or on none. And leases are
//! written by claims that know nothing of ballots, so a key may hold a lease on a master that has missed a register.
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
//! * [`slot`] is a master's record of a key, with the requests that change it;
//! * [`settle`] derives from promises what the keys hold;
//! * [`proposer`] is the worker's side;
//! * [`early`] handles rounds beyond an end;
//! * [`reading`] reads without a promise;
//! * [`remembered`] lists the last programs;
//! * [`remains`] finds the remains of leases that nobody holds;
//! * [`copying`] decides what to give to a master that has forgotten;
//! * [`flush`] empties a database;
//! * [`tombstone`] decides when a master may forget a key, and what it still knows after that.

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

use settle::HeldBallot;

/// A change of some keys that every master runs in place.
///
/// A program must leave the same values and return the same reply on every master where the keys hold the same content.
pub trait Program: Clone + Debug + Eq + Hash {
    /// Name of a key.
    type Key: Clone + Debug + Ord + Hash;
    /// Content of a register. The default is an absent key.
    type Value: Clone + Debug + Default + Eq + Hash;
    /// A lease, including its generation: an extension turns it into another one.
    type Lease: Clone + Debug + Eq + Hash;
    /// Reply to the client.
    type Reply: Clone + Debug + Eq + Hash;

    /// Returns the keys, each once.
    fn keys(&self) -> Vec<Self::Key>;

    /// Whether a register with this value exists, or existed until its end.
    fn is_present(value: &Self::Value) -> bool;

    /// Returns the end of the value in microseconds since the Unix epoch; `None` if it never ends.
    fn end_us(value: &Self::Value) -> Option<u64>;

    /// Whether a master that shows `one` may equally hold `other`, or have held it before it forgot.
    fn may_stand_for(one: &Self::Lease, other: &Self::Lease) -> bool {
        one == other
    }

    /// Whether votes for a lease count only for a short time, or the lease is all that is left of a register with this
    /// value. For any other lease it is unknown when votes stop counting.
    fn is_over_in_time(_lease: &Self::Lease, _value: &Self::Value) -> bool {
        true
    }

    /// Whether the program is sent only once all masters that answer hold what it runs on. This applies to a program
    /// that may change several keys: one master may have run it for nothing, because another worker changed one of the
    /// keys. The previous state of that master is then overwritten, and one of the others may forget its own.
    fn needs_all(&self) -> bool {
        self.keys().len() > 1
    }

    /// Whether the program may run on what its keys turned out to hold. If not, the operation ends without running it.
    fn may_run(&self, _holdings: &[HeldBallot<Self>], _now_us: u64) -> bool {
        true
    }

    /// Returns the end of a register that exists or existed.
    fn end_if_present(value: &Self::Value) -> Option<u64> {
        Self::end_us(value).filter(|_| Self::is_present(value))
    }

    /// Whether a register with this value exists for clients.
    ///
    /// Time is that of ballots: a promise also guarantees that nothing is decided at an earlier time. So a value that
    /// has ended for one reader has ended for all later ones, whatever their clocks show.
    fn lives(value: &Self::Value, now_us: u64) -> bool {
        Self::is_present(value) && Self::end_us(value).is_none_or(|end_us| now_us < end_us)
    }
}
