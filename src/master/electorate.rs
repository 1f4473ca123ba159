//! Who may vote now, for all workers of the process.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::clocks::{Clocks, Reading};
use super::facts::Facts;
use super::looks::Looks;
use super::membership::{Membership, Rival};
use super::probation::{Cause, Probation, Sources, Standing, Terms};
use super::unix_time::UnixTime;
use crate::clock::{self, Instant};
use crate::config::{MasterAddr, Settings};
use crate::quorum::{MasterId, MasterSet, Quorum};

/// What the workers have found out about the masters, together.
///
/// Whoever finds out first that a master was restarted takes its vote away from all of them: no link to
/// the new process comes up before that.
#[derive(Debug)]
pub struct Electorate {
    addresses: Vec<MasterAddr>,
    membership: Membership,
    state: Mutex<State>,
    /// The voters once more, for the hot path.
    voters: AtomicU32,
    unix_time: Arc<UnixTime>,
    /// The standing of some master has changed.
    changed: Notify,
    seen: Vec<Seen>,
}

#[derive(Debug)]
struct State {
    probation: Probation,
    clocks: Clocks,
    /// Masters on which it was seen who else is there.
    looked_at: MasterSet,
    /// Other lists of masters that proxies have announced, by the master on which they did.
    rivals: Vec<Option<Rival>>,
    /// In how many looks in a row one was seen.
    rivals_seen: Vec<u32>,
}

/// In so many looks in a row another list has to be seen, once this proxy serves.
const PATIENCE: u32 = 3;

/// What is only shown.
#[derive(Debug, Default)]
struct Seen {
    /// Microseconds between the last question and its answer.
    latency_us: AtomicU64,
    /// Keys that were copied to it.
    copied: AtomicU64,
    /// Orphans that were removed from it.
    removed: AtomicU64,
    /// How often it came on probation, by [`Cause::kind`].
    probations: [AtomicU64; Cause::KINDS.len()],
    looks: Looks,
}

impl Electorate {
    /// The masters of these settings, which nobody has asked yet.
    pub fn of(settings: &Settings) -> Self {
        let terms = Terms {
            quorum: Quorum::of(settings.masters.len()),
            restart_wait: settings.restart_wait(),
            cold_start: settings.cold_start,
        };
        Self::new(terms, settings.drift, settings.masters.clone())
    }

    /// Masters that nobody has asked yet. `drift` is the largest difference in rate between two clocks.
    pub fn new(terms: Terms, drift: f64, addresses: Vec<MasterAddr>) -> Self {
        let unix_time = Arc::new(UnixTime::new(addresses.len()));
        let state = State {
            probation: Probation::new(terms, clock::now()),
            clocks: Clocks::new(addresses.len(), drift, unix_time.start()),
            looked_at: MasterSet::EMPTY,
            rivals: vec![None; addresses.len()],
            rivals_seen: vec![0; addresses.len()],
        };
        let seen = addresses.iter().map(|_| Seen::default()).collect();
        let membership = Membership::of(&addresses);
        let (voters, changed) = (AtomicU32::new(0), Notify::new());
        Self { addresses, membership, state: Mutex::new(state), voters, unix_time, changed, seen }
    }

    /// The time of day by the masters' clocks.
    pub fn unix_time(&self) -> &Arc<UnixTime> {
        &self.unix_time
    }

    /// The masters that may vote, if they can be reached.
    pub fn voters(&self) -> MasterSet {
        MasterSet::from_bits(self.voters.load(Ordering::Relaxed))
    }

    /// How a master stands.
    pub fn standing(&self, master: MasterId) -> Standing {
        self.state().probation.standing(master).clone()
    }

    /// How often it came on probation, by [`Cause::kind`].
    pub fn probations(&self, master: MasterId) -> [u64; Cause::KINDS.len()] {
        self.seen[master.index()].probations.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Whether it only has to wait.
    pub fn waits(&self, master: MasterId) -> bool {
        matches!(self.standing(master), Standing::Probation { .. })
    }

    /// `; ADDRESS: why` for each of these that must not vote, apart from being out of reach.
    pub fn why_not(&self, masters: MasterSet) -> String {
        let named = |master: MasterId| {
            let why = self.standing(master).reason();
            why.map(|why| format!("; {}: {why}", self.addresses[master.index()]))
        };
        masters.iter().filter_map(named).collect()
    }

    /// Since when it has stood so.
    pub fn since(&self, master: MasterId) -> Instant {
        self.state().probation.since(master)
    }

    /// What it said last about itself.
    pub fn facts(&self, master: MasterId) -> Option<Facts> {
        self.state().probation.facts(master).cloned()
    }

    /// Whether it is known on this master which other proxies are there.
    pub fn was_looked_at(&self, master: MasterId) -> bool {
        self.state().looked_at.contains(master)
    }

    /// The other list of masters that a proxy serves at the same time, and ours.
    pub fn rival(&self) -> Option<(String, String)> {
        let theirs = self.state().rivals.iter().flatten().next().cloned()?;
        Some((self.membership.list().to_owned(), theirs.list))
    }

    /// The looks at a master.
    pub fn looks(&self, master: MasterId) -> &Looks {
        &self.seen[master.index()].looks
    }

    /// A link has asked a master about itself.
    pub fn observe(&self, master: MasterId, facts: Facts) {
        self.change(|state| state.probation.observe(master, facts));
    }

    /// See [`Membership::is_alone`].
    pub fn is_alone(&self, announced: &[String]) -> bool {
        self.membership.is_alone(announced)
    }

    /// What to announce on every master: the list of them, as far as they are known.
    pub fn announcement(&self) -> String {
        self.membership.announcement(&self.state().run_ids())
    }

    /// It was seen on a master who else is there, and how its clock goes.
    pub fn looked_at(&self, master: MasterId, announced: &[String], reading: Option<Reading>) {
        self.change(|state| {
            if let Some(reading) = reading {
                self.read_clock(state, master, reading);
            }
            self.compare(state, master, announced);
            state.looked_at.insert(master);
        });
    }

    /// A master does not answer: what was announced there is not known any more.
    pub fn lost_sight(&self, master: MasterId) {
        self.change(|state| {
            if state.rivals[master.index()].take().is_some() {
                // When it is back, it is as new as at the start: somebody may still be there.
                state.looked_at.remove(master);
            }
            state.rivals_seen[master.index()] = 0;
        });
    }

    /// Whoever is there first is not put out by a list that is about to be corrected: after a restart, not
    /// all proxies learn of it at the same time. Whoever does not serve yet begins only when it is certain that
    /// nobody has other masters: one of its own that cannot be reached now may turn out to be another.
    fn compare(&self, state: &mut State, master: MasterId, announced: &[String]) {
        let rival = self.membership.rival(&state.run_ids(), announced);
        let is_certain = rival.as_ref().is_some_and(|rival| rival.is_certain);
        let seen = &mut state.rivals_seen[master.index()];
        *seen = if is_certain { seen.saturating_add(1) } else { 0 };
        let is_there_for_long = is_certain && *seen >= PATIENCE;
        let keeps_out = state.rivals.iter().any(Option::is_some);
        let may_not_begin = keeps_out || !state.looked_at.contains(master);
        let rival = rival.filter(|_| may_not_begin || is_there_for_long);
        if let Some(rival) = &rival {
            self.report_rival(state, rival);
        }
        state.rivals[master.index()] = rival;
    }

    /// Once.
    fn report_rival(&self, state: &State, rival: &Rival) {
        let (ours, theirs) = (self.membership.list(), &rival.list);
        let mut known = state.rivals.iter().flatten();
        if rival.is_certain && !known.any(|known| known.is_certain) {
            tracing::error!(
                "another proxy has other masters, so that neither may serve: {theirs} there, {ours} here. \
                 Give all proxies the same list"
            );
        } else if !rival.is_certain && known.next().is_none() {
            tracing::info!(
                "another proxy spells its masters differently: {theirs} there, {ours} here. This one serves \
                 once it is known of each what runs there"
            );
        }
    }

    fn read_clock(&self, state: &mut State, master: MasterId, reading: Reading) {
        let latency = reading.answered - reading.asked;
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.seen[master.index()].latency_us.store(micros, Ordering::Relaxed);
        for (master, deviation) in state.clocks.read(master, reading) {
            let cause = Cause::Clock(deviation.to_string());
            state.probation.suspect(master, cause, reading.answered);
        }
        if let Some((micros, uncertain_us)) = state.clocks.at_start(master) {
            self.unix_time.heard_of(master, micros, uncertain_us);
            self.unix_time.follow(state.probation.voters().iter(), uncertain_us);
        }
    }

    /// See [`Probation::everybody_was_met`].
    pub fn everybody_was_met(&self) {
        self.change(|state| state.probation.everybody_was_met(clock::now()));
    }

    /// Resolves at the next change of any standing after this call.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// See [`Probation::may_copy_from`].
    pub fn may_copy_from(&self, master: MasterId, vote_timeout: Duration) -> Option<Instant> {
        self.state().probation.may_copy_from(master, vote_timeout)
    }

    /// See [`Probation::sources`].
    pub fn sources(&self, master: MasterId) -> Option<Sources> {
        self.state().probation.sources(master)
    }

    /// See [`Probation::has_copied`].
    pub fn has_copied(&self, master: MasterId, sources: &Sources) -> bool {
        self.change(|state| state.probation.has_copied(master, sources, clock::now()))
    }

    /// See [`Probation::has_waited`].
    pub fn has_waited(&self, master: MasterId, now: Instant) -> bool {
        self.change(|state| state.probation.has_waited(master, now))
    }

    /// See [`Probation::are_as_before`].
    pub fn are_as_before(&self, sources: &Sources) -> bool {
        self.state().probation.are_as_before(sources)
    }

    /// One more key was copied to `master`.
    pub fn copied(&self, master: MasterId) {
        self.seen[master.index()].copied.fetch_add(1, Ordering::Relaxed);
    }

    /// How many keys were copied to it since the start of the process.
    pub fn keys_copied(&self, master: MasterId) -> u64 {
        self.seen[master.index()].copied.load(Ordering::Relaxed)
    }

    /// An orphan was removed from `master`.
    pub fn removed_orphan(&self, master: MasterId) {
        self.seen[master.index()].removed.fetch_add(1, Ordering::Relaxed);
    }

    /// How many orphans were removed from it since the start of the process.
    pub fn orphans_removed(&self, master: MasterId) -> u64 {
        self.seen[master.index()].removed.load(Ordering::Relaxed)
    }

    /// How long its last answer took.
    pub fn latency(&self, master: MasterId) -> Duration {
        Duration::from_micros(self.seen[master.index()].latency_us.load(Ordering::Relaxed))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every change is told in the log, in one line.
    fn change<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let ids = || (0..self.addresses.len()).map(MasterId::new);
        let before: Vec<Standing> = ids().map(|id| state.probation.standing(id).clone()).collect();
        let result = act(&mut state);
        self.voters.store(state.voters().bits(), Ordering::Relaxed);
        for id in ids().filter(|id| before[id.index()] != *state.probation.standing(*id)) {
            self.report(id, &before[id.index()], state.probation.standing(id));
            self.changed.notify_waiters();
        }
        result
    }

    fn report(&self, master: MasterId, before: &Standing, now: &Standing) {
        let address = &self.addresses[master.index()];
        match (before, now) {
            (_, Standing::Probation { cause, .. }) => {
                self.seen[master.index()].probations[cause.kind()].fetch_add(1, Ordering::Relaxed);
                tracing::warn!(master = %address, "the master is on probation: {cause}");
            }
            (_, Standing::Barred(bar)) => {
                tracing::warn!(master = %address, "the master must not vote: {bar}");
            }
            (Standing::Young, Standing::Voter) => tracing::warn!(
                master = %address,
                "the master was started a short while ago, as the others were: it votes at once, \
                 because this looks like a first deployment (--cold-start trust)"
            ),
            (Standing::Probation { .. }, Standing::Voter) => {
                tracing::info!(master = %address, "the master votes again");
            }
            _ => {}
        }
    }
}

impl State {
    fn run_ids(&self) -> BTreeSet<String> {
        let ids = (0..self.rivals.len()).map(MasterId::new);
        let known = ids.filter_map(|master| self.probation.facts(master));
        known.map(|facts| facts.run_id.clone()).filter(|id| !id.is_empty()).collect()
    }

    fn voters(&self) -> MasterSet {
        if self.rivals.iter().any(Option::is_some) {
            return MasterSet::EMPTY;
        }
        self.probation.voters().and(self.looked_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::master::facts::{Bar, Info};
    use crate::master::probation::ColdStart;
    use crate::quorum::Quorum;

    const HOUR: Duration = Duration::from_secs(3600);

    fn id(master: usize) -> MasterId {
        MasterId::new(master)
    }

    fn facts(run_id: &str) -> Facts {
        Facts {
            run_id: run_id.to_owned(),
            version: "7.0.15".to_owned(),
            role: "master".to_owned(),
            persistence: "none".to_owned(),
            eviction: "noeviction".to_owned(),
            databases: 16,
            uptime: 2 * HOUR,
            bar: Info::parse("").bar(),
            is_durable: false,
            losses: 0,
            at: clock::now(),
        }
    }

    /// Three masters that have been running for long, and were not looked at yet.
    fn electorate() -> Electorate {
        let terms =
            Terms { quorum: Quorum::of(3), restart_wait: HOUR, cold_start: ColdStart::Trust };
        let addresses = ["a:1", "b:1", "c:1"].map(|text| text.parse().expect("an address"));
        let electorate = Electorate::new(terms, 0.01, addresses.into());
        for (master, run_id) in ["a", "b", "c"].into_iter().enumerate() {
            electorate.observe(id(master), facts(run_id));
        }
        electorate
    }

    /// The same, each looked at, with nobody else there.
    fn voting() -> Electorate {
        let electorate = electorate();
        (0..3).for_each(|master| electorate.looked_at(id(master), &[], None));
        assert_eq!(electorate.voters().len(), 3);
        electorate
    }

    /// What a proxy with other masters announces.
    fn rivals() -> [String; 1] {
        let others = ["a:1", "b:1", "d:1"].map(|text| text.parse().expect("an address"));
        [Membership::of(&others).announcement(&["a", "b", "d"].map(str::to_owned).into())]
    }

    #[test]
    fn a_master_does_not_vote_before_it_was_looked_at() {
        let electorate = electorate();
        assert!(electorate.voters().is_empty());
        electorate.looked_at(id(1), &[], None);
        assert_eq!(electorate.voters(), [id(1)].into_iter().collect());
        assert!(electorate.was_looked_at(id(1)) && !electorate.was_looked_at(id(0)));
    }

    #[test]
    fn a_proxy_that_comes_to_others_with_other_masters_does_not_serve_at_all() {
        let electorate = electorate();
        electorate.looked_at(id(0), &rivals(), None);
        (1..3).for_each(|master| electorate.looked_at(id(master), &[], None));
        assert!(electorate.voters().is_empty());
        let told = Some(("a:1,b:1,c:1".to_owned(), "a:1,b:1,d:1".to_owned()));
        assert_eq!(electorate.rival(), told);
        electorate.lost_sight(id(0));
        assert_eq!((electorate.rival(), electorate.voters().len()), (None, 2));
        electorate.looked_at(id(0), &[], None);
        assert_eq!(electorate.voters().len(), 3);
    }

    /// One of its own masters could not be reached when it looked: nobody knows yet whether the other list is
    /// the same under other names.
    #[test]
    fn a_proxy_that_comes_to_others_with_perhaps_other_masters_waits_until_it_is_known() {
        let channel = |ids: &[&str]| {
            let others = ["a:2", "b:2", "c:2"].map(|text| text.parse().expect("an address"));
            let ids = ids.iter().map(|id| (*id).to_owned()).collect();
            [Membership::of(&others).announcement(&ids)]
        };
        let electorate = electorate();
        electorate.looked_at(id(1), &channel(&["a", "b"]), None);
        electorate.looked_at(id(2), &channel(&["a", "b"]), None);
        assert!(electorate.voters().is_empty(), "it is unknown which is the third");
        for _ in 0..2 {
            // They fall silent and come back, one after the other: nothing is known since.
            for master in [1, 2] {
                electorate.lost_sight(id(master));
                electorate.looked_at(id(master), &channel(&["a", "b"]), None);
                assert!(electorate.voters().is_empty());
            }
        }
        (1..3).for_each(|master| electorate.lost_sight(id(master)));
        electorate.looked_at(id(1), &channel(&["a", "b"]), None);
        assert!(electorate.voters().is_empty());
        for master in 0..3 {
            electorate.looked_at(id(master), &channel(&["a", "b", "c"]), None);
        }
        assert_eq!(electorate.voters().len(), 3, "the same masters under other names");
        electorate.looked_at(id(1), &channel(&["a", "b"]), None);
        assert_eq!(electorate.voters().len(), 3, "whoever serves goes on");
    }

    /// After a restart, not all proxies learn of it at the same time.
    #[test]
    fn a_proxy_that_serves_gives_others_time_to_correct_their_list() {
        let electorate = voting();
        for _ in 1..PATIENCE {
            electorate.looked_at(id(0), &rivals(), None);
            assert_eq!(electorate.voters().len(), 3);
        }
        electorate.looked_at(id(0), &[], None);
        for look in 1..=PATIENCE {
            electorate.looked_at(id(0), &rivals(), None);
            assert_eq!(electorate.voters().is_empty(), look == PATIENCE, "look {look}");
        }
        electorate.looked_at(id(0), &[], None);
        assert_eq!(electorate.voters().len(), 3);
    }

    #[test]
    fn it_announces_the_processes_that_it_knows() {
        let electorate = voting();
        assert!(electorate.announcement().contains("a:1,b:1,c:1|a,b,c|"));
        electorate.observe(id(2), Facts { run_id: String::new(), ..facts("") });
        assert!(electorate.announcement().contains("|a,b|"), "one does not tell");
    }

    #[test]
    fn a_clock_that_was_set_costs_the_vote() {
        let electorate = voting();
        let start = clock::now();
        let reading = |second: u32, ahead_micros: i64| {
            let asked = start + second * Duration::from_secs(1);
            let unix_micros = i64::from(second) * 1_000_000 + ahead_micros;
            Some(Reading { asked, answered: asked + Duration::from_millis(4), unix_micros })
        };
        for master in 0..3 {
            electorate.looked_at(id(master), &[], reading(1, 0));
            electorate.looked_at(id(master), &[], reading(2, 0));
        }
        assert_eq!(electorate.latency(id(1)), Duration::from_millis(4));
        electorate.looked_at(id(1), &[], reading(3, 5_000_000));
        for (master, ahead_micros) in [(0, 0), (1, 5_000_000), (2, 0)] {
            electorate.looked_at(id(master), &[], reading(4, ahead_micros));
        }
        assert!(!electorate.voters().contains(id(1)));
        assert!(electorate.waits(id(1)) && !electorate.waits(id(0)));
        let why = electorate.why_not(Quorum::of(3).everybody());
        assert!(why.starts_with("; b:1: its clock has gained 5"), "{why}");
    }

    #[test]
    fn a_master_that_has_forgotten_votes_when_it_has_copied_or_waited() {
        let electorate = voting();
        assert_eq!(electorate.may_copy_from(id(0), Duration::ZERO), None);
        electorate.observe(id(0), facts("new"));
        assert!(electorate.may_copy_from(id(0), Duration::ZERO).is_some());
        assert_eq!(electorate.facts(id(0)).map(|facts| facts.run_id), Some("new".to_owned()));
        let sources = electorate.sources(id(0)).expect("two others");
        assert!(electorate.are_as_before(&sources));
        assert!(electorate.has_copied(id(0), &sources) && electorate.voters().len() == 3);
        electorate.observe(id(0), facts("newer"));
        electorate.observe(id(1), facts("newer as well"));
        assert!(!electorate.are_as_before(&sources) && !electorate.has_copied(id(0), &sources));
        assert!(!electorate.has_waited(id(0), clock::now()));
        assert!(electorate.has_waited(id(0), clock::now() + HOUR));
        assert_eq!(electorate.voters(), [id(0), id(2)].into_iter().collect());
    }

    #[test]
    fn a_master_that_must_not_vote_is_named_with_the_reason() {
        let electorate = voting();
        electorate.observe(id(2), Facts { bar: Some(Bar::Replica), ..facts("c") });
        let why = electorate.why_not(Quorum::of(3).everybody());
        assert_eq!(why, format!("; c:1: {}", Bar::Replica));
        assert_eq!(electorate.standing(id(2)), Standing::Barred(Bar::Replica));
        assert!(!electorate.waits(id(2)), "it does not get better by itself");
    }

    #[tokio::test]
    async fn who_waits_for_a_change_hears_of_it_and_of_nothing_else() {
        let electorate = voting();
        let changed = electorate.changed();
        electorate.observe(id(0), facts("a"));
        electorate.copied(id(0));
        assert_eq!((electorate.keys_copied(id(0)), electorate.keys_copied(id(1))), (1, 0));
        let mut changed = std::pin::pin!(changed);
        assert!(tokio::time::timeout(Duration::ZERO, changed.as_mut()).await.is_err());
        electorate.observe(id(0), facts("new"));
        changed.await;
    }

    #[test]
    fn young_masters_are_judged_once_everybody_was_met() {
        let electorate = electorate();
        let (quorum, restart_wait) = (Quorum::of(3), 5 * HOUR);
        let terms = Terms { quorum, restart_wait, cold_start: ColdStart::Trust };
        let young = Electorate::new(terms, 0.01, electorate.addresses.clone());
        for (master, run_id) in ["a", "b"].into_iter().enumerate() {
            young.observe(id(master), facts(run_id));
            young.looked_at(id(master), &[], None);
        }
        assert!(young.voters().is_empty(), "the third may be old");
        young.everybody_was_met();
        assert_eq!(young.voters().len(), 2);
    }
}
