//! One run: masters, proxies, clients and the faults between them, all drawn from one seed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use redlock_proxy::engine::link::Link;
use redlock_proxy::time::clock;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::canary;
use super::client::Client;
use super::equal_tokens::Releases;
use super::faults;
use super::history::{self, Histories};
use super::journal::{Counts, Journal};
use super::lua::Scripts;
use super::master::Master;
use super::network::Way;
use super::operator;
use super::plan::Plan;
use super::polling::{Line, Overtaken};
use super::proxy::{Proxy, Road, Roads, at_address};

/// Everything in a run.
pub struct World {
    pub plan: Plan,
    pub journal: Journal,
    /// Histories of the registers.
    pub histories: RefCell<Histories>,
    /// Releases of the token that clients share.
    pub releases: Releases,
    /// Clients that wait for the lock for which all poll.
    pub line: Line,
    pub masters: Vec<Rc<Master>>,
    pub proxies: Vec<Rc<Proxy>>,
    roads: Vec<Roads>,
    health: RefCell<Vec<Vec<Health>>>,
    /// Last time that each master's keys changed in a way that proxies notice only when they check.
    meddled: RefCell<Vec<Option<Instant>>>,
    /// Last time that an operator's change of the members was under way.
    changed: Cell<Option<Instant>>,
    ending: Cell<bool>,
}

/// State of faults between a proxy and a master.
#[derive(Clone, Copy)]
struct Health {
    faults: u32,
    /// When a fault last began or ended.
    since: Instant,
}

/// Result of a run.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    /// The broken rule and the events before it.
    pub broken: Option<String>,
    pub counts: Counts,
    /// The worst that happened to a client that polled.
    pub overtaken: Overtaken,
    pub simulated: Duration,
    /// Digest of all events.
    pub digest: String,
}

/// Some day in 2023.
const WALL_CLOCK: Duration = Duration::from_secs(1_700_000_000);

/// Age of masters when a run begins: older than any wait.
const AGE: Duration = Duration::from_secs(3_600);

/// Time after the last fault between a proxy and a master until it has no more effect: the link is
/// back after at most a second, and slow requests have been answered.
const RECOVERY: Duration = Duration::from_secs(6);

impl World {
    /// Runs `plan` from beginning to end.
    pub async fn run(plan: Plan, is_loud: bool) -> Outcome {
        let start = Instant::now();
        let mut rng = Rng::with_seed(plan.seed);
        // All of the proxy's random numbers derive from this seed.
        fastrand::seed(rng.u64(..));
        clock::set_wall_clock(WALL_CLOCK);
        let world = Self::new(plan, is_loud, &mut rng);
        world.proxies.iter().for_each(|proxy| proxy.start());
        world.live(&mut rng).await;
        world.settle().await;
        world.check_registers();
        let journal = &world.journal;
        let (broken, digest) = (journal.broken(), journal.digest());
        let calls = world.histories.borrow().values().map(|calls| calls.len() as u64).sum();
        let counts = Counts { calls, ..journal.counts() };
        let (overtaken, simulated) = (world.line.worst(), start.elapsed());
        Outcome { broken, counts, overtaken, simulated, digest }
    }

    fn new(plan: Plan, is_loud: bool, rng: &mut Rng) -> Rc<Self> {
        let journal = Journal::new(is_loud);
        journal.note(format_args!("{plan:?}"));
        let scripts = Rc::new(RefCell::new(Scripts::new()));
        let all = plan.masters + plan.spares;
        let masters = (0..all).map(|at| {
            let scripts = Rc::clone(&scripts);
            Master::new(at, rng.fork(), scripts, AGE, &plan)
        });
        let masters: Vec<_> = masters.collect();
        let mut way = || {
            let way = Way::new(rng.fork());
            way.set(plan.usual);
            way
        };
        let roads = (0..plan.proxies).map(|_| {
            let road = |master| Road { there: way(), back: way(), master: Rc::clone(master) };
            Roads(masters.iter().map(road).collect())
        });
        let roads: Vec<_> = roads.collect();
        let proxy = |(at, roads): (usize, &Roads)| Proxy::new(at, plan.settings(), roads.clone());
        let proxies = roads.iter().enumerate().map(proxy).collect();
        let health = Health { faults: 0, since: Instant::now() };
        let health = RefCell::new(vec![vec![health; all]; plan.proxies]);
        let meddled = RefCell::new(vec![None; all]);
        let ending = Cell::new(false);
        let (releases, line, histories, changed) = Default::default();
        Rc::new(Self {
            plan,
            journal,
            histories,
            releases,
            line,
            masters,
            proxies,
            roads,
            health,
            meddled,
            changed,
            ending,
        })
    }

    /// Runs until the faults and then the clients have ended.
    async fn live(self: &Rc<Self>, rng: &mut Rng) {
        let mut clients = JoinSet::new();
        for proxy in 0..self.proxies.len() {
            for client in 0..self.plan.clients_per_proxy {
                let name = format!("p{proxy}c{client}");
                let client = Client::new(self, proxy, name, rng.fork());
                if self.plan.all_poll {
                    clients.spawn_local(client.poll());
                } else {
                    clients.spawn_local(client.live());
                }
            }
            clients.spawn_local(canary::sing(Rc::clone(self), proxy, rng.fork()));
        }
        if self.plan.spares > 0 {
            clients.spawn_local(operator::rule(Rc::clone(self), rng.fork()));
        }
        sleep(Duration::from_secs(3)).await;
        faults::haunt(Rc::clone(self), rng.fork()).await;
        self.journal.note("! all is well again");
        sleep(RECOVERY).await;
        self.ending.set(true);
        while let Some(done) = clients.join_next().await {
            done.expect("clients do not panic");
        }
    }

    /// Waits until all TTLs have passed and all deferred work is done, and checks the result.
    async fn settle(self: &Rc<Self>) {
        sleep(self.plan.settling()).await;
        for proxy in &self.proxies {
            self.nothing_is_left(proxy);
        }
        if self.members().any(|master| !self.kept(master).is_empty()) {
            let set_back = self.masters.iter().map(|master| master.clock.borrow().set_back()).max();
            sleep(set_back.unwrap_or_default()).await;
        }
        self.members().for_each(|master| self.nothing_is_kept(master));
        canary::everything_is_free(self).await;
    }

    /// Masters that are members at last, which every proxy then knows.
    fn members(&self) -> impl Iterator<Item = &Rc<Master>> {
        let members = self.proxies[0].members().expect("it serves again");
        self.masters.iter().filter(move |master| members.contains(&master.index))
    }

    /// Rule 4: nothing stays in flight, no debt is left, and every master votes.
    fn nothing_is_left(&self, proxy: &Proxy) {
        let index = proxy.index;
        let worker = proxy.worker().expect("it was started again");
        let in_flight = worker.engine().in_flight();
        if in_flight > 0 {
            self.journal.violation(format_args!(
                "rule 4: proxy {index} still has {in_flight} operations in flight"
            ));
        }
        if let Some((place, since)) = worker.engine().electorate().roster().in_change() {
            self.journal.violation(format_args!(
                "rule 4: proxy {index} still changes member {} since version {since}",
                place.index()
            ));
        }
        let is_member = |link: &Link| worker.engine().electorate().address(link.master()).is_some();
        for link in worker.engine().links().iter().filter(|link| is_member(link)) {
            let is_well = link.is_up()
                && link.deferred() == 0
                && worker.engine().electorate().voters().contains(link.master());
            if !is_well {
                self.journal.violation(format_args!(
                    "rule 4: proxy {index} has not recovered: master {} is {}, owes {}, {:?}",
                    link.master().index(),
                    if link.is_up() { "up" } else { "down" },
                    link.deferred(),
                    worker.engine().electorate().standing(link.master())
                ));
            }
        }
    }

    /// Rule 4: no lock is held any more, so no master has a key.
    fn nothing_is_kept(&self, master: &Master) {
        for (key, token, ttl_ms) in self.kept(master) {
            self.journal.violation(format_args!(
                "rule 4: master {} still has {key} = {token}, for {ttl_ms:?} ms",
                master.index
            ));
        }
    }

    /// Promise 2: registers answer as on one Redis, and in the end all masters hold the same.
    fn check_registers(&self) {
        for (object, calls) in &*self.histories.borrow() {
            if let Err(why) = history::check(calls) {
                self.journal.violation(format_args!("rule 5: {object}: {why}"));
            }
        }
        let held = |master: &Rc<Master>| {
            let mut all = self.held(master);
            all.retain(|(key, ..)| key.starts_with("reg-"));
            all
        };
        let mut members = self.members();
        let first = members.next().expect("there are members");
        for other in members.filter(|other| held(other) != held(first)) {
            self.journal.violation(format_args!(
                "rule 5: master {} holds {:?}, and master {} {:?}",
                first.index,
                held(first),
                other.index,
                held(other)
            ));
        }
    }

    /// Keys that the master still has and must not keep.
    fn kept(&self, master: &Master) -> Vec<(String, String, Option<i64>)> {
        let mut all = self.held(master);
        all.retain(|(key, _, ttl_ms)| !self.may_keep(key, *ttl_ms));
        all
    }

    /// Key, value and remaining time of all its client keys.
    fn held(&self, master: &Master) -> Vec<(String, String, Option<i64>)> {
        let now_ms = master.now_ms();
        let mut process = master.process.borrow_mut();
        process.as_mut().expect("it was started again").keys.all(now_ms)
    }

    /// Whether a master may keep a key. If a master missed the release of a lock without a TTL,
    /// nothing makes up for that after its connection was lost or the proxy died: the lock could
    /// not be told from a younger one. Registers stay.
    fn may_keep(&self, key: &str, ttl_ms: Option<i64>) -> bool {
        key.starts_with("reg-") || key.starts_with("nx-") && ttl_ms.is_none()
    }

    /// Whether a client that has held a lock since then may find it taken by another token.
    ///
    /// Suppose that one master forgets the lock, a second one has it, and a third one has the rest
    /// of a lost claim. Then the forgetful master may be given either. No other client gets the
    /// lock.
    pub fn may_lose(&self, held_since: Instant) -> bool {
        let since_ms = (held_since.elapsed() + 2 * self.plan.restart_wait).as_millis() as i64;
        let forgot = |master: &Rc<Master>| {
            let process = master.process.borrow();
            process.as_ref().is_none_or(|it| master.now_ms() - it.started_ms < since_ms)
        };
        let meddled = self.meddled.borrow();
        let since = Duration::from_millis(since_ms as u64);
        let lately = |at: &Instant| at.elapsed() < since;
        self.masters.iter().any(forgot)
            || meddled.iter().flatten().any(lately)
            || self.changed.get().as_ref().is_some_and(lately)
    }

    /// Records that a master was flushed or its clock was set.
    pub fn meddle(&self, master: usize) {
        self.meddled.borrow_mut()[master] = Some(Instant::now());
    }

    /// Records that members are being added, removed or replaced: what is copied to one is as if it had forgotten it.
    pub fn members_change(&self) {
        self.changed.set(Some(Instant::now()));
    }

    pub fn is_ending(&self) -> bool {
        self.ending.get() || self.journal.broken().is_some()
    }

    /// The road between a proxy and a master.
    pub fn road(&self, proxy: usize, master: usize) -> &Road {
        &self.roads[proxy].0[master]
    }

    /// Records the beginning or end of a fault.
    pub fn disturb(&self, between: Vec<(usize, usize)>, begins: bool) {
        let mut all = self.health.borrow_mut();
        for (proxy, master) in between {
            let health = &mut all[proxy][master];
            health.faults = if begins { health.faults + 1 } else { health.faults - 1 };
            health.since = Instant::now();
        }
    }

    /// Masters that are healthy for this proxy, and have been for long enough.
    pub fn well(&self, proxy: usize) -> BTreeSet<usize> {
        let host = &self.proxies[proxy];
        let settled = host.worker().filter(|_| host.since.get().elapsed() >= RECOVERY);
        let Some(worker) = settled else { return BTreeSet::new() };
        let voters = worker.engine().electorate().voters();
        let electorate = worker.engine().electorate();
        let voter = |master| electorate.address(master).map(|address| at_address(&address));
        let is_undisturbed = |master: &usize| {
            let health = self.health.borrow()[proxy][*master];
            health.faults == 0 && health.since.elapsed() >= RECOVERY
        };
        voters.iter().filter_map(voter).filter(is_undisturbed).collect()
    }

    /// Whether these masters are a quorum for this proxy.
    pub fn are_quorum(&self, proxy: usize, masters: &BTreeSet<usize>) -> bool {
        let worker = self.proxies[proxy].worker();
        worker.is_some_and(|it| masters.len() >= it.engine().electorate().quorum().needed())
    }

    /// Masters that a new proxy would consider young, or that are not running.
    pub fn young_masters(&self) -> impl Iterator<Item = usize> {
        let wait_ms = self.plan.restart_wait.as_millis() as i64 + 5_000;
        let is_young = move |master: &&Rc<Master>| {
            let process = master.process.borrow();
            process.as_ref().is_none_or(|it| master.now_ms() - it.started_ms < wait_ms)
        };
        self.masters.iter().filter(is_young).map(|master| master.index)
    }
}
