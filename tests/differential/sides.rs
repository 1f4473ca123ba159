//! One plain Redis and the proxy over three masters, both receiving the same sequence.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::timeout;

use crate::allowed::{Allowed, Rule};
use crate::likeness::{Frame, same, same_inside};
use crate::step::{CONNECTIONS, Scripts, Step, USERS, lower};
use crate::support::side_by_side::printable;
use crate::support::users::Settings;
use crate::support::{Master, Masters, Proxy, Raw, Reply, encode, words};

pub(crate) struct Sides {
    /// First, so that it is dropped before its masters and never misses one.
    proxy: Proxy,
    redis: Master,
    _masters: Masters,
    /// The Redis that holds all of the proxy's keys when they are not locks.
    _data: Option<Master>,
    _settings: Settings,
}

/// Two replies that should be equal and are not.
pub(crate) struct Difference {
    /// Index of the step that they answer.
    pub(crate) at: usize,
    pub(crate) redis: String,
    pub(crate) proxy: String,
}

impl Sides {
    pub(crate) async fn start(with_data: bool) -> Sides {
        let (redis, masters) = (Master::start(), Masters::start(3));
        let data = with_data.then(Master::start);
        for server in [&redis].into_iter().chain(&data) {
            for user in USERS {
                let request = [vec!["ACL".into(), "SETUSER".into()], words(user)].concat();
                assert_eq!(server.ask(&request).await, Reply::ok(), "{user}");
            }
        }
        let settings = Settings::with(&USERS, "");
        let url = data.as_ref().map(|data| format!("redis://{}", data.address()));
        // A delay on a busy machine, or one that stalls for a moment, must not count as a difference.
        let mut flags = vec!["--allow-flush", "--vote-timeout", "10s"];
        flags.extend(settings.flags());
        if let Some(url) = &url {
            flags.extend(["--data", url, "--lock-keys", "lock:*"]);
        }
        let proxy = Proxy::start(&masters, &flags);
        if with_data {
            // Random requests also use data keys as locks.
            proxy.expect_warnings();
        }
        Sides { proxy, redis, _masters: masters, _data: data, _settings: settings }
    }

    /// Connects to the plain Redis in RESP3.
    pub(crate) async fn plain(&self) -> Raw {
        Raw::connect_resp3(&self.redis.address()).await
    }

    /// Empties both sides and sends them a sequence, up to the first difference.
    pub(crate) async fn compare(&self, steps: &[Step], allowed: &Allowed) -> Option<Difference> {
        let mut run = Run {
            expected: connect(&self.redis.address()).await,
            actual: connect(self.proxy.address()).await,
            states: Default::default(),
            scripts: Scripts::default(),
        };
        for (at, step) in steps.iter().enumerate() {
            if let Some((redis, proxy)) = run.step(step, allowed).await {
                return Some(Difference { at, redis, proxy });
            }
            if run.is_over() {
                run.reconnect(self).await;
            }
        }
        let difference = run.messages(steps).await;
        let at = steps.len().saturating_sub(1);
        let difference = difference.map(|(redis, proxy)| Difference { at, redis, proxy });
        run.end().await;
        difference
    }
}

/// Opens all connections to one side and empties it.
async fn connect(address: &str) -> Vec<Side> {
    let mut first = Raw::connect(address).await;
    for request in [&["FLUSHALL"][..], &["SCRIPT", "FLUSH"]] {
        let mut reply = first.ask(request).await;
        if reply.is_error("CLUSTERDOWN") {
            reply = first.ask(request).await;
        }
        assert_eq!(reply, Reply::ok(), "{request:?}");
    }
    let mut all = Vec::new();
    for which in 0..CONNECTIONS.len() {
        all.push(Side::connect(address, which).await);
    }
    all
}

/// One connection to one side.
struct Side {
    raw: Raw,
    messages: Vec<Frame>,
    closed: bool,
}

impl Side {
    async fn connect(address: &str, which: usize) -> Side {
        let (user, version) = CONNECTIONS[which];
        let mut raw = Raw::connect(address).await;
        if user != "default" {
            let reply = raw.ask(&["AUTH", user, "pw"]).await;
            assert_eq!(reply, Reply::ok(), "{user}");
        }
        if version != "2" {
            raw.ask(&["HELLO", version]).await;
        }
        Side { raw, messages: Vec::new(), closed: false }
    }

    /// Returns the next frame that is not a message, or `None` if the connection closes or nothing arrives.
    async fn reply(&mut self) -> Option<Frame> {
        loop {
            let frame = timeout(PATIENCE, self.raw.frame_or_end()).await;
            match frame {
                Ok(Some(frame)) if is_message(&frame.0) => self.messages.push(frame),
                Ok(Some(frame)) => return Some(frame),
                Ok(None) | Err(_) => {
                    self.closed = true;
                    return None;
                }
            }
        }
    }

    /// Waits until this side has as many messages as the other.
    async fn await_messages(&mut self, count: usize) {
        while self.messages.len() < count {
            match timeout(MOMENT, self.raw.frame_or_end()).await {
                Ok(Some(frame)) if is_message(&frame.0) => self.messages.push(frame),
                _ => return,
            }
        }
    }
}

/// State of a connection, as derived from the replies of the plain Redis.
#[derive(Default)]
struct State {
    topics: BTreeSet<(String, Vec<u8>)>,
    queue: Option<Vec<Rule>>,
    /// Whether a key is watched.
    watches: bool,
}

struct Run {
    expected: Vec<Side>,
    actual: Vec<Side>,
    states: [State; CONNECTIONS.len()],
    scripts: Scripts,
}

impl Run {
    async fn step(&mut self, step: &Step, allowed: &Allowed) -> Option<(String, String)> {
        let at = step.connection;
        let bytes = step.bytes();
        self.scripts.note(step);
        let is_any_watched = self.states.iter().any(|state| state.watches);
        if is_any_watched && allowed.leaves_out_while_watching(step, &self.scripts) {
            return None;
        }
        let watching = self.watching(at);
        if step.is_program() && !self.unwatch(&watching).await {
            return None;
        }
        let (expected, actual) = (&mut self.expected[at], &mut self.actual[at]);
        let state = &mut self.states[at];
        if state.queue.is_some() && allowed.leaves_out_of_transactions(&step.full_name()) {
            return None;
        }
        tokio::join!(expected.raw.send_regardless(&bytes), actual.raw.send_regardless(&bytes));
        let (mut frames, mut others) = (Vec::new(), Vec::new());
        let mut missing = 1;
        while missing > 0 {
            let (frame, other) = tokio::join!(expected.reply(), actual.reply());
            if let Some(confirmation) = frame.as_ref().and_then(|frame| confirmation(&frame.0)) {
                if frames.is_empty() {
                    missing = state.confirmations(step);
                }
                state.confirm(confirmation);
            }
            missing -= 1;
            let closed = frame.is_none() || other.is_none();
            frames.push(frame);
            others.push(other);
            if closed {
                break;
            }
        }
        if step.full_name() == "quit" {
            (expected.closed, actual.closed) = (true, true);
        }
        let rule = state.follow(step, frames[0].as_ref(), allowed, &self.scripts);
        let equal = match rule {
            Comparison::Each(rules) => same_exec(frames[0].as_ref(), others[0].as_ref(), &rules),
            Comparison::Whole(rule) if frames.len() > 1 => {
                same_confirmations(&frames, &others, rule)
            }
            Comparison::Whole(rule) => same_frames(frames[0].as_ref(), others[0].as_ref(), rule),
        };
        (!equal).then(|| (shown(&frames), shown(&others)))
    }

    /// Returns the connections whose watched keys a request on this connection might change.
    fn watching(&self, at: usize) -> Vec<usize> {
        let is_told = |which: &usize| {
            let state = &self.states[*which];
            state.watches && (*which != at || state.queue.is_none())
        };
        (0..CONNECTIONS.len()).filter(is_told).collect()
    }

    /// Unwatches keys that a program might leave unchanged. Returns false for subscribers, which cannot do that, and
    /// inside a transaction, where it is too late.
    async fn unwatch(&mut self, connections: &[usize]) -> bool {
        if connections.iter().any(|at| self.states[*at].queue.is_some()) {
            return false;
        }
        for &at in connections {
            for side in [&mut self.expected[at], &mut self.actual[at]] {
                side.raw.send_regardless(&encode(&["UNWATCH"])).await;
                if side.reply().await.is_none_or(|(reply, _)| reply != Reply::ok()) {
                    return false;
                }
            }
            self.states[at].watches = false;
        }
        true
    }

    fn is_over(&self) -> bool {
        self.expected.iter().any(|side| side.closed)
    }

    /// Reopens connections that both sides have closed. Masters learn a little later which subscriptions ended with
    /// them.
    async fn reconnect(&mut self, sides: &Sides) {
        for which in 0..CONNECTIONS.len() {
            if self.expected[which].closed {
                if !self.states[which].topics.is_empty() {
                    tokio::time::sleep(LEAVING).await;
                }
                self.expected[which] = Side::connect(&sides.redis.address(), which).await;
                self.actual[which] = Side::connect(sides.proxy.address(), which).await;
                self.states[which] = State::default();
            }
        }
    }

    /// Compares the messages that each subscriber received. A client that subscribes right after a message was
    /// published may still receive it, because not all masters have passed it on yet.
    async fn messages(&mut self, steps: &[Step]) -> Option<(String, String)> {
        let was_published = |message: &Reply| {
            let Reply::Array(items) = message else { return false };
            let [.., Reply::Bulk(channel), Reply::Bulk(payload)] = &items[..] else { return false };
            steps
                .iter()
                .any(|step| step.words.get(1..) == Some(&[channel.clone(), payload.clone()]))
        };
        for which in 0..CONNECTIONS.len() {
            let (expected, actual) = (&mut self.expected[which], &mut self.actual[which]);
            for side in [&mut *expected, &mut *actual] {
                side.raw.send_regardless(&encode(&["PING"])).await;
                side.reply().await;
            }
            actual.await_messages(expected.messages.len()).await;
            let early =
                |frame: &Frame| !expected.messages.contains(frame) && was_published(&frame.0);
            actual.messages.retain(|frame| !early(frame));
            // The order of two matching patterns is unspecified.
            let bytes = |side: &Side| {
                let mut all: Vec<_> =
                    side.messages.iter().map(|frame| printable(&frame.1)).collect();
                all.sort();
                all.join(" ")
            };
            let (expected, actual) = (bytes(expected), bytes(actual));
            if expected != actual {
                return Some((format!("messages {expected}"), format!("messages {actual}")));
            }
        }
        None
    }

    /// Ends all subscriptions, so that the next sequence sees none of them.
    async fn end(&mut self) {
        for side in self.expected.iter_mut().chain(&mut self.actual) {
            side.raw.send_regardless(&encode(&["RESET"])).await;
            side.reply().await;
        }
    }
}

enum Comparison {
    Whole(Rule),
    /// One rule per element of an `EXEC`.
    Each(Vec<Rule>),
}

impl State {
    /// Returns the total number of confirmations for a request, of which the first has arrived.
    fn confirmations(&self, step: &Step) -> usize {
        if step.words.len() > 1 {
            return step.words.len() - 1;
        }
        let kind = kind(&step.name());
        self.topics.iter().filter(|(other, _)| *other == kind).count().max(1)
    }

    fn confirm(&mut self, (name, topic): (String, Vec<u8>)) {
        let topic = (kind(&name), topic);
        if name.contains("unsub") {
            self.topics.remove(&topic);
        } else {
            self.topics.insert(topic);
        }
    }

    /// Updates the state after a reply, and returns the rule for comparing that reply.
    fn follow(
        &mut self,
        step: &Step,
        reply: Option<&Frame>,
        allowed: &Allowed,
        scripts: &Scripts,
    ) -> Comparison {
        let text = reply.map(|(reply, _)| reply);
        let is = |text: Option<&Reply>, simple: &str| matches!(text, Some(Reply::Simple(found)) if found == simple);
        let rule = allowed.rule(step, scripts);
        match step.name().as_str() {
            "watch" if is(text, "OK") => self.watches = true,
            "unwatch" if is(text, "OK") => self.watches = false,
            _ => {}
        }
        match step.name().as_str() {
            "multi" if is(text, "OK") => self.queue = Some(Vec::new()),
            "exec" => {
                let queue = self.queue.take();
                self.watches &= queue.is_none();
                return Comparison::Each(queue.unwrap_or_default());
            }
            "discard" | "reset" if text.is_some_and(|reply| !matches!(reply, Reply::Error(_))) => {
                self.queue = None;
                self.watches = false;
                if step.name() == "reset" {
                    self.topics.clear();
                }
            }
            _ if is(text, "QUEUED") => self.queue.iter_mut().for_each(|queue| queue.push(rule)),
            _ => {}
        }
        if is(text, "QUEUED") {
            Comparison::Whole(Rule::default())
        } else {
            Comparison::Whole(rule)
        }
    }
}

fn kind(name: &str) -> String {
    name.replace("un", "").replace("subscribe", "")
}

fn same_frames(expected: Option<&Frame>, actual: Option<&Frame>, rule: Rule) -> bool {
    match (expected, actual) {
        (Some(expected), Some(actual)) => same(expected, actual, rule),
        (None, None) => true,
        _ => false,
    }
}

/// Compares confirmations, which come in any order when the request named no topic.
fn same_confirmations(expected: &[Option<Frame>], actual: &[Option<Frame>], rule: Rule) -> bool {
    if rule.order {
        return expected.len() == actual.len();
    }
    let mut both = expected.iter().zip(actual);
    both.all(|(one, other)| same_frames(one.as_ref(), other.as_ref(), rule))
}

fn same_exec(expected: Option<&Frame>, actual: Option<&Frame>, rules: &[Rule]) -> bool {
    let (Some((Reply::Array(one), bytes)), Some((Reply::Array(other), others))) =
        (expected, actual)
    else {
        return same_frames(expected, actual, Rule::default());
    };
    let mut rules = rules.iter().copied();
    let mut each = one.iter().zip(other);
    let each_is_same = |(one, other)| same_inside(one, other, rules.next().unwrap_or_default());
    bytes == others || one.len() == other.len() && bytes[0] == others[0] && each.all(each_is_same)
}

fn is_message(reply: &Reply) -> bool {
    first_word(reply)
        .is_some_and(|word| ["message", "pmessage", "smessage"].contains(&word.as_str()))
}

/// Returns the name and the topic of a confirmation.
fn confirmation(reply: &Reply) -> Option<(String, Vec<u8>)> {
    let word = first_word(reply).filter(|word| word.ends_with("subscribe"))?;
    let Reply::Array(items) = reply else { return None };
    let topic = match items.get(1)? {
        Reply::Bulk(bytes) => bytes.clone(),
        _ => Vec::new(),
    };
    (items.len() == 3).then_some((word, topic))
}

fn first_word(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Array(items) => match items.first()? {
            Reply::Bulk(bytes) => Some(lower(bytes)),
            _ => None,
        },
        _ => None,
    }
}

fn shown(frames: &[Option<Frame>]) -> String {
    let text = |frame: &Option<Frame>| match frame {
        Some(frame) => printable(&frame.1),
        None => "nothing, or the end of the connection".to_owned(),
    };
    frames.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// Longer than any vote, but less than a test waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time until masters notice that a subscriber has gone.
const LEAVING: Duration = Duration::from_millis(500);

/// Time until a message arrives.
const MOMENT: Duration = Duration::from_secs(3);
