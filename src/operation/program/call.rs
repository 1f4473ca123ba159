//! A program's text, keys and arguments.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use crate::lua::program::ProgramText as Text;
use crate::operation::register::{self, ContentName, Job, Place};
use crate::operation::request;
use crate::resp::flat;
use crate::resp::number::parse_i64;

/// A call for masters to run.
#[derive(Clone, Debug)]
pub struct Call {
    /// The text.
    pub text: Arc<Text>,
    /// The text that runs it on masters that do not keep it.
    pub runner: Option<Arc<Text>>,
    /// Whether changes are forbidden (`EVAL_RO`).
    pub read_only: bool,
    /// The number of keys, the keys and the arguments, encoded.
    pub words: Vec<u8>,
    /// Fingerprints of the keys, for turns on them.
    pub keys: Vec<u64>,
    /// Keys whose contents must not have changed since they were watched.
    pub watched: Vec<(Place, Option<ContentName>)>,
    /// Databases of the keys, if the text itself switches between them. Empty: all keys are in the client's selected
    /// database.
    pub dbs: Vec<u16>,
}

impl Call {
    /// Creates a call with these keys and arguments; `turns` are the fingerprints of the keys on which it takes turns.
    pub fn new<'k, 'a>(
        text: Arc<Text>,
        runner: Option<Arc<Text>>,
        turns: Vec<u64>,
        keys: impl ExactSizeIterator<Item = &'k [u8]>,
        argv: impl Iterator<Item = &'a [u8]>,
    ) -> Self {
        let mut words = Vec::new();
        request::word(&mut words, keys.len().to_string().as_bytes());
        keys.for_each(|key| request::word(&mut words, key));
        argv.for_each(|word| request::word(&mut words, word));
        let (watched, dbs) = (Vec::new(), Vec::new());
        Self { text, runner, read_only: false, words, keys: turns, watched, dbs }
    }

    /// Whether `place` is one of its keys.
    pub(super) fn names(&self, place: &Place) -> bool {
        self.key_names().any(|key| *key == place.key)
    }

    pub(super) fn key_names(&self) -> impl Iterator<Item = &[u8]> {
        let mut words = flat::elements(&self.words).filter_map(|word| word.body);
        let count = words.next().and_then(parse_i64).unwrap_or_default() as usize;
        words.take(count)
    }

    pub(super) fn may_write(&self) -> bool {
        !self.read_only && !self.text.is_read_only()
    }

    pub(super) fn writes_too_many_keys(&self) -> bool {
        // Few calls have enough keys for duplicates to matter.
        self.may_write()
            && register::are_too_many(self.key_names())
            && register::are_too_many(self.different_keys().into_iter().map(|(_, key)| key))
    }

    /// Returns its keys, each once per database.
    pub(super) fn different_keys(&self) -> HashSet<(Option<&u16>, &[u8])> {
        self.key_names().enumerate().map(|(at, key)| (self.dbs.get(at), key)).collect()
    }

    pub(super) fn job(&self, db: u32) -> Job {
        let words = flat::elements(&self.words).filter_map(|word| word.body);
        let words: Vec<Bytes> = words.map(Bytes::copy_from_slice).collect();
        let count = words.first().and_then(|count| parse_i64(count)).unwrap_or_default() as usize;
        let (keys, argv) = words[1..].split_at(count);
        let db_of = |at| self.dbs.get(at).map_or(db as u16, |&db| db);
        let place_of = |(at, key): (usize, &Bytes)| Place { db: db_of(at), key: key.clone() };
        let watched = self.watched.clone();
        let places = keys.iter().enumerate().map(place_of);
        let places = each_once(places.chain(watched.iter().map(|(place, _)| place.clone())));
        Job {
            program: Arc::clone(&self.text),
            runner: self.runner.clone(),
            db: db as u16,
            is_read_only: self.read_only || self.text.is_read_only(),
            keys: keys.to_vec(),
            argv: argv.to_vec(),
            places,
            watched,
        }
    }
}

/// Returns the places in order, without duplicates. Most calls have one or two.
fn each_once(places: impl Iterator<Item = Place>) -> Vec<Place> {
    const FEW: usize = 8;
    let (mut once, mut many) = (Vec::new(), HashSet::new());
    for place in places {
        if once.len() < FEW {
            if !once.contains(&place) {
                once.push(place);
            }
            continue;
        }
        if many.is_empty() {
            many.extend(once.iter().cloned());
        }
        if many.insert(place.clone()) {
            once.push(place);
        }
    }
    once
}
