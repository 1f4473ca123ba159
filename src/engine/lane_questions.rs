//! Questions to one master over its lane, for requests that go to one master after the other.

use std::time::Duration;

use bytes::Bytes;

use super::Engine;
use super::lane::{LostAnswer, Patience};
use crate::client::outbox::Target;
use crate::decision::quorum::MasterId;
use crate::metrics::{QuestionKind, VerdictKind};
use crate::operation::verdict;
use crate::resp::reply::Reply;
use crate::time::clock;

/// Time that a busy master may take until it votes again.
const BACK: Duration = Duration::from_secs(1);

/// Interval between checks of whether the master votes again.
const LOOK: Duration = Duration::from_millis(10);

impl Engine {
    /// Returns the concatenated answers of `master` to pipelined requests, or `None` if unknown. Answers count only if
    /// the master may vote both before and after.
    pub(in crate::engine) async fn ask_aside(
        &self,
        master: MasterId,
        db: u32,
        requests: Vec<u8>,
        replies: usize,
    ) -> Option<Bytes> {
        if !self.voters().contains(master) {
            return None;
        }
        let lane = self.links[master.index()].lane();
        let answer = lane.ask(db, requests, replies, Patience::Page, self.term()).await;
        self.see(clock::now());
        answer.ok().filter(|_| self.voters().contains(master))
    }

    /// Like [`Engine::ask_aside`], for one request that may silence the master for so long that it loses its vote.
    pub(in crate::engine) async fn ask_large_aside(
        &self,
        master: MasterId,
        db: u32,
        request: Vec<u8>,
        replies: usize,
    ) -> Result<Bytes, LostAnswer> {
        if !self.voters().contains(master) {
            return Err(LostAnswer::Unreachable);
        }
        let lane = self.links[master.index()].lane();
        let answer = lane.ask(db, request, replies, Patience::Large, self.term()).await;
        let mut waited = Duration::ZERO;
        while answer.is_ok() && waited < BACK && !self.voters().contains(master) {
            tokio::time::sleep(LOOK).await;
            waited += LOOK;
        }
        self.see(clock::now());
        if self.voters().contains(master) {
            answer
        } else {
            answer.and(Err(LostAnswer::Unreachable))
        }
    }

    /// Returns all masters in random order, but first those on whose lanes no caller waits.
    pub(in crate::engine) fn least_busy_first(&self) -> Vec<MasterId> {
        let mut masters: Vec<_> = self.links.iter().collect();
        fastrand::shuffle(&mut masters);
        masters.sort_by_key(|link| link.lane().waiting());
        masters.into_iter().map(|link| link.master()).collect()
    }

    /// Returns the error reply if there are too few masters.
    pub fn lacks_quorum(&self) -> Option<Reply> {
        let asked = self.reachable();
        let voters = asked.and(self.electorate.voters());
        let enough = self.rules().quorum.reached_by(voters);
        (!enough).then(|| self.no_quorum(asked, voters))
    }

    /// Returns the stopwatch reading, for [`Engine::answer_aside`].
    pub fn stopwatch_us(&self) -> u64 {
        self.see(clock::now());
        self.stopwatch.us()
    }

    /// Counts a read over lanes, and delivers its reply.
    pub fn answer_aside(&self, target: Target, key: &[u8], since_us: u64, reply: Reply) {
        self.see(clock::now());
        let outcome = match &reply {
            Reply::Error(error) if verdict::is_undecided(error) => VerdictKind::Undecided,
            Reply::Error(_) => VerdictKind::Refused,
            _ => VerdictKind::Granted,
        };
        self.metrics.verdict(QuestionKind::Read, outcome);
        self.took(&target, key, since_us);
        target.deliver(reply);
    }
}
