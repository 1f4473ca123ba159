//! The memory of stamps: which programs they remember.

use redlock_proxy::decision::keyspace::proposer::{MasterAnswer, Request};
use redlock_proxy::decision::register::acceptor::Fate;
use redlock_proxy::decision::register::ballot::Ballot;
use redlock_proxy::lua::keyspace::KEEP;
use redlock_proxy::operation::register::answer::{Said, said};
use redlock_proxy::operation::register::{Place, RegisterReply, ask};

use crate::single::{apply, place, run, start, wrap};
use crate::support::{Raw, target_is_plain_redis};

/// Counters of the first and the last program's ballots.
const FIRST: u64 = 10;
const LAST: u64 = FIRST + KEEP.last as u64 + 2;

#[tokio::test]
async fn a_stamp_says_which_programs_it_does_not_remember() {
    if target_is_plain_redis() {
        return;
    }
    for keys in [&["a"][..], &["a", "b"]] {
        let (_master, mut raw) = start().await;
        let places: Vec<Place> = keys.iter().map(|key| place(key)).collect();
        for counter in FIRST..=LAST {
            count(&mut raw, &places, counter).await;
        }
        for fates in fates(&mut raw, &places).await {
            let oldest = LAST + 1 - KEEP.last as u64;
            for (counter, fate) in (FIRST - 1..).zip(fates) {
                let is_right = match fate {
                    Fate::NotKnown => counter < oldest,
                    Fate::Ran(_) => (oldest..=LAST).contains(&counter),
                    Fate::DidNotRun => counter > LAST,
                };
                assert!(is_right, "{keys:?}: what ran under {counter} is {fate:?}");
            }
        }
    }
}

/// Runs a program that writes all keys, under this counter and on the state left by the previous
/// one.
async fn count(raw: &mut Raw, places: &[Place], counter: u64) {
    let incr = wrap("for _, key in ipairs({ 'a', KEYS[2] }) do redis.call('incr', key) end");
    let mut request = apply(&incr, places, 0, counter);
    let Request::Apply(apply) = &mut request else { unreachable!("a program") };
    apply.program.keys = places.iter().map(|place| place.key.clone()).collect();
    if counter > FIRST {
        let accepted = Ballot { epoch: 0, counter: counter - 1, worker: 1 };
        apply.basis.iter_mut().for_each(|basis| basis.accepted = accepted);
    }
    let Said::Answer(MasterAnswer::Applied(ran)) = run(raw, &request).await else {
        panic!("{counter} has not run");
    };
    assert!(ran.wrote);
}

/// Reads from the stamp of each key the fates of all programs, from before the first until after
/// the last.
async fn fates(raw: &mut Raw, places: &[Place]) -> Vec<Vec<Fate<RegisterReply>>> {
    let of = |counter| Ballot { epoch: 0, counter, worker: 1 };
    let keys: Vec<_> = places.iter().map(|place| (place.clone(), 0)).collect();
    raw.send(&ask::prepare(&keys, of(LAST + 10), 0).eval()).await;
    let request = Request::Prepare(keys, of(LAST + 10));
    let (reply, frame) = raw.frame().await;
    let Some(Said::Answer(MasterAnswer::Promised(sights))) = said(&request, &frame) else {
        panic!("no promise: {reply:?}");
    };
    let recent = sights.iter().map(|sight| &sight.state.recent);
    recent.map(|recent| (FIRST - 1..=LAST + 1).map(|at| recent.fate(of(at))).collect()).collect()
}
