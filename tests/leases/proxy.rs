//! Behaviour of proxies: they send, receive, decide with the real decision code, and answer the
//! client.

use std::time::Duration;

use crate::specification::lease::MasterLease;
use redlock_proxy::decision::lease::attempt::Attempt;
use redlock_proxy::decision::lease::claim::Claim;
use redlock_proxy::decision::lease::extend::Extend;
use redlock_proxy::decision::lease::{claim, extend, release};
use redlock_proxy::decision::quorum::{MasterId, MasterSet, Quorum};

use crate::bugs::Bug;
use crate::network::unknown;
use crate::world::*;

/// Longer than any history of the model, in ticks.
const ANY_TIME: u8 = 200;

impl World {
    pub(crate) fn begin(&self, state: &mut State, client: usize) {
        let id = (client, state.clients[client].next);
        let job = self.scripts[client][id.1];
        state.clients[client].next += 1;
        if let (Job::Shorten(_), Some(holds)) = (job, &mut state.clients[client].holds) {
            // A client that asks for an earlier end may get it at once.
            holds.until = holds.until.min(state.now + self.ttl(job));
        }
        let proxy = job.proxy();
        let rival = (0..state.clients.len())
            .filter(|other| *other != client)
            .find_map(|other| Some((other, state.clients[other].holds?.attempt)));
        let operation = match job {
            Job::Claim(_) | Job::Acquire(_) => Operation::Claim(self.new_claim(state, proxy, id)),
            Job::Extend(_) | Job::Shorten(_) => {
                let fresh = self.fresh(Bug::NoFreshnessOfExtensions);
                Operation::Extend(Extend::new(self.terms(), fresh, everybody(), state.time()))
            }
            Job::Release(_) => Operation::Release(self.new_release(state, proxy, client)),
            Job::Delete(_) => Operation::Delete(self.new_delete(state, proxy)),
        };
        let meant = match &operation {
            Operation::Release(release) => release.attempt(),
            Operation::Delete(delete) => delete.known_tag().map(|tag| tag.attempt),
            Operation::Claim(_) | Operation::Extend(_) => None,
        };
        let (told, pausing, round, yes) = (false, false, 0, 0);
        let overlaps = self.overlap(state, client, &operation);
        let flight = Flight {
            id,
            proxy,
            operation,
            told,
            pausing,
            round,
            yes,
            rival,
            overlaps,
            meant,
            doubts: state.deletions(),
            ended: Vec::new(),
            before: Vec::new(),
            found: Vec::new(),
            later: Vec::new(),
            counted: [None; MASTERS],
            term: 0,
            shown: Vec::new(),
        };
        let flight = match job {
            Job::Delete(_) => state.doubt(flight),
            _ => flight,
        };
        state.flights.push(flight);
        let index = state.flights.len() - 1;
        self.broadcast(state, index);
    }

    /// Marks releases and grants that overlap. Equal tokens cannot tell two clients apart: a lease
    /// granted while another client releases that token may be the released one, as with a single
    /// Redis.
    fn overlap(&self, state: &mut State, client: usize, operation: &Operation) -> bool {
        let gives_back = |operation: &Operation| matches!(operation, Operation::Release(_));
        let mut overlaps = false;
        let same =
            |flight: &&mut Flight| self.tokens[flight.id.0] == self.tokens[client] && !flight.told;
        for flight in state.flights.iter_mut().filter(same) {
            flight.overlaps |= gives_back(operation);
            overlaps |= gives_back(&flight.operation);
        }
        overlaps
    }

    fn new_claim(&self, state: &State, proxy: usize, id: FlightId) -> Claim {
        Claim::new(
            self.terms(),
            self.fresh(Bug::NoFreshness),
            attempt(proxy, id, 0),
            everybody(),
            state.time(),
        )
    }

    fn fresh(&self, unlimited: Bug) -> Duration {
        ticks(if self.has(unlimited) { ANY_TIME } else { self.freshness })
    }

    /// Sends a flight's current request to every master.
    pub(crate) fn broadcast(&self, state: &mut State, index: usize) {
        let flight = &state.flights[index];
        let (id, proxy) = (flight.id, flight.proxy);
        let (token, job) = (self.tokens[id.0], self.scripts[id.0][id.1]);
        let padded = |freshness: Duration| self.padded(job, freshness);
        let (round, command) = match &flight.operation {
            Operation::Claim(claim) => {
                let (tag, ttl) = (claim.attempt().fresh(), padded(claim.freshness()));
                let or_prolong = matches!(job, Job::Acquire(_));
                (0, Command::Claim { tag, token, ttl, or_prolong })
            }
            Operation::Extend(extend) => {
                (extend.round(), Command::Extend { token, ttl: padded(extend.freshness()) })
            }
            Operation::Release(release) => (release.round(), self.release_command(release, token)),
            Operation::Delete(delete) => (delete.round(), self.delete_command(delete)),
        };
        for master in 0..MASTERS {
            state.send(proxy, master, command, Some((id, round)));
        }
    }

    /// Duration for which masters are asked to keep a lease.
    fn padded(&self, job: Job, freshness: Duration) -> u8 {
        let pad = match freshness.as_secs() as u8 {
            ANY_TIME => self.freshness,
            _ if self.has(Bug::PadNotDoubled) => self.freshness,
            freshness => freshness,
        };
        self.ttl(job) + pad
    }

    fn ttl(&self, job: Job) -> u8 {
        if matches!(job, Job::Shorten(_)) { 1 } else { self.lease }
    }

    pub(crate) fn hear_first(&self, state: &mut State, proxy: usize, master: usize) {
        if let Some(reply) = state.links[proxy][master].replies.pop_front() {
            self.hear(state, master, reply);
        }
    }

    pub(crate) fn hear(&self, state: &mut State, master: usize, reply: Reply) {
        let now = state.time();
        let Some(index) = state.position(reply.flight) else {
            self.shorten_straggler(state, master, reply);
            return self.shown_after_answer(state, master, reply);
        };
        let reply = if self.counts(state, index, master, reply.proof) {
            reply
        } else {
            if self.stays(state, index, master, reply) {
                return;
            }
            state.flights[index].operation.lacks_an_answer();
            Reply { answer: unknown(reply.answer), ..reply }
        };
        let id = MasterId::new(master);
        let flight = &mut state.flights[index];
        match (&mut flight.operation, reply.answer) {
            (Operation::Claim(claim), Answer::Claim(attempt, vote)) => {
                if vote == claim::Vote::Taken && attempt == claim.attempt() {
                    flight.yes |= 1 << master;
                }
                let vote = self.mixed(attempt, vote);
                let taken_back = claim.attempt();
                let next = claim.vote(attempt, id, vote, now);
                self.take_back_when_read(state, index, master, attempt, vote);
                self.follow_claim(state, index, taken_back, next);
            }
            (Operation::Extend(extend), Answer::Extend(vote, copy)) => {
                if let (extend::Vote::EndsLater(_), Some((tag, end_ms))) = (vote, copy)
                    && reply.round == extend.round()
                {
                    flight.later.push((master, tag, end_ms));
                }
                let step = extend.vote(reply.round, id, self.mixed_extension(vote), now);
                self.follow_extend(state, index, step);
            }
            (Operation::Extend(extend), Answer::Shortened | Answer::Unshortened) => {
                let is_so = reply.answer == Answer::Shortened;
                let step = extend.shortened(reply.round, id, is_so, now);
                self.follow_extend(state, index, step);
            }
            (Operation::Release(release), Answer::Sight(sight)) => {
                if sight == release::Sight::Missing && self.has(Bug::AbsenceIsRelease) {
                    flight.shown.push((master, None));
                }
                let step = release.sight(reply.round, id, sight, now);
                self.follow_release(state, index, step);
            }
            (Operation::Release(release), Answer::Delete(vote)) => {
                if vote == release::Vote::Deleted {
                    flight.yes |= 1 << master;
                }
                let step = release.vote(reply.round, id, vote, now);
                self.follow_release(state, index, step);
            }
            (Operation::Delete(_), Answer::Shown(sight)) => {
                self.hear_sight(state, index, (master, reply.round), sight);
            }
            (Operation::Delete(delete), Answer::Delete(vote)) => {
                if vote == release::Vote::Deleted {
                    flight.yes |= 1 << master;
                }
                let step = delete.vote(reply.round, id, vote, now);
                self.follow_delete(state, index, step);
            }
            _ => unreachable!("an answer of another kind"),
        }
    }

    /// Counts an answer together with those before it, as [`Poll`] does: an operation forgets those of masters that have
    /// gone out since, or does without the new one.
    ///
    /// [`Poll`]: redlock_proxy::decision::roster::poll::Poll
    fn counts(
        &self,
        state: &mut State,
        index: usize,
        master: usize,
        proof: Option<(u8, u8)>,
    ) -> bool {
        let Some((version, born)) = proof else { return self.has(Bug::NoProof) };
        if self.has(Bug::AnyVersion) {
            return true;
        }
        let flight = &mut state.flights[index];
        let term = flight.term.max(version);
        let roster = state.rosters[usize::from(term)];
        if roster[master] != Some(born) {
            return false;
        }
        let is_gone = |at: &usize| flight.counted[*at].is_some_and(|it| roster[*at] != Some(it));
        let gone: Vec<usize> = (0..MASTERS).filter(is_gone).collect();
        if !gone.is_empty() {
            let masters = gone.iter().copied().map(MasterId::new).collect();
            if !self.has(Bug::GoneStillCount) && !flight.operation.forget(masters) {
                return false;
            }
            state.seen.went_on = true;
        }
        gone.iter().for_each(|at| flight.counted[*at] = None);
        (flight.term, flight.counted[master]) = (term, Some(born));
        true
    }

    /// Whether a copy of a granted lease stays on a member whose vote does not count, because others have gone out.
    fn stays(&self, state: &State, index: usize, master: usize, reply: Reply) -> bool {
        let flight = &state.flights[index];
        let (Operation::Claim(claim), Answer::Claim(attempt, vote)) =
            (&flight.operation, reply.answer)
        else {
            return false;
        };
        let is_member = |(version, born): (u8, u8)| {
            state.rosters[usize::from(flight.term.max(version))][master] == Some(born)
        };
        claim.holder().is_some()
            && attempt == claim.attempt()
            && vote != claim::Vote::Unknown
            && state.time() - claim.sent() <= claim.freshness()
            && reply.proof.is_some_and(is_member)
    }

    pub(crate) fn notice_deadline(&self, state: &mut State, id: FlightId) {
        let Some(index) = state.position(id) else { return };
        let flight = &mut state.flights[index];
        let now = flight.operation.deadline().unwrap_or_default().max(ticks(state.now));
        match &mut flight.operation {
            Operation::Claim(claim) => {
                let (attempt, next) = (claim.attempt(), claim.tick(now));
                self.follow_claim(state, index, attempt, next);
            }
            Operation::Extend(extend) => {
                let step = extend.tick(now);
                self.follow_extend(state, index, step);
            }
            Operation::Release(release) => {
                let step = release.tick(now);
                self.follow_release(state, index, step);
            }
            Operation::Delete(delete) => {
                let step = delete.tick(now);
                self.follow_delete(state, index, step);
            }
        }
    }

    /// Starts the next attempt of a claim.
    pub(crate) fn send_again(&self, state: &mut State, index: usize) {
        let now = state.time();
        let flight = &mut state.flights[index];
        flight.pausing = false;
        flight.round += 1;
        flight.yes = 0;
        let attempt = attempt(flight.proxy, flight.id, flight.round);
        flight.counted = [None; MASTERS];
        if let Operation::Claim(claim) = &mut flight.operation {
            claim.ask(attempt, everybody(), now);
        }
        self.broadcast(state, index);
    }

    fn follow_claim(
        &self,
        state: &mut State,
        index: usize,
        attempt: Attempt,
        next: claim::ClaimNext,
    ) {
        let flight = &state.flights[index];
        let (proxy, token) = (flight.proxy, self.tokens[flight.id.0]);
        let skip = match next.step {
            claim::Step::Wait => self.has(Bug::StragglersStay),
            claim::Step::Granted(_) => self.has(Bug::OwnCopiesStay),
            _ => false,
        };
        for master in next.take_back.iter().map(MasterId::index) {
            let unread =
                self.has(Bug::TakeBackWhenRead) && state.flights[index].yes & (1 << master) == 0;
            if !skip && !unread {
                state.send(proxy, master, Command::TakeBack(attempt.fresh(), token), None);
            }
        }
        match next.step {
            claim::Step::Wait => {}
            claim::Step::Afresh => {
                state.seen.afresh = true;
                self.send_again(state, index);
            }
            claim::Step::Pause => state.flights[index].pausing = true,
            claim::Step::Granted(holder) => self.granted(state, index, holder),
            claim::Step::Held => {
                state.seen.held = true;
                self.refused(state, index);
            }
            claim::Step::Unavailable { .. } => self.refused(state, index),
        }
        self.tidy(state);
    }

    fn follow_extend(&self, state: &mut State, index: usize, step: extend::Step) {
        match step {
            extend::Step::Wait => {}
            extend::Step::Afresh => {
                let now = state.time();
                state.flights[index].later.clear();
                state.flights[index].counted = [None; MASTERS];
                if let Operation::Extend(extend) = &mut state.flights[index].operation {
                    extend.ask(everybody(), now);
                }
                self.broadcast(state, index);
            }
            extend::Step::Shorten(masters) if self.has(Bug::ToldBeforeShorter) => {
                self.shorten(state, index, masters);
                self.confirm_extension(state, index);
            }
            extend::Step::Shorten(masters) => self.shorten(state, index, masters),
            extend::Step::Extended(_) => self.confirm_extension(state, index),
            extend::Step::Refused | extend::Step::Unavailable { .. } => self.refused(state, index),
        }
        self.tidy(state);
    }

    fn shorten(&self, state: &mut State, index: usize, masters: MasterSet) {
        let flight = &state.flights[index];
        let Operation::Extend(extend) = &flight.operation else { return };
        let ttl = self.padded(self.scripts[flight.id.0][flight.id.1], extend.freshness());
        let (proxy, to) = (flight.proxy, Some((flight.id, extend.round())));
        for (master, tag, seen_ms) in flight.later.clone() {
            if masters.contains(MasterId::new(master)) {
                state.send(proxy, master, Command::Shorten { tag, seen_ms, ttl }, to);
            }
        }
    }

    /// Handles a late master's answer to an extension that is already over.
    fn shorten_straggler(&self, state: &mut State, master: usize, reply: Reply) {
        let job = self.scripts[reply.flight.0][reply.flight.1];
        if let Answer::Extend(extend::Vote::EndsLater(_), Some((tag, seen_ms))) = reply.answer
            && self.has(Bug::StragglersAreShortened)
        {
            let ttl = self.padded(job, ticks(self.freshness));
            state.send(job.proxy(), master, Command::Shorten { tag, seen_ms, ttl }, None);
        }
    }

    fn confirm_extension(&self, state: &mut State, index: usize) {
        let flight = &state.flights[index];
        let Operation::Extend(extend) = &flight.operation else { return };
        let Some(attempt) = extend.attempt() else { return };
        let ttl = self.padded(self.scripts[flight.id.0][flight.id.1], extend.freshness());
        let ends = |master: &&Master| {
            let is_it = |copy: &MasterLease<u8>| copy.tag.attempt == attempt;
            master.key.filter(is_it).is_some_and(|copy| copy.end_ms > u64::from(state.now + ttl))
        };
        let late = state.masters.iter().filter(ends).count();
        state.seen.ends_late |= late >= Quorum::of(MASTERS).needed();
        state.seen.extended = true;
        self.granted(state, index, attempt);
    }

    pub(crate) fn refused(&self, state: &mut State, index: usize) {
        state.flights[index].told = true;
    }

    fn granted(&self, state: &mut State, index: usize, attempt: Attempt) {
        let flight = &mut state.flights[index];
        let job = self.scripts[flight.id.0][flight.id.1];
        let (until, doubts) = (state.now + self.ttl(job), flight.doubts);
        let is_over = flight.overlaps || flight.ended.contains(&attempt);
        flight.told = true;
        if !state.live.contains(&attempt) {
            state.live.push(attempt);
            state.live.sort_unstable();
            state.count_ends();
        }
        let client = state.flights[index].id.0;
        let shares = !matches!(job, Job::Claim(_));
        if !is_over {
            state.clients[client].holds = Some(Holds { attempt, until, shares, doubts });
        }
    }

    /// Drops flights that are over, except granted claims, which still hear stragglers.
    pub(crate) fn tidy(&self, state: &mut State) {
        let keeps = |flight: &Flight| match &flight.operation {
            Operation::Claim(claim) => claim.is_listening() || self.has(Bug::TakeBackWhenRead),
            Operation::Extend(_) | Operation::Release(_) | Operation::Delete(_) => false,
        };
        state.flights.retain(|flight| !flight.told || keeps(flight));
        state.flights.sort_by_key(|flight| flight.id);
    }

    fn take_back_when_read(
        &self,
        state: &mut State,
        index: usize,
        master: usize,
        attempt: Attempt,
        vote: claim::Vote,
    ) {
        let flight = &state.flights[index];
        let Operation::Claim(claim) = &flight.operation else { return };
        let over = claim.attempt() != attempt || flight.told && !state.live.contains(&attempt);
        if self.has(Bug::TakeBackWhenRead) && vote == claim::Vote::Taken && over {
            let token = self.tokens[flight.id.0];
            state.send(flight.proxy, master, Command::TakeBack(attempt.fresh(), token), None);
        }
    }

    fn mixed(&self, attempt: Attempt, vote: claim::Vote) -> claim::Vote {
        match vote {
            claim::Vote::Owned(_) if self.has(Bug::MixedQuorum) => claim::Vote::Owned(attempt),
            vote => vote,
        }
    }

    fn mixed_extension(&self, vote: extend::Vote) -> extend::Vote {
        match vote {
            extend::Vote::Extended(_) if self.has(Bug::MixedQuorum) => {
                extend::Vote::Extended(attempt_of(0))
            }
            extend::Vote::EndsLater(_) if self.has(Bug::MixedQuorum) => {
                extend::Vote::EndsLater(attempt_of(0))
            }
            vote => vote,
        }
    }
}

pub(crate) fn everybody() -> MasterSet {
    Quorum::of(MASTERS).everybody()
}

/// Any attempt of this proxy.
pub(crate) fn attempt_of(proxy: usize) -> Attempt {
    attempt(proxy, (9, 9), 9)
}
