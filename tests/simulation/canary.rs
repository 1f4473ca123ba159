//! Clients that only check the service: with a quorum of healthy masters, they must be served at
//! once.

use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep};

use super::client::{Client, Gone};
use super::resp::Reply;
use super::world::World;

/// One vote timeout, the default.
const DEADLINE: Duration = Duration::from_millis(50);

/// Deadline while a master joins or leaves, because its proxy may first have to learn of that.
const PATIENCE: Duration = Duration::from_millis(1_500);

const PX: Duration = Duration::from_millis(300);

/// Checks rules 2 and 4 of the promises: with a quorum up, a claim on a free key is granted within
/// one deadline, and again after a release. No other client uses the canary's keys.
pub async fn sing(world: Rc<World>, proxy: usize, mut rng: Rng) {
    let mut client = Client::new(&world, proxy, format!("p{proxy}canary"), rng.fork());
    let mut songs = 0;
    while !world.is_ending() {
        let pause_ms = rng.u64(100..world.plan.quiet_ms);
        sleep(Duration::from_millis(pause_ms)).await;
        let well_before = world.well(proxy);
        if !world.are_quorum(proxy, &well_before) {
            continue;
        }
        songs += 1;
        let sung = client.sing(&format!("p{proxy}-song-{songs}")).await;
        let well_throughout = &well_before & &world.well(proxy);
        match sung {
            Ok(Err(wrong)) if world.are_quorum(proxy, &well_throughout) => world
                .journal
                .violation(format_args!("rule 2: {wrong}, with a quorum of masters well")),
            Ok(_) => {}
            Err(Gone) => client.hang_up(),
        }
    }
}

/// Checks that in the end every key can be taken through every proxy.
pub async fn everything_is_free(world: &Rc<World>) {
    for proxy in 0..world.proxies.len() {
        let name = format!("p{proxy}last");
        let mut client = Client::new(world, proxy, name, Rng::with_seed(world.plan.seed));
        for key in 0..world.plan.keys {
            match client.sing(&format!("key-{key}")).await {
                Ok(Ok(())) => {}
                Ok(Err(wrong)) => {
                    world.journal.violation(format_args!("rule 2: {wrong}, after all has ended"));
                }
                Err(Gone) => world.journal.violation("rule 3: the proxy has hung up"),
            }
        }
    }
}

impl Client {
    /// Takes a key, releases it, and takes it again. Returns a description of what went wrong, if
    /// anything.
    async fn sing(&mut self, key: &str) -> Result<Result<(), String>, Gone> {
        for _ in 0..2 {
            let (token, asked, version) = (self.token(), Instant::now(), self.version());
            let px = PX.as_millis().to_string();
            let reply = self.ask(&["SET", key, &token, "NX", "PX", &px]).await?;
            let took = asked.elapsed();
            let deadline = if self.version() == version { DEADLINE } else { PATIENCE };
            if reply != Reply::ok() || took > deadline {
                return Ok(Err(format!("a claim of the free {key} got {reply:?} after {took:?}")));
            }
            self.granted(key, &token, PX);
            let reply = self.release(key, &token).await?;
            if reply != Reply::Int(1) {
                return Ok(Err(format!("a release of {key} got {reply:?}")));
            }
        }
        Ok(Ok(()))
    }
}
