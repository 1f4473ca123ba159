//! A master that has forgotten leaves the roster, receives the others' contents, and is admitted
//! again.

use redlock_proxy::decision::keyspace::copying::{Given, known};
use redlock_proxy::decision::keyspace::settle::{Copied, copy};
use redlock_proxy::decision::keyspace::slot::{self, Adopt};
use redlock_proxy::decision::quorum::Quorum;
use redlock_proxy::decision::register::ballot::Ballot;

use crate::bugs::Bug;
use crate::claims::LeaseRequest;
use crate::server::{Job, Operation};
use crate::world::{At, MASTERS, Master, State, World};

/// Number of keys to copy.
pub(crate) const ALL_KEYS: u8 = 2;

/// Worker that copies to a master being admitted.
const ADMITTER: u64 = 99;

impl World {
    /// Tells a client about a new version. Its requests in progress are sent again, or taken back.
    pub(crate) fn learn(&self, state: &mut State, client: usize) -> Option<()> {
        state.clients[client].version = state.version();
        state.clients[client].held.clear();
        let operation = self.operation(state, client);
        match (&state.clients[client].at, operation) {
            (At::Program(_), _) => self.again(state, client)?,
            (At::Flushing(_), _) => self.flush_again(state, client),
            (At::Voting(LeaseRequest::Claim, _), Some(Operation::Claim(key))) => {
                // This is no refusal: a quorum may hold the lease until it is taken back, and
                // programs may find it there.
                state.post(client, key, LeaseRequest::TakeBack);
                state.lose(client);
            }
            (At::Voting(LeaseRequest::Release, votes), Some(Operation::Release(key))) => {
                // A later vote cannot tell what was deleted under the version before.
                if !votes.yes.is_empty() {
                    state.post(client, key, LeaseRequest::TakeBack);
                    state.lose(client);
                } else {
                    state.vote(client, key, LeaseRequest::Release);
                }
            }
            _ => {}
        }
        Some(())
    }
}

impl State {
    /// Copies one key to the last master, which does not vote yet.
    pub(crate) fn copy(&mut self, world: &World) {
        // Nothing is copied while a source has missed a flush.
        let Some(flush) = self.flush_of_the_others() else { return };
        let before = if world.is(Bug::TakesAnyFlushForALateOne) { 0 } else { flush };
        let is_flushed = flush > *self.flush_before_copying.get_or_insert(before);
        self.masters[MASTERS - 1].slots.flush(flush);
        if is_flushed {
            // The other masters alone have decided everything since the flush.
            self.copied = ALL_KEYS;
            return;
        }
        let key = self.copied;
        let (own_us, now_us) = (world.own_clock(self), self.clock + world.fast);
        self.copied += 1;
        let others = &self.masters[..MASTERS - 1];
        let floor = others.iter().map(|master| master.slots.floor()).max();
        let slots: Vec<_> = others.iter().map(|master| master.slots.get(&key)).collect();
        let lease = slots.iter().find_map(|slot| slot.lease);
        let promised = slots.iter().map(|slot| slot.promised).max().unwrap_or_default();
        let sights: Vec<_> = slots.iter().map(|slot| slot.sight(own_us)).collect();
        let sights: Vec<_> = sights.iter().collect();
        let given = match known(Quorum::of(MASTERS), &sights, now_us) {
            Some(state) => Some(Given { state, promised, lease }),
            None => {
                self.go_on();
                settled(world, &mut self.masters[..MASTERS - 1], key, self.clock, own_us)
            }
        };
        let last = &mut self.masters[MASTERS - 1].slots;
        last.raise_floor(floor.unwrap_or_default());
        match given {
            Some(given) => last.give(&key, &given, now_us, own_us),
            // The copy is retried after something has expired.
            None => self.copied -= 1,
        }
    }

    /// Admits the last master again, once everything is copied.
    pub(crate) fn admit(&mut self) {
        let Some(flush) = self.flush_of_the_others() else { return };
        self.masters[MASTERS - 1].slots.flush(flush);
        let (others, last) = self.masters.split_at_mut(MASTERS - 1);
        let floor = others.iter().map(|master| master.slots.floor()).max();
        last[0].slots.raise_floor(floor.unwrap_or_default());
        for key in [0, 1] {
            let has_stamp =
                |master: &Master| master.slots.get(&key).promised > master.slots.floor();
            if !others.iter().any(has_stamp) {
                last[0].slots.clear_late(&key);
            }
        }
        for master in &mut self.masters {
            master.version = Some(3);
        }
    }

    /// Returns the last flush that all other masters have done, or `None` if they differ.
    fn flush_of_the_others(&self) -> Option<u64> {
        let mut flushes =
            self.masters[..MASTERS - 1].iter().map(|master| master.slots.last_flush());
        let first = flushes.next()?;
        flushes.all(|flush| flush == first).then_some(first)
    }
}

/// Decides what the last master receives for a key on which the others differ. Returns `None` if
/// they do not promise now.
fn settled(
    world: &World,
    others: &mut [Master],
    key: u8,
    clock: u64,
    own_us: u64,
) -> Option<Given<Job>> {
    let keys = [key, 1 - key];
    let promised = |master: &Master| keys.iter().map(|key| master.slots.get(key).promised).max();
    let highest = others.iter().filter_map(promised).max().unwrap_or_default();
    let ballot = Ballot::above(highest, clock, ADMITTER);
    let sights = others.iter_mut().map(|master| master.slots.prepare(&keys, ballot, 0, own_us));
    let sights: Vec<_> = sights.collect::<Result<_, _>>().ok()?;
    let shown: Vec<_> = sights.iter().map(|sights| &sights[..]).collect();
    Some(match copy(Quorum::of(MASTERS), ballot, &keys, &shown) {
        Copied::Settled(states, lease) => {
            let state = slot::State { open: None, ..states[0].state.clone() };
            let adopt = Adopt { states, next: ballot };
            for other in others {
                let _ = other.slots.adopt(&adopt, own_us);
            }
            Given { state, promised: ballot, lease }
        }
        Copied::Contested(_) if world.is(Bug::LetsClaimsPass) => {
            Given { state: slot::State::unknown_up_to(ballot), promised: ballot, lease: None }
        }
        Copied::Contested(contested) => {
            Given { state: contested.state, promised: ballot, lease: contested.lease }
        }
        Copied::More(_) => unreachable!("both keys are shown"),
    })
}
