//! Keys that a master's own clock has cleaned up.

use bytes::Bytes;
use redlock_proxy::decision::keyspace::proposer::{MasterAnswer, Request};
use redlock_proxy::decision::keyspace::slot::{Refusal, State};
use redlock_proxy::decision::register::ballot::Ballot;
use redlock_proxy::lua::keyspace::SLACK_MS;
use redlock_proxy::operation::register::answer::{Said, said};
use redlock_proxy::operation::register::{Content, Job, Place, ask, stamp};

use crate::now_us;
use crate::support::{Master, Raw, target_is_plain_redis};

async fn prepare(raw: &mut Raw, counter: u64) -> Said {
    let keys = vec![(Place { db: 0, key: Bytes::from_static(b"a") }, 0)];
    let ballot = Ballot { epoch: 0, counter, worker: 1 };
    raw.send(&ask::prepare(&keys, ballot, 0).eval()).await;
    let (reply, frame) = raw.frame().await;
    said(&Request::Prepare(keys, ballot), &frame).unwrap_or_else(|| panic!("{reply:?}"))
}

/// Stores a stamp without a value, whose value was due for cleanup at this time.
async fn stamped(master: &Master, clean_ms: u64) {
    stamped_until(master, clean_ms, 0).await;
}

/// Same as [`stamped`], for a value that stays until then by the master's own clock.
async fn stamped_until(master: &Master, clean_ms: u64, stays_us: u64) {
    let ballot = Ballot { epoch: 0, counter: 5, worker: 1 };
    let value = Content { kind: b's', clean_ms: clean_ms as i64 };
    let place = Place { db: 0, key: Bytes::from_static(b"a") };
    let state = State::<Job> { accepted: ballot, value, stays_us, ..State::default() };
    let text = [&stamp::ballot(ballot)[..], &stamp::write(&state, &place)].concat();
    master.ask(&[b"SET".to_vec(), b"redlock-proxy:s:a".to_vec(), text]).await;
}

/// Claims may have passed and be gone again, so nothing older than the expiry counts any more.
#[tokio::test]
async fn a_key_that_was_cleaned_up_counts_as_promised_at_its_end() {
    if target_is_plain_redis() {
        return;
    }
    let master = Master::start();
    let mut raw = Raw::connect_resp3(&master.address()).await;
    let clean_ms = now_us() / 1000;
    let end_us = (clean_ms - SLACK_MS) * 1000;
    stamped(&master, clean_ms).await;
    let refused = |counter| {
        let promised = Ballot { epoch: 0, counter, worker: 0 };
        Said::Answer(MasterAnswer::Refused(Refusal { promised, latest_us: None }))
    };
    assert_eq!(prepare(&mut raw, end_us - 1).await, refused(end_us));
    let Said::Answer(MasterAnswer::Promised(sights)) = prepare(&mut raw, end_us + 1).await else {
        panic!("a promise")
    };
    assert!(sights[0].is_gone);
}

/// The key is lost, and may be restored.
#[tokio::test]
async fn a_key_that_was_lost_before_its_end_is_promised_for_any_higher_ballot() {
    if target_is_plain_redis() {
        return;
    }
    let master = Master::start();
    let mut raw = Raw::connect_resp3(&master.address()).await;
    stamped(&master, now_us() / 1000 + 1_000_000).await;
    let Said::Answer(MasterAnswer::Promised(sights)) = prepare(&mut raw, 6).await else {
        panic!("a promise")
    };
    assert!(sights[0].is_gone && sights[0].is_lost(6));
}

/// The value has expired by a proxy's clock, but not by the master's own count.
#[tokio::test]
async fn nothing_is_promised_beyond_the_end_of_what_stays() {
    if target_is_plain_redis() {
        return;
    }
    let master = Master::start();
    let mut raw = Raw::connect_resp3(&master.address()).await;
    let clean_ms = now_us() / 1000 + SLACK_MS;
    let end_us = (clean_ms - SLACK_MS) * 1000;
    stamped_until(&master, clean_ms, now_us() + 10_000_000).await;
    let Said::Answer(MasterAnswer::Refused(refusal)) = prepare(&mut raw, end_us).await else {
        panic!("a refusal")
    };
    let early_us = end_us - refusal.latest_us.expect("a time");
    assert!((1..=10_000_000).contains(&early_us), "{early_us}");
    let Said::Answer(MasterAnswer::Promised(sights)) = prepare(&mut raw, end_us - 1).await else {
        panic!("a promise")
    };
    assert!((1..=10_000_000).contains(&sights[0].state.stays_us), "{sights:?}");
    stamped_until(&master, clean_ms, now_us()).await;
    assert!(matches!(prepare(&mut raw, end_us).await, Said::Answer(MasterAnswer::Promised(_))));
}
