//! Changes the roster, and reads it when the masters disagree.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};

use super::acceptor::{self, AcceptorAnswer};
use crate::decision::quorum::MasterId;
use crate::decision::register::ballot::Ballot;
use crate::decision::register::proposer::{Outcome, Proposer, Request, Step};
use crate::decision::roster::roster::{Accepted, Change, Roster, Voters};
use crate::masters::dial::Dial;
use crate::masters::electorate::MasterSight;
use crate::masters::side_connection::{Errand, Errands, Failed};
use crate::time::clock;

/// Number of changes that a state remembers, so that a change whose answers were lost is not applied twice.
const KEEP: usize = 8;

/// Time limit for a round.
const ROUND: Duration = Duration::from_secs(1);

/// Extra time for the remaining masters: once a quorum is connected, they get as long again plus this.
const GRACE: Duration = Duration::from_millis(50);

/// Maximum rounds for one change.
const ROUNDS: usize = 20;

/// Longest pause after a refusal, in milliseconds. The pause is random, so that two proxies do not collide again.
const PAUSE_MS: u64 = 50;

/// Outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// The roster now has this version.
    To(u64),
    /// The change no longer applied.
    Not,
}

/// One proxy's access to the register.
pub(super) struct Register<'a, D> {
    pub(super) errands: &'a Errands<D>,
    /// Number drawn at process start.
    pub(super) worker: u64,
    pub(super) voters: Voters,
}

impl<D: Dial> Register<'_, D> {
    /// Applies a change to the roster, once.
    ///
    /// # Errors
    /// Returns an error if too few of the masters that vote on the roster answer. The change may then have happened or
    /// not.
    pub(super) async fn change(&self, change: Change) -> Result<Changed, Failed> {
        match self.run(Some(change)).await? {
            Outcome::Ran(Some(version)) => Ok(Changed::To(version)),
            Outcome::Ran(None) | Outcome::Read(_) => Ok(Changed::Not),
            Outcome::NotKnown => Err(Failed::Overtaken),
        }
    }

    /// Brings the newest roster shown by a quorum to a quorum, and returns it.
    ///
    /// # Errors
    /// Returns an error if too few of the masters that vote on the roster answer.
    pub(super) async fn settle(&self) -> Result<Roster, Failed> {
        match self.run(None).await? {
            Outcome::Read(roster) => Ok(roster),
            Outcome::Ran(_) | Outcome::NotKnown => Err(Failed::Overtaken),
        }
    }

    async fn run(&self, program: Option<Change>) -> Result<Outcome<Change>, Failed> {
        let masters = self.masters().await;
        let mut known = HashMap::from([(Ballot::NONE, Accepted::default())]);
        let (quorum, voters) = (self.errands.quorum, self.voters.clone());
        let now_us = || self.errands.electorate.unix_time().micros().max(0) as u64;
        let (mut proposer, mut request) =
            Proposer::new(quorum, self.worker, voters, program, now_us());
        for _ in 0..ROUNDS {
            match self.round(&masters, &mut proposer, request, &mut known).await {
                Step::Done(outcome) => return Ok(outcome),
                Step::Send(next) => request = next,
                Step::Wait => return Err(Failed::NoQuorum),
                Step::Pause => {
                    let pause = Duration::from_millis(fastrand::u64(1..=PAUSE_MS));
                    tokio::time::sleep(pause).await;
                    request = proposer.again(now_us());
                }
            }
        }
        Err(Failed::NoQuorum)
    }

    /// Connects to the masters that were seen lately and are not much slower than a quorum. A master listed twice is
    /// asked once, because it has one vote.
    async fn masters(&self) -> Vec<(MasterId, Errand)> {
        let sights = self.errands.electorate.sights();
        let quorum = self.errands.electorate.quorum();
        let seen = sights.iter().enumerate().filter(|(_, sight)| sight.is_some());
        let open = |(at, _)| async move {
            let master = MasterId::new(at);
            Some((master, self.errands.to(master).await.ok()?))
        };
        // Only members' answers count. A master without a member's mark has nothing to say.
        let may_speak = |master: MasterId| {
            let sight = sights[master.index()].as_ref();
            let is_marked = |sight: &MasterSight| sight.marks.mark()?.version();
            self.voters != Voters::Members || sight.and_then(is_marked).is_some()
        };
        let mut opening: FuturesUnordered<_> = seen.map(open).collect();
        let begun = clock::now();
        let mut deadline = begun + ROUND;
        let mut masters: Vec<(MasterId, Errand)> = Vec::new();
        while let Ok(Some(opened)) = tokio::time::timeout_at(deadline, opening.next()).await {
            let Some((master, errand)) = opened else { continue };
            if masters.iter().all(|(_, other)| other.run_id != errand.run_id) {
                masters.push((master, errand));
            }
            let speaking = masters.iter().filter(|(master, _)| may_speak(*master)).count();
            if speaking == quorum.needed() {
                deadline = deadline.min(clock::now() + begun.elapsed() + GRACE);
            }
        }
        masters
    }

    /// Sends a request to all masters and passes on their answers as they arrive.
    async fn round(
        &self,
        masters: &[(MasterId, Errand)],
        proposer: &mut Proposer<Change, Voters>,
        request: Request<Change>,
        known: &mut HashMap<Ballot, Accepted>,
    ) -> Step<Change> {
        let Some(ballot) = proposer.ballot() else { return Step::Pause };
        let (after, reply) = outcome(&request, known);
        if let Request::Adopt(adopt) = &request {
            known.insert(adopt.state.accepted, adopt.state.clone());
        }
        let (request, after) = (&request, after.as_ref());
        let ask = |(master, errand): &(MasterId, Errand)| {
            let (master, errand) = (*master, errand.clone());
            async move { (master, self.ask(&errand, request, after, reply).await) }
        };
        let mut answers: FuturesUnordered<_> = masters.iter().map(ask).collect();
        let deadline = clock::now() + ROUND;
        while let Ok(Some((master, said))) = tokio::time::timeout_at(deadline, answers.next()).await
        {
            let Some(AcceptorAnswer { presence, answer: Some(answer) }) = said else { continue };
            if let crate::decision::register::proposer::MasterAnswer::Promised(state) = &answer {
                known.insert(state.accepted, state.clone());
            }
            match proposer.answer(ballot, master, presence, answer) {
                Step::Wait => {}
                step => return step,
            }
        }
        proposer.no_more_answers()
    }

    async fn ask(
        &self,
        errand: &Errand,
        request: &Request<Change>,
        after: Option<&Accepted>,
        reply: Option<u64>,
    ) -> Option<AcceptorAnswer> {
        let all_speak = self.voters != Voters::Members;
        let command = acceptor::command(request, after, all_speak);
        let answer = command.query_async(&mut errand.connection.clone()).await.ok()?;
        acceptor::said(request, &errand.run_id, reply, &answer).ok()
    }
}

/// Returns the state that an apply leads to, and its reply.
fn outcome(
    request: &Request<Change>,
    known: &HashMap<Ballot, Accepted>,
) -> (Option<Accepted>, Option<u64>) {
    let Request::Apply(apply) = request else { return (None, None) };
    let Some(before) = known.get(&apply.expected) else { return (None, None) };
    let (after, reply) = before.after(&apply.program, apply.ballot, KEEP);
    (Some(after), reply)
}
