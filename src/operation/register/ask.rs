//! What a master is asked.

use bytes::Bytes;

use super::stamp::{self, ballot};
use super::{Job, Place};
use crate::decision::keyspace::slot::{Adopt, Apply, Basis};
use crate::decision::register::ballot::Ballot;
use crate::lua::keyspace::{ADOPT, CLOSE, FETCH, FORGET, PREPARE};

/// The words of a request.
pub type Words = Vec<Vec<u8>>;

/// Returns the call that promises `ballot` for `keys` on a connection with database `db`.
pub fn prepare(keys: &[Place], ballot: Ballot, db: u16) -> Words {
    let mut words = script(&PREPARE, keys);
    words.extend([stamp::ballot(ballot).into(), digits(db)]);
    words.extend(keys.iter().map(|place| digits(place.db)));
    words
}

/// Returns the call that has states accepted, given what each of them holds, as `DUMP` has it. A master that lacks
/// what is not given here says so.
pub fn adopt(adopt: &Adopt<Job>, held: &[Option<Bytes>], db: u16) -> Words {
    let keys: Vec<Place> = adopt.states.iter().map(|adopted| adopted.key.clone()).collect();
    let mut words = script(&ADOPT, &keys);
    words.extend([ballot(adopt.next).into(), digits(db)]);
    for (adopted, held) in adopt.states.iter().zip(held) {
        words.push(digits(adopted.key.db));
        words.push(ballot(adopted.from).into());
        words.push(stamp::write(&adopted.state, &adopted.key));
        words.push(held.as_deref().unwrap_or_default().to_vec());
    }
    words
}

/// Returns the call that fetches what the states of `adopt` hold from a master that has accepted them.
pub fn fetch(adopt: &Adopt<Job>, db: u16) -> Words {
    let keys: Vec<Place> = adopt.states.iter().map(|adopted| adopted.key.clone()).collect();
    let mut words = script(&FETCH, &keys);
    words.push(digits(db));
    for adopted in &adopt.states {
        words.extend([digits(adopted.key.db), ballot(adopted.state.accepted).into()]);
    }
    words
}

/// Returns the call that closes states of the selected database, which a quorum was seen to hold under these ballots.
pub fn close(keys: &[(Place, Ballot)]) -> Words {
    of_stamps(&CLOSE, keys)
}

/// Returns the call that drops stamps of the selected database, which were accepted under these ballots.
pub fn forget(keys: &[(Place, Ballot)]) -> Words {
    of_stamps(&FORGET, keys)
}

fn of_stamps(text: &str, keys: &[(Place, Ballot)]) -> Words {
    let places: Vec<Place> = keys.iter().map(|(place, _)| place.clone()).collect();
    let mut words = script(text, &places);
    words.extend(keys.iter().map(|(_, accepted)| ballot(*accepted).into()));
    words
}

/// Returns the call that runs a program.
pub fn apply(apply: &Apply<Job>) -> Words {
    let Apply { program: job, basis, now_us, next } = apply;
    let mut words = vec![b"EVAL".to_vec(), job.program.text.clone(), digits(job.keys.len())];
    words.extend(job.keys.iter().chain(&job.argv).map(|word| word.to_vec()));
    let mode = if job.is_read_only { "ro" } else { "rw" };
    let next = ballot(*next);
    if let Some(basis) = of_one_key(job, basis) {
        let expected = [ballot(basis.ballot), ballot(basis.accepted)].concat();
        words.extend([expected, next.into(), format!("{:05}{mode}", job.db).into()]);
        words.push(format!("{now_us:016}").into());
        return words;
    }
    for (place, basis) in job.places.iter().zip(basis) {
        words.extend([place.key.to_vec(), expected(place, basis)]);
    }
    let count = job.places.len();
    let last = format!("{count:04}{:05}{mode}{now_us:016}", job.db);
    words.push([last.as_bytes(), &next].concat());
    words
}

/// What a program expects that uses one key, its first, in the selected database, of which a state was accepted and which
/// holds no lease: masters have a shorter way for that.
fn of_one_key<'a>(job: &Job, basis: &'a [Basis<Job>]) -> Option<&'a Basis<Job>> {
    let ([place], [basis]) = (&job.places[..], basis) else { return None };
    let is_first = place.db == job.db && job.keys.first() == Some(&place.key);
    let is_stamped = basis.accepted != Ballot::NONE && basis.lease.is_none();
    (is_first && is_stamped).then_some(basis)
}

/// What a program expects under a key: accepted ballot, its own, database, and a lease.
fn expected(place: &Place, basis: &Basis<Job>) -> Vec<u8> {
    let ballots = [ballot(basis.accepted), ballot(basis.ballot)].concat();
    let lease = basis.lease.as_ref().map(stamp::lease).unwrap_or_default();
    [&ballots, format!("{:05}", place.db).as_bytes(), &lease].concat()
}

fn script(text: &str, keys: &[Place]) -> Words {
    let mut words = vec![b"EVAL".to_vec(), text.into(), digits(keys.len())];
    words.extend(keys.iter().map(|place| place.key.to_vec()));
    words
}

fn digits(number: impl ToString) -> Vec<u8> {
    number.to_string().into()
}
