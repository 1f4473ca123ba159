//! A worker's connection to a master that listens for messages published there.
//!
//! It is separate from the [`Link`] that carries votes, and exists only from the worker's first subscription on. When
//! it is lost, it reconnects and subscribes to everything again; the other masters have delivered the messages
//! published meanwhile.
//!
//! A master executes all that it has read from one connection before it turns to the others. It also compares a pattern
//! with all others of the connection. The feed therefore sends a little at a time, so that all other votes come in
//! between.

mod frame;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::timeout;

use self::frame::Frame;
use super::hub::Hub;
use crate::catalogue::channel::{Topic, TopicKind};
use crate::client::timeslice::{self, TimeSlice};
use crate::config::MasterAddr;
use crate::decision::quorum::MasterId;
use crate::engine::connection::{self, Connection};
use crate::engine::link::Link;
use crate::engine::reader::Reader;
use crate::engine::silence::Silence;
use crate::masters::dial::{CONNECT_TIMEOUT, Dial, Pauses};
use crate::operation::request;
use crate::resp::flat::Malformed;

/// The work that a master is given at once: a channel is 1, a pattern more. It takes a millisecond or two.
const WORK_AT_ONCE: usize = 256;

/// Patterns that a master compares with another one in the time that a channel takes.
const COMPARED: usize = 512;

/// The connection, and its pending commands.
pub struct Feed {
    /// The link to the same master: it knows the address and how long silence may last.
    link: Rc<Link>,
    state: RefCell<State>,
    /// Notified when the connection comes or goes, or a command is answered.
    changed: Notify,
    /// Notified when something is subscribed to.
    wanted: Notify,
}

#[derive(Default)]
struct State {
    up: bool,
    out: BytesMut,
    /// Subscriptions to begin or end that the master has not received yet.
    waiting: VecDeque<Change>,
    /// Commands that were sent and not answered yet.
    expected: VecDeque<Expected>,
    /// The work that these commands take.
    work: usize,
    /// Patterns that the master has for this connection.
    patterns: usize,
    /// Commands since the start of the worker.
    told: u64,
    /// Those of them that were answered, or lost with their connection.
    settled: u64,
    silence: Silence,
    /// Whether the master has confirmed a subscription, which proves more than a connection.
    proven: bool,
    waker: Option<Waker>,
    last_error: Option<String>,
}

/// The command that the next answer belongs to.
#[derive(Debug)]
enum Expected {
    /// A command that must not fail.
    Greeting,
    /// A change, and its work.
    Change(Change, usize),
    Ping,
}

/// A subscription that begins or ends.
#[derive(Debug)]
enum Change {
    Subscribe(Topic),
    Unsubscribe(Topic),
}

/// Reasons why a feed ended.
#[derive(Debug, thiserror::Error)]
enum Down {
    #[error("no connection within {}", humantime::format_duration(CONNECT_TIMEOUT))]
    ConnectTimeout,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("it answered `{0}`")]
    Refused(String),
    #[error("it has stopped answering")]
    Silent,
    #[error("it was replaced")]
    Replaced,
}

impl Feed {
    /// Returns a feed that listens to nothing; [`Feed::run`] connects it.
    pub fn new(link: Rc<Link>) -> Rc<Self> {
        let (changed, wanted) = (Notify::new(), Notify::new());
        Rc::new(Self { link, state: RefCell::default(), changed, wanted })
    }

    /// Returns the master at the other end.
    pub fn master(&self) -> MasterId {
        self.link.master()
    }

    /// Whether there is a master at this place of the list.
    pub fn has_master(&self) -> bool {
        self.link.address().is_some()
    }

    /// Subscribes to `topic`, now or as soon as there is a connection.
    pub fn subscribe(&self, topic: &Topic) {
        self.wanted.notify_one();
        let state = &mut *self.state.borrow_mut();
        if state.up {
            state.change(Change::Subscribe(topic.clone()));
        }
    }

    /// Ends the subscription to `topic`.
    pub fn unsubscribe(&self, topic: &Topic) {
        let state = &mut *self.state.borrow_mut();
        if state.up {
            state.change(Change::Unsubscribe(topic.clone()));
        }
    }

    /// Resolves once the master has confirmed every command before this call, or has gone, or has confirmed nothing at
    /// all for as long as `patience`.
    ///
    /// It also waits for a master that can vote but has no feed yet: the feed is about to connect.
    pub fn caught_up(self: &Rc<Self>, patience: Duration) -> impl Future<Output = ()> + use<> {
        let feed = Rc::clone(self);
        let mut goal = feed.goal();
        async move {
            loop {
                let changed = feed.changed.notified();
                let settled = feed.state.borrow().settled;
                goal = goal.or_else(|| feed.goal());
                match goal {
                    Some(goal) if settled >= goal => return,
                    None if !feed.link.is_up() => return,
                    _ => {}
                }
                if timeout(patience, changed).await.is_err() {
                    // This worker may have been the busy one: first, it reads what has arrived in the socket.
                    tokio::task::yield_now().await;
                    if feed.state.borrow().settled == settled {
                        return;
                    }
                }
            }
        }
    }

    fn goal(&self) -> Option<u64> {
        let state = self.state.borrow();
        state.up.then_some(state.told)
    }

    /// Keeps the feed up for as long as anything is subscribed to.
    pub async fn run(self: Rc<Self>, dial: impl Dial, hub: Rc<Hub>) {
        let mut pauses = Pauses::default();
        loop {
            while hub.is_idle() {
                self.wanted.notified().await;
            }
            let down = self.once(&dial, &hub).await;
            if self.went_down(&down, &hub) {
                pauses = Pauses::default();
            }
            tokio::time::sleep(pauses.another()).await;
        }
    }

    /// Runs one connection, from its beginning to its end.
    async fn once(&self, dial: &impl Dial, hub: &Rc<Hub>) -> Down {
        let address = self.link.somebody().await;
        let dialled = tokio::time::timeout(CONNECT_TIMEOUT, dial.dial(&address)).await;
        let connection = match dialled {
            Ok(Ok(stream)) => Connection::from(stream),
            Ok(Err(error)) => return error.into(),
            Err(_) => return Down::ConnectTimeout,
        };
        self.came_up(&address, hub);
        tokio::select! {
            biased;
            down = self.listen(connection, hub) => down,
            down = self.silence(&address) => down,
        }
    }

    fn came_up(&self, address: &MasterAddr, hub: &Hub) {
        {
            let state = &mut *self.state.borrow_mut();
            state.up = true;
            self.greet(address, state);
            hub.topics().into_iter().for_each(|topic| state.change(Change::Subscribe(topic)));
        }
        self.changed.notify_waiters();
    }

    /// Authenticates, and sets a name that the master's list of clients shows.
    fn greet(&self, address: &MasterAddr, state: &mut State) {
        if let Some([user, password]) = connection::login(address) {
            state.tell(&[b"AUTH", user, password], Expected::Greeting);
        }
        state.tell(&[b"CLIENT", b"SETNAME", connection::NAME], Expected::Greeting);
    }

    /// Resets the state after a connection. Returns whether the master had confirmed a subscription on it.
    fn went_down(&self, down: &Down, hub: &Hub) -> bool {
        let proven = {
            let state = &mut *self.state.borrow_mut();
            self.report(down, state);
            let told = state.told;
            let last_error = state.last_error.take();
            let last = State { told, settled: told, last_error, ..State::default() };
            std::mem::replace(state, last).proven
        };
        hub.lost(self.master());
        self.changed.notify_waiters();
        proven
    }

    /// Logs a warning if only the feed of a master is down. If the master is down, its link reports that.
    fn report(&self, down: &Down, state: &mut State) {
        let (why, master) = (down.to_string(), self.link.name());
        if self.link.is_up() && state.last_error.as_ref() != Some(&why) {
            tracing::warn!(%master, "cannot receive messages published on this master: {why}");
            state.last_error = Some(why);
        }
    }

    /// Resolves when the master has been silent for too long, or was replaced. Pings it when it has nothing else to
    /// answer.
    async fn silence(&self, address: &MasterAddr) -> Down {
        loop {
            tokio::time::sleep(self.link.heartbeat_interval()).await;
            // This worker may have been the busy one: first, it reads what has arrived in the socket.
            tokio::task::yield_now().await;
            let state = &mut *self.state.borrow_mut();
            let owes = !state.expected.is_empty();
            if state.silence.lasts_too_long(owes) {
                return Down::Silent;
            }
            if self.link.address().as_ref() != Some(address) {
                return Down::Replaced;
            }
            if !owes {
                state.tell(&[b"PING"], Expected::Ping);
            }
        }
    }

    /// Reads and writes until the connection is lost.
    async fn listen(
        &self,
        mut connection: Connection<impl AsyncRead + AsyncWrite + Unpin>,
        hub: &Rc<Hub>,
    ) -> Down {
        poll_fn(|cx| match self.poll_once(&mut connection, hub, cx) {
            Ok(()) => Poll::Pending,
            Err(down) => Poll::Ready(down),
        })
        .await
    }

    /// Reads and writes all that is possible now.
    fn poll_once(
        &self,
        connection: &mut Connection<impl AsyncRead + AsyncWrite + Unpin>,
        hub: &Rc<Hub>,
        cx: &mut Context<'_>,
    ) -> Result<(), Down> {
        let mut time = TimeSlice::default();
        while let Poll::Ready(read) = connection.poll_read(cx) {
            read?;
            self.state.borrow_mut().silence.ends();
            self.frames(&mut connection.replies, hub)?;
            if time.look() {
                let _ = timeslice::others_first(cx);
                break;
            }
        }
        let state = &mut *self.state.borrow_mut();
        state.waker = Some(cx.waker().clone());
        if let Poll::Ready(written) = connection.poll_write(&mut state.out, cx) {
            written?;
        }
        Ok(())
    }

    fn frames(&self, reader: &mut Reader, hub: &Rc<Hub>) -> Result<(), Down> {
        let settled = self.state.borrow().settled;
        while let Some((answer, raw)) = reader.peek()? {
            let len = raw.len();
            let frame = Frame::read(answer).ok_or(Malformed)?;
            reader.taken(len);
            match frame {
                Frame::Message { topic, channel, payload } => {
                    hub.message(self.master(), &topic, channel, payload);
                }
                Frame::Answer(answer) => self.answered(answer, hub)?,
            }
        }
        if self.state.borrow().settled > settled {
            self.changed.notify_waiters();
        }
        Ok(())
    }

    fn answered(&self, answer: frame::Answer, hub: &Hub) -> Result<(), Down> {
        let expected = self.state.borrow_mut().next_expected().ok_or(Malformed)?;
        match (answer, expected) {
            (frame::Answer::Subscribed(topic), _) => {
                self.state.borrow_mut().proven = true;
                hub.subscribed(self.master(), &topic);
            }
            (frame::Answer::Refused(error), Expected::Change(Change::Subscribe(topic), _)) => {
                hub.refused(&topic, &error);
            }
            (frame::Answer::Refused(error), _) => return Err(Down::Refused(error)),
            (frame::Answer::Done, _) => {}
        }
        self.state.borrow_mut().settled += 1;
        Ok(())
    }
}

impl State {
    fn change(&mut self, change: Change) {
        self.waiting.push_back(change);
        self.told += 1;
        self.tell_more();
    }

    /// Sends as many changes as the master may be given at once.
    fn tell_more(&mut self) {
        while self.work < WORK_AT_ONCE
            && let Some(change) = self.waiting.pop_front()
        {
            let (word, topic) = match &change {
                Change::Subscribe(topic) => (topic.kind.subscribe(), topic),
                Change::Unsubscribe(topic) => (topic.kind.unsubscribe(), topic),
            };
            let (is_pattern, name) = (topic.kind == TopicKind::Pattern, topic.name.clone());
            let work = if is_pattern { 1 + self.patterns / COMPARED } else { 1 };
            if is_pattern {
                self.patterns = match change {
                    Change::Subscribe(_) => self.patterns + 1,
                    Change::Unsubscribe(_) => self.patterns.saturating_sub(1),
                };
            }
            if self.waiting.is_empty() && self.waiting.capacity() > WORK_AT_ONCE {
                self.waiting = VecDeque::new();
            }
            self.work += work;
            self.send(&[word.as_bytes(), &name], Expected::Change(change, work));
        }
    }

    /// Takes the command that was just answered, and sends more changes: the master has time for them.
    fn next_expected(&mut self) -> Option<Expected> {
        let expected = self.expected.pop_front()?;
        if let Expected::Change(_, work) = &expected {
            self.work -= work;
            self.tell_more();
        }
        Some(expected)
    }

    fn tell(&mut self, words: &[&[u8]], expected: Expected) {
        self.told += 1;
        self.send(words, expected);
    }

    fn send(&mut self, words: &[&[u8]], expected: Expected) {
        let mut bytes = Vec::new();
        request::encode(&mut bytes, words);
        self.out.extend_from_slice(&bytes);
        self.expected.push_back(expected);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
