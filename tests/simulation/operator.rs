//! An operator who adds, removes and replaces members while everything else goes wrong.
//!
//! Orders are given to a proxy as the admin port gives them. One that is refused is no fault: a
//! change may be under way, or too few masters may be up. One that was carried out must be finished,
//! by whatever proxy is there.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use redlock_proxy::decision::roster::roster::{Member, Roster};
use redlock_proxy::masters::roster::orders::MemberOrder;
use tokio::time::{Instant, sleep};

use super::proxy::Proxy;
use super::world::World;

/// Longest pause between two orders.
const LONGEST_PAUSE_MS: u64 = 15_000;

/// How often the operator looks whether a change is finished.
const LOOK: Duration = Duration::from_millis(50);

/// How long the operator waits for a change before the next order.
const PATIENCE: Duration = Duration::from_secs(20);

/// Gives orders until the world ends.
pub async fn rule(world: Rc<World>, mut rng: Rng) {
    let mut grows = true;
    while !world.is_ending() {
        sleep(Duration::from_millis(rng.u64(0..LONGEST_PAUSE_MS))).await;
        let proxy = Rc::clone(&world.proxies[rng.usize(0..world.proxies.len())]);
        let Some((order, members)) = next_order(&world, &proxy, &mut grows, &mut rng) else {
            continue;
        };
        world.journal.note(format_args!("operator: {order:?}, of {members:?}"));
        world.members_change();
        world.proxies.iter().for_each(|proxy| proxy.only_join());
        let Some(worker) = proxy.worker() else { continue };
        let obeyed = worker.engine().electorate().order(order).await;
        world.journal.note(format_args!("operator: {obeyed:?}"));
        if matches!(obeyed, Some(Ok(_))) {
            world.journal.count_change();
        }
        wait_for_the_end_of_a_change(&world).await;
    }
}

/// Draws an order. Members are added until there are no spare masters, then removed until there are as many as at first.
fn next_order(
    world: &World,
    proxy: &Proxy,
    grows: &mut bool,
    rng: &mut Rng,
) -> Option<(MemberOrder, BTreeSet<usize>)> {
    let members = proxy.members()?;
    let spare: Vec<usize> = (0..world.masters.len()).filter(|at| !members.contains(at)).collect();
    *grows = match (members.len() <= world.plan.masters, spare.is_empty()) {
        (true, _) => true,
        (_, true) => false,
        _ => *grows,
    };
    let name = |at: usize| format!("master:{}", at + 1);
    let old = name(*members.iter().nth(rng.usize(0..members.len()))?);
    let order = match rng.choice(&spare).map(|at| name(*at)) {
        Some(new) if rng.u8(0..4) == 0 => MemberOrder::Replace { old, new },
        Some(new) if *grows => MemberOrder::Add { new },
        _ => MemberOrder::Remove { old },
    };
    Some((order, members))
}

async fn wait_for_the_end_of_a_change(world: &World) {
    let since = Instant::now();
    while is_under_way(world) && since.elapsed() < PATIENCE && !world.is_ending() {
        world.members_change();
        sleep(LOOK).await;
    }
    world.members_change();
}

/// Whether any proxy knows of a change that is not finished.
fn is_under_way(world: &World) -> bool {
    let is_unfinished = |roster: Roster| {
        let is_out = |member: &Member| member.is_somebody() && !member.is_in();
        roster.in_change().is_some() || roster.members.iter().any(is_out)
    };
    world.proxies.iter().filter_map(|proxy| proxy.roster()).any(is_unfinished)
}
