//! The fast path of leases: claims, releases, and take-backs. It knows nothing of ballots.

use redlock_proxy::decision::keyspace::proposer::Wish;
use redlock_proxy::decision::quorum::{MasterId, MasterSet, Quorum};
use stateright::semantics::ConsistencyTester;

use crate::bugs::Bug;
use crate::server::{Job, Lease, Operation, Reply};
use crate::world::{At, MASTERS, State, World, name};

/// A request on the fast path of leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LeaseLetter {
    pub(crate) client: usize,
    version: u64,
    key: u8,
    what: LeaseRequest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LeaseRequest {
    Claim,
    Release,
    /// Removes the copies of a refused claim.
    TakeBack,
}

impl LeaseLetter {
    pub(crate) fn is_release(self) -> bool {
        self.what == LeaseRequest::Release
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Votes {
    pub(crate) yes: MasterSet,
    no: MasterSet,
    /// Masters on which the key is a register.
    registers: MasterSet,
    /// The flush after which the first vote was given. Votes after another flush do not count.
    flush: Option<u64>,
}

impl World {
    /// Delivers a request of the fast path to a master, and its answer to the client.
    pub(crate) fn deliver_lease(&self, state: &mut State, index: usize, letter: LeaseLetter) {
        let LeaseLetter { client, version, key, what } = letter;
        let owner = Lease(name(client));
        let master = &mut state.masters[index];
        master.is_touched = true;
        let first = master.leases.iter().position(|other| *other == letter);
        first.map(|at| master.leases.remove(at));
        let flush = master.slots.last_flush();
        let slot = master.slots.of(&key);
        let is_register = slot.is_there();
        let vote = match what {
            LeaseRequest::Claim => Some(master.slots.claim(&key, owner)),
            LeaseRequest::TakeBack => {
                master.slots.give_back(&key, |it| *it == owner);
                return;
            }
            LeaseRequest::Release if is_register => None,
            LeaseRequest::Release => {
                Some(master.slots.give_back(&key, |it| *it == owner).is_some())
            }
        };
        let now = state.clients[client].version;
        let At::Voting(asked, votes) = &mut state.clients[client].at else { return };
        let is_proved = master.version == Some(version) || self.is(Bug::MixesVersions);
        if *asked != what || !is_proved || version != now {
            return;
        }
        if *votes.flush.get_or_insert(flush) != flush && !self.is(Bug::MixesFlushes) {
            return;
        }
        let id = MasterId::new(index);
        match vote {
            Some(true) => votes.yes.insert(id),
            Some(false) => votes.no.insert(id),
            None => votes.registers.insert(id),
        }
        let votes = *votes;
        match what {
            LeaseRequest::Claim => state.claimed(client, key, votes),
            _ => self.released(state, client, key, votes),
        }
    }

    /// Executes a release on a master that is flushed before its mark is read, so that nobody can
    /// tell the order. The master is asked again.
    pub(crate) fn release_between(&self, state: &mut State, index: usize, letter: LeaseLetter) {
        let LeaseLetter { client, key, .. } = letter;
        let owner = Lease(name(client));
        state.masters[index].slots.give_back(&key, |it| *it == owner);
    }

    /// Gives up a claim without an answer. A quorum may hold the lease until it is taken back.
    pub(crate) fn give_up(&self, state: &mut State, client: usize) -> Option<()> {
        let Some(Operation::Claim(key)) = self.operation(state, client) else { return None };
        state.post(client, key, LeaseRequest::TakeBack);
        state.is_taken_back(client, key);
        state.lose(client);
        Some(())
    }

    fn released(&self, state: &mut State, client: usize, key: u8, votes: Votes) {
        let needed = Quorum::of(MASTERS).needed();
        let answered = votes.yes.len() + votes.no.len() + votes.registers.len();
        if votes.yes.len() >= needed {
            state.answer(client, Reply::Number(1));
        } else if votes.no.len() >= needed {
            state.answer(client, Reply::Number(0));
        } else if answered == MASTERS && votes.registers.is_empty() {
            state.answer(client, Reply::Number(u8::from(!votes.yes.is_empty())));
        } else if answered == MASTERS {
            let job = Job(Operation::Release(key), name(client));
            state.clients[client].held.clear();
            state.clients[client].has_released = !votes.yes.is_empty();
            self.propose(state, client, Wish::Run(job));
        }
    }
}

impl State {
    pub(crate) fn vote(&mut self, client: usize, key: u8, what: LeaseRequest) {
        self.clients[client].at = At::Voting(what, Votes::default());
        self.post(client, key, what);
    }

    fn claimed(&mut self, client: usize, key: u8, votes: Votes) {
        let needed = Quorum::of(MASTERS).needed();
        if votes.yes.len() >= needed {
            self.answer(client, Reply::Number(1));
        } else if votes.no.len() >= needed {
            self.answer(client, Reply::Number(0));
            self.post(client, key, LeaseRequest::TakeBack);
        }
    }

    /// Records that this client's lease may disappear from now on.
    fn is_taken_back(&mut self, client: usize, key: u8) {
        let end = Job(Operation::End(key, name(client)), 0);
        let _ = self.history.on_invoke(150 + client as u8, end);
    }

    pub(crate) fn post(&mut self, client: usize, key: u8, what: LeaseRequest) {
        let version = self.clients[client].version;
        for master in &mut self.masters {
            master.leases.push(LeaseLetter { client, version, key, what });
        }
    }

    /// Leases that were granted and have not ended, as owner and key.
    pub(crate) fn leases<'a>(&'a self, world: &'a World) -> impl Iterator<Item = (usize, u8)> + 'a {
        let granted = |client: usize| {
            let done = &world.clients[client][..self.clients[client].ended];
            done.iter().filter_map(move |operation| match operation {
                Operation::Claim(key) => Some((client, *key)),
                _ => None,
            })
        };
        // Programs cannot judge a copy made after the end: `tests/leases` models clocks.
        let is_on_its_way = |client: usize| {
            let letters = self.masters.iter().flat_map(|master| &master.leases);
            letters
                .filter(|letter| letter.what == LeaseRequest::Claim)
                .any(|it| it.client == client)
        };
        (0..self.clients.len())
            .flat_map(granted)
            .filter(|(client, key)| !self.ended.contains(&(name(*client), *key)))
            .filter(move |(client, _)| !is_on_its_way(*client))
    }
}
