//! Faults: kind, time and duration. Every fault is undone.
//!
//! Includes only faults that the proxy promises to tolerate (`docs/how-it-decides.md`): otherwise a
//! violation would be no bug.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use redlock_proxy::config::ColdStart;
use redlock_proxy::time::clock;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::network::Conditions;
use super::proxy::Road;
use super::world::World;

/// Number of kinds of faults.
pub const KINDS: u8 = 19;

/// Kinds that concern the masters' clocks.
pub const CLOCKS: [u8; 2] = [13, 14];

/// Longest time a proxy is stopped. Its clients wait that long for their replies.
const LONGEST_PROXY_STOP: Duration = Duration::from_secs(4);

/// One fault.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Nothing gets through between a proxy and a master.
    Partition(usize, usize),
    /// Nothing gets through in one direction. Either the master hears the proxy, or the proxy hears
    /// the master.
    OneWay(usize, usize, Direction),
    /// A master is cut off from all proxies.
    Isolation(usize),
    /// All connections between a proxy and a master break.
    Cut(usize, usize),
    /// Many packets have to be sent twice.
    Loss(usize, usize),
    /// A master is slow at every command.
    Slowness(usize),
    /// SIGSTOP, and later SIGCONT.
    Stop(usize),
    /// All masters are stopped together, as on a busy host.
    Hiccup,
    /// A process ends, and later another one starts that remembers nothing.
    Restart(usize),
    /// A process ends, and another one starts with data that the old one held some time ago.
    OlderVolume(usize),
    /// SIGSTOP for a proxy, and later SIGCONT.
    ProxyStop(usize),
    /// A proxy dies without warning and comes back.
    ProxyDeath(usize),
    /// A master forgets its scripts.
    ScriptFlush(usize),
    /// All connections of a master are killed.
    ClientKill(usize),
    /// A master is flushed.
    Flush(usize),
    /// The clock of a master is set.
    ClockStep(usize, i64),
    /// The clock of a master runs too fast or too slow.
    ClockRate(usize, f64),
    /// The wall clock of the proxies jumps.
    WallJump(i64),
}

#[derive(Clone, Copy, Debug)]
enum Direction {
    There,
    Back,
}

/// Causes faults until the time for them is over. Returns once all of them are undone.
pub async fn haunt(world: Rc<World>, mut rng: Rng) {
    if world.plan.faults.is_empty() {
        return sleep(world.plan.chaos).await;
    }
    let end = Instant::now() + world.plan.chaos;
    let mut going_on = JoinSet::new();
    while Instant::now() < end {
        let pause_ms = rng.u64(0..world.plan.longest_calm.as_millis() as u64);
        sleep(Duration::from_millis(pause_ms)).await;
        let fault = Fault::draw(&world, &mut rng);
        if !fault.is_bearable(&world) {
            continue;
        }
        let lasts = fault.longest().min(Duration::from_millis(match rng.u8(0..4) {
            0 => rng.u64(1..150),
            1 => rng.u64(100..1_500),
            2 => rng.u64(500..6_000),
            _ => rng.u64(1_000..15_000),
        }));
        going_on.spawn_local(fault.happen(Rc::clone(&world), lasts, rng.fork()));
        while going_on.try_join_next().is_some() {}
    }
    while going_on.join_next().await.is_some() {}
}

impl Fault {
    fn draw(world: &World, rng: &mut Rng) -> Self {
        let (proxy, master) =
            (rng.usize(0..world.proxies.len()), rng.usize(0..world.masters.len()));
        let kinds = &world.plan.faults;
        match kinds[rng.usize(0..kinds.len())] {
            0 => Self::Partition(proxy, master),
            1 => Self::OneWay(proxy, master, Direction::There),
            2 => Self::OneWay(proxy, master, Direction::Back),
            3 => Self::Isolation(master),
            4 => Self::Cut(proxy, master),
            5 => Self::Loss(proxy, master),
            6 => Self::Slowness(master),
            7 => Self::Stop(master),
            8 => Self::ProxyDeath(proxy),
            9 => Self::ScriptFlush(master),
            10 => Self::ClientKill(master),
            11 => Self::WallJump(rng.i64(-100_000..100_000)),
            12 => Self::Flush(master),
            13 => Self::ClockStep(master, rng.i64(-20_000..20_000)),
            14 => Self::ClockRate(master, 0.5 + rng.f64()),
            15 => Self::OlderVolume(master),
            16 => Self::Hiccup,
            17 => Self::ProxyStop(proxy),
            _ => Self::Restart(master),
        }
    }

    /// A proxy that trusts masters that are all young (`--cold-start trust`) must not meet a quorum
    /// of masters that have just forgotten everything.
    fn is_bearable(&self, world: &World) -> bool {
        match self {
            Self::Restart(master) | Self::OlderVolume(master) => {
                let others_young = world.young_masters().filter(|young| young != master).count();
                world.plan.cold_start == ColdStart::Wait || others_young < world.plan.minority()
            }
            // A lock without a TTL may stand on few masters for long.
            Self::Flush(_) | Self::ClockStep(..) | Self::ClockRate(..) => {
                !world.plan.may_hold_forever
            }
            _ => true,
        }
    }

    fn longest(&self) -> Duration {
        match self {
            Self::ProxyStop(_) => LONGEST_PROXY_STOP,
            _ => Duration::MAX,
        }
    }

    async fn happen(self, world: Rc<World>, lasts: Duration, mut rng: Rng) {
        world.journal.note(format_args!("! {self} for {lasts:?}"));
        world.disturb(self.disturbs(&world), true);
        self.begin(&world, &mut rng);
        if self.has_duration() {
            sleep(lasts).await;
            self.end(&world);
            world.journal.note(format_args!("! {self} is over"));
        }
        world.disturb(self.disturbs(&world), false);
    }

    fn has_duration(&self) -> bool {
        use Fault::{ClientKill, ClockStep, Cut, Flush, ScriptFlush, WallJump};
        !matches!(
            self,
            Cut(..) | ScriptFlush(_) | ClientKill(_) | WallJump(_) | Flush(_) | ClockStep(..)
        )
    }

    fn begin(&self, world: &World, rng: &mut Rng) {
        match *self {
            Self::Partition(proxy, master) => {
                let Road { there, back, .. } = world.road(proxy, master);
                there.block();
                back.block();
            }
            Self::OneWay(proxy, master, Direction::There) => {
                world.road(proxy, master).there.block()
            }
            Self::OneWay(proxy, master, Direction::Back) => world.road(proxy, master).back.block(),
            Self::Isolation(master) => {
                for proxy in 0..world.proxies.len() {
                    Self::Partition(proxy, master).begin(world, rng);
                }
            }
            Self::Cut(proxy, master) => {
                let Road { there, back, .. } = world.road(proxy, master);
                there.cut();
                back.cut();
            }
            Self::Loss(proxy, master) => {
                let longest = Duration::from_millis(rng.u64(1..60));
                let lossy = Conditions { longest, lost_per_mille: rng.u32(0..300) };
                let Road { there, back, .. } = world.road(proxy, master);
                there.set(lossy);
                back.set(lossy);
            }
            Self::Slowness(master) => {
                let takes = Duration::from_millis(rng.u64(1..120));
                world.masters[master].service.set(takes);
            }
            Self::Stop(master) => world.masters[master].stop(),
            Self::Hiccup => world.masters.iter().for_each(|master| master.stop()),
            Self::Restart(master) => world.masters[master].kill(),
            Self::OlderVolume(master) => world.masters[master].back_up(),
            Self::ProxyStop(proxy) => world.proxies[proxy].stop(),
            Self::ProxyDeath(proxy) => world.proxies[proxy].kill(),
            Self::ScriptFlush(master) => {
                if let Some(process) = &mut *world.masters[master].process.borrow_mut() {
                    process.loaded.clear();
                }
            }
            Self::ClientKill(master) => {
                if let Some(process) = &*world.masters[master].process.borrow() {
                    process.connections.values().for_each(|connection| connection.kill());
                }
            }
            Self::Flush(master) => {
                world.meddle(master);
                world.masters[master].flush();
            }
            Self::ClockStep(master, ms) => {
                world.meddle(master);
                world.masters[master].clock.borrow_mut().step(ms);
            }
            Self::ClockRate(master, rate) => {
                world.meddle(master);
                world.masters[master].clock.borrow_mut().set_rate(rate);
            }
            Self::WallJump(ms) => {
                let now_ms = u64::try_from(clock::unix_micros() / 1000 + ms).unwrap_or_default();
                clock::set_wall_clock(Duration::from_millis(now_ms));
            }
        }
    }

    fn end(&self, world: &World) {
        match *self {
            Self::Partition(proxy, master) | Self::OneWay(proxy, master, _) => {
                let Road { there, back, .. } = world.road(proxy, master);
                there.free();
                back.free();
            }
            Self::Isolation(master) => {
                for proxy in 0..world.proxies.len() {
                    Self::Partition(proxy, master).end(world);
                }
            }
            Self::Loss(proxy, master) => {
                let Road { there, back, .. } = world.road(proxy, master);
                there.set(world.plan.usual);
                back.set(world.plan.usual);
            }
            Self::Slowness(master) => world.masters[master].service.set(Duration::ZERO),
            Self::ClockRate(master, _) => {
                world.meddle(master);
                world.masters[master].clock.borrow_mut().set_rate(1.0);
                world.masters[master].clock.borrow_mut().step(0);
            }
            Self::Stop(master) => world.masters[master].resume(),
            Self::Hiccup => world.masters.iter().for_each(|master| master.resume()),
            Self::OlderVolume(master) => world.masters[master].restore(),
            Self::ProxyStop(proxy) => world.proxies[proxy].resume(),
            // Another fault of the same kind may have started it already.
            Self::Restart(master) if !world.masters[master].is_running() => {
                world.masters[master].start();
            }
            Self::ProxyDeath(proxy) if world.proxies[proxy].worker().is_none() => {
                world.proxies[proxy].start();
            }
            _ => {}
        }
    }

    /// Affected pairs, as (proxy, master).
    fn disturbs(&self, world: &World) -> Vec<(usize, usize)> {
        let (proxies, masters) = (0..world.proxies.len(), 0..world.masters.len());
        match *self {
            Self::Partition(proxy, master)
            | Self::OneWay(proxy, master, _)
            | Self::Cut(proxy, master)
            | Self::Loss(proxy, master) => vec![(proxy, master)],
            Self::ProxyDeath(proxy) | Self::ProxyStop(proxy) => {
                masters.map(|master| (proxy, master)).collect()
            }
            Self::Hiccup => {
                proxies.flat_map(|at| masters.clone().map(move |it| (at, it))).collect()
            }
            Self::Isolation(master)
            | Self::Slowness(master)
            | Self::Stop(master)
            | Self::Restart(master)
            | Self::OlderVolume(master)
            | Self::ScriptFlush(master)
            | Self::Flush(master)
            | Self::ClockStep(master, _)
            | Self::ClockRate(master, _)
            | Self::ClientKill(master) => proxies.map(|proxy| (proxy, master)).collect(),
            Self::WallJump(_) => Vec::new(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
