//! `KEYS`, `SCAN`, `DBSIZE`, `RANDOMKEY`, `HSCAN`, `SSCAN` and `ZSCAN`: pages of one master after the other, over the
//! lanes. The walk ends once enough masters have been covered that everything a quorum holds has been seen
//! ([`crate::decision::quorum::walk`]).
//!
//! Entries of a page are also checked with other masters, until a quorum is known to hold them. An entry is shown
//! unless it is certain that no quorum does: the remains of a lost claim are not.

use std::collections::HashSet;
use std::rc::Rc;

use bytes::Bytes;

use crate::catalogue::reserved::is_reserved;
use crate::client::memory::ENTRY;
use crate::client::outbox::Target;
use crate::decision::quorum::walk::WalkPlace;
use crate::decision::quorum::{MasterId, Quorum};
use crate::decision::roster::roster::Member;
use crate::decision::roster::seats::at_place;
use crate::engine::Engine;
use crate::operation::request::{self, Number};
use crate::operation::verdict::{self, Trouble};
use crate::resp::flat::{self, Element};
use crate::resp::reply::Reply;

mod any;
mod count;
mod keys;
mod page;

use page::{Found, Page, Poll};

/// Maximum `COUNT` of one page, whatever a client asks for: meanwhile a master does nothing else.
pub const LONGEST_PAGE: i64 = 100;

/// The subject of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalkOver {
    /// The keys of the database.
    Keys,
    /// The fields of this hash, with their values.
    Hash(Bytes),
    /// The members of this set.
    Set(Bytes),
    /// The members of this sorted set, with their scores.
    SortedSet(Bytes),
}

/// Which entries to show.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// `MATCH`
    pub pattern: Option<Bytes>,
    /// `TYPE`
    pub kind: Option<Bytes>,
    /// `COUNT`, at most [`LONGEST_PAGE`].
    pub count: i64,
}

/// The amount to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkExtent {
    /// All entries, in one reply.
    All,
    /// Only their number.
    Count,
    /// One entry, drawn at random.
    Any,
    /// The next entries, from this cursor on.
    From(u64),
}

/// One request of a client.
#[derive(Debug)]
pub struct Walk {
    /// The database.
    pub db: u32,
    /// The subject of the walk.
    pub over: WalkOver,
    /// Which entries to show.
    pub filter: Filter,
    /// The amount to return.
    pub extent: WalkExtent,
}

impl Walk {
    /// Returns the reply; nil if `target` has gone meanwhile.
    pub(super) async fn run(&self, engine: &Rc<Engine>, target: &Target) -> Reply {
        if let Some(reply) = engine.lacks_quorum() {
            return reply;
        }
        let mut walker = Walker::new(self, engine);
        if let Some(key) = self.over.key() {
            match keys::exists(engine, self.db, key).await {
                Ok(true) => {}
                Ok(false) => return Reply::Array(vec![Reply::bulk("0"), Reply::Array(Vec::new())]),
                Err(error) => return error,
            }
        }
        let walked = match self.extent {
            WalkExtent::All => walker.all(target).await.map(Reply::Array),
            WalkExtent::Count => walker.count(target).await.map(Reply::Int),
            WalkExtent::Any => walker.any(target).await,
            WalkExtent::From(cursor) => walker.one_page(cursor).await,
        };
        walked.unwrap_or_else(|error| error)
    }
}

/// A walk in progress.
struct Walker<'a> {
    walk: &'a Walk,
    engine: &'a Rc<Engine>,
    /// The master at each seat, in the order of the roster, which all proxies share.
    masters: Vec<Option<MasterId>>,
    /// Quorum of the seats when the walk began.
    quorum: Quorum,
    /// Entries that have been judged already.
    known: HashSet<Bytes, foldhash::fast::RandomState>,
    shown: Vec<Reply>,
    /// Number of failed attempts at pages.
    failures: usize,
    trouble: Trouble,
}

impl<'a> Walker<'a> {
    fn new(walk: &'a Walk, engine: &'a Rc<Engine>) -> Self {
        let (roster, seats) = engine.electorate().followed();
        let has_seat = |place: &MasterId| roster.member(*place).is_some_and(Member::has_seat);
        let places = (0..roster.members.len()).map(MasterId::new).filter(has_seat);
        let masters: Vec<_> = places.map(|place| at_place(&seats, place)).collect();
        let quorum = Quorum::of(masters.len());
        let (known, shown, trouble) = (HashSet::default(), Vec::new(), Trouble::default());
        Self { walk, engine, masters, quorum, known, shown, failures: 0, trouble }
    }

    async fn all(&mut self, target: &Target) -> Result<Vec<Reply>, Reply> {
        let mut place = Some(WalkPlace::START);
        while let Some(here) = place {
            if target.is_closed() {
                return Ok(Vec::new());
            }
            let before = self.shown.len();
            place = self.step(here).await?;
            target.hold(self.shown[before..].iter().map(|key| key.held() + ENTRY).sum());
        }
        Ok(std::mem::take(&mut self.shown))
    }

    /// Returns one page to the client. A master's last page has few entries, perhaps all there are; the next master's
    /// is then added.
    async fn one_page(&mut self, cursor: u64) -> Result<Reply, Reply> {
        let mut place = Some(self.found(WalkPlace::decode(self.quorum, cursor)));
        while let Some(here) = place {
            place = self.step(here).await?;
            if place.is_some_and(|next| next.cursor != 0) {
                break;
            }
        }
        let cursor = match place {
            None => 0,
            Some(place) => place.encode(self.quorum).ok_or_else(too_large)?,
        };
        let cursor = Reply::bulk(cursor.to_string());
        Ok(Reply::Array(vec![cursor, Reply::Array(std::mem::take(&mut self.shown))]))
    }

    /// Walks one page, or skips a master without one. Returns the next place.
    async fn step(&mut self, here: WalkPlace) -> Result<Option<WalkPlace>, Reply> {
        if let Some(reply) = self.engine.lacks_quorum() {
            return Err(reply);
        }
        let quorum = self.quorum;
        let page = match self.masters[here.master] {
            Some(master) => self.page(master, here.cursor).await?.map(|page| (master, page)),
            None => None,
        };
        let Some((master, page)) = page else {
            self.failures += 1;
            if self.failures > 2 * quorum.masters() {
                return Err(self.trouble.or(verdict::nobody_answered(&self.engine.rules())));
            }
            return Ok(Some(here.skipped(quorum)));
        };
        self.judge(here.master, master, page.found).await;
        if page.next == 0 {
            return Ok(here.completed(quorum));
        }
        Ok(Some(here.onwards(page.next, self.tag(master))))
    }

    /// Returns where a cursor continues. Cursors of a process that has ended mean nothing to its successor, so the walk
    /// of that master restarts.
    fn found(&self, place: WalkPlace) -> WalkPlace {
        let tag = self.masters[place.master].map(|master| self.tag(master));
        match place.cursor == 0 || tag == Some(place.tag) {
            true => place,
            false => place.onwards(0, 0),
        }
    }

    /// Returns the first digits of the `run_id` as a number.
    fn tag(&self, master: MasterId) -> u16 {
        let facts = self.engine.electorate().facts(master);
        let digits = facts.and_then(|facts| facts.run_id.get(..4).map(str::to_owned));
        digits.and_then(|digits| u16::from_str_radix(&digits, 16).ok()).unwrap_or_default()
    }

    /// Returns a page, or `None` if the master does not vote, or has not answered.
    async fn page(&mut self, master: MasterId, cursor: u64) -> Result<Option<Page>, Reply> {
        let request = self.walk.request(cursor);
        let Some(answer) = self.engine.ask_aside(master, self.walk.db, request, 1).await else {
            return Ok(None);
        };
        match flat::elements(&answer).next() {
            Some(Element { marker: b'-', line, .. }) if verdict::is_reply(line) => {
                Err(Reply::error(String::from_utf8_lossy(line).into_owned()))
            }
            Some(Element { marker: b'-', line, .. }) => {
                self.trouble.remember(line);
                Ok(None)
            }
            _ => Ok(Page::parse(&answer, self.walk.over.frames_each())),
        }
    }

    /// Shows new entries on a page of `holder`, the master at `seat`, unless no quorum has them.
    async fn judge(&mut self, seat: usize, holder: MasterId, mut found: Vec<Found>) {
        found.retain(|each| !self.walk.is_reserved(each) && self.known.insert(each.name.clone()));
        if self.walk.over == WalkOver::Keys {
            let names = found.into_iter().map(|found| found.name).collect();
            let there = keys::that_are_there(self.engine, self.walk.db, holder, names).await;
            return self.shown.extend(there.into_iter().map(Reply::bulk));
        }
        let has_scores = matches!(self.walk.over, WalkOver::SortedSet(_));
        let poll = |found| Poll::new(self.quorum, found, has_scores);
        let mut polls: Vec<Poll> = found.into_iter().map(poll).collect();
        let (before, after) = self.masters.split_at(seat);
        for master in after[1..].iter().chain(before).flatten() {
            let mut open: Vec<&mut Poll> = polls.iter_mut().filter(|poll| poll.is_open()).collect();
            if open.is_empty() {
                break;
            }
            let names = open.iter().map(|poll| &poll.found.name[..]);
            let (request, replies) = self.walk.over.whether_there(names);
            let Some(answer) = self.engine.ask_aside(*master, self.walk.db, request, replies).await
            else {
                continue;
            };
            let says = self.walk.over.said(&answer);
            open.iter_mut().zip(says).for_each(|(poll, said)| poll.hears(said));
        }
        for poll in polls.into_iter().filter(|poll| !poll.is_held_by_too_few()) {
            self.shown.extend(poll.shown());
        }
    }
}

impl WalkOver {
    /// Returns the key whose parts are walked.
    fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Keys => None,
            Self::Hash(key) | Self::Set(key) | Self::SortedSet(key) => Some(key),
        }
    }
}

impl Walk {
    fn is_reserved(&self, found: &Found) -> bool {
        self.over == WalkOver::Keys && is_reserved(&found.name)
    }

    fn request(&self, cursor: u64) -> Vec<u8> {
        let (cursor, mut count) = (cursor.to_string(), Number::default());
        let mut words: Vec<&[u8]> = match &self.over {
            WalkOver::Keys => vec![b"SCAN"],
            WalkOver::Hash(key) => vec![b"HSCAN", key],
            WalkOver::Set(key) => vec![b"SSCAN", key],
            WalkOver::SortedSet(key) => vec![b"ZSCAN", key],
        };
        words.push(cursor.as_bytes());
        if let Some(pattern) = &self.filter.pattern {
            words.extend([&b"MATCH"[..], pattern]);
        }
        if let Some(kind) = &self.filter.kind {
            words.extend([&b"TYPE"[..], kind]);
        }
        words.extend([&b"COUNT"[..], count.digits(self.filter.count.min(LONGEST_PAGE))]);
        let mut request = Vec::new();
        request::encode(&mut request, &words);
        request
    }
}

fn too_large() -> Reply {
    Reply::error("ERR a master's cursor is too large to pass on: scan that master directly")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_asks_for_goes_to_the_master_but_no_page_is_endless() {
        let filter = |count| Filter { pattern: Some("a*".into()), kind: None, count };
        let walk = |count| Walk {
            db: 0,
            over: WalkOver::Hash("h".into()),
            filter: filter(count),
            extent: WalkExtent::From(0),
        };
        let words = |count| String::from_utf8(walk(count).request(7)).expect("text");
        let sent = words(5).replace("\r\n", " ");
        assert_eq!(sent, "*7 $5 HSCAN $1 h $1 7 $5 MATCH $2 a* $5 COUNT $1 5 ");
        assert!(words(i64::MAX).ends_with("\r\n100\r\n"));
    }
}
