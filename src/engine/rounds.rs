//! Rounds: requests of an operation to all masters, or to some.

use std::rc::Rc;

use super::Engine;
use super::flight::Flight;
use super::link::{Link, Waiting};
use super::panel::Panel;
use crate::decision::quorum::{MasterSet, turn};
use crate::operation::request::Form;
use crate::operation::{Asked, Behaviour, Sent, verdict};
use crate::resp::reply::Reply;
use crate::time::clock;

impl Engine {
    /// Sends the current round to the masters of the panel. Sends nothing if there are too few voters.
    pub(super) fn ask(&self, flight: &mut Flight, panel: &Panel) {
        let Panel { ref term, asked, voters, now, .. } = *panel;
        if let Some(reply) = self.too_few(flight.operation.kind.needs_quorum(), asked, voters) {
            let reply = flight.operation.kind.as_known(reply);
            return self.reply(flight, reply, turn::End::Lost);
        }
        self.asks_as_poller(flight);
        if flight.begun.is_none() {
            (flight.begun, flight.rules) = (Some(term.version()), self.rules());
        }
        let db = flight.operation.db;
        let flush = self.last_flush(panel, db);
        let poll = flight
            .poll_in(term, flush)
            .or_else(|| self.goes_on_without_gone(flight).then(|| flight.poll_in(term, flush))?);
        let Some(poll) = poll else {
            let reply = verdict::undecided(&flight.rules, 0);
            return self.reply(flight, reply, turn::End::Lost);
        };
        let mut request = self.scratch.borrow_mut();
        request.clear();
        let asked_us = self.stopwatch.us();
        let end = now + self.rules().vote_timeout;
        let last = *flight.last.get_or_insert(now + self.rules().patience);
        // Every round that is sent gets at least one vote timeout.
        let patience = last.saturating_duration_since(now).max(self.rules().vote_timeout);
        flight.operation.ask(&flight.rules, Asked { all: asked, voters, patience }, now);
        flight.operation.encode(&flight.rules, Form::Sha, &mut request);
        let round = flight.operation.kind.round();
        flight.poll = Some(poll);
        flight.started_us.get_or_insert(asked_us);
        (flight.asked_us, flight.asked_round, flight.deadline) = (asked_us, round, Some(end));
        flight.outstanding += asked.len() as u16;
        if !flight.operation.kind.only_looks() {
            flight.awaited = flight.awaited.union(asked);
        }
        let (waiting, sent) =
            (Waiting { operation: flight.id, round }, flight.operation.kind.sent());
        for link in asked.iter().map(|master| &self.links[master.index()]) {
            match &sent {
                Sent::Parts(parts) => link.send_parts(*parts, db, &request, waiting, term),
                Sent::Together(member) => link.send_together(member, db, &request, waiting, term),
                Sent::Program(program) => link.send_program(program, db, &request, waiting, term),
                Sent::Alone => link.send(db, &request, waiting, term),
            }
        }
        self.deadlines.push(end, flight.id, round);
        if flight.operation.kind.needs_all()
            && self.rules().wait_for_all() < self.rules().vote_timeout
        {
            self.deadlines.push_last(now + self.rules().wait_for_all(), flight.id, round);
        }
    }

    /// Sends each of these masters its own request in the current round.
    pub(super) fn tell(self: &Rc<Self>, flight: &mut Flight, masters: MasterSet) {
        let end = clock::now() + self.rules().vote_timeout;
        let (round, term) = (flight.operation.kind.round(), flight.term());
        let waiting = Waiting { operation: flight.id, round };
        flight.deadline = Some(end);
        self.deadlines.push(end, flight.id, round);
        let mut down = MasterSet::EMPTY;
        for master in masters.iter() {
            let link = &self.links[master.index()];
            flight.outstanding += 1;
            flight.awaited.insert(master);
            if link.is_up() {
                let mut request = Vec::new();
                flight.operation.encode_for(master, &flight.rules, Form::Sha, &mut request);
                link.send(flight.operation.db, &request, waiting, &term);
            } else {
                down.insert(master);
            }
        }
        for master in down.iter() {
            self.receive(flight, master, round, None, clock::now());
        }
    }

    /// Returns the error reply if there are too few masters.
    fn too_few(&self, needs_quorum: bool, asked: MasterSet, voters: MasterSet) -> Option<Reply> {
        if needs_quorum {
            let enough = self.rules().quorum.reached_by(voters);
            (!enough).then(|| self.no_quorum(asked, voters))
        } else {
            asked.is_empty().then(|| verdict::no_master(&self.rules()))
        }
    }

    /// Returns the error that says why there is no quorum. Masters that are only on probation will vote soon, and
    /// clients know the meaning of `LOADING`.
    pub(super) fn no_quorum(&self, asked: MasterSet, voters: MasterSet) -> Reply {
        if let Some(obstacle) = self.electorate.why_it_waits() {
            return verdict::not_serving(&obstacle);
        }
        let waiting = asked.without(voters).iter().filter(|master| self.electorate.waits(*master));
        let waiting: MasterSet = waiting.collect();
        let others = self.rules().quorum.everybody().without(voters);
        let why = self.electorate.why_not(others) + &self.refusals();
        if self.rules().quorum.reached_by(voters.union(waiting)) {
            verdict::on_probation(&self.rules(), voters.len(), &why)
        } else {
            verdict::too_few_voters(&self.rules(), voters.len(), &why)
        }
    }

    /// Returns `; ADDRESS: why` for each master that is reachable but does not serve.
    fn refusals(&self) -> String {
        let why = |link: &Rc<Link>| {
            Some(format!("; {}: {}", link.name(), link.why_not_though_reached()?))
        };
        self.links.iter().filter_map(why).collect()
    }
}
