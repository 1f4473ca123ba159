//! The scripts for the data Redis do what the decisions predict.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

#[path = "specification/mod.rs"]
mod specification;
mod support;

use std::cell::RefCell;

use redlock_proxy::also_claim::script::{Claimed, CopyName};

use crate::specification::data_copy::{self as copy, DataCopy};
use proptest::collection::vec;
use proptest::prelude::*;
use redlock_proxy::also_claim::script::ScriptPlace;
use redlock_proxy::operation::claim::How;
use support::{Master, Raw, Reply};
use tokio::runtime::Runtime;

const KEY: &str = "lock:a";
const BESIDE: &str = "redlock-proxy:moving:lock:a";
const DB: u32 = 3;

/// Ends are whole multiples of this, so that the duration of a test does not matter.
const UNIT_MS: i64 = 1_000_000;

const SEQUENCES: u32 = 400;
const LONGEST_SEQUENCE: usize = 20;

#[derive(Clone, Debug)]
enum Step {
    Claim {
        token: u8,
        name: u8,
        ttl: i64,
        is_ours: bool,
    },
    Extend {
        token: u8,
        name: u8,
        ttl: i64,
    },
    Settle {
        name: u8,
        ttl: Option<i64>,
    },
    TakeBack {
        name: u8,
        token: u8,
    },
    Release {
        token: u8,
    },
    Delete,
    Expire {
        name: u8,
        ttl: i64,
    },
    Persist {
        name: u8,
    },
    /// Set by an old instance, with an end that no other has.
    Set {
        token: u8,
        odd_ms: i64,
    },
}

type Key = Option<DataCopy<u8>>;

fn end(ttl: i64) -> Option<u64> {
    Some(ttl.unsigned_abs())
}

fn named(name: u8) -> CopyName {
    CopyName(u128::from(name) << 100 | 0x0dff)
}

impl Step {
    fn words(&self) -> redis::Cmd {
        let place = ScriptPlace { db: DB, key: KEY.as_bytes().into() };
        match *self {
            Self::Claim { token, name, ttl, is_ours } => {
                let ours = How::IfFreeOrOurs { create: true, prefix: -1 };
                let how = if is_ours { ours } else { How::IfFree };
                place.claim(&[token], named(name), ttl * UNIT_MS, how)
            }
            Self::Extend { token, name, ttl } => {
                let how = How::IfFreeOrOurs { create: false, prefix: -1 };
                place.claim(&[token], named(name), ttl * UNIT_MS, how)
            }
            Self::Settle { name, ttl } => place.settle(named(name), ttl.map(|ttl| ttl * UNIT_MS)),
            Self::TakeBack { name, token } => place.take_back(named(name), &[token]),
            Self::Release { token } => place.release(&[token]),
            Self::Delete => place.delete(),
            Self::Expire { name, ttl } => place.expire(named(name), ttl * UNIT_MS, &[]),
            Self::Persist { name } => place.persist(named(name)),
            Self::Set { token, odd_ms } => redis::cmd("SET")
                .arg(KEY)
                .arg(&[token])
                .arg("PX")
                .arg(9 * UNIT_MS + odd_ms)
                .to_owned(),
        }
    }

    /// Runs the same on the model; returns the answer if the proxy reads it.
    fn act(&self, key: &mut Key) -> Option<i64> {
        let said = match *self {
            Self::Claim { token, name, ttl, is_ours } => {
                let new = DataCopy { token, name: Some(named(name)), end_ms: end(ttl) };
                match copy::claim(key, new, is_ours) {
                    Claimed::Taken => 1,
                    Claimed::Owned => 2,
                    Claimed::Held => 0,
                }
            }
            Self::Extend { .. } if key.is_none() => 0,
            Self::Extend { token, name, ttl } => {
                let new = DataCopy { token, name: Some(named(name)), end_ms: end(ttl) };
                if copy::claim(key, new, true) == Claimed::Owned { 2 } else { 0 }
            }
            Self::Settle { name, ttl } => copy::settle(key, named(name), ttl.and_then(end)).into(),
            Self::TakeBack { name, token } => {
                copy::take_back(key, named(name), &token);
                return None;
            }
            Self::Release { token } => copy::release(key, &token).into(),
            Self::Delete => key.take().is_some().into(),
            Self::Expire { name, ttl } => key.as_mut().map_or(0, |copy| {
                (copy.name, copy.end_ms) = (Some(named(name)), end(ttl));
                1
            }),
            Self::Persist { name } => match key {
                Some(copy) if copy.end_ms.is_some() => {
                    (copy.name, copy.end_ms) = (Some(named(name)), None);
                    1
                }
                _ => 0,
            },
            Self::Set { token, .. } => {
                *key = Some(DataCopy { token, name: None, end_ms: end(9) });
                return None;
            }
        };
        Some(said)
    }
}

async fn stored(server: &mut Raw) -> Key {
    let left = |reply: Reply| match reply {
        Reply::Int(-1) => None,
        Reply::Int(left) => Some(((left + UNIT_MS / 2) / UNIT_MS).unsigned_abs()),
        other => panic!("{other:?}"),
    };
    let Reply::Bulk(token) = server.ask(&["GET", KEY]).await else { return None };
    let end_ms = left(server.ask(&["PTTL", KEY]).await);
    let mut ends = [0; 2];
    for (end, key) in ends.iter_mut().zip([KEY, BESIDE]) {
        let Reply::Int(at) = server.ask(&["PEXPIRETIME", key]).await else { panic!("a time") };
        *end = at;
    }
    let name = match server.ask(&["GET", BESIDE]).await {
        Reply::Bulk(name) if ends[0].abs_diff(ends[1]) <= 5 => {
            Some(CopyName(u128::from_be_bytes(name[..].try_into().expect("a name"))))
        }
        _ => None,
    };
    Some(DataCopy { token: token[0], name, end_ms })
}

async fn run(steps: &[Step], server: &mut Raw) -> Result<(), TestCaseError> {
    server.ask(&["DEL", KEY, BESIDE]).await;
    let mut key = None;
    for step in steps {
        server.send(&step.words().get_packed_command()).await;
        let reply = server.reply().await;
        if let Some(said) = step.act(&mut key) {
            prop_assert_eq!(&reply, &Reply::Int(said), "{:?}", step);
        }
        prop_assert_eq!(stored(server).await, key, "{:?}", step);
    }
    Ok(())
}

#[test]
fn the_data_redis_does_what_the_decisions_believe() {
    let runtime = Runtime::new().expect("a runtime");
    let redis = Master::start();
    let server = RefCell::new(runtime.block_on(Raw::connect(&redis.address())));
    let select = ["SELECT", &DB.to_string()];
    assert_eq!(runtime.block_on(server.borrow_mut().ask(&select)), Reply::ok());
    let config = ProptestConfig::with_cases(SEQUENCES);
    proptest!(config, |(steps in vec(step(), 1..LONGEST_SEQUENCE))| {
        runtime.block_on(run(&steps, &mut server.borrow_mut()))?;
    });
}

fn step() -> impl Strategy<Value = Step> {
    let (token, name, ttl) = (0..2_u8, 0..3_u8, 1..4_i64);
    let (is_ours, maybe) = (any::<bool>(), prop::option::of(1..4_i64));
    prop_oneof![
        4 => (token.clone(), name.clone(), ttl.clone(), is_ours)
            .prop_map(|(token, name, ttl, is_ours)| Step::Claim { token, name, ttl, is_ours }),
        2 => (token.clone(), name.clone(), ttl.clone())
            .prop_map(|(token, name, ttl)| Step::Extend { token, name, ttl }),
        2 => (name.clone(), maybe).prop_map(|(name, ttl)| Step::Settle { name, ttl }),
        2 => (name.clone(), token.clone()).prop_map(|(name, token)| Step::TakeBack { name, token }),
        1 => token.clone().prop_map(|token| Step::Release { token }),
        1 => Just(Step::Delete),
        1 => (name.clone(), ttl).prop_map(|(name, ttl)| Step::Expire { name, ttl }),
        1 => name.prop_map(|name| Step::Persist { name }),
        1 => (token, 10..UNIT_MS / 4).prop_map(|(token, odd_ms)| Step::Set { token, odd_ms }),
    ]
}
