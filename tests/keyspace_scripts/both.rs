//! Two real masters, and the state that the functions expect them to hold.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use redlock_proxy::decision::keyspace::Program as _;
use redlock_proxy::decision::keyspace::proposer::{MasterAnswer, Request};
use redlock_proxy::decision::keyspace::remembered::Remembered;
use redlock_proxy::decision::keyspace::slot::{
    Adopt, Adopted, Apply, Basis, Open, Ran, Sight, State,
};
use redlock_proxy::decision::lease::pad::Pad;
use redlock_proxy::decision::register::ballot::Ballot;
use redlock_proxy::lua::keyspace::KEEP;
use redlock_proxy::lua::program::{ProgramText, ScriptRules, Tells};
use redlock_proxy::operation::register::answer::{self, Said};
use redlock_proxy::operation::register::{Content, Job, Lease, Place, RegisterReply, ask, stamp};

use crate::specification::slots::{self, Slot, Slots};
use crate::support::{Master, Raw, Reply as Wire, encode};
use crate::tasks::{self, Held, Stored, TAG, Task, place};
use crate::{Ask, Flaw, Flush, Told, now_us};

/// Two masters and their expected state.
pub(crate) struct Both {
    _masters: [Master; 2],
    pub(crate) connections: [Raw; 2],
    pub(crate) slots: [Slots<Task>; 2],
    programs: HashMap<&'static str, Arc<ProgramText>>,
    /// Highest counter so far.
    pub(crate) counter: u64,
}

/// Bytes of a stamp that say how long its value stays.
const STAYS: std::ops::Range<usize> = 65..73;

/// More than the clock of a master and ours may differ when read for the same purpose.
const SOON_US: u64 = 100_000;

/// Tolerated difference in how long something stays: a busy machine may pause this process between
/// two clock reads.
const APART_US: u64 = 2_000_000;

/// Tolerated extra time for which a master may keep something: it runs later than this process, and
/// counts in milliseconds.
const LATE_US: u64 = 10_000;

/// The mark up to its tail.
pub(crate) const MARK: &str = "c 1 1 1 0;";

pub(crate) type Checked = Result<(), TestCaseError>;

impl Both {
    pub(crate) async fn start() -> Self {
        let masters = [Master::start(), Master::start()];
        let connections = [
            Raw::connect_resp3(&masters[0].address()).await,
            Raw::connect_resp3(&masters[1].address()).await,
        ];
        let slots = [Slots::default(), Slots::default()];
        Self { _masters: masters, connections, slots, programs: HashMap::new(), counter: 0 }
    }

    pub(crate) async fn begin(&mut self) {
        self.counter = now_us();
        self.slots = [Slots::default(), Slots::default()];
        for master in &mut self.connections {
            master.ask(&["FLUSHALL"]).await;
            master.ask(&["SET", "redlock-proxy:mark", &format!("{MARK}0 0")]).await;
        }
    }

    pub(crate) async fn compare(&mut self, ask: &Ask) -> Checked {
        // Enough for the shorter times to live.
        self.counter += 4_000;
        match *ask {
            Ask::Prepare { at, key, both, worker, flush } => {
                let met = flush.map_or(0, |flush| self.flush(at, flush));
                let keys = if both { vec![place(key), place(1 - key)] } else { vec![place(key)] };
                let ballot = Ballot { epoch: 0, counter: self.counter, worker };
                let keys = keys.into_iter().map(|key| (key, met)).collect();
                self.ask(at, Request::Prepare(keys, ballot), None).await?;
            }
            Ask::Apply { at, task, flaw } => {
                let request = Request::Apply(self.apply(at, task, flaw));
                self.ask(at, request, None).await?;
            }
            Ask::Turns { at, task, ref workers } => {
                for worker in workers {
                    self.turn(at, task, *worker).await?;
                }
            }
            Ask::Wait { seconds, is_seen } => {
                self.counter += seconds * 1_000_000;
                if is_seen {
                    self.pass(seconds * 1_000_000).await;
                }
            }
            Ask::Adopt {
                at,
                from,
                key,
                is_decided,
                is_late,
                held: Told { is_held, over },
                flush,
            } => {
                let mut adopt = self.adopt(at, from, key, is_decided, is_late);
                let over = over.iter().flat_map(|token| [lease(9, 0), lease(*token, 0)]);
                adopt.states[0].over = over.collect();
                adopt.states[0].flush = self.slots[at].last_flush() + u64::from(flush);
                let held = self.connections[from].ask(&["DUMP", name(&place(key))]).await;
                // A value replaced by a lease is lost: the master itself would fetch nothing.
                let is_there = self.slots[from].get(&place(key)).lease.is_none();
                let held = bulk(held).filter(|_| is_held && is_there);
                self.ask(at, Request::Adopt(adopt), held).await?;
            }
            Ask::Claim { at, key, token } => self.claim(at, key, token).await?,
            Ask::GiveBack { at, key } => {
                if self.slots[at].give_back(&place(key), |_| true).is_some() {
                    self.connections[at].ask(&["DEL", name(&place(key))]).await;
                }
            }
            // The functions need no stamp for these.
            Ask::Close { at, key, .. } | Ask::Forget { at, key, .. }
                if self.stamp(at, &place(key)).await.is_none() => {}
            Ask::Close { at, key, is_right } => {
                let accepted = self.accepted(at, key, is_right);
                let is_done = self.slots[at].close(&place(key), accepted);
                self.counted(at, &ask::close(&[(place(key), accepted)]), is_done).await?;
            }
            Ask::Forget { at, key, is_right } => {
                let accepted = self.accepted(at, key, is_right);
                // Nobody asks for that while the value lives.
                let slot = self.slots[at].get(&place(key));
                if !Task::lives(&slot.state.value, self.counter) {
                    self.let_short_ends_pass().await;
                    let is_done = self.slots[at].forget(&place(key), accepted, now_us());
                    let forget = ask::forget(&[(place(key), accepted)], "c 1 1 1 0;");
                    self.counted(at, &forget, is_done).await?;
                }
            }
            Ask::Give { at, from, key, is_known } => self.give(at, from, key, is_known).await?,
            Ask::Clear { at, key } => self.clear(at, key).await?,
            Ask::Flush { at, flush } => {
                let counter = self.flush(at, flush);
                let last = self.slots[at].flush(counter) as i64;
                let words = ask::flush(counter, "ASYNC", Some(0));
                self.connections[at].send(&words.eval()).await;
                prop_assert_eq!(self.connections[at].reply().await, Wire::Int(last));
            }
            Ask::Remove { at, key } => {
                let slot = self.slots[at].get(&place(key));
                if slot.is_there() && slot.lease.is_none() {
                    self.slots[at].lose(&place(key));
                    self.connections[at].ask(&["DEL", name(&place(key))]).await;
                }
            }
        }
        for at in 0..2 {
            for key in 0..2 {
                self.look(at, &place(key)).await?;
            }
        }
        Ok(())
    }

    /// Lets a worker ask for promises and run a program on them.
    async fn turn(&mut self, at: usize, task: Task, worker: u64) -> Checked {
        let highest = task.keys().iter().map(|key| self.slots[at].get(key).promised).max();
        self.counter += 1;
        let ballot = Ballot::above(highest.unwrap_or_default(), self.counter, worker);
        let keys = task.keys().into_iter().map(|key| (key, 0)).collect();
        self.ask(at, Request::Prepare(keys, ballot), None).await?;
        let apply = self.apply(at, task, Flaw::None);
        let next = Ballot { worker, ..apply.next };
        let apply = Apply { next, ..apply };
        self.ask(at, Request::Apply(apply), None).await
    }

    fn apply(&self, at: usize, task: Task, flaw: Flaw) -> Apply<Task> {
        let slots = task.keys().into_iter().map(|key| self.slots[at].get(&key));
        let mut basis: Vec<_> = slots
            .map(|slot| {
                // A worker without a promise uses its own ballot, because a flush's ballot belongs
                // to nobody.
                let own = Ballot { epoch: 0, counter: self.counter, worker: 7 };
                let ballot = if slot.promised <= slot.floor { own } else { slot.promised };
                let flush = self.slots[at].last_flush();
                Basis { accepted: slot.state.accepted, lease: slot.lease, ballot, flush }
            })
            .collect();
        let last = basis.last_mut().expect("a key");
        match flaw {
            Flaw::None => {}
            Flaw::Accepted => last.accepted.counter += 1,
            Flaw::Ballot => last.ballot.counter = last.ballot.counter.saturating_sub(1),
            Flaw::Worker => last.ballot.worker = last.ballot.worker.saturating_sub(1),
            Flaw::Lease => last.lease = Some(lease(9, 0)),
            // An accepted ballot implies the flush after which it was accepted.
            Flaw::Flush if last.accepted == Ballot::NONE => last.flush += 1,
            Flaw::Flush => {}
        }
        let highest = basis.iter().map(|basis| basis.ballot).max().expect("a key");
        let now_us = self.counter.max(highest.counter);
        let next = Ballot::above(highest, now_us + 1, 3);
        Apply { program: task, basis, now_us, next }
    }

    fn adopt(&self, at: usize, from: usize, key: usize, decided: bool, late: bool) -> Adopt<Task> {
        let (source, target) = (self.slots[from].get(&place(key)), self.slots[at].get(&place(key)));
        let ballot = Ballot { epoch: 0, counter: self.counter, worker: 4 };
        let ballot = if late { ballot } else { ballot.max(target.promised) };
        let open = source.state.open.clone().filter(|_| !decided);
        let shown = source.sight(now_us()).state;
        let state = State { accepted: ballot, open, ..shown };
        let (from, over) = (source.state.accepted, Vec::new());
        let flush = self.slots[at].last_flush();
        let states = vec![Adopted { key: place(key), from, state, over, flush }];
        Adopt { states, next: Ballot::above(ballot, self.counter + 1, 4) }
    }

    fn flush(&self, at: usize, flush: Flush) -> u64 {
        let last = self.slots[at].last_flush();
        match flush {
            Flush::Last => last,
            Flush::Next => last + 1,
            Flush::Newest => self.counter,
        }
    }

    fn accepted(&self, at: usize, key: usize, is_right: bool) -> Ballot {
        let accepted = self.slots[at].get(&place(key)).state.accepted;
        if is_right { accepted } else { Ballot { counter: accepted.counter + 1, ..accepted } }
    }

    async fn counted(&mut self, at: usize, words: &ask::RequestWords, is_done: bool) -> Checked {
        self.connections[at].send(&words.eval()).await;
        let reply = self.connections[at].reply().await;
        prop_assert_eq!(reply, Wire::Int(is_done.into()));
        Ok(())
    }

    async fn claim(&mut self, at: usize, key: usize, token: u8) -> Checked {
        // Another library's lock may have no expiry. In place of a manually removed string without
        // an expiry, it would look like that string.
        let slot = self.slots[at].get(&place(key));
        let Stored { held, clean_ms } = &slot.state.value;
        let looks_the_same = slot.is_gone && matches!(held, Held::Text(_)) && *clean_ms == -1;
        let end_ms = match token.is_multiple_of(3) && !looks_the_same {
            true => -1,
            false => (self.counter / 1000) as i64 + 500_000,
        };
        let lease = lease(token, end_ms);
        let mut words: Vec<Vec<u8>> = vec![b"SET".into(), name(&place(key)).into()];
        words.push(lease.value.to_vec());
        words.push(b"NX".into());
        if end_ms >= 0 {
            words.extend([b"PXAT".to_vec(), end_ms.to_string().into()]);
        }
        self.connections[at].send(&encode(&words)).await;
        let is_done = self.connections[at].reply().await == Wire::ok();
        // An expired value is no longer a register.
        prop_assert_eq!(self.slots[at].claim(&place(key), lease), is_done);
        Ok(())
    }

    /// Advances the masters' clocks by this much, as far as stamps show. Nothing is cleaned up by
    /// that.
    async fn pass(&mut self, by_us: u64) {
        for at in 0..2 {
            for place in [place(0), place(1)] {
                let stays_us = &mut self.slots[at].of(&place).state.stays_us;
                *stays_us = stays_us.saturating_sub(by_us);
                let Some(mut stamp) = self.stamp(at, &place).await else { continue };
                let stays = &mut stamp[STAYS];
                let kept = u64::from_be_bytes(stays.try_into().expect("eight bytes"));
                stays.copy_from_slice(&kept.saturating_sub(by_us).to_be_bytes());
                let companion = [b"redlock-proxy:s:", name(&place).as_bytes()].concat();
                self.connections[at].ask(&[b"SET".to_vec(), companion, stamp]).await;
            }
        }
    }

    /// Waits until expiries close to the current time are over. The masters' clocks and ours are
    /// not read at the same moment, so either could see such a value as expired when the other does
    /// not.
    pub(crate) async fn let_short_ends_pass(&self) {
        let all = self.slots.iter().flat_map(Slots::iter);
        let ends = all.map(|(_, slot)| slot.state.stays_us).filter(|stays_us| *stays_us > 0);
        let left = ends.map(|stays_us| (stays_us + LATE_US).saturating_sub(now_us()));
        if let Some(left) = left.filter(|left| (1..SOON_US).contains(left)).max() {
            tokio::time::sleep(Duration::from_micros(left)).await;
        }
    }

    async fn ask(&mut self, at: usize, request: Request<Task>, held: Option<Vec<u8>>) -> Checked {
        self.let_short_ends_pass().await;
        let asked = self.job(&request);
        let held = held.map(Bytes::from);
        let words = match &asked {
            Request::Prepare(keys, ballot) => ask::prepare(keys, *ballot, 0),
            Request::Adopt(adopt) => ask::adopt(adopt, &[held], 0),
            Request::Apply(apply) => ask::apply(apply, None),
        };
        self.connections[at].send(&words.eval()).await;
        let (reply, frame) = self.connections[at].frame().await;
        let Some(said) = answer::said(&asked, &frame) else {
            return Err(TestCaseError::fail(format!("{reply:?}")));
        };
        if let Said::Lacking(places) = said {
            let mut copy = self.slots[at].clone();
            prop_assert_eq!(
                slots::execute(&request, &mut copy, KEEP, now_us()),
                MasterAnswer::Adopted
            );
            prop_assert_eq!(places, vec![0]);
            return Ok(());
        }
        let expected = slots::execute(&request, &mut self.slots[at], KEEP, now_us());
        let Said::Answer(answer) = said else {
            return Err(TestCaseError::fail(format!("{reply:?} instead of {expected:?}")));
        };
        match (expected, answer) {
            (MasterAnswer::Refused(one), MasterAnswer::Refused(other)) => {
                prop_assert_eq!(one.promised, other.promised);
                prop_assert_eq!(one.latest_us.is_some(), other.latest_us.is_some());
                let latest =
                    (one.latest_us.unwrap_or_default(), other.latest_us.unwrap_or_default());
                prop_assert!(latest.0.abs_diff(latest.1) < SOON_US, "{latest:?}");
            }
            (MasterAnswer::Adopted, MasterAnswer::Adopted) => {}
            (MasterAnswer::Promised(one), MasterAnswer::Promised(other)) => {
                prop_assert_eq!(one.len(), other.len());
                for (one, other) in one.iter().zip(&other) {
                    self.same_sight(one, other)?;
                }
            }
            (MasterAnswer::Applied(one), MasterAnswer::Applied(other)) => same_end(&one, &other)?,
            (expected, answer) => {
                return Err(TestCaseError::fail(format!("{answer:?} instead of {expected:?}")));
            }
        }
        Ok(())
    }

    fn job(&mut self, request: &Request<Task>) -> Request<Job> {
        match request {
            Request::Prepare(keys, ballot) => Request::Prepare(keys.clone(), *ballot),
            Request::Adopt(adopt) => {
                let adopted = |it: &Adopted<Task>| Adopted {
                    key: it.key.clone(),
                    from: it.from,
                    state: of_job(&it.state),
                    over: it.over.clone(),
                    flush: it.flush,
                };
                let states = adopt.states.iter().map(adopted).collect();
                Request::Adopt(Adopt { states, next: adopt.next })
            }
            Request::Apply(apply) => {
                let task = apply.program;
                let program = self.program(task.lua());
                let places = task.keys();
                let keys = places.iter().map(|place| place.key.clone()).collect();
                let argv = task.argument().map(|time| Bytes::from(time.to_string()));
                let argv = argv.into_iter().collect();
                let job = Job {
                    program,
                    runner: None,
                    db: 0,
                    is_read_only: false,
                    keys,
                    argv,
                    places,
                    watched: Vec::new(),
                };
                let basis = apply.basis.iter().map(|basis| Basis {
                    accepted: basis.accepted,
                    lease: basis.lease.clone(),
                    ballot: basis.ballot,
                    flush: basis.flush,
                });
                let (basis, now_us, next) = (basis.collect(), apply.now_us, apply.next);
                Request::Apply(Apply { program: job, basis, now_us, next })
            }
        }
    }

    fn program(&mut self, lua: &'static str) -> Arc<ProgramText> {
        let script_rules = ScriptRules {
            pad: Pad::new(Duration::ZERO, 0.0),
            longest: None,
            sees_all_keys: true,
            tells: Tells::NOTHING,
        };
        let wrap = || Arc::new(ProgramText::wrap(lua.as_bytes(), "sha", script_rules));
        Arc::clone(self.programs.entry(lua).or_insert_with(wrap))
    }

    /// Compares two sights. An expired value may or may not be gone already.
    fn same_sight(&self, expected: &Sight<Task>, actual: &Sight<Job>) -> Checked {
        let state = of_job(&expected.state);
        prop_assert_eq!(without_replies(&state), without_replies(&actual.state));
        same_stay(state.stays_us, actual.state.stays_us)?;
        if Task::lives(&expected.state.value, self.counter) {
            prop_assert_eq!(expected.is_gone, actual.is_gone);
        }
        prop_assert_eq!(expected.flush, actual.flush);
        prop_assert_eq!(&expected.lease, &actual.lease);
        let ends = expected.lease.as_ref().map(|lease| lease.end_ms());
        prop_assert_eq!(ends, actual.lease.as_ref().map(|lease| lease.end_ms()));
        Ok(())
    }

    /// Compares the expected state with the stored one.
    async fn look(&mut self, at: usize, place: &Place) -> Checked {
        let stamp = self.stamp(at, place).await;
        let slot = self.slots[at].get(place);
        match stamp {
            Some(text) => {
                let (promised, rest) = text.split_at(stamp::BALLOT);
                let promised = stamp::parse_ballot(promised).expect("a ballot");
                // Masters apply the floor when they read a stamp.
                prop_assert_eq!(promised.max(slot.floor), slot.promised);
                let state = stamp::parse(rest, place).expect("a stamp");
                let expected = of_job(&slot.state);
                if slot.state.accepted == Ballot::NONE {
                    return Ok(());
                }
                prop_assert_eq!(without_replies(&state), without_replies(&expected));
                same_stay(state.stays_us, expected.stays_us)?;
            }
            None => prop_assert_eq!(slot.promised, slot.floor),
        }
        self.look_at_head(at, place, &slot).await?;
        let held = self.held(at, place).await;
        match &slot.lease {
            Some(lease) => {
                let value = String::from_utf8_lossy(&lease.value).into_owned();
                prop_assert_eq!(held, Held::Text(value));
            }
            None if Task::lives(&slot.state.value, self.counter) && !slot.is_gone => {
                prop_assert_eq!(held, slot.state.value.held);
            }
            None => {
                prop_assert!(
                    held == Held::Nothing || !slot.is_gone && held == slot.state.value.held
                );
            }
        }
        Ok(())
    }

    async fn look_at_head(&mut self, at: usize, place: &Place, slot: &Slot<Task>) -> Checked {
        self.connections[at].send(&ask::heads(std::slice::from_ref(place)).eval()).await;
        let (_, frame) = self.connections[at].frame().await;
        let heads = answer::heads(&frame, std::slice::from_ref(place)).expect("a head");
        let answer::StampHead { promised, sight } = &heads[0];
        prop_assert_eq!(*promised, slot.promised);
        let (State { accepted, basis, value, open, .. }, expected) =
            (sight.state.clone(), of_job(&slot.state));
        prop_assert_eq!(
            (accepted, basis, value),
            (expected.accepted, expected.basis, expected.value)
        );
        let keys = |open: Option<Open<Job>>| {
            open.map(|open| open.group.into_iter().map(|(key, _)| key).collect::<Vec<_>>())
        };
        prop_assert_eq!(keys(open), keys(expected.open));
        if Task::lives(&slot.state.value, self.counter) {
            prop_assert_eq!(sight.is_gone, slot.is_gone);
        }
        Ok(())
    }

    async fn stamp(&mut self, at: usize, place: &Place) -> Option<Vec<u8>> {
        let companion = format!("redlock-proxy:s:{}", name(place));
        bulk(self.connections[at].ask(&["GET", &companion]).await)
    }

    async fn held(&mut self, at: usize, place: &Place) -> Held {
        let (master, key) = (&mut self.connections[at], name(place));
        match master.ask(&["TYPE", key]).await.text().as_str() {
            "none" => Held::Nothing,
            "string" => Held::Text(master.ask(&["GET", key]).await.text()),
            _ => {
                let list = master.ask(&["LRANGE", key, "0", "-1"]).await;
                let Wire::Array(items) = list else { panic!("a list") };
                Held::List(items.iter().map(Wire::text).collect())
            }
        }
    }
}

pub(crate) fn bulk(reply: Wire) -> Option<Vec<u8>> {
    match reply {
        Wire::Bulk(bytes) => Some(bytes),
        _ => None,
    }
}

pub(crate) fn name(place: &Place) -> &str {
    std::str::from_utf8(&place.key).expect("text")
}

fn lease(token: u8, end_ms: i64) -> Lease {
    let mut value = b"\xFFRL\x01".to_vec();
    value.resize(TAG, 1);
    value.push(b'0' + token);
    Lease { value: value.into(), kept_until_ms: end_ms, ahead_ms: 0 }
}

pub(crate) fn of_job(state: &State<Task>) -> State<Job> {
    let Stored { clean_ms, .. } = state.value;
    let entries =
        state.recent.entries().iter().map(|(ran, _)| (*ran, RegisterReply::NotKept)).collect();
    State {
        accepted: state.accepted,
        basis: state.basis,
        value: Content { kind: state.value.kind(), clean_ms },
        recent: recent(entries, &state.recent),
        open: state.open.as_ref().map(|open| Open {
            group: open.group.clone(),
            found: open.found.clone(),
            until_us: open.until_us,
            is_kept: open.is_kept,
        }),
        stays_us: state.stays_us,
    }
}

fn recent<R>(
    entries: Vec<(Ballot, RegisterReply)>,
    of: &Remembered<R>,
) -> Remembered<RegisterReply> {
    Remembered::of(entries, of.dropped(), of.thinned()).changed_by(of.earlier_change())
}

/// Removes replies, which masters alone pack, and the stay, which [`same_stay`] compares.
fn without_replies(state: &State<Job>) -> State<Job> {
    let entries =
        state.recent.entries().iter().map(|(ran, _)| (*ran, RegisterReply::NotKept)).collect();
    State { recent: recent(entries, &state.recent), stays_us: 0, ..state.clone() }
}

fn same_stay(one_us: u64, other_us: u64) -> Checked {
    prop_assert_eq!(one_us == 0, other_us == 0);
    prop_assert!(one_us.abs_diff(other_us) < APART_US, "{} us, {} us", one_us, other_us);
    Ok(())
}

fn same_end(expected: &Ran<Task>, actual: &Ran<Job>) -> Checked {
    prop_assert_eq!(expected.wrote, actual.wrote);
    prop_assert_eq!(expected.is_promised, actual.is_promised);
    let RegisterReply::Frame(frame, ..) = &actual.reply else { panic!("a frame") };
    let (reply, _) = Wire::parse(frame).expect("a whole frame");
    let said = match reply {
        Wire::Int(number) => tasks::Said::Number(number),
        Wire::Error(_) => tasks::Said::Error,
        Wire::Nil => tasks::Said::Text(None),
        Wire::Bulk(text) => tasks::Said::Text(Some(String::from_utf8_lossy(&text).into_owned())),
        _ => tasks::Said::Done,
    };
    prop_assert_eq!(&expected.reply, &said);
    Ok(())
}
