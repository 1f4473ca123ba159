//! Deletions of a lease for any client, as proxies do them, and their effect on other clients'
//! beliefs.
//!
//! A deletion is one step between its begin and its answer. Until the answer nobody knows which
//! leases it has ended. If it found nothing, it has ended none. If it found a lease, it has ended
//! everything granted before it began, and one lease at most.

use redlock_proxy::decision::lease::attempt::Tag;
use redlock_proxy::decision::lease::delete::{self, Delete, Sight, Step};
use redlock_proxy::decision::quorum::{MasterId, Quorum};

use crate::bugs::Bug;
use crate::proxy::{attempt_of, everybody};
use crate::world::*;

impl State {
    /// Clients whose deletion has no answer yet, as bits.
    pub(crate) fn deletions(&self) -> u8 {
        let waits = |flight: &&Flight| matches!(flight.operation, Operation::Delete(_));
        self.flights.iter().filter(waits).fold(0, |bits, flight| bits | 1 << flight.id.0)
    }

    /// Begins a deletion. It may end leases that other clients believe in, or soon will. The
    /// deleting client gives up its own lease.
    pub(crate) fn doubt(&mut self, mut deletion: Flight) -> Flight {
        let by = 1 << deletion.id.0;
        self.clients[deletion.id.0].holds = None;
        for (index, client) in self.clients.iter_mut().enumerate() {
            if let Some(holds) = &mut client.holds {
                holds.doubts |= by;
                deletion.found.push((index, holds.attempt));
            }
        }
        self.flights
            .iter_mut()
            .filter(|flight| !flight.told)
            .for_each(|flight| flight.doubts |= by);
        deletion.before = self.live.clone();
        deletion
    }

    /// Restores beliefs after a deletion that has ended nothing.
    fn believe_again(&mut self, by: u8) {
        self.clients
            .iter_mut()
            .filter_map(|client| client.holds.as_mut())
            .for_each(|holds| holds.doubts &= !by);
        self.flights.iter_mut().for_each(|flight| flight.doubts &= !by);
    }

    /// Gives up every lease that a deletion overlaps with and may have ended.
    fn give_up(&mut self, by: u8) {
        for client in &mut self.clients {
            client.holds = client.holds.filter(|holds| holds.doubts & by == 0);
        }
        for flight in self.flights.iter_mut().filter(|flight| flight.doubts & by != 0) {
            (flight.overlaps, flight.doubts) = (true, flight.doubts & !by);
        }
    }

    /// Records a successful deletion. It has ended the lease that existed when it began and, if
    /// that lease lasted until the end, no other.
    fn end(&mut self, deletion: &Flight) {
        let by = 1 << deletion.id.0;
        let only_this = |holds: Holds, attempt| holds.attempt == attempt && holds.doubts == by;
        let is_it = |(client, attempt): &(usize, _)| {
            self.clients[*client].holds.is_some_and(|holds| only_this(holds, *attempt))
        };
        let has_ended_that = deletion.found.iter().any(is_it);
        for client in &mut self.clients {
            client.holds = client.holds.filter(|holds| {
                holds.doubts & by == 0 || !deletion.before.contains(&holds.attempt)
            });
        }
        for flight in self.flights.iter_mut().filter(|flight| flight.doubts & by != 0) {
            flight.ended.extend(&deletion.before);
        }
        if has_ended_that {
            self.believe_again(by)
        } else {
            self.give_up(by)
        }
        self.deleted.extend(&deletion.before);
        self.deleted.sort_unstable();
        self.deleted.dedup();
    }
}

impl Flight {
    /// Whether a quorum has deleted the key or shown nothing.
    pub(crate) fn is_gone_or_absent(&self) -> bool {
        let absent = self.shown.iter().filter(|(_, tag)| tag.is_none());
        let bits = absent.fold(self.yes, |bits, (master, _)| bits | 1 << master);
        bits.count_ones() as usize >= Quorum::of(MASTERS).needed()
    }
}

impl World {
    /// Creates a deletion. A worker knows the leases that it granted.
    pub(crate) fn new_delete(&self, state: &State, proxy: usize) -> Delete {
        let by_this = |tag: &Tag| tag.attempt.worker() == attempt_of(proxy).worker();
        let granted = state.clients.iter().filter_map(|client| Some(client.holds?.attempt.fresh()));
        match granted.into_iter().find(by_this) {
            _ if self.has(Bug::DeleteBlindly) => {
                Delete::known(self.terms(), attempt_of(proxy).fresh(), everybody(), state.time())
            }
            Some(tag) => Delete::known(self.terms(), tag, everybody(), state.time()),
            None => Delete::new(self.terms(), everybody(), state.time()),
        }
    }

    pub(crate) fn delete_command(&self, delete: &Delete) -> Command {
        match delete.known_tag() {
            Some(_) if self.has(Bug::DeleteBlindly) => Command::DeleteAnything,
            Some(tag) => Command::Delete(tag),
            None => Command::Show,
        }
    }

    pub(crate) fn hear_sight(
        &self,
        state: &mut State,
        index: usize,
        (master, round): (usize, u8),
        sight: Sight,
    ) {
        let now = state.time();
        let flight = &mut state.flights[index];
        let Operation::Delete(delete) = &mut flight.operation else { return };
        let step = delete.sight(round, MasterId::new(master), sight, now);
        if self.uses_sights() && sight != Sight::Unknown {
            flight.shown.push((master, tag_of(sight)));
        }
        if let Some(tag) = tag_of(sight).filter(|_| self.has(Bug::DeleteAllShown)) {
            let proxy = flight.proxy;
            state.send(proxy, master, Command::Delete(tag), None);
        }
        self.follow_delete(state, index, step);
    }

    /// Handles a sight after the answer, which changes nothing.
    pub(crate) fn shown_after_answer(&self, state: &mut State, master: usize, reply: Reply) {
        let Answer::Shown(sight) = reply.answer else { return };
        if let Some(tag) = tag_of(sight).filter(|_| self.has(Bug::DeleteAfterAnswer)) {
            let (client, job) = reply.flight;
            let proxy = self.scripts[client][job].proxy();
            state.send(proxy, master, Command::Delete(tag), None);
        }
    }

    pub(crate) fn follow_delete(&self, state: &mut State, index: usize, step: Step) {
        let lies = self.lies(&state.flights[index], &step);
        match step {
            _ if lies => self.deleted(state, index),
            Step::Wait => {}
            Step::Look => {
                let now = state.time();
                if let Operation::Delete(delete) = &mut state.flights[index].operation {
                    delete.ask(everybody(), now);
                }
                self.broadcast(state, index);
            }
            Step::Delete(values) => self.send_deletes(state, index, values),
            Step::Deleted => self.deleted(state, index),
            Step::Missing => self.missing(state, index),
            Step::Unavailable { .. } => {
                let by = 1 << state.flights[index].id.0;
                self.refused(state, index);
                state.give_up(by);
            }
        }
        self.tidy(state);
    }

    fn send_deletes(&self, state: &mut State, index: usize, tags: Vec<(MasterId, Tag)>) {
        let flight = &mut state.flights[index];
        let (id, proxy) = (flight.id, flight.proxy);
        let Operation::Delete(delete) = &flight.operation else { return };
        let round = delete.round();
        for (master, tag) in tags {
            state.flights[index].meant = Some(tag.attempt);
            state.send(proxy, master.index(), Command::Delete(tag), Some((id, round)));
        }
    }

    fn deleted(&self, state: &mut State, index: usize) {
        let flight = state.flights[index].clone();
        let Operation::Delete(delete) = &flight.operation else { return };
        self.refused(state, index);
        state.end(&flight);
        state.seen.deleted = true;
        let everywhere =
            |attempt| delete::OwedReleases { attempt, now: everybody(), later: everybody() };
        let lied = flight.meant.filter(|_| self.bug.is_some()).map(everywhere);
        let Some(owed) = delete.owed().or(lied) else { return };
        state.live.retain(|live| *live != owed.attempt);
        state.released.push(owed.attempt);
        state.released.sort_unstable();
        state.released.dedup();
        self.deliver(state, index, flight.proxy, owed);
    }

    fn missing(&self, state: &mut State, index: usize) {
        let flight = state.flights[index].clone();
        self.refused(state, index);
        state.believe_again(1 << flight.id.0);
        let still = |(client, attempt): &(usize, _)| {
            let is_it = |holds: Holds| holds.attempt == *attempt && holds.doubts == 0;
            state.clients[*client].holds.is_some_and(is_it)
        };
        state.seen.false_missing |= flight.found.iter().any(still);
        for (master, tag) in flight.shown {
            if let Some(tag) = tag.filter(|_| self.has(Bug::DeleteLeftovers)) {
                state.send(flight.proxy, master, Command::Delete(tag), None);
            }
        }
    }

    /// Whether a planted bug makes this a success.
    fn lies(&self, flight: &Flight, step: &Step) -> bool {
        let silent = matches!(step, Step::Unavailable { .. });
        let counts_absence = self.has(Bug::AbsenceIsDeletion) && flight.is_gone_or_absent();
        flight.yes != 0
            && (self.has(Bug::OneDeletionIsEnough) && silent
                || counts_absence && (silent || *step == Step::Wait))
    }

    fn uses_sights(&self) -> bool {
        self.has(Bug::AbsenceIsDeletion) || self.has(Bug::DeleteLeftovers)
    }
}

fn tag_of(sight: Sight) -> Option<Tag> {
    match sight {
        Sight::Held(tag) => Some(tag),
        Sight::Missing | Sight::Unknown => None,
    }
}
