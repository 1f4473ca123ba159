//! Set-up of a connection to the state that its client wants, before a request is passed on.

use std::pin::Pin;
use std::task::{Context, Waker};

use super::{Awaited, DataConnection, REQUESTS_TO_STOP_READING, Ready, Stage};
use crate::catalogue::reserved::MARK;
use crate::data::answers::DataAnswer;
use crate::data::setup::{Setup, SetupStep};
use crate::operation::request;

impl DataConnection {
    /// Returns whether a request of a client that wants `wanted` can be passed on. Starts the set-up if the connection
    /// needs one first.
    pub fn ready(&mut self, wanted: &Setup) -> Ready {
        if self.requests.len() >= REQUESTS_TO_STOP_READING {
            return Ready::Later;
        }
        if self.setup != *wanted || !self.is_questioned {
            if !self.awaited.is_empty() {
                self.is_waited_for = true;
                return Ready::Later;
            }
            if let Some(refusal) = self.refusal.take() {
                self.is_waited_for = false;
                return Ready::Refused(refusal);
            }
            self.bring(wanted);
        }
        let is_set_up = !self.awaited.iter().any(Awaited::is_waited_for);
        let is_ready = is_set_up && matches!(self.stage, Stage::Open(_));
        self.is_waited_for = !is_ready;
        if !is_ready {
            return Ready::Later;
        }
        self.refusal = None;
        Ready::Now
    }

    /// Sends the requests that bring the connection to `wanted`. Each step counts as taken until it is refused.
    fn bring(&mut self, wanted: &Setup) {
        let mut requests = Vec::new();
        let steps = wanted.bring(&self.setup, &mut requests);
        self.requests.extend_from_slice(&requests);
        self.awaited.extend(steps.into_iter().map(Awaited::Step));
        // Without a login, the data Redis did not answer the questions.
        self.is_questioned &= self.setup.login == wanted.login;
        self.setup = wanted.clone();
        self.question();
    }

    /// Whether this unused connection suits a client that wants `wanted`: it is still open, and nothing unexpected has
    /// arrived. Only the operating system knows this at once.
    pub fn is_fit_for(&mut self, wanted: &Setup) -> bool {
        let mut unheard = Context::from_waker(Waker::noop());
        let is_replaced =
            |it: &mut Pin<Box<dyn Future<Output = ()>>>| it.as_mut().poll(&mut unheard).is_ready();
        let Stage::Open(stream) = &self.stage else { return false };
        let is_idle = self.awaited.is_empty() && self.requests.is_empty();
        let is_silent = self.unread.is_empty() && stream.is_silent();
        let is_let_in = self.is_questioned && self.setup.login == wanted.login;
        is_idle && is_silent && is_let_in && !self.replaced.as_mut().is_some_and(is_replaced)
    }

    /// Takes the error for a waiting request, before [`Self::ready`] reports it.
    pub fn refusal(&mut self) -> Option<String> {
        self.refusal.take()
    }

    /// Asks for the mark, and for the role if sentinels choose: neither a master of locks nor a replica is a data
    /// Redis. Each connection asks, because a name may lead elsewhere tomorrow.
    fn question(&mut self) {
        if std::mem::replace(&mut self.is_questioned, true) {
            return;
        }
        self.ask(&[b"EXISTS", MARK.as_bytes()], Awaited::Mark);
        if self.is_followed {
            // `ROLE` says it as well, but not to restricted users. Since Redis 6, `HELLO` says it to every user.
            self.ask(&[b"HELLO", self.setup.protocol.number()], Awaited::Role);
        }
    }

    fn ask(&mut self, words: &[&[u8]], awaited: Awaited) {
        let mut request = Vec::new();
        request::encode(&mut request, words);
        self.requests.extend_from_slice(&request);
        self.awaited.push_back(awaited);
    }

    /// Undoes a refused step. The request that waits for it gets the error, as from a single Redis, and does not run.
    pub(super) fn step_answered(&mut self, step: SetupStep, error: Option<&[u8]>) {
        let Some(error) = error else { return };
        if step != SetupStep::Optional {
            self.refuse(error);
        }
        self.setup.undo(step);
    }

    /// Asks again later if the question was not answered.
    pub(super) fn question_answered(&mut self, said: DataAnswer<'_>) {
        if let DataAnswer::NotNow(error) = said {
            self.is_questioned = false;
            self.refuse(error);
        }
    }

    /// Keeps the first error: it is the cause of all others.
    fn refuse(&mut self, error: &[u8]) {
        if self.is_waited_for && self.refusal.is_none() {
            self.refusal = Some(String::from_utf8_lossy(error).into_owned());
        }
    }
}
