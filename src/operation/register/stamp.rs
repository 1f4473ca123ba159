//! Stamps: the record of a register that a master keeps next to its value. `lua/keyspace/stamp.lua` describes the same
//! format.

use bytes::Bytes;

use super::{Content, Job, Lease, Place, RegisterReply};
use crate::decision::keyspace::Program;
use crate::decision::keyspace::remembered::Remembered;
use crate::decision::keyspace::slot::{Open, State};
use crate::decision::register::ballot::Ballot;
use crate::lua::keyspace::SLACK_MS;

/// Added to the number of remembered programs if the last one has only read the key.
const ONLY_READ: usize = 50;

/// Length of a ballot in bytes.
pub const BALLOT: usize = 16;

/// Returns a ballot in bytes: its counter and its worker, so that bytes sort as ballots do. Keys have no epochs.
pub fn ballot(Ballot { counter, worker, .. }: Ballot) -> [u8; BALLOT] {
    (u128::from(counter) << 64 | u128::from(worker)).to_be_bytes()
}

/// Returns the ballot in these bytes; `None` if they are not a ballot.
pub fn parse_ballot(bytes: &[u8]) -> Option<Ballot> {
    let number = u128::from_be_bytes(bytes.try_into().ok()?);
    Some(Ballot { epoch: 0, counter: (number >> 64) as u64, worker: number as u64 })
}

/// Returns the stamp of a state of `place`, from its accepted ballot on.
pub fn write(state: &State<Job>, place: &Place) -> Vec<u8> {
    let recent = &state.recent;
    let mut text = [state.accepted, state.basis].map(ballot).concat();
    text.push(state.value.kind);
    text.extend(format!("{:016}", state.value.clean_ms).bytes());
    text.extend(state.stays_us.to_be_bytes());
    match &state.open {
        Some(open) => write_open(&mut text, open, |group| is_alone(group, place, recent)),
        None if is_unknown(state) => text.push(b'?'),
        None => text.push(b'-'),
    }
    let earlier = recent.earlier_change();
    let only_read = if earlier.is_some() { ONLY_READ } else { 0 };
    text.extend(format!("{:02}", recent.entries().len() + only_read).bytes());
    text.extend([recent.dropped(), recent.thinned()].map(ballot).concat());
    text.extend(earlier.map(ballot).into_iter().flatten());
    for (ran, reply) in recent.entries() {
        let packed = match reply {
            RegisterReply::Packed(packed) => &packed[..],
            RegisterReply::Frame(..) | RegisterReply::NotKept => b"",
        };
        text.extend(format!("{:04}", packed.len()).bytes());
        text.extend(packed);
        text.extend(ballot(*ran));
    }
    text
}

/// Returns whether the master was admitted without knowing what had been accepted here. Otherwise, as long as nothing
/// was accepted, the dropped ballot of a stamp is the floor of the database.
fn is_unknown(state: &State<Job>) -> bool {
    state.accepted == Ballot::NONE && state.recent.dropped() != Ballot::NONE
}

type Group = [(Place, Ballot)];

fn write_open(text: &mut Vec<u8>, open: &Open<Job>, is_alone: impl Fn(&Group) -> bool) {
    let found = open.found.as_ref().map(lease).unwrap_or_default();
    let until_ms = open.until_us.map_or(-1, |until_us| (until_us / 1000 + SLACK_MS).cast_signed());
    let is_alone = is_alone(&open.group);
    if is_alone && !open.is_kept && open.found.is_none() {
        text.extend(format!("a{until_ms:016}").bytes());
        return;
    }
    let how = if open.is_kept { 'k' } else { 'w' };
    text.extend(format!("{how}{until_ms:016}{:08}", found.len()).bytes());
    text.extend(found);
    let named = if is_alone { &[][..] } else { &open.group };
    text.extend(format!("{:04}", named.len()).bytes());
    for (place, ran) in named {
        text.extend(format!("{:05}{:08}", place.db, place.key.len()).bytes());
        text.extend(&place.key);
        text.extend(ballot(*ran));
    }
}

/// Returns whether a group is one key, under the ballot of its last program. That is the most frequent group, and its
/// name is left out.
fn is_alone(group: &Group, place: &Place, recent: &Remembered<RegisterReply>) -> bool {
    matches!(group, [(key, ran)] if key == place && recent.last() == Some(*ran))
}

/// Returns a lease in the format of stamps and scripts.
pub fn lease(lease: &Lease) -> Vec<u8> {
    [format!("{:016}", lease.end_ms()).as_bytes(), &lease.value].concat()
}

/// Returns the lease in these bytes; `None` if they are not a lease.
pub fn parse_lease(text: &[u8]) -> Option<Lease> {
    let (end, value) = text.split_at_checked(16)?;
    Some(Lease { value: Bytes::copy_from_slice(value), kept_until_ms: number(end)?, ahead_ms: 0 })
}

/// Returns the state in a stamp of `place`, from its accepted ballot on; `None` if it is not a stamp.
pub fn parse(text: &[u8], place: &Place) -> Option<State<Job>> {
    parse_with_floor(text, place).map(|(state, _)| state)
}

/// Like [`parse`], and also returns the ballot up to which it is unknown what ran, if nothing was accepted.
pub fn parse_with_floor(text: &[u8], place: &Place) -> Option<(State<Job>, Ballot)> {
    let mut rest = Rest(text);
    let (accepted, basis) = (rest.ballot()?, rest.ballot()?);
    let kind = rest.take(1)?[0];
    let value = Content { kind, clean_ms: rest.number(16)? };
    let stays_us = rest.moment()?;
    let tells = !rest.0.starts_with(b"?");
    let mut open = rest.open()?;
    let entries = usize::try_from(rest.number(2)?).ok()?;
    let (dropped, thinned) = (rest.ballot()?, rest.ballot()?);
    let changed = if entries < ONLY_READ { None } else { Some(rest.ballot()?) };
    let entries: Option<_> = (0..entries % ONLY_READ).map(|_| rest.entry()).collect();
    let mut recent = Remembered::of(entries?, dropped, thinned).changed_by(changed);
    let floor = if accepted == Ballot::NONE { dropped } else { Ballot::NONE };
    if accepted == Ballot::NONE && tells {
        recent = Remembered::of(recent.entries().to_vec(), Ballot::NONE, thinned);
    }
    if let Some(open) = open.as_mut().filter(|open| open.group.is_empty()) {
        open.group.push((place.clone(), recent.last()?));
    }
    let state = State { accepted, basis, value, recent, open, stays_us };
    rest.0.is_empty().then_some((state, floor))
}

/// Returns the promise in a stamp of `place`, and its state without the last programs; `None` if `heads.lua` does not
/// show such text.
pub fn parse_head(text: &[u8], place: &Place) -> Option<(Ballot, State<Job>)> {
    let mut rest = Rest(text);
    let (promised, accepted, basis) = (rest.ballot()?, rest.ballot()?, rest.ballot()?);
    let value = Content { kind: rest.take(1)?[0], clean_ms: rest.number(16)? };
    let stays_us = rest.moment()?;
    let mut open = rest.open()?;
    if let Some(open) = open.as_mut().filter(|open| open.group.is_empty()) {
        open.group.push((place.clone(), accepted));
    }
    let recent = Remembered::default();
    let state = State { accepted, basis, value, recent, open, stays_us };
    Some((promised, state)).filter(|_| rest.0.is_empty())
}

/// Unread rest of a stamp.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, digits: usize) -> Option<i64> {
        number(self.take(digits)?)
    }

    fn ballot(&mut self) -> Option<Ballot> {
        parse_ballot(self.take(BALLOT)?)
    }

    /// Reads a time in microseconds, in bytes.
    fn moment(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Reads bytes that follow their length.
    fn counted(&mut self, digits: usize) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number(digits)?).ok()?;
        self.take(length)
    }

    fn entry(&mut self) -> Option<(Ballot, RegisterReply)> {
        let reply = match self.counted(4)? {
            [] => RegisterReply::NotKept,
            packed => RegisterReply::Packed(Bytes::copy_from_slice(packed)),
        };
        Some((self.ballot()?, reply))
    }

    /// Reads the dependencies, if the state is open. Their group is empty if its name is left out.
    fn open(&mut self) -> Option<Option<Open<Job>>> {
        let how = self.take(1)?;
        if how == b"-" || how == b"?" {
            return Some(None);
        }
        let until_us = Content { kind: b's', clean_ms: self.number(16)? };
        let until_us = Job::end_us(&until_us);
        let (is_kept, is_alone) = (how == b"k", how == b"a");
        if is_alone {
            return Some(Some(Open { group: Vec::new(), found: None, until_us, is_kept }));
        }
        let found = match self.counted(8)? {
            [] => None,
            found => Some(parse_lease(found)?),
        };
        let group = (0..self.number(4)?).map(|_| {
            let db = self.number(5)?.try_into().ok()?;
            let key = Bytes::copy_from_slice(self.counted(8)?);
            Some((Place { db, key }, self.ballot()?))
        });
        Some(Some(Open { group: group.collect::<Option<_>>()?, found, until_us, is_kept }))
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn ballots() -> impl Strategy<Value = Ballot> {
        (0..10_u64.pow(16), any::<u64>()).prop_map(|(counter, worker)| Ballot {
            epoch: 0,
            counter,
            worker,
        })
    }

    fn bytes(most: usize) -> impl Strategy<Value = Bytes> {
        vec(any::<u8>(), 1..most).prop_map(Bytes::from)
    }

    fn replies() -> impl Strategy<Value = RegisterReply> {
        prop_oneof![bytes(1024).prop_map(RegisterReply::Packed), Just(RegisterReply::NotKept)]
    }

    fn opens() -> impl Strategy<Value = Open<Job>> {
        let found = (bytes(40), -1_i64..1 << 40).prop_map(|(value, kept_until_ms)| Lease {
            value,
            kept_until_ms,
            ahead_ms: 0,
        });
        let group = (0..16_u16, bytes(20), ballots());
        let group = vec(group.prop_map(|(db, key, ran)| (Place { db, key }, ran)), 1..4);
        let until_us = (0..1_u64 << 40).prop_map(|until_ms| until_ms * 1000);
        (group, proptest::option::of(found), proptest::option::of(until_us), any::<bool>())
            .prop_map(|(group, found, until_us, is_kept)| Open { group, found, until_us, is_kept })
    }

    fn states() -> impl Strategy<Value = State<Job>> {
        let content = (prop_oneof![Just(b'-'), Just(b's'), Just(b'x')], -1_i64..1 << 45);
        let recent = vec((ballots(), replies()), 0..12);
        let recent = (recent, ballots(), ballots(), proptest::option::of(ballots()));
        (ballots(), ballots(), content, recent, proptest::option::of(opens()), any::<u64>())
            .prop_map(|(accepted, basis, (kind, clean_ms), recent, open, stays_us)| {
                let (entries, dropped, thinned, changed) = recent;
                State {
                    accepted,
                    basis,
                    value: Content { kind, clean_ms },
                    recent: Remembered::of(entries, dropped, thinned).changed_by(changed),
                    open,
                    stays_us,
                }
            })
    }

    fn here() -> Place {
        Place { db: 3, key: Bytes::from_static(b"here") }
    }

    /// One in three is alone, as most are.
    fn stamps() -> impl Strategy<Value = State<Job>> {
        (states(), 0..3).prop_map(|(mut state, alone)| {
            if let (Some(open), Some(ran), 0) = (&mut state.open, state.recent.last(), alone) {
                open.group = vec![(here(), ran)];
            }
            state
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(state in stamps()) {
            let text = write(&state, &here());
            let read = parse(&text, &here()).expect("a stamp");
            prop_assert_eq!(write(&read, &here()), text);
            prop_assert_eq!(read, state);
        }

        #[test]
        fn a_head_is_read_without_the_last_programs(state in stamps(), promised in ballots()) {
            let last = State { recent: Remembered::default(), open: None, ..state.clone() };
            let recent = write(&State { recent: state.recent.clone(), ..last.clone() }, &here()).len()
                - (write(&last, &here()).len() - 2 - 2 * BALLOT);
            let text = write(&state, &here());
            let text = [&ballot(promised)[..], &text[..text.len() - recent]].concat();
            let (read, head) = parse_head(&text, &here()).expect("a head");
            prop_assert_eq!((read, head.accepted, head.value), (promised, state.accepted, state.value));
            let keys = |state: &State<Job>| {
                let group = state.open.iter().flat_map(|open| &open.group);
                group.map(|(place, _)| place.clone()).collect::<Vec<_>>()
            };
            prop_assert_eq!(keys(&head), keys(&state));
        }

        #[test]
        fn what_is_cut_or_longer_is_no_stamp(state in stamps(), at: proptest::sample::Index) {
            let text = write(&state, &here());
            prop_assert!(parse(&text[..at.index(text.len())], &here()).is_none());
            prop_assert!(parse(&[&text[..], b"k"].concat(), &here()).is_none());
        }
    }
}
