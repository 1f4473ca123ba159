//! A master's copy of a register, and the effect of the scripts on it.

use redlock_proxy::decision::register::Program;
use redlock_proxy::decision::register::acceptor::{Adopt, Apply, Refusal, State};
use redlock_proxy::decision::register::ballot::Ballot;

/// One master's record of one register.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stamp<V, R> {
    /// Highest promised ballot. The master accepts nothing below it any more.
    pub promised: Ballot,
    /// Last accepted state.
    pub state: State<V, R>,
}

/// Stamps of the keys that a program changes.
pub type StampOf<P> = Stamp<<P as Program>::Value, <P as Program>::Reply>;

impl<V: Clone, R: Clone> Stamp<V, R> {
    /// Promises `ballot`, and returns the state that the promise is about.
    ///
    /// # Errors
    /// Returns an error if this ballot or a higher one was promised before.
    pub fn prepare(&mut self, ballot: Ballot) -> Result<State<V, R>, Refusal> {
        if ballot <= self.promised {
            return Err(self.refusal());
        }
        self.promised = ballot;
        Ok(self.state.clone())
    }

    /// Accepts a state unchanged.
    ///
    /// # Errors
    /// Returns an error if a higher ballot was promised.
    pub fn adopt(&mut self, adopt: &Adopt<V, R>) -> Result<(), Refusal> {
        if self.promised > adopt.state.accepted {
            return Err(self.refusal());
        }
        self.promised = adopt.next;
        self.state = adopt.state.clone();
        Ok(())
    }

    /// Takes over a state that a quorum was seen to hold, whatever was promised. Returns whether it was newer.
    ///
    /// A state of a quorum is decided: every attempt that holds a promise of this master has seen it on another master.
    pub fn catch_up(&mut self, decided: &State<V, R>) -> bool {
        let is_newer = decided.accepted > self.state.accepted;
        if is_newer {
            self.promised = self.promised.max(decided.accepted);
            self.state = decided.clone();
        }
        is_newer
    }

    /// Returns the refusal that this stamp leads to.
    pub fn refusal(&self) -> Refusal {
        Refusal { promised: self.promised, accepted: self.state.accepted }
    }
}

/// Runs a program in place, and remembers `keep` programs.
///
/// # Errors
/// Returns an error if a higher ballot was promised, or if the master holds another state than the program expects.
pub fn apply<P: Program>(
    stamp: &mut StampOf<P>,
    apply: &Apply<P>,
    keep: usize,
) -> Result<P::Reply, Refusal> {
    if stamp.promised > apply.ballot || stamp.state.accepted != apply.expected {
        return Err(stamp.refusal());
    }
    stamp.promised = apply.next;
    let (after, reply) = stamp.state.after(&apply.program, apply.ballot, keep);
    stamp.state = after;
    Ok(reply)
}
