//! Read commands passed on as the client sent them: the reply comes from a master that shows what a quorum has decided
//! ([`crate::decision::keyspace::reading`]).

use bytes::Bytes;

use super::Asked;
use super::behaviour::Behaviour;
use super::behaviour::On;
use super::program::{Program, Rendering};
use super::read::{LOOKS_AGAIN, Looked, MOST_LOOKS, may_look_again, round};
use super::register::snapshot::{self, BEFORE, COMMANDS, Snapshot};
use super::request::Form;
use super::verdict::{Discarded, Trouble, is_reply};
use super::{Next, Received, Rules, Then, settled_read, streams};
use crate::catalogue::table::Nothing;
use crate::client::outbox::Order;
use crate::decision::keyspace::reading::{Moment, Reading, Standing, Verdict, View};
use crate::decision::quorum::{MasterId, MasterSet};
use crate::decision::register::ballot::Ballot;
use crate::metrics::QuestionKind;
use crate::resp::answer::Answer;
use crate::resp::flat;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;

/// A command as the client sent it, which changes nothing.
#[derive(Debug)]
pub struct Query {
    /// The request that masters run.
    request: Box<[u8]>,
    /// The client's words, if masters run a different request.
    words: Option<Box<[u8]>>,
    /// The keys after the operation's own.
    others: Box<[Box<[u8]>]>,
    nothing: Nothing,
    /// Whether it looks up keys that it does not name.
    looks_up: bool,
    /// Whether masters have refused to queue it. They then receive it alone, to report what is wrong with it.
    is_wrong: bool,
    discarded: Discarded,
    reading: Option<Reading<ShownKeys, Bytes>>,
    replies: Vec<(MasterId, Bytes)>,
    /// Used if there are several keys.
    moment: Moment<ShownKeys>,
    /// Number of inconclusive attempts.
    tried: u8,
    trouble: Trouble,
}

/// A master's last flush, the ballots under which it accepted the keys, and its reply unless that depends on the keys
/// alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownKeys {
    flush: u64,
    accepted: Vec<Ballot>,
    reply: Option<Bytes>,
}

/// The last flush, and the ballots under which keys were accepted.
pub type Registers = (u64, Vec<Ballot>);

impl ShownKeys {
    /// Returns what it shows of the keys alone.
    pub fn registers(&self) -> Registers {
        (self.flush, self.accepted.clone())
    }
}

/// A master's answer to a query.
pub struct Said {
    /// The stamps and the type of the value.
    pub view: View<ShownKeys, Bytes>,
    /// Its encoded reply.
    pub reply: Bytes,
}

impl Query {
    /// Creates a query on the operation's key that has not been sent yet.
    pub fn new(request: Box<[u8]>, nothing: Nothing) -> Self {
        Self {
            request,
            words: None,
            others: Box::default(),
            nothing,
            looks_up: false,
            is_wrong: false,
            discarded: Discarded::default(),
            reading: None,
            replies: Vec::new(),
            moment: Moment::NONE,
            tried: 0,
            trouble: Trouble::default(),
        }
    }

    /// Sets the keys, the first of which is the operation's own.
    pub fn on_keys<'a>(self, keys: impl Iterator<Item = &'a [u8]>) -> Self {
        Self { others: keys.skip(1).map(Into::into).collect(), ..self }
    }

    /// Sets the client's words, if the command looks up keys that it does not name.
    pub fn looking_up(self, words: Option<Box<[u8]>>) -> Self {
        Self { looks_up: words.is_some(), words, ..self }
    }

    pub(super) fn has_many_keys(&self) -> bool {
        !self.others.is_empty()
    }

    fn looked(&mut self, rules: &Rules, key: &[u8], received: Received<'_>) -> Looked {
        let Received { master, answer, raw, .. } = received;
        if received.round != self.round() {
            return Looked::WAIT;
        }
        if self.discarded.notes(rules, master, answer) {
            self.is_wrong = true;
            return self.again(Then::Ask);
        }
        match answer {
            Some(Answer::Error(error)) if self.is_wrong && is_reply(error) => {
                return Looked::Next(Next::reply(Reply::Raw(Bytes::copy_from_slice(raw))));
            }
            Some(Answer::Error(error)) => self.trouble.remember(error),
            // Nothing is wrong with it: masters are out of memory.
            Some(_) if self.is_wrong => return Looked::Settle(self.program(rules, key)),
            _ => {}
        }
        let Some(reading) = &mut self.reading else { return Looked::WAIT };
        let now_us = rules.unix_time.micros() as u64;
        let said = answer.filter(|_| !self.is_wrong).and_then(|_| {
            let raw = Bytes::copy_from_slice(raw);
            said(&raw, self.others.len() + 1, self.looks_up, now_us, &mut self.trouble)
        });
        let view = said.map(|said| {
            self.replies.push((master, said.reply));
            said.view
        });
        match reading.answer(master, view) {
            None => Looked::WAIT,
            Some(verdict) => self.decided(rules, key, verdict),
        }
    }

    fn waited(&mut self, rules: &Rules, key: &[u8], is_last: bool) -> Looked {
        let Some(reading) = &self.reading else { return Looked::WAIT };
        match reading.without_the_silent() {
            Verdict::TooFew if !is_last => Looked::WAIT,
            verdict => self.decided(rules, key, verdict),
        }
    }

    fn decided(&mut self, rules: &Rules, key: &[u8], verdict: Verdict) -> Looked {
        let is_complete = self.reading.as_ref().is_none_or(Reading::is_complete);
        let reply = match verdict {
            Verdict::Plain(masters) if !self.is_one_moment(rules, masters) => {
                return match self.tried < MOST_LOOKS {
                    true => self.again(Then::Ask),
                    false => Looked::Settle(self.program(rules, key)),
                };
            }
            Verdict::Plain(masters) => {
                let mut replies =
                    self.replies.iter().filter(|(master, _)| masters.contains(*master));
                match replies.next() {
                    Some((_, reply)) => told(self.nothing, reply),
                    None => self.undecided(rules),
                }
            }
            Verdict::TooFew if may_look_again(is_complete, &self.trouble, self.tried) => {
                return self.again(Then::Pause);
            }
            Verdict::TooFew => self.undecided(rules),
            _ if self.tried < LOOKS_AGAIN && is_complete => return self.again(Then::Pause),
            _ => return Looked::Settle(self.program(rules, key)),
        };
        self.reading = None;
        Looked::Next(Next::reply(reply))
    }

    fn again(&mut self, then: Then) -> Looked {
        (self.tried, self.reading) = (self.tried + 1, None);
        Looked::Next(Next::then(then))
    }

    /// Whether all keys simultaneously held what these masters show.
    fn is_one_moment(&mut self, rules: &Rules, masters: MasterSet) -> bool {
        if !self.has_many_keys() {
            return true;
        }
        let by_all = masters == rules.quorum.everybody();
        let shown = self.reading.as_ref().zip(masters.iter().next());
        let shown = shown.and_then(|(reading, master)| reading.shown_by(master)).cloned();
        shown.is_some_and(|shown| self.moment.is_one(shown, by_all))
    }

    fn program(&self, rules: &Rules, key: &[u8]) -> Box<Program> {
        let words = flat::elements(self.words.as_deref().unwrap_or(&self.request));
        let rendering = match self.nothing {
            Nothing::List => Rendering::NullArray,
            Nothing::Streams(protocol) => Rendering::Streams(protocol),
            _ => Rendering::AsIs,
        };
        settled_read::program(rules, self.keys(key), words.filter_map(|word| word.body), rendering)
    }

    fn keys<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + Clone {
        std::iter::once(key).chain(self.others.iter().map(|key| &**key))
    }

    fn undecided(&self, rules: &Rules) -> Reply {
        self.trouble.undecided(rules, self.reading.as_ref().map_or(0, Reading::answered))
    }
}

impl Behaviour for Query {
    fn order(&self) -> Order {
        if self.has_many_keys() { Order::Alone } else { Order::Read }
    }

    fn question(&self) -> QuestionKind {
        QuestionKind::Read
    }

    fn round(&self) -> u8 {
        round(self.tried)
    }

    fn ask(&mut self, on: On<'_>, asked: Asked, _: Instant) {
        let On { rules, .. } = on;
        let asked = asked.voters;
        self.reading = Some(Reading::new(rules.quorum, asked));
        self.discarded = Discarded::default();
        self.replies.clear();
    }

    fn encode(&self, on: On<'_>, _: Form, out: &mut Vec<u8>) {
        let On { key, .. } = on;
        match self.is_wrong {
            true => out.extend_from_slice(&self.request),
            false => encode(self.keys(key), &self.request, out),
        }
    }

    /// Returns how many replies precede the one that counts.
    fn parts(&self) -> usize {
        if self.is_wrong { 0 } else { parts(self.others.len() + 1) }
    }

    fn received(&mut self, on: On<'_>, received: Received<'_>) -> Next {
        self.looked(on.rules, on.key, received).into()
    }

    fn deadline(&mut self, on: On<'_>, _: Instant, is_last: bool) -> Next {
        self.waited(on.rules, on.key, is_last).into()
    }
}

/// Appends the transaction that shows `keys` and runs `request`.
pub fn encode<'a>(keys: impl Iterator<Item = &'a [u8]>, request: &[u8], out: &mut Vec<u8>) {
    snapshot::begin(out, keys);
    out.extend_from_slice(request);
    snapshot::end(out);
}

/// Returns how many replies precede the last one of that transaction.
pub fn parts(keys: usize) -> usize {
    BEFORE + COMMANDS * keys + 1
}

/// Parses the last reply. Returns `None` if it does not count.
pub fn said(
    raw: &Bytes,
    keys: usize,
    looks_up: bool,
    now_us: u64,
    trouble: &mut Trouble,
) -> Option<Said> {
    let mut rest = &raw[flat::elements(raw).next()?.bytes.len()..];
    let (mark, after) = flat::split_frame(rest)?;
    let flush = snapshot::last_flush(flat::bulk(mark))?;
    rest = after;
    let mut shown = Vec::with_capacity(COMMANDS * keys);
    for _ in 0..COMMANDS * keys {
        let (item, after) = flat::split_frame(rest)?;
        shown.push(item);
        rest = after;
    }
    // Only the reply is left.
    let error = rest.strip_prefix(b"-").map(<[u8]>::trim_ascii_end);
    if let Some(error) = error.filter(|error| !is_reply(error)) {
        trouble.remember(error);
        return None;
    }
    let looks: Option<Vec<Snapshot>> = shown.chunks(COMMANDS).map(Snapshot::of).collect();
    let (looks, reply) = (looks?, raw.slice_ref(rest));
    let is_refused = rest.starts_with(b"-WRONGTYPE");
    let view = view(flush, &looks, &reply, is_refused, looks_up, now_us);
    Some(Said { view, reply })
}

fn view(
    flush: u64,
    looks: &[Snapshot],
    reply: &Bytes,
    is_refused: bool,
    looks_up: bool,
    now_us: u64,
) -> View<ShownKeys, Bytes> {
    let mut depends = looks_up;
    for look in looks {
        match look.standing(now_us) {
            Standing::There => {}
            Standing::Absent(None) if !look.is_left_over() => {}
            // Its tag must not be visible. Values that are not strings, or not read as strings, have none.
            Standing::Absent(Some(_)) if look.kind != b's' || is_refused => depends = true,
            Standing::Absent(_) | Standing::Unclear => return View::Unclear,
        }
    }
    let accepted = looks.iter().map(|look| look.sight.state.accepted).collect();
    View::Plain(ShownKeys { flush, accepted, reply: depends.then(|| reply.clone()) })
}

/// Converts a reply for the client. Where an array belongs, null is a null array (`XRANGE ... COUNT 0`).
pub fn told(nothing: Nothing, reply: &Bytes) -> Reply {
    match nothing {
        Nothing::Streams(protocol) => streams::reply(reply, reply, protocol),
        Nothing::List if &reply[..] == b"_\r\n" => Reply::NilArray,
        _ => Reply::Raw(reply.clone()),
    }
}
