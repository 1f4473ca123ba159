//! The lease scripts do on a master what the pure functions predict: random sequences of commands run on one key of a
//! real `redis-server`, and in parallel on a key of `specification::lease`.
//!
//! TTLs are whole multiples of [`UNIT_MS`], far longer than any test, and are compared in such multiples.

#[path = "specification/mod.rs"]
mod specification;
mod support;

use std::cell::RefCell;

use crate::specification::lease::{self as master, MasterLease};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use redlock_proxy::decision::lease::attempt::{
    Attempt, MARKER, Stored, TAG_LEN, Tag, WorkerId, encode as stored, header, prefix,
};
use redlock_proxy::decision::lease::{claim, delete, extend, release};
use redlock_proxy::lua::canonical::Canonical;
use support::{Master, Raw, Reply, encode};
use tokio::runtime::Runtime;

/// Number of sequences to try.
const SEQUENCES: u32 = 400;
const LONGEST_SEQUENCE: usize = 40;
const KEY: &[u8] = b"lock";
const COMPANION: &[u8] = b"redlock-proxy:s:lock";
const UNIT_MS: u64 = 1_000_000;
/// Few attempts, so that they meet again.
const ATTEMPTS: u64 = 6;

type Key = Option<MasterLease<Vec<u8>>>;

/// One command, or a manual change. An [`Index`] chooses one of [`tokens`].
#[derive(Clone, Debug)]
enum Step {
    Claim {
        attempt: u64,
        ttl: u64,
    },
    Acquire {
        attempt: u64,
        ttl: u64,
        creates: bool,
    },
    Extend {
        token: Index,
        ttl: u64,
    },
    Shorten {
        which: Which,
        seen: u64,
        ttl: u64,
    },
    Look {
        token: Index,
    },
    Release {
        which: Which,
        token: Index,
    },
    TakeBack {
        attempt: u64,
    },
    Deliver {
        attempt: u64,
    },
    Show,
    Delete {
        which: Which,
    },
    /// A lease after many extensions.
    Put {
        tag: Tag,
        ttl: u64,
    },
    /// A value written by a client that knows no tags.
    PutUntagged {
        token: Index,
        ttl: u64,
    },
    /// A value next to the key.
    Stamp(Companion),
}

/// The companion of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Companion {
    Absent,
    /// A promised ballot without an accepted one.
    Promised,
    Accepted,
    /// A foreign value in its place.
    Junk,
}

/// The tag that a command names.
#[derive(Clone, Debug)]
enum Which {
    Held,
    Any(Tag),
}

#[test]
fn masters_do_what_the_decisions_believe() {
    let runtime = Runtime::new().expect("a runtime");
    let redis = Master::start();
    let server = RefCell::new(runtime.block_on(Raw::connect_resp3(&redis.address())));
    let config = ProptestConfig::with_cases(SEQUENCES);
    proptest!(config, |(steps in vec(step(), 1..LONGEST_SEQUENCE))| {
        runtime.block_on(run(&steps, &mut server.borrow_mut()))?;
    });
}

/// Runs the same commands on the server and on the model, and checks that votes and resulting states agree.
async fn run(steps: &[Step], server: &mut Raw) -> Result<(), TestCaseError> {
    server.ask(&[b"DEL", KEY, COMPANION]).await;
    let (mut key, mut companion): (Key, _) = (None, Companion::Absent);
    for step in steps {
        let words = step.words(&key);
        if let Step::Stamp(new) = step {
            companion = *new;
        }
        let is_lease = key.as_ref().is_some_and(|held| held.tag != Tag::NONE);
        let is_register = companion == Companion::Accepted && !is_lease;
        let expected = match step.leaves_registers_alone() && is_register {
            true => Vote::Stamped,
            false => step.act(&mut key),
        };
        let state: [&[&[u8]]; 2] = [&[b"GET", KEY], &[b"PTTL", KEY]];
        let request = [encode(&words), state.map(encode).concat()].concat();
        server.send(&request).await;
        let replies = server.replies(3).await;
        prop_assert_eq!(&step.vote(&replies[0]), &expected, "{:?} answered {:?}", step, replies[0]);
        prop_assert_eq!(&held(&replies[1], &replies[2]), &key, "{:?} left this", step);
    }
    Ok(())
}

/// Returns the state that a master holds.
fn held(value: &Reply, left: &Reply) -> Key {
    match (value, left) {
        (Reply::Nil, Reply::Int(-2)) => None,
        (Reply::Bulk(value), Reply::Int(left_ms)) => Some(lease(value, left_ms.unsigned_abs())),
        other => panic!("a string with an end, or nothing, and not {other:?}"),
    }
}

fn lease(value: &[u8], left_ms: u64) -> MasterLease<Vec<u8>> {
    let Stored { tag, token } = Stored::decode(value);
    let end_ms = (left_ms + UNIT_MS / 2) / UNIT_MS;
    MasterLease { tag: tag.unwrap_or(Tag::NONE), token: token.to_vec(), end_ms }
}

/// A result of either side, in terms of the decisions.
#[derive(Debug, PartialEq)]
enum Vote {
    Claim(claim::Vote),
    /// With the tag that was raised.
    Extend(extend::Vote, Option<Tag>),
    Look(release::Sight),
    Release(release::Vote),
    /// Take-backs and deliveries: nothing else in their answers is read.
    IsDeleted(bool),
    Show(delete::Sight),
    /// A value without a tag is deleted as soon as it is shown.
    DeletedUntagged,
    /// The key is a register: nothing was changed.
    Stamped,
    Done,
}

impl Step {
    /// Returns the command as sent to masters.
    fn words(&self, key: &Key) -> Vec<Vec<u8>> {
        match self {
            Self::Claim { attempt, ttl } => {
                let value = stored(fresh(*attempt), &token_of(*attempt));
                words(&[b"SET", KEY, &value, b"NX", b"PX", &millis(*ttl), b"GET"])
            }
            Self::Acquire { attempt, ttl, creates } => {
                let creates: &[u8] = if *creates { b"1" } else { b"0" };
                let (tag, token) = (header(fresh(*attempt)), token_of(*attempt));
                script(Canonical::Acquire, &[&tag, &token, &millis(*ttl), creates, b"-1"])
            }
            Self::Extend { token, ttl } => {
                script(Canonical::Extend, &[&chosen(token), &millis(*ttl)])
            }
            Self::Shorten { which, seen, ttl } => {
                let (value, ttl, seen) = (which.value(key), millis(*ttl), millis(*seen));
                script(Canonical::Shorten, &[&value, &ttl, &seen])
            }
            Self::Look { token } => script(Canonical::Look, &[&chosen(token)]),
            Self::Release { which, token } => {
                script(Canonical::Release, &[&stored(which.tag(key), b""), &chosen(token)])
            }
            Self::TakeBack { attempt } => {
                let value = stored(fresh(*attempt), &token_of(*attempt));
                script(Canonical::TakeBack, &[&value])
            }
            Self::Deliver { attempt } => script(Canonical::Deliver, &[&prefix(named(*attempt))]),
            Self::Show => script(Canonical::Delete, &[]),
            Self::Delete { which } => script(Canonical::Delete, &[&header(which.tagged(key))]),
            Self::Put { tag, ttl } => {
                let value = stored(*tag, &token_by(tag.attempt));
                words(&[b"SET", KEY, &value, b"PX", &millis(*ttl)])
            }
            Self::PutUntagged { token, ttl } => {
                words(&[b"SET", KEY, &untagged(token), b"PX", &millis(*ttl)])
            }
            Self::Stamp(companion) => match companion.text() {
                Some(stamp) => words(&[b"SET", COMPANION, &stamp]),
                None => words(&[b"DEL", COMPANION]),
            },
        }
    }

    fn leaves_registers_alone(&self) -> bool {
        match self {
            Self::Acquire { .. } | Self::Extend { .. } | Self::Look { .. } => true,
            Self::Release { .. } | Self::Show | Self::Delete { .. } => true,
            Self::Claim { .. } | Self::Shorten { .. } | Self::Stamp(_) => false,
            Self::TakeBack { .. } | Self::Deliver { .. } => false,
            Self::Put { .. } | Self::PutUntagged { .. } => false,
        }
    }

    /// Runs the same command on the model.
    fn act(&self, key: &mut Key) -> Vote {
        let new = |attempt: &u64, ttl: &u64| MasterLease {
            tag: fresh(*attempt),
            token: token_of(*attempt),
            end_ms: *ttl,
        };
        let before = key.as_ref().map(|held| held.tag);
        match self {
            Self::Claim { attempt, ttl } => Vote::Claim(master::claim(key, new(attempt, ttl))),
            Self::Acquire { creates: false, .. } if key.is_none() => {
                Vote::Claim(claim::Vote::Refused)
            }
            Self::Acquire { attempt, ttl, .. } => {
                let vote = master::acquire(key, new(attempt, ttl));
                stays_untagged(before, key);
                Vote::Claim(vote)
            }
            Self::Extend { token, ttl } => {
                let vote = master::extend(key, &chosen(token), *ttl);
                stays_untagged(before, key);
                Vote::Extend(vote, before.filter(|_| vote != extend::Vote::Refused))
            }
            Self::Shorten { which, seen, ttl } => {
                let tag = which.tag(key);
                master::shorten(key, tag, *seen, *ttl);
                Vote::Done
            }
            Self::Look { token } => Vote::Look(master::look(key, &chosen(token))),
            Self::Release { which, token } => {
                let tag = which.tag(key);
                Vote::Release(master::give_back(key, tag, &chosen(token)))
            }
            Self::TakeBack { attempt } => {
                let vote = master::delete(key, fresh(*attempt));
                Vote::IsDeleted(vote == release::Vote::Deleted)
            }
            Self::Deliver { attempt } => {
                let vote = master::deliver(key, named(*attempt));
                Vote::IsDeleted(vote == release::Vote::Deleted)
            }
            Self::Show if before == Some(Tag::NONE) => {
                *key = None;
                Vote::DeletedUntagged
            }
            Self::Show => Vote::Show(master::show(key)),
            Self::Delete { which } => {
                let tag = which.tagged(key);
                Vote::Release(master::delete(key, tag))
            }
            Self::Put { tag, ttl } => {
                *key = Some(MasterLease { tag: *tag, token: token_by(tag.attempt), end_ms: *ttl });
                Vote::Done
            }
            Self::PutUntagged { token, ttl } => {
                *key = Some(MasterLease { tag: Tag::NONE, token: untagged(token), end_ms: *ttl });
                Vote::Done
            }
            Self::Stamp(_) => Vote::Done,
        }
    }

    /// Returns the meaning of a master's answer.
    fn vote(&self, reply: &Reply) -> Vote {
        if *reply == Reply::Simple("stamped".to_owned()) {
            return Vote::Stamped;
        }
        match self {
            // The answer is the value found.
            Self::Claim { .. } => Vote::Claim(match reply {
                Reply::Nil => claim::Vote::Taken,
                Reply::Bulk(_) => claim::Vote::Refused,
                _ => claim::Vote::Unknown,
            }),
            Self::Acquire { .. } => Vote::Claim(match reply {
                Reply::Int(1) => claim::Vote::Taken,
                Reply::Bulk(tag) => claim::Vote::Owned(tag_in(tag).attempt),
                Reply::Int(0) => claim::Vote::Refused,
                _ => claim::Vote::Unknown,
            }),
            Self::Extend { .. } => match reply {
                Reply::Array(tags) => match &tags[..] {
                    [Reply::Bulk(tag), Reply::Int(_)] => {
                        let attempt = tag_in(tag).attempt;
                        Vote::Extend(extend::Vote::EndsLater(attempt), Some(tag_in(tag)))
                    }
                    _ => Vote::Extend(extend::Vote::Unknown, None),
                },
                Reply::Bulk(tag) => {
                    Vote::Extend(extend::Vote::Extended(tag_in(tag).attempt), Some(tag_in(tag)))
                }
                Reply::Int(-2 | -3) => Vote::Extend(extend::Vote::Refused, None),
                _ => Vote::Extend(extend::Vote::Unknown, None),
            },
            Self::Look { .. } => Vote::Look(match reply {
                Reply::Bulk(tag) => release::Sight::Held(tag_in(tag)),
                Reply::Int(-2) => release::Sight::Missing,
                Reply::Int(-3) => release::Sight::Other,
                _ => release::Sight::Unknown,
            }),
            Self::Release { .. } | Self::Delete { .. } => Vote::Release(match reply {
                Reply::Int(-1..) => release::Vote::Deleted,
                Reply::Int(-2) => release::Vote::Missing,
                Reply::Int(-3) => release::Vote::Other,
                Reply::Int(-4) => release::Vote::Raised,
                Reply::Int(-5) => release::Vote::Another,
                _ => release::Vote::Unknown,
            }),
            Self::TakeBack { .. } | Self::Deliver { .. } => {
                Vote::IsDeleted(*reply == Reply::Int(1))
            }
            Self::Show => match reply {
                Reply::Bulk(tag) => Vote::Show(delete::Sight::Held(tag_in(tag))),
                Reply::Int(-2) => Vote::Show(delete::Sight::Missing),
                Reply::Int(1) => Vote::DeletedUntagged,
                _ => Vote::Show(delete::Sight::Unknown),
            },
            Self::Put { .. } | Self::PutUntagged { .. } | Self::Shorten { .. } => Vote::Done,
            Self::Stamp(_) => Vote::Done,
        }
    }
}

impl Companion {
    /// Returns the beginning of a stamp: the promised and accepted ballots, and more.
    fn text(self) -> Option<Vec<u8>> {
        let ballots = |accepted: u8| {
            let content = b"s-000000000000001 and more";
            [&[7; 16], &[accepted; 16], &[0; 16], &content[..]].concat()
        };
        match self {
            Self::Absent => None,
            Self::Promised => Some(ballots(0)),
            Self::Accepted => Some(ballots(7)),
            Self::Junk => Some(vec![7; 100]),
        }
    }
}

/// A value that is not a string is not a lease, with a stamp or without.
#[tokio::test]
async fn a_key_of_another_type_is_left_alone() {
    let redis = Master::start();
    let mut server = Raw::connect_resp3(&redis.address()).await;
    server.ask(&[b"RPUSH", KEY, b"one"]).await;
    let (tag, ttl) = (header(fresh(0)), millis(1));
    let calls = [
        script(Canonical::Look, &[b"one"]),
        script(Canonical::Release, &[&tag, b"one"]),
        script(Canonical::Extend, &[b"one", &ttl]),
        script(Canonical::Acquire, &[&tag, b"one", &ttl, b"1", b"-1"]),
        script(Canonical::Delete, &[]),
        script(Canonical::Delete, &[&tag]),
    ];
    for call in calls {
        assert_eq!(server.ask(&call).await, Reply::Simple("stamped".to_owned()), "{call:?}");
    }
    assert_eq!(server.ask(&[b"LLEN", KEY]).await, Reply::Int(1));
    let claim = [b"SET", KEY, b"two", b"NX", b"PX", &ttl[..], b"GET"];
    assert!(server.ask(&claim).await.is_error("WRONGTYPE"));
}

/// No generation distinguishes the states of a value without a tag.
fn stays_untagged(before: Option<Tag>, key: &mut Key) {
    if let (Some(Tag::NONE), Some(held)) = (before, key) {
        held.tag = Tag::NONE;
    }
}

impl Which {
    fn tag(&self, key: &Key) -> Tag {
        match (self, key) {
            (Self::Held, Some(held)) => held.tag,
            (Self::Held, None) => fresh(0),
            (Self::Any(tag), _) => *tag,
        }
    }

    /// Returns the whole value that a master should have.
    fn value(&self, key: &Key) -> Vec<u8> {
        let tag = self.tag(key);
        let token = match (self, key) {
            (Self::Held, Some(held)) => held.token.clone(),
            _ => token_by(tag.attempt),
        };
        if tag == Tag::NONE { token } else { stored(tag, &token) }
    }

    /// Returns a real tag, since deletions name only tagged values.
    fn tagged(&self, key: &Key) -> Tag {
        let tag = self.tag(key);
        if tag == Tag::NONE { fresh(0) } else { tag }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let (attempt, ttl, token) = (0..ATTEMPTS, 1..4_u64, any::<Index>());
    prop_oneof![
        3 => (attempt.clone(), ttl.clone()).prop_map(|(attempt, ttl)| Step::Claim { attempt, ttl }),
        3 => (attempt.clone(), ttl.clone(), any::<bool>())
            .prop_map(|(attempt, ttl, creates)| Step::Acquire { attempt, ttl, creates }),
        4 => (token.clone(), ttl.clone()).prop_map(|(token, ttl)| Step::Extend { token, ttl }),
        2 => (which(), ttl.clone(), ttl.clone())
            .prop_map(|(which, seen, ttl)| Step::Shorten { which, seen, ttl }),
        2 => token.clone().prop_map(|token| Step::Look { token }),
        2 => (which(), token.clone()).prop_map(|(which, token)| Step::Release { which, token }),
        2 => attempt.clone().prop_map(|attempt| Step::TakeBack { attempt }),
        1 => attempt.prop_map(|attempt| Step::Deliver { attempt }),
        1 => Just(Step::Show),
        1 => which().prop_map(|which| Step::Delete { which }),
        2 => (tag(), ttl.clone()).prop_map(|(tag, ttl)| Step::Put { tag, ttl }),
        1 => (token, ttl).prop_map(|(token, ttl)| Step::PutUntagged { token, ttl }),
        2 => companion().prop_map(Step::Stamp),
    ]
}

fn companion() -> impl Strategy<Value = Companion> {
    prop::sample::select(vec![
        Companion::Absent,
        Companion::Promised,
        Companion::Accepted,
        Companion::Junk,
    ])
}

fn which() -> impl Strategy<Value = Which> {
    prop_oneof![Just(Which::Held), tag().prop_map(Which::Any)]
}

/// Tags of one of the attempts, at the beginning of its generations, where a byte is full, or at their end.
fn tag() -> impl Strategy<Value = Tag> {
    let generations = prop::sample::select(vec![0, 1, 255, 256, 65_534, 65_535]);
    (0..ATTEMPTS, generations).prop_map(|(attempt, generation): (u64, u16)| {
        let mut bytes = fresh(attempt).to_bytes();
        bytes[TAG_LEN - 2..].copy_from_slice(&generation.to_be_bytes());
        Tag::from_bytes(bytes)
    })
}

/// Some attempts differ only in their worker, and some only in their number.
fn named(attempt: u64) -> Attempt {
    let worker = if attempt.is_multiple_of(2) { 0xFF52_4C01_FF00 } else { 7 };
    Attempt::new(WorkerId::new(worker), attempt / 2)
}

fn fresh(attempt: u64) -> Tag {
    named(attempt).fresh()
}

/// An attempt keeps one token for ever; some attempts share a token.
fn token_of(attempt: u64) -> Vec<u8> {
    let tokens = tokens();
    tokens[attempt as usize * 5 % 7 % tokens.len()].clone()
}

fn token_by(attempt: Attempt) -> Vec<u8> {
    let mut attempts = 0..ATTEMPTS;
    token_of(attempts.find(|number| named(*number) == attempt).expect("one of ours"))
}

/// Tokens of clients: empty, text, arbitrary bytes, and some that look like stored values.
fn tokens() -> Vec<Vec<u8>> {
    let other = Attempt::new(WorkerId::new(9), 9).fresh();
    vec![
        Vec::new(),
        b"mine".to_vec(),
        b"\0\xFF\r\n\0".to_vec(),
        stored(other, b"mine"),
        [&MARKER[..], b"too short"].concat(),
    ]
}

fn chosen(token: &Index) -> Vec<u8> {
    token.get(&tokens()).clone()
}

/// Returns a value that cannot be mistaken for a tag and a token.
fn untagged(token: &Index) -> Vec<u8> {
    let mut tokens = tokens();
    tokens.retain(|token| Stored::decode(token).tag.is_none());
    token.get(&tokens).clone()
}

fn tag_in(answer: &[u8]) -> Tag {
    Stored::decode(answer).tag.unwrap_or(Tag::NONE)
}

fn millis(ttl: u64) -> Vec<u8> {
    (ttl * UNIT_MS).to_string().into_bytes()
}

fn script(script: Canonical, args: &[&[u8]]) -> Vec<Vec<u8>> {
    words(&[&[b"EVAL", script.text().as_bytes(), b"1", KEY], args].concat())
}

fn words(words: &[&[u8]]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}
