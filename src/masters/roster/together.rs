//! The rosters of all shards, as the keepers of one process see them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::decision::roster::roster::Roster;
use crate::decision::roster::shards::{self, Shard, Step};
use crate::masters::electorate::Electorate;

/// The rosters of all shards; of the only cluster if there are none.
#[derive(Debug)]
pub struct Together {
    /// Names of the shards in ascending order.
    names: Vec<String>,
    electorates: Vec<Arc<Electorate>>,
    /// Rosters that were seen founded.
    known: Mutex<Vec<Option<Roster>>>,
}

impl Together {
    /// Creates the state of shards with these names, none of which is known; without names, of one cluster.
    pub fn new(names: Vec<String>, electorates: Vec<Arc<Electorate>>) -> Self {
        let known = Mutex::new(vec![None; electorates.len()]);
        Self { names, electorates, known }
    }

    /// Returns the part that the cluster of the shard at `at` is founded with.
    pub fn part(&self, at: usize) -> Option<Box<Shard>> {
        let (name, names) = (self.names.get(at)?.clone(), self.names.clone());
        Some(Box::new(Shard { name, names, clusters: Vec::new() }))
    }

    /// Notes the founded roster of the shard at `at`, and returns the next action for that shard.
    pub fn step(&self, at: usize, roster: &Roster) -> Step {
        let known = &mut *self.known();
        let is_news = known[at].as_ref() != Some(roster);
        known[at] = Some(roster.clone());
        if is_news {
            let others = self.electorates.iter().enumerate().filter(|(other, _)| *other != at);
            others.for_each(|(_, electorate)| electorate.attend_to_roster());
        }
        let known: Vec<_> = known.iter().map(Option::as_ref).collect();
        shards::next(at, &self.names, &known)
    }

    /// Says for which shard this proxy waits.
    pub fn wait(&self, at: usize) -> String {
        let why = self.electorates[at].why_it_waits();
        let why = why.map(|obstacle| format!(" ({})", obstacle.why)).unwrap_or_default();
        format!(
            "a proxy that starts must see all shards once, and shard {} is missing{why}",
            self.name(at)
        )
    }

    /// Says that a shard cannot be seen.
    pub fn too_few(&self, at: usize) -> String {
        format!(
            "too few masters of shard {} hold its roster: start the others of its masters",
            self.name(at)
        )
    }

    /// Says that the masters that this proxy serves belong to another cluster now.
    pub fn replaced(&self, at: usize) -> String {
        let of_shard = if self.names.is_empty() {
            String::new()
        } else {
            format!(" of shard {}", self.name(at))
        };
        format!(
            "the masters{of_shard} were founded anew while this proxy served them: start it again with the right list"
        )
    }

    /// Says why the shard at `at` must not be founded: the others already serve with a cluster for it.
    pub fn keeps_from_founding(&self, at: usize) -> Option<String> {
        let known = self.known();
        let known: Vec<_> = known.iter().map(Option::as_ref).collect();
        shards::keeps_from_founding(self.name(at), &known)
    }

    /// Whether a roster that is learned while this proxy serves belongs to what it serves.
    pub fn still_fits(&self, at: usize, roster: &Roster) -> bool {
        match &self.known()[at] {
            Some(known) if known.shard.is_some() || roster.shard.is_some() => {
                (&known.cluster, &known.shard) == (&roster.cluster, &roster.shard)
            }
            _ => true,
        }
    }

    /// Says why the cluster of the shard at `at` does not belong to these shards.
    pub fn mismatch(&self, at: usize) -> String {
        let roster = self.known()[at].clone().unwrap_or_default();
        shards::mismatch(at, &self.names, &roster)
    }

    fn name(&self, at: usize) -> &str {
        self.names.get(at).map_or("", String::as_str)
    }

    /// No code under this lock can panic.
    fn known(&self) -> MutexGuard<'_, Vec<Option<Roster>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
