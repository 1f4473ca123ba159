//! The rosters of all shards, as the keepers of one process see them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::decision::quorum::MasterId;
use crate::decision::roster::roster::Roster;
use crate::decision::roster::shards::{self, Hindrance, Shard, Step};
use crate::masters::electorate::{Electorate, MasterSight};
use crate::operation::verdict::Obstacle;

/// Why no cluster can be founded for a shard.
#[derive(Debug)]
pub struct Hindered {
    /// What has to be done first.
    pub obstacle: Obstacle,
    /// Whether its masters can be cleared of remains: no other shard serves with a cluster that they are of.
    pub may_clear: bool,
}

/// What the masters of a list have shown, in its order.
type Sights = [Option<MasterSight>];

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
        // It may be waiting for this shard in turn.
        let why = why.filter(|obstacle| !obstacle.why.contains(" is missing"));
        let why = why.map(|obstacle| format!(" ({})", obstacle.why)).unwrap_or_default();
        format!(
            "a proxy that starts must see all shards once, and shard {} is missing{why}",
            self.name(at)
        )
    }

    /// Says that a shard cannot be seen.
    pub fn too_few(&self, at: usize) -> String {
        format!("too few masters{} hold the roster: start the others", self.of_shard(at))
    }

    /// Says that the masters that this proxy serves belong to another cluster now.
    pub fn replaced(&self, at: usize) -> String {
        format!(
            "the masters{} were founded anew while this proxy served them: start it again with the right list",
            self.of_shard(at)
        )
    }

    /// Returns why no cluster can be founded for the shard at `at`, if so.
    pub fn keeps_from_founding(&self, at: usize) -> Option<Hindered> {
        let sights: Vec<_> = self.electorates.iter().map(|it| it.sights()).collect();
        let all = self.electorates.iter().zip(&sights);
        let seen: Vec<_> = all.map(|(electorate, sights)| held(electorate, sights)).collect();
        let hindrance = shards::keeps_from_founding(at, &self.names, &seen)?;
        let obstacle = Obstacle::lasting(match hindrance {
            Hindrance::OfOthers(other, roster) => shards::mismatch(other, &self.names, roster),
            Hindrance::Serves => shards::has_forgotten(self.name(at)),
            Hindrance::Unseen(other) => self.wait(other),
        });
        let may_clear = matches!(hindrance, Hindrance::OfOthers(..));
        Some(Hindered { obstacle, may_clear })
    }

    /// Says that a master of the shard at `at` is a master of another shard, too, whatever its address.
    pub fn same_instance(&self, at: usize, sights: &Sights) -> Option<String> {
        for (other, electorate) in self.electorates.iter().enumerate().filter(|it| it.0 != at) {
            for (theirs, sight) in seen(&electorate.sights()) {
                let is_same = |(_, own): &(_, &MasterSight)| own.facts.run_id == sight.facts.run_id;
                if let Some((ours, _)) = seen(sights).find(is_same) {
                    return Some(format!(
                        "{} of shard {} is the same instance as {} of shard {}: name each master once",
                        self.electorates[at].name(ours),
                        self.name(at),
                        electorate.name(theirs),
                        self.name(other),
                    ));
                }
            }
        }
        None
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

    fn of_shard(&self, at: usize) -> String {
        self.names.get(at).map(|name| format!(" of shard {name}")).unwrap_or_default()
    }

    fn name(&self, at: usize) -> &str {
        self.names.get(at).map_or("", String::as_str)
    }

    /// No code under this lock can panic.
    fn known(&self) -> MutexGuard<'_, Vec<Option<Roster>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn seen(sights: &Sights) -> impl Iterator<Item = (MasterId, &MasterSight)> {
    let seen = |(at, sight)| Some((MasterId::new(at), Option::as_ref(sight)?));
    sights.iter().enumerate().filter_map(seen)
}

/// Returns the rosters that the masters of a shard hold, if enough of them were seen.
fn held<'a>(electorate: &Electorate, sights: &'a Sights) -> Option<Vec<&'a Roster>> {
    let rosters = seen(sights).filter_map(|(_, sight)| Some(&sight.marks.roster()?.value));
    let is_enough = seen(sights).count() >= electorate.terms().quorum.needed();
    // A register may have been settled before anything was written to it.
    is_enough.then(|| rosters.filter(|roster| roster.version > 0).collect())
}
