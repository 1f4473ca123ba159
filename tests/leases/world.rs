//! Masters, links, proxies and clients, and the knowledge of each.

use std::collections::VecDeque;
use std::time::Duration;

use crate::specification::lease::MasterLease;
use redlock_proxy::decision::lease::attempt::{Attempt, Tag, WorkerId};
use redlock_proxy::decision::lease::claim::{Claim, Terms};
use redlock_proxy::decision::lease::delete::{self, Delete};
use redlock_proxy::decision::lease::extend::Extend;
use redlock_proxy::decision::lease::release::Release;
use redlock_proxy::decision::lease::{claim, extend, release};
use redlock_proxy::decision::quorum::{MasterSet, Quorum};

use crate::bugs::Bug;

pub(crate) const MASTERS: usize = 3;
pub(crate) const PROXIES: usize = 2;

/// Possible events and their limits. All times are in ticks.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// Jobs of each client, in order. Each begins after the previous one was answered.
    pub(crate) scripts: Vec<Vec<Job>>,
    /// Token of each client.
    pub(crate) tokens: Vec<u8>,
    pub(crate) cuts: u8,
    pub(crate) forgets: u8,
    /// Maximum retries of a split vote.
    pub(crate) retries: u32,
    /// Maximum repetitions of a claim.
    pub(crate) rounds: u8,
    /// Whether every reply is heard as soon as it is given.
    pub(crate) prompt: bool,
    /// Duration of a lease.
    pub(crate) lease: u8,
    pub(crate) freshness: u8,
    pub(crate) vote_timeout: u8,
    pub(crate) patience: u8,
    /// The last tick.
    pub(crate) end: u8,
    /// Whether deadlines come while masters are merely slow. A tick is coarse, so they may come
    /// within one.
    pub(crate) hasty: bool,
    /// Whether the first client holds the lease when the world begins, through the first proxy, and
    /// on all masters but the first.
    pub(crate) begins_held: bool,
    /// Events that must happen in some history, or the world shows nothing.
    pub(crate) reaches: Vec<Event>,
    /// The missing rule.
    pub(crate) bug: Option<Bug>,
}

/// An event that must be possible.
pub(crate) type Event = (&'static str, fn(&World, &State) -> bool);

/// A client's job and the proxy it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Job {
    /// `SET key token NX PX ttl`.
    Claim(usize),
    /// Takes the key, or extends it if it holds the token.
    Acquire(usize),
    Extend(usize),
    /// An extension to less than the remaining time: to one tick.
    Shorten(usize),
    Release(usize),
    /// `DEL key`, whoever holds it.
    Delete(usize),
}

impl Job {
    pub(crate) fn proxy(self) -> usize {
        match self {
            Self::Claim(proxy)
            | Self::Acquire(proxy)
            | Self::Extend(proxy)
            | Self::Shorten(proxy)
            | Self::Release(proxy)
            | Self::Delete(proxy) => proxy,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) now: u8,
    pub(crate) masters: [Master; MASTERS],
    pub(crate) clients: Vec<Client>,
    /// Links from each proxy to each master.
    pub(crate) links: [[Link; MASTERS]; PROXIES],
    pub(crate) flights: Vec<Flight>,
    /// Deliveries that wait for a freshness to pass.
    pub(crate) later: Vec<Later>,
    /// Version under which proxies send.
    pub(crate) roster: u8,
    /// Incarnation of each member in each version; `None` if it is out.
    pub(crate) rosters: Vec<[Option<u8>; MASTERS]>,
    pub(crate) cuts: u8,
    pub(crate) forgets: u8,
    /// Attempts that were granted and not released since.
    pub(crate) live: Vec<Attempt>,
    /// Attempts that were released successfully.
    pub(crate) released: Vec<Attempt>,
    /// Attempts that releases have deleted on some master.
    pub(crate) given_back: Vec<(FlightId, Attempt)>,
    /// Attempts that were granted before a successful deletion began.
    pub(crate) deleted: Vec<Attempt>,
    pub(crate) seen: Seen,
}

/// Past events, for the properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    /// A release was a success although another client held the key all the time.
    pub(crate) false_release: bool,
    /// A deletion found nothing although another client held the key all the time.
    pub(crate) false_missing: bool,
    /// One release has deleted two leases.
    pub(crate) ended_two: bool,
    /// A quorum kept a lease for longer than its client was told.
    pub(crate) ends_late: bool,
    pub(crate) afresh: bool,
    pub(crate) held: bool,
    pub(crate) extended: bool,
    pub(crate) deleted: bool,
    pub(crate) admitted: bool,
    pub(crate) went_on: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Master {
    pub(crate) key: Option<MasterLease<u8>>,
    /// Roster version in its mark; `None` if it has forgotten.
    pub(crate) mark: Option<u8>,
    /// Version that admitted it, which names its incarnation.
    pub(crate) born: u8,
    /// Whether the roster has put it out.
    pub(crate) is_out: bool,
    /// Whether it ever forgot.
    pub(crate) forgot: bool,
    /// Whether anything has happened to it.
    pub(crate) touched: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    /// Index of the next job in its script.
    pub(crate) next: usize,
    /// The lease that it believes in.
    pub(crate) holds: Option<Holds>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holds {
    pub(crate) attempt: Attempt,
    /// First tick at which it no longer believes in the lease.
    pub(crate) until: u8,
    /// Whether it asked to find its own token, and so shares the lease with any client that has
    /// that token.
    pub(crate) shares: bool,
    /// Clients whose deletion is in progress and may end the lease, as bits.
    pub(crate) doubts: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Link {
    pub(crate) requests: VecDeque<Request>,
    pub(crate) replies: VecDeque<Reply>,
    /// Requests still held by an earlier connection that is lost but not closed by the master.
    pub(crate) old: VecDeque<Request>,
}

impl Link {
    pub(crate) fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.replies.is_empty() && self.old.is_empty()
    }
}

/// Client, and index of the job in its script.
pub(crate) type FlightId = (usize, usize);

/// A job in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Flight {
    pub(crate) id: FlightId,
    pub(crate) proxy: usize,
    pub(crate) operation: Operation,
    /// Whether the client has its answer.
    pub(crate) told: bool,
    pub(crate) pausing: bool,
    /// Number of attempts before the current one.
    pub(crate) round: u8,
    /// Masters that said yes to the current attempt or deleted the key, as bits; only planted bugs
    /// use it.
    pub(crate) yes: u8,
    /// Another client that held the key at the start, and its attempt.
    pub(crate) rival: Option<(usize, Attempt)>,
    /// Whether a client released this token meanwhile, and may have hit the lease granted to this
    /// flight.
    pub(crate) overlaps: bool,
    /// The attempt that a release or deletion deletes.
    pub(crate) meant: Option<Attempt>,
    /// Clients whose deletion overlaps with this claim or extension and has no answer yet, as bits.
    pub(crate) doubts: u8,
    /// Attempts ended by deletions that overlap with this flight.
    pub(crate) ended: Vec<Attempt>,
    /// Attempts that were live when a deletion began.
    pub(crate) before: Vec<Attempt>,
    /// Leases that clients believed in when a deletion began.
    pub(crate) found: Vec<(usize, Attempt)>,
    /// Values that an extension has left on masters where they end later than the client wants.
    pub(crate) later: Vec<(usize, Tag, u64)>,
    /// Incarnations of the masters whose answers count in this poll.
    pub(crate) counted: [Option<u8>; MASTERS],
    /// Newest roster version that an answer has proved.
    pub(crate) term: u8,
    /// Values that masters showed to a deletion; only planted bugs use it.
    pub(crate) shown: Vec<(usize, Option<Tag>)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    Claim(Claim),
    Extend(Extend),
    Release(Release),
    Delete(Delete),
}

impl Operation {
    /// Forgets the answers of masters. Returns whether the operation goes on without them.
    pub(crate) fn forget(&mut self, masters: MasterSet) -> bool {
        match self {
            Self::Claim(_) => return false,
            Self::Extend(extend) => return extend.forget(masters),
            Self::Release(release) => release.forget(masters),
            Self::Delete(delete) => delete.forget(masters),
        }
        true
    }

    /// Notes that an answer was lost, or does not count: another round may get more.
    pub(crate) fn lacks_an_answer(&mut self) {
        match self {
            Self::Claim(_) => {}
            Self::Extend(extend) => extend.expect_more(true),
            Self::Release(release) => release.expect_more(true),
            Self::Delete(delete) => delete.expect_more(true),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        match self {
            Self::Claim(claim) => claim.deadline(),
            Self::Extend(extend) => extend.deadline(),
            Self::Release(release) => release.deadline(),
            Self::Delete(delete) => delete.deadline(),
        }
    }
}

/// A delivery that is due at a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Later {
    pub(crate) due: u8,
    pub(crate) proxy: usize,
    pub(crate) master: usize,
    pub(crate) attempt: Attempt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    pub(crate) command: Command,
    /// Flight that waits for the answer.
    pub(crate) flight: Option<FlightId>,
    pub(crate) round: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Command {
    Claim {
        tag: Tag,
        token: u8,
        ttl: u8,
        or_prolong: bool,
    },
    Extend {
        token: u8,
        ttl: u8,
    },
    /// Shortens the value left by the extension before it, identified by the tag.
    Shorten {
        tag: Tag,
        seen_ms: u64,
        ttl: u8,
    },
    Look {
        token: u8,
    },
    Show,
    Delete(Tag),
    /// A release by the holder, which compares the token as well.
    GiveBack(Tag, u8),
    /// With the token, which only planted bugs compare.
    TakeBack(Tag, u8),
    Deliver(Attempt),
    /// Compares only the token; used by planted bugs.
    DeleteToken(u8),
    /// Compares nothing at all; used by planted bugs.
    DeleteAnything,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reply {
    pub(crate) flight: FlightId,
    pub(crate) round: u8,
    pub(crate) answer: Answer,
    /// Roster version and incarnation that the master has proved.
    pub(crate) proof: Option<(u8, u8)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Claim(Attempt, claim::Vote),
    /// With the current tag and end of a copy.
    Extend(extend::Vote, Option<(Tag, u64)>),
    Shortened,
    /// Whether the copy was shortened is unknown.
    Unshortened,
    Sight(release::Sight),
    Shown(delete::Sight),
    Delete(release::Vote),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Tick,
    Start(usize),
    /// A deadline comes.
    Deadline(FlightId),
    /// The pause before the next attempt is over.
    Again(FlightId),
    Execute(usize, usize),
    ExecuteOld(usize, usize),
    Hear(usize, usize),
    Cut(usize, usize),
    Forget(usize),
    PutOut(usize),
    Admit(usize),
    Redeliver(usize),
}

impl World {
    /// A world without faults in which clients with different tokens run these scripts.
    pub(crate) fn new(scripts: &[&[Job]]) -> Self {
        Self {
            scripts: scripts.iter().map(|script| script.to_vec()).collect(),
            tokens: vec![1, 2],
            cuts: 0,
            forgets: 0,
            retries: 0,
            rounds: 1,
            prompt: true,
            lease: 2,
            freshness: 0,
            vote_timeout: 1,
            patience: 2,
            end: 0,
            hasty: true,
            begins_held: false,
            reaches: Vec::new(),
            bug: None,
        }
    }

    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    pub(crate) fn terms(&self) -> Terms {
        Terms {
            quorum: Quorum::of(MASTERS),
            vote_timeout: ticks(self.vote_timeout),
            patience: ticks(self.patience),
            retries: self.retries,
        }
    }

    pub(crate) fn start(&self) -> State {
        let master = Master {
            key: None,
            mark: Some(0),
            born: 0,
            is_out: false,
            forgot: false,
            touched: false,
        };
        let state = State {
            now: 0,
            masters: std::array::from_fn(|_| master.clone()),
            clients: vec![Client::default(); self.scripts.len()],
            links: Default::default(),
            flights: Vec::new(),
            later: Vec::new(),
            roster: 0,
            rosters: vec![[Some(0); MASTERS]],
            cuts: 0,
            forgets: 0,
            live: Vec::new(),
            released: Vec::new(),
            given_back: Vec::new(),
            deleted: Vec::new(),
            seen: Seen::default(),
        };
        if self.begins_held { self.held(state) } else { state }
    }

    fn held(&self, mut state: State) -> State {
        let attempt = attempt(0, (0, 9), 0);
        let end_ms = u64::from(self.lease + self.freshness);
        let lease = MasterLease { tag: attempt.fresh(), token: self.tokens[0], end_ms };
        let (first, others) = state.masters.split_at_mut(1);
        others.iter_mut().for_each(|master| master.key = Some(lease));
        first[0].touched = true;
        state.clients[0].holds =
            Some(Holds { attempt, until: self.lease, shares: false, doubts: 0 });
        state.live.push(attempt);
        state
    }
}

impl State {
    pub(crate) fn time(&self) -> Duration {
        ticks(self.now)
    }

    /// Records it if one release has deleted copies of two live leases.
    pub(crate) fn count_ends(&mut self) {
        let of = |id: FlightId| {
            let hits = self.given_back.iter().filter(move |(by, _)| *by == id);
            hits.filter(|(_, attempt)| self.live.contains(attempt)).count()
        };
        self.seen.ended_two |= self.given_back.iter().any(|(id, _)| of(*id) > 1);
    }

    pub(crate) fn position(&self, id: FlightId) -> Option<usize> {
        self.flights.iter().position(|flight| flight.id == id)
    }

    pub(crate) fn is_busy(&self, client: usize) -> bool {
        self.flights.iter().any(|flight| flight.id.0 == client && !flight.told)
    }

    /// Whether an earlier untouched master stands for this one: masters to which nothing has
    /// happened yet are alike.
    pub(crate) fn is_like_another(&self, master: usize) -> bool {
        let untouched = |master: usize| !self.masters[master].touched;
        untouched(master) && (0..master).any(untouched)
    }

    pub(crate) fn send(
        &mut self,
        proxy: usize,
        master: usize,
        command: Command,
        to: Option<(FlightId, u8)>,
    ) {
        let (flight, round) = to.map_or((None, 0), |(flight, round)| (Some(flight), round));
        let request = Request { command, flight, round };
        self.links[proxy][master].requests.push_back(request);
    }
}

pub(crate) fn ticks(ticks: u8) -> Duration {
    Duration::from_secs(u64::from(ticks))
}

/// Names an attempt by its job, so that equivalent orders of events lead to one state.
pub(crate) fn attempt(proxy: usize, (client, job): FlightId, round: u8) -> Attempt {
    let counter = 100 * client as u64 + 10 * job as u64 + u64::from(round);
    Attempt::new(WorkerId::new(proxy as u64), counter)
}
