//! A master that has forgotten is put out, is given what the others have, and comes in again.

use redlock_proxy::decision::keyspace::settle::{Copied, copy};
use redlock_proxy::decision::keyspace::slot::{Adopt, Sight};
use redlock_proxy::decision::register::ballot::Ballot;
use redlock_proxy::quorum::Quorum;

use crate::claims::LeaseRequest;
use crate::server::Operation;
use crate::world::{At, MASTERS, ROUND, State, World};

/// The worker that copies to a master that is admitted.
const ADMITTER: u64 = 99;

impl World {
    /// What is under way when the version changes is sent again, or taken back.
    pub(crate) fn learn(&self, state: &mut State, client: usize) -> Option<()> {
        state.clients[client].version = state.version();
        state.clients[client].held = None;
        let operation = self.operation(state, client);
        match (&state.clients[client].at, operation) {
            (At::Program(_), _) => self.again(state, client)?,
            (At::Voting(LeaseRequest::Claim, _), Some(Operation::Claim(key))) => {
                // No refusal: a quorum may have it until it is taken back, and programs may find it there.
                state.post(client, key, LeaseRequest::TakeBack);
                state.lose(client);
            }
            (At::Voting(LeaseRequest::Release, votes), Some(Operation::Release(key))) => {
                // What was deleted under the version before is nothing that a later vote can tell.
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
    /// The others settle what the last master gets, and it comes in again. Its lease is theirs, or one that was taken
    /// meanwhile.
    pub(crate) fn admit(&mut self) {
        self.clock += ROUND;
        let ballot = Ballot { epoch: 0, counter: self.clock, worker: ADMITTER };
        for keys in [[0, 1], [1, 0]] {
            let (others, last) = self.masters.split_at_mut(MASTERS - 1);
            let sights = others.iter_mut().map(|master| {
                let sight = |key| Sight::of(master.slots.of(key));
                keys.iter().map(sight).collect::<Vec<_>>()
            });
            let sights: Vec<_> = sights.collect();
            let shown: Vec<_> = sights.iter().map(|sights| &sights[..]).collect();
            let promised = others.iter().map(|master| master.slots.get(&keys[0]).promised).max();
            let floor = others.iter().map(|master| master.slots.floor()).max();
            last[0].slots.raise_floor(floor.unwrap_or_default());
            let new = last[0].slots.of(&keys[0]);
            new.promised = promised.unwrap_or_default();
            match copy(Quorum::of(MASTERS), ballot, &keys, &shown) {
                Copied::Settled(states, lease) => {
                    let state = states[0].state.clone();
                    let adopt = Adopt { states, next: ballot };
                    for other in others {
                        let _ = other.slots.adopt(&adopt);
                    }
                    // What it has granted meanwhile stays, unless somebody else's is older.
                    new.lease = lease.or(new.lease).filter(|_| !state.value.held.is_there());
                    (new.state, new.promised) = (state, ballot);
                    new.state.open = None;
                }
                Copied::Contested(state, lease) => {
                    (new.state, new.lease) = (state, lease.or(new.lease));
                }
                Copied::More(_) => unreachable!("both keys are shown"),
            }
        }
        for master in &mut self.masters {
            master.version = Some(3);
        }
    }
}
