//! Releases of a lease, as proxies do them.

use redlock_proxy::decision::lease::release::{self, Release};
use redlock_proxy::decision::quorum::{MasterId, MasterSet};

use crate::bugs::Bug;
use crate::proxy::{attempt_of, everybody};
use crate::world::*;

impl World {
    /// Creates a release. The releasing client no longer believes in its lease, and neither may
    /// other clients with that token.
    pub(crate) fn new_release(&self, state: &mut State, proxy: usize, client: usize) -> Release {
        let held = state.clients[client].holds.map(|holds| holds.attempt);
        for other in 0..state.clients.len() {
            if self.tokens[other] == self.tokens[client] {
                state.clients[other].holds = None;
            }
        }
        match held.filter(|attempt| attempt.worker() == attempt_of(proxy).worker()) {
            Some(attempt) => {
                Release::known(self.terms(), attempt.fresh(), everybody(), state.time())
            }
            None if self.has(Bug::ReleaseByToken) => {
                let unnamed = held.unwrap_or(attempt_of(proxy));
                Release::known(self.terms(), unnamed.fresh(), everybody(), state.time())
            }
            None => Release::new(self.terms(), everybody(), state.time()),
        }
    }

    pub(crate) fn release_command(&self, release: &Release, token: u8) -> Command {
        match release.known_tag() {
            _ if self.has(Bug::ReleaseByToken) => Command::DeleteToken(token),
            Some(tag) => Command::GiveBack(tag, token),
            None => Command::Look { token },
        }
    }

    pub(crate) fn follow_release(&self, state: &mut State, index: usize, step: release::Step) {
        let flight = &state.flights[index];
        if flight.told {
            return;
        }
        let counts_absence = self.has(Bug::AbsenceIsRelease) && flight.is_gone_or_absent();
        let (id, proxy, deleted) = (flight.id, flight.proxy, flight.yes);
        let over =
            !matches!(step, release::Step::Wait | release::Step::Look | release::Step::Delete(_));
        let silent = matches!(step, release::Step::Unavailable { .. });
        let lies = deleted != 0
            && (self.has(Bug::OneDeletionIsEnough) && silent
                || counts_absence && (silent || step == release::Step::Wait)
                || self.has(Bug::ReleaseAgainstQuorum) && over);
        match step {
            release::Step::Released => self.released(state, index),
            _ if lies => self.released(state, index),
            release::Step::Wait => {}
            release::Step::Look => {
                let now = state.time();
                if let Operation::Release(release) = &mut state.flights[index].operation {
                    match self.has(Bug::LookAnew) {
                        true => *release = Release::new(self.terms(), everybody(), now),
                        false => release.ask(everybody(), now),
                    }
                }
                self.broadcast(state, index);
            }
            release::Step::Delete(tags) => {
                let flight = &mut state.flights[index];
                let Operation::Release(release) = &flight.operation else { return };
                flight.meant = release.attempt();
                let (round, token) = (release.round(), self.tokens[flight.id.0]);
                for (master, tag) in tags {
                    state.send(
                        proxy,
                        master.index(),
                        Command::GiveBack(tag, token),
                        Some((id, round)),
                    );
                }
            }
            release::Step::Missing | release::Step::Other | release::Step::Unavailable { .. } => {
                self.refused(state, index);
            }
        }
        self.tidy(state);
    }

    fn released(&self, state: &mut State, index: usize) {
        let flight = &mut state.flights[index];
        flight.told = true;
        let (proxy, rival, yes) = (flight.proxy, flight.rival, flight.yes);
        let (Operation::Release(release), Some(attempt)) = (&flight.operation, flight.meant) else {
            return;
        };
        let settled = MasterSet::from_bits(u32::from(yes));
        let rest = everybody().without(settled);
        let all = release::OwedReleases { attempt, now: rest, later: rest };
        let owed = release.owed().unwrap_or(all);
        state.live.retain(|live| *live != attempt);
        state.released.push(attempt);
        state.released.sort_unstable();
        state.released.dedup();
        let still = |(other, attempt): (usize, _)| {
            let is_it = |holds: Holds| holds.attempt == attempt && holds.doubts == 0;
            state.clients[other].holds.is_some_and(is_it)
        };
        let lied = rival.is_some_and(|rival| rival.1 != attempt && still(rival));
        state.seen.false_release |= lied;
        self.deliver(state, index, proxy, owed);
    }

    pub(crate) fn deliver(
        &self,
        state: &mut State,
        index: usize,
        proxy: usize,
        owed: release::OwedReleases,
    ) {
        let token = self.tokens[state.flights[index].id.0];
        for master in owed.now.iter().map(MasterId::index) {
            let by_token = self.has(Bug::DeliverByToken);
            let command = match by_token {
                _ if self.has(Bug::DeliverBlindly) => Command::DeleteAnything,
                true => Command::DeleteToken(token),
                false => Command::Deliver(owed.attempt),
            };
            if !self.has(Bug::ReleaseByToken) {
                state.send(proxy, master, command, None);
            }
        }
        // The worker that granted the lease has sent its claim earlier on the same links.
        if owed.attempt.worker() == attempt_of(proxy).worker() || self.has(Bug::NoSecondDelivery) {
            return;
        }
        for master in owed.later.iter().map(MasterId::index) {
            let due = state.now + self.freshness + 1;
            state.later.push(Later { due, proxy, master, attempt: owed.attempt });
        }
        state.later.sort_unstable();
    }
}
