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
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use self::frame::Frame;
use super::hub::Hub;
use crate::catalogue::channel::{Topic, TopicKind};
use crate::config::MasterAddr;
use crate::decision::quorum::MasterId;
use crate::engine::connection;
use crate::engine::feed::{FeedConnection, FeedDown};
use crate::engine::link::Link;
use crate::engine::reader::Reader;
use crate::masters::dial::{Dial, Pauses};
use crate::resp::flat::Malformed;

/// The work that a master is given at once: a channel is 1, a pattern more. It takes a millisecond or two.
const WORK_AT_ONCE: usize = 256;

/// Patterns that a master compares with another one in the time that a channel takes.
const COMPARED: usize = 512;

/// The connection, and its pending commands.
pub struct Feed {
    connection: FeedConnection<Asked>,
    state: RefCell<State>,
    /// Notified when the connection comes or goes, or a command is answered.
    changed: Notify,
    /// Notified when something is subscribed to.
    wanted: Notify,
}

#[derive(Default)]
struct State {
    up: bool,
    /// Subscriptions to begin or end that the master has not received yet.
    waiting: VecDeque<Change>,
    /// The work that the master has received and not answered yet.
    work: usize,
    /// Patterns that the master has for this connection.
    patterns: usize,
    /// Commands since the start of the worker.
    told: u64,
    /// Those of them that were answered, or lost with their connection.
    settled: u64,
    /// Whether the master has confirmed a subscription, which proves more than a connection.
    proven: bool,
    last_error: Option<String>,
}

/// A command that was sent.
#[derive(Debug)]
enum Asked {
    /// A command that must not fail.
    Greeting,
    /// A change, and its work.
    Change(Change, usize),
}

/// A subscription that begins or ends.
#[derive(Debug)]
enum Change {
    Subscribe(Topic),
    Unsubscribe(Topic),
}

impl Feed {
    /// Returns a feed that listens to nothing; [`Feed::run`] connects it.
    pub fn new(link: Rc<Link>) -> Rc<Self> {
        let (changed, wanted) = (Notify::new(), Notify::new());
        let connection = FeedConnection::new(link);
        Rc::new(Self { connection, state: RefCell::default(), changed, wanted })
    }

    /// Returns the master at the other end.
    pub fn master(&self) -> MasterId {
        self.link().master()
    }

    fn link(&self) -> &Link {
        self.connection.link()
    }

    /// Whether there is a master at this place of the list.
    pub fn has_master(&self) -> bool {
        self.link().address().is_some()
    }

    /// Subscribes to `topic`, now or as soon as there is a connection.
    pub fn subscribe(&self, topic: &Topic) {
        self.wanted.notify_one();
        let state = &mut *self.state.borrow_mut();
        if state.up {
            state.change(Change::Subscribe(topic.clone()), &self.connection);
        }
    }

    /// Ends the subscription to `topic`.
    pub fn unsubscribe(&self, topic: &Topic) {
        let state = &mut *self.state.borrow_mut();
        if state.up {
            state.change(Change::Unsubscribe(topic.clone()), &self.connection);
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
                    None if !feed.link().is_up() => return,
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
    async fn once(&self, dial: &impl Dial, hub: &Rc<Hub>) -> FeedDown {
        let begin = |address: &MasterAddr| self.came_up(address, hub);
        self.connection.run(dial, begin, |reader| self.frames(reader, hub)).await
    }

    fn came_up(&self, address: &MasterAddr, hub: &Hub) {
        {
            let state = &mut *self.state.borrow_mut();
            state.up = true;
            self.greet(address, state);
            for topic in hub.topics() {
                state.change(Change::Subscribe(topic), &self.connection);
            }
        }
        self.changed.notify_waiters();
    }

    /// Authenticates, and sets a name that the master's list of clients shows.
    fn greet(&self, address: &MasterAddr, state: &mut State) {
        if let Some([user, password]) = connection::login(address) {
            self.tell(state, &[b"AUTH", user, password]);
        }
        self.tell(state, &[b"CLIENT", b"SETNAME", connection::NAME]);
    }

    fn tell(&self, state: &mut State, words: &[&[u8]]) {
        state.told += 1;
        self.connection.send(words, Asked::Greeting);
    }

    /// Resets the state after a connection. Returns whether the master had confirmed a subscription on it.
    fn went_down(&self, down: &FeedDown, hub: &Hub) -> bool {
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
    fn report(&self, down: &FeedDown, state: &mut State) {
        let (why, master) = (down.to_string(), self.link().name());
        if self.link().is_up() && state.last_error.as_ref() != Some(&why) {
            tracing::warn!(%master, "cannot receive messages published on this master: {why}");
            state.last_error = Some(why);
        }
    }

    fn frames(&self, reader: &mut Reader, hub: &Rc<Hub>) -> Result<(), FeedDown> {
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

    fn answered(&self, answer: frame::Answer, hub: &Hub) -> Result<(), FeedDown> {
        let asked = self.connection.answered()?;
        if let Some(asked) = &asked {
            self.state.borrow_mut().is_done(asked, &self.connection);
        }
        match (answer, asked) {
            (frame::Answer::Subscribed(topic), _) => {
                self.state.borrow_mut().proven = true;
                hub.subscribed(self.master(), &topic);
            }
            (frame::Answer::Refused(error), Some(Asked::Change(Change::Subscribe(topic), _))) => {
                hub.refused(&topic, &error);
            }
            (frame::Answer::Refused(error), _) => return Err(FeedDown::Refused(error)),
            (frame::Answer::Done, _) => {}
        }
        Ok(())
    }
}

impl State {
    fn change(&mut self, change: Change, to: &FeedConnection<Asked>) {
        self.waiting.push_back(change);
        self.told += 1;
        self.tell_more(to);
    }

    /// Sends as many changes as the master may be given at once.
    fn tell_more(&mut self, to: &FeedConnection<Asked>) {
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
            to.send(&[word.as_bytes(), &name], Asked::Change(change, work));
        }
    }

    /// Notes that the master has answered, and sends more changes: it has time for them.
    fn is_done(&mut self, asked: &Asked, to: &FeedConnection<Asked>) {
        self.settled += 1;
        if let Asked::Change(_, work) = asked {
            self.work -= work;
            self.tell_more(to);
        }
    }
}
