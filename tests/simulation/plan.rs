//! The plan of one run, drawn from its seed.

use std::time::Duration;

use fastrand::Rng;
use redlock_proxy::config::ColdStart;
use redlock_proxy::config::Settings;
use redlock_proxy::lua::keyspace::SLACK_MS;

use super::faults::{CLOCKS, KINDS};
use super::network::{Conditions, FAIR};

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Members at first.
    pub masters: usize,
    /// Masters that an operator may add, or put in the place of others. If there are none, there is no operator.
    pub spares: usize,
    pub proxies: usize,
    pub clients_per_proxy: usize,
    /// Number of keys, small enough that clients collide.
    pub keys: u8,
    /// Maximum pause of clients between two actions.
    pub idle_ms: u64,
    /// Maximum pause of canaries between two songs.
    pub quiet_ms: u64,
    pub longest_lease: Duration,
    /// Time that a master that has forgotten must wait. Equals the longest lease, as operators are
    /// advised to set it.
    pub restart_wait: Duration,
    pub cold_start: ColdStart,
    /// Whether clients take locks without a TTL. These outlive any wait, so a master that has
    /// forgotten them must copy them before it votes.
    pub may_hold_forever: bool,
    /// Whether a restarted master shows its old marks, which disables the protection.
    pub masters_keep_marks: bool,
    /// How long claims of clients that poll wait in a proxy.
    pub fair_waiting: Duration,
    /// Whether all that clients do is to poll for one lock.
    pub all_poll: bool,
    /// Whether clocks are seconds apart, and may be set or drift.
    pub clocks_differ: bool,
    /// Kinds of faults. With fewer kinds, each coincides with itself more often.
    pub faults: Vec<u8>,
    /// Duration of the faults.
    pub chaos: Duration,
    /// Longest pause between two faults.
    pub longest_calm: Duration,
    pub usual: Conditions,
}

const RESTART: u8 = KINDS - 1;

/// The default of `--fair-waiting`.
pub const FAIR_WAITING: Duration = Duration::from_millis(5);

/// Longer than a quorum of the other masters is ever away, so no master votes before it has copied
/// everything it forgot.
const LONG_WAIT: Duration = Duration::from_secs(60);

/// Time between the expiry of registers and their cleanup by masters.
const SLACK: Duration = Duration::from_millis(SLACK_MS);

impl Plan {
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let restart_wait = pick(&mut rng, &[2_000, 5_000, 15_000, 60_000]);
        let cold_start = if restart_wait == LONG_WAIT || rng.bool() {
            ColdStart::Trust
        } else {
            ColdStart::Wait
        };
        let faults = some_kinds(&mut rng);
        let clocks_differ = faults.iter().any(|kind| CLOCKS.contains(kind));
        let usual = Conditions { longest: pick(&mut rng, &[1, 3, 10]), ..FAIR };
        Self {
            seed,
            masters: if rng.u8(0..3) == 0 { 5 } else { 3 },
            spares: 0,
            proxies: 2,
            clients_per_proxy: rng.usize(2..=4),
            keys: rng.u8(1..=4),
            idle_ms: if rng.bool() { 300 } else { 2_000 },
            quiet_ms: 1_000,
            longest_lease: pick(&mut rng, &[500, 2_000, 15_000]).min(restart_wait),
            restart_wait,
            cold_start,
            may_hold_forever: restart_wait == LONG_WAIT,
            masters_keep_marks: false,
            fair_waiting: FAIR_WAITING,
            all_poll: false,
            clocks_differ,
            faults,
            chaos: Duration::from_secs(rng.u64(60..=240)),
            longest_calm: pick(&mut rng, &[1_000, 4_000, 12_000]),
            usual,
        }
    }

    /// Hours with longer leases and waits, in which one thing goes wrong at a time. Finds problems
    /// that only show with time.
    pub fn unhurried(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let restart_wait = pick(&mut rng, &[60_000, 600_000]);
        let cold_start = if rng.bool() { ColdStart::Trust } else { ColdStart::Wait };
        Self {
            idle_ms: pick(&mut rng, &[20_000, 120_000]).as_millis() as u64,
            quiet_ms: 60_000,
            longest_lease: pick(&mut rng, &[15_000, 60_000, 600_000]).min(restart_wait),
            restart_wait,
            cold_start,
            may_hold_forever: cold_start == ColdStart::Trust,
            chaos: Duration::from_secs(rng.u64(3_600..=3 * 3_600)),
            longest_calm: Duration::from_secs(120),
            ..Self::of(seed)
        }
    }

    /// Masters that forget everything except the marks that should reveal it, again and again while
    /// long locks are held.
    pub fn without_protection(seed: u64) -> Self {
        let lease = Duration::from_secs(15);
        Self {
            masters: 3,
            keys: 1,
            idle_ms: 300,
            longest_lease: lease,
            restart_wait: lease,
            cold_start: ColdStart::Wait,
            may_hold_forever: false,
            masters_keep_marks: true,
            clocks_differ: true,
            faults: vec![RESTART],
            longest_calm: Duration::from_secs(1),
            ..Self::of(seed)
        }
    }

    /// Many clients poll for one lock through one proxy, and nothing goes wrong. The masters are so
    /// near that time passes only while clients hold the lock, or sleep.
    pub fn of_pollers(seed: u64, fair_waiting: Duration) -> Self {
        Self {
            masters: 3,
            proxies: 1,
            clients_per_proxy: 24,
            keys: 1,
            idle_ms: 20,
            longest_lease: Duration::from_secs(1),
            restart_wait: Duration::from_secs(1),
            cold_start: ColdStart::Trust,
            may_hold_forever: false,
            fair_waiting,
            all_poll: true,
            clocks_differ: false,
            faults: Vec::new(),
            chaos: Duration::from_secs(1),
            usual: Conditions { longest: Duration::ZERO, ..FAIR },
            ..Self::of(seed)
        }
    }

    /// The same, with an operator who has two masters more.
    pub fn with_operator(self) -> Self {
        Self { spares: 2, ..self }
    }

    pub fn settings(&self) -> Settings {
        let address = |port| format!("master:{port}").parse().expect("an address");
        let masters = (1..=self.masters).map(address).collect();
        let settings = Settings::try_new(masters).expect("several masters");
        let restart_wait = Some(self.restart_wait);
        let (cold_start, fair_waiting) = (self.cold_start, self.fair_waiting);
        Settings { restart_wait, cold_start, fair_waiting, ..settings }
    }

    /// Number of masters that may be away or forget.
    pub fn minority(&self) -> usize {
        (self.masters - 1) / 2
    }

    /// Time after the faults in which everything under way at their end is over.
    pub fn settling(&self) -> Duration {
        2 * self.restart_wait + 2 * self.longest_lease + SLACK + Duration::from_secs(10)
    }
}

/// Draws about half of the kinds. Clocks are wrong in every other run. Restarts are what Redlock is
/// about, so they occur more often than not.
fn some_kinds(rng: &mut Rng) -> Vec<u8> {
    let clocks_differ = rng.bool();
    let is_there = |kind: &u8| clocks_differ || !CLOCKS.contains(kind);
    let mut kinds: Vec<u8> = (0..RESTART).filter(is_there).filter(|_| rng.bool()).collect();
    if kinds.is_empty() || rng.u8(0..4) > 0 {
        kinds.extend([RESTART, RESTART]);
    }
    kinds
}

fn pick(rng: &mut Rng, choices_ms: &[u64]) -> Duration {
    Duration::from_millis(choices_ms[rng.usize(0..choices_ms.len())])
}
