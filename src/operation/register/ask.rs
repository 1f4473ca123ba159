//! Requests to masters.

use std::sync::Arc;

use bytes::Bytes;

use super::stamp::{self, ballot};
use super::{Job, Place};
use crate::decision::keyspace::slot::{Adopt, Adopted, Apply, Basis};
use crate::decision::register::ballot::Ballot;
use crate::lua::keyspace::{ADOPT, CLOSE, FETCH, FLUSH, FORGET, HEADS, PREPARE, Text};
use crate::lua::program::ProgramText;
use crate::operation::request::{self, Form};

/// Request to a master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestWords {
    script: Source,
    /// Number of keys, the keys, and the arguments.
    words: Vec<Vec<u8>>,
    /// Time, in microseconds, of a program that can be sent along with others: one with one key, sent in the shorter
    /// form.
    together_us: Option<u64>,
}

/// Call of a program that may be combined with calls of the same text: see `together.lua`.
#[derive(Debug)]
pub struct PackMember {
    /// Program that all of them call.
    pub program: Arc<ProgramText>,
    /// The only key, encoded.
    pub key: Vec<u8>,
    /// Arguments and the word after them, encoded.
    pub argv: Vec<u8>,
    /// Number of these words.
    pub width: usize,
    /// Last word of the request: the database and the mode.
    pub how: Vec<u8>,
}

/// Length of the database in 5 digits and of the mode, in the shorter form for one key.
const HOW_BYTES: usize = 7;

/// Script for a master to run.
#[derive(Clone, Debug)]
enum Source {
    /// Script of the proxy.
    Ours(&'static Text),
    /// Script of a client, wrapped.
    Program(Arc<ProgramText>),
}

/// Returns the call that promises `ballot` for `keys` on a connection with database `db`. Each key comes with a flush,
/// which the master does first if it has missed it.
pub fn prepare(keys: &[(Place, u64)], ballot: Ballot, db: u16) -> RequestWords {
    let places: Vec<Place> = keys.iter().map(|(place, _)| place.clone()).collect();
    let mut words = on_keys(&places);
    words.extend([stamp::ballot(ballot).into(), digits(db)]);
    words.extend(keys.iter().flat_map(|(place, met)| [digits(place.db), digits(met)]));
    RequestWords::ours(&PREPARE, words)
}

/// Returns the call that makes a master accept states, with the content of each as `DUMP` returns it. A master that
/// lacks content missing from the call reports that.
pub fn adopt(adopt: &Adopt<Job>, held: &[Option<Bytes>], db: u16) -> RequestWords {
    let keys: Vec<Place> = adopt.states.iter().map(|adopted| adopted.key.clone()).collect();
    let mut words = on_keys(&keys);
    words.extend([ballot(adopt.next).into(), digits(db)]);
    for (adopted, held) in adopt.states.iter().zip(held) {
        words.push(digits(adopted.key.db));
        words.push(ballot(adopted.from).into());
        words.push(stamp::write(&adopted.state, &adopted.key));
        words.push(held.as_deref().unwrap_or_default().to_vec());
        let over = adopted
            .over
            .iter()
            .map(|lease| [format!("{:08}", lease.value.len()).as_bytes(), &lease.value].concat());
        words.push(over.collect::<Vec<_>>().concat());
        words.push(digits(adopted.flush));
    }
    RequestWords::ours(&ADOPT, words)
}

/// Returns the call that fetches the content of the states in `adopt` from a master that has accepted them.
pub fn fetch(adopt: &Adopt<Job>, db: u16) -> RequestWords {
    let of = |adopted: &Adopted<Job>| (adopted.key.clone(), adopted.state.accepted);
    fetch_under(&adopt.states.iter().map(of).collect::<Vec<_>>(), db)
}

/// Like [`fetch`], from a master that has accepted some of the states under the ballots under which they were found.
pub fn fetch_as_found(adopt: &Adopt<Job>, db: u16) -> RequestWords {
    let of = |adopted: &Adopted<Job>| (adopted.key.clone(), adopted.from);
    fetch_under(&adopt.states.iter().map(of).collect::<Vec<_>>(), db)
}

/// Returns the call that fetches the content of keys from a master that has accepted it under these ballots.
pub fn fetch_under(keys: &[(Place, Ballot)], db: u16) -> RequestWords {
    let places: Vec<Place> = keys.iter().map(|(key, _)| key.clone()).collect();
    let mut words = on_keys(&places);
    words.push(digits(db));
    for (key, accepted) in keys {
        words.extend([digits(key.db), ballot(*accepted).into()]);
    }
    RequestWords::ours(&FETCH, words)
}

/// Returns the call that closes states of the selected database that a quorum was seen to hold under these ballots.
pub fn close(keys: &[(Place, Ballot)]) -> RequestWords {
    of_stamps(&CLOSE, keys)
}

/// Returns the call that drops stamps of the selected database that were accepted under these ballots. It only does so
/// if the master's mark equals this one up to the semicolon.
pub fn forget(keys: &[(Place, Ballot)], mark: &str) -> RequestWords {
    let mut forget = of_stamps(&FORGET, keys);
    forget.words.push(mark.as_bytes().to_vec());
    forget
}

/// Returns the call that does the flush with this counter, of this database or of all. With counter 0 it only returns
/// the last flush. `pace` is `SYNC`, `ASYNC`, or empty.
pub fn flush(counter: u64, pace: &str, db: Option<u32>) -> RequestWords {
    let db = db.map_or_else(|| b"all".to_vec(), digits);
    RequestWords::ours(&FLUSH, vec![digits(0), digits(counter), pace.into(), db])
}

/// Returns the call that shows a master's progress on keys of the selected database.
pub fn heads(keys: &[Place]) -> RequestWords {
    RequestWords::ours(&HEADS, on_keys(keys))
}

fn of_stamps(script: &'static Text, keys: &[(Place, Ballot)]) -> RequestWords {
    let places: Vec<Place> = keys.iter().map(|(place, _)| place.clone()).collect();
    let mut words = on_keys(&places);
    words.extend(keys.iter().map(|(_, accepted)| ballot(*accepted).into()));
    RequestWords::ours(script, words)
}

/// Returns the call that runs a program. A program that has begun before sees the time of that beginning.
pub fn apply(apply: &Apply<Job>, begun_us: Option<u64>) -> RequestWords {
    let Apply { program: job, basis, now_us, next } = apply;
    let mut words = vec![digits(job.keys.len())];
    words.extend(job.keys.iter().chain(&job.argv).map(|word| word.to_vec()));
    let mode = if job.is_read_only { "ro" } else { "rw" };
    let next = ballot(*next);
    if let Some(basis) = of_one_key(job, basis) {
        let expected = [ballot(basis.ballot), ballot(basis.accepted)].concat();
        let mut how = format!("{:05}{mode}", job.db);
        if basis.accepted == Ballot::NONE {
            how.push_str(&format!("{:016}", basis.flush));
        }
        words.extend([expected, next.into(), how.into()]);
        words.push(format!("{now_us:016}").into());
        let can_be_together = job.keys.len() == 1
            && !job.is_read_only
            && job.runner.is_none()
            && job.program.can_be_together();
        let together_us = can_be_together.then_some(*now_us);
        return RequestWords { together_us, ..RequestWords::of_job(job, words) };
    }
    for (place, basis) in job.places.iter().zip(basis) {
        words.extend([place.key.to_vec(), expected(place, basis)]);
    }
    let count = job.places.len();
    let last = format!("{count:04}{:05}{mode}{now_us:016}", job.db);
    let told = begun_us.map(|begun_us| format!("{begun_us:016}")).unwrap_or_default();
    words.push([last.as_bytes(), &next, told.as_bytes()].concat());
    RequestWords::of_job(job, words)
}

/// Returns the expected content for a program that uses one key, its first, in the selected database, if no lease is on
/// it. Masters have a shorter form for this case.
fn of_one_key<'a>(job: &Job, basis: &'a [Basis<Job>]) -> Option<&'a Basis<Job>> {
    let ([place], [basis]) = (&job.places[..], basis) else { return None };
    let is_first = place.db == job.db && job.keys.first() == Some(&place.key);
    (is_first && basis.lease.is_none()).then_some(basis)
}

/// Returns the expected content of a key: accepted ballot, promised ballot, database, last flush, and a lease.
fn expected(place: &Place, basis: &Basis<Job>) -> Vec<u8> {
    let ballots = [ballot(basis.accepted), ballot(basis.ballot)].concat();
    let lease = basis.lease.as_ref().map(stamp::lease).unwrap_or_default();
    [&ballots, format!("{:05}{:016}", place.db, basis.flush).as_bytes(), &lease].concat()
}

fn on_keys(keys: &[Place]) -> Vec<Vec<u8>> {
    let names = keys.iter().map(|place| place.key.to_vec());
    std::iter::once(digits(keys.len())).chain(names).collect()
}

fn digits(number: impl ToString) -> Vec<u8> {
    number.to_string().into()
}

impl RequestWords {
    fn ours(script: &'static Text, words: Vec<Vec<u8>>) -> Self {
        Self { script: Source::Ours(script), words, together_us: None }
    }

    fn of_job(job: &Job, mut words: Vec<Vec<u8>>) -> Self {
        let program = job.runner.as_ref().unwrap_or(&job.program);
        if job.runner.is_some() {
            words.push(job.program.code().to_vec());
        }
        let script = Source::Program(Arc::clone(program));
        Self { script, words, together_us: None }
    }

    /// Returns the program that masters must have before this request; `None` if it runs a script of the proxy.
    pub fn text(&self) -> Option<&Arc<ProgramText>> {
        match &self.script {
            Source::Program(program) => Some(program),
            Source::Ours(_) => None,
        }
    }

    /// Returns the words to send, if the call may be combined with others.
    pub fn member(&self) -> Option<PackMember> {
        let (program, now_us) = (self.text()?, self.together_us?);
        let [_, name, argv @ .., expected, next, how, _] = &self.words[..] else { return None };
        let (how, flush) = how.split_at(how.len().min(HOW_BYTES));
        let (mut key, mut words) = (Vec::new(), Vec::new());
        request::word(&mut key, name);
        argv.iter().for_each(|word| request::word(&mut words, word));
        request::word(&mut words, &[expected, next, &now_us.to_be_bytes()[..], flush].concat());
        let (program, width, how) = (Arc::clone(program), argv.len() + 1, how.to_vec());
        Some(PackMember { program, key, argv: words, width, how })
    }

    /// Returns the text of the script, and the words after it.
    pub fn script(&self) -> (&[u8], &[Vec<u8>]) {
        (self.script.text(), &self.words)
    }

    /// Returns the request with the text of the script.
    pub fn eval(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(Form::Text, &mut out);
        out
    }

    /// Appends the request.
    pub fn encode(&self, form: Form, out: &mut Vec<u8>) {
        let head = match form {
            Form::Sha => [&b"EVALSHA"[..], self.script.sha()],
            Form::Text => [&b"EVAL"[..], self.script.text()],
        };
        request::header(out, head.len() + self.words.len());
        head.into_iter().for_each(|word| request::word(out, word));
        self.words.iter().for_each(|word| request::word(out, word));
    }
}

impl Source {
    fn text(&self) -> &[u8] {
        match self {
            Self::Ours(script) => script.text.as_bytes(),
            Self::Program(program) => &program.text,
        }
    }

    fn sha(&self) -> &[u8] {
        match self {
            Self::Ours(script) => script.sha.as_bytes(),
            Self::Program(program) => program.sha.as_bytes(),
        }
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.sha() == other.sha()
    }
}

impl Eq for Source {}
