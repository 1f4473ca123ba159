//! The result: patterns of locks, and how a proxy with these patterns would treat the requests that were seen.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use super::ledger::{MOST_NAMES, NameLedger};
use super::observer::{Group, MOST_GROUPS, Observer};
use super::scripts::MOST_SCRIPTS;
use super::usage::Usage;
use crate::names::kinship::{self, Kinship};
use crate::names::lock_names::LockNames;
use crate::names::patterns::{self, LockPatterns};
use crate::names::skeleton::Skeleton;
use crate::names::{LONGEST_NAME, Name};
use crate::resp::glob;

/// Maximum example names shown per pattern.
const EXAMPLES: usize = 3;

/// Maximum lines shown of one kind.
const MOST_LINES: usize = 20;

/// Findings about all clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Time for which clients were watched.
    pub seconds: u64,
    /// Clients that have connected.
    pub clients: u64,
    /// Requests that were complete.
    pub requests: u64,
    /// The locks.
    pub locks: Vec<FoundLocks>,
    /// Requests and transactions with keys of both kinds.
    pub mixed: Vec<Mixed>,
    /// Keys that were only taken with `SETNX`, and may be locks.
    pub perhaps: Vec<String>,
    /// Number of such keys.
    pub perhaps_count: usize,
    /// Patterns of `KEYS` and `SCAN` that match locks.
    pub searches: Vec<String>,
    /// Scripts that were called without keys: the data Redis runs them, and finds no lock there.
    pub keyless: Vec<String>,
    /// Sentences to read before these patterns are used.
    pub notes: Vec<String>,
    /// The patterns for `lock-keys`.
    pub lock_keys: Vec<String>,
    /// The patterns for `lock-channels`.
    pub lock_channels: Vec<String>,
}

/// Findings about one pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FoundLocks {
    /// The pattern, or a name.
    pub pattern: String,
    /// Number of names it matched. Beyond the names that are kept, one that came back counts again.
    pub names: u64,
    /// Some of these names.
    pub examples: Vec<String>,
    /// Whether these names belong to locks although no client was seen taking one of them.
    pub belongs_to_others: bool,
    /// Signs that it is a lock.
    pub kinds: Vec<Counted>,
    /// Libraries of the clients that took it.
    pub libraries: Vec<Counted>,
    /// Databases in which those clients took it.
    pub databases: Vec<Counted>,
    /// Every command that named it.
    pub commands: Vec<Counted>,
    /// Scripts that named it.
    pub scripts: Vec<Counted>,
    /// Commands that masters refuse.
    pub refused: Vec<Refused>,
}

/// An item and its count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// The item.
    pub what: String,
    /// Number of times.
    pub count: u64,
}

/// A command that masters refuse for a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The command.
    pub command: String,
    /// Error that a client would get.
    pub why: String,
}

/// Requests that would get `CROSSSLOT`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mixed {
    /// The command, or `EXEC` of a transaction.
    pub command: String,
    /// A key that is a lock.
    pub lock: String,
    /// A key that is not a lock.
    pub data: String,
    /// Number of such requests.
    pub count: u64,
}

impl Report {
    /// Reports on the observations so far.
    pub fn of(seen: &Observer, watched: Duration) -> Self {
        let names = Names::of(seen);
        let patterns = patterns::of(&names.locks(), &names.data);
        let mut settings = patterns::lock_names(&patterns.all);
        let channels = channels(seen, &names, &settings);
        settings.channels = channels.all.iter().map(|it| it.as_bytes().into()).collect();
        let perhaps = only_set(&seen.keys, &settings);
        let mut report = Self {
            seconds: watched.as_secs(),
            clients: seen.totals.clients,
            requests: seen.totals.requests,
            locks: found(seen, &names, &patterns.all),
            mixed: mixed(seen, &settings),
            perhaps_count: perhaps.len(),
            perhaps: perhaps.into_iter().take(EXAMPLES).collect(),
            searches: searches(seen, &names),
            keyless: seen.keyless.iter().map(|title| title.to_string()).collect(),
            notes: Vec::new(),
            lock_keys: patterns.all.clone(),
            lock_channels: channels.all.clone(),
        };
        report.notes = notes(seen, &patterns, &channels);
        report
    }
}

/// Every name that was seen, by kind.
struct Names<'a> {
    /// Names seen to be locks.
    taken: BTreeSet<&'a Name>,
    /// Names that belong to locks.
    kin: BTreeSet<&'a Name>,
    data: Vec<&'a [u8]>,
}

impl<'a> Names<'a> {
    fn of(seen: &'a Observer) -> Self {
        let mut taken = BTreeSet::new();
        for (_, family) in seen.keys.families() {
            let kept = family.names().filter(|(_, usage)| usage.is_lock()).map(|(name, _)| name);
            taken.extend(kept.chain(family.forgotten_lock()));
        }
        let kin = Kin::of(seen, &taken);
        let mut names = Self { taken, kin: BTreeSet::new(), data: Vec::new() };
        for (skeleton, family) in seen.keys.families() {
            // A name that was only read is of the same kind as others with its skeleton.
            let has_locks = family.has_locks() && skeleton.varies() && skeleton.says_something();
            for (name, usage) in family.names() {
                if names.taken.contains(name) || kin.by_tag(skeleton, name) {
                    continue;
                }
                if kin.by_name(skeleton, name) {
                    names.kin.insert(name);
                } else if usage.is_data() || !has_locks {
                    names.data.push(name);
                }
            }
            let forgotten = family.forgotten_data().filter(|name| !names.taken.contains(*name));
            let forgotten = forgotten.filter(|name| !kin.by_name(skeleton, name));
            names.data.extend(forgotten.map(|name| &**name));
        }
        names
    }

    /// Returns all names that must go to the masters.
    fn locks(&self) -> BTreeSet<Name> {
        self.taken.iter().chain(&self.kin).map(|name| (*name).clone()).collect()
    }
}

/// Skeletons of names that scripts and transactions name together with a lock, and that are derived from its name. A
/// name that has no fixed letter counts for itself alone.
#[derive(Default)]
struct Kin {
    by_name: BTreeSet<Skeleton>,
    by_tag: BTreeSet<Skeleton>,
}

impl Kin {
    fn of(seen: &Observer, taken: &BTreeSet<&Name>) -> Self {
        let mut kin = Self::default();
        for group in seen.groups().filter(|group| group.is_script || &*group.command == "EXEC") {
            let (locks, others): (Vec<_>, Vec<_>) =
                group.names.iter().partition(|name| taken.contains(name));
            for other in others {
                if locks.iter().any(|lock| kinship::belongs_by_tag(lock, other)) {
                    kin.by_tag.insert(Self::key(&Skeleton::of(other), other));
                } else if locks.iter().any(|lock| kinship::is_made_of(lock, other)) {
                    kin.by_name.insert(Self::key(&Skeleton::of(other), other));
                }
            }
        }
        kin
    }

    fn key(skeleton: &Skeleton, name: &[u8]) -> Skeleton {
        if skeleton.says_something() { skeleton.clone() } else { Skeleton::exactly(name) }
    }

    fn by_name(&self, skeleton: &Skeleton, name: &[u8]) -> bool {
        self.by_name.contains(&Self::key(skeleton, name))
    }

    fn by_tag(&self, skeleton: &Skeleton, name: &[u8]) -> bool {
        self.by_tag.contains(&Self::key(skeleton, name))
    }
}

/// Returns the findings for each pattern in turn, about the names that it is the first to match.
fn found(seen: &Observer, names: &Names<'_>, patterns: &[String]) -> Vec<FoundLocks> {
    let mut usages: Vec<(Usage, u64, Vec<String>)> = vec![Default::default(); patterns.len()];
    let single: Vec<LockNames> = patterns
        .iter()
        .map(|pattern| patterns::lock_names(std::slice::from_ref(pattern)))
        .collect();
    let place = |name: &Name| {
        let of_whole = patterns.iter().position(|it| glob::matches(it.as_bytes(), name, false));
        of_whole.or_else(|| single.iter().position(|it| it.has_key(name)))
    };
    for (_, family) in seen.keys.families() {
        if let Some(at) = family.forgotten_lock().and_then(place) {
            let (forgotten, count) = family.forgotten();
            usages[at].0.add_all(forgotten);
            usages[at].1 += count;
        }
        for (name, usage) in family.names() {
            let Some((all, count, examples)) = place(name).map(|at| &mut usages[at]) else {
                continue;
            };
            all.add_all(usage);
            *count += 1;
            if examples.len() < EXAMPLES && (names.taken.contains(name) || names.kin.contains(name))
            {
                examples.push(shown(name));
            }
        }
    }
    let pairs = patterns.iter().zip(usages);
    pairs
        .map(|(pattern, (usage, names, examples))| FoundLocks::of(pattern, &usage, names, examples))
        .collect()
}

impl FoundLocks {
    fn of(pattern: &str, usage: &Usage, names: u64, examples: Vec<String>) -> Self {
        let text = |all: Vec<(Box<str>, u64)>| counted(all, |what| what.to_string());
        let refused = usage.refused.iter();
        let refused = refused
            .map(|(command, why)| Refused { command: command.to_string(), why: why.to_string() });
        Self {
            pattern: pattern.to_owned(),
            names,
            examples,
            belongs_to_others: !usage.is_lock(),
            kinds: counted(usage.kinds.by_count(), |kind| kind.title().to_owned()),
            libraries: text(usage.libraries.by_count()),
            databases: counted(usage.databases.by_count(), u32::to_string),
            commands: text(usage.commands.by_count()),
            scripts: text(usage.scripts.by_count()),
            refused: refused.collect(),
        }
    }
}

fn counted<T>(all: Vec<(T, u64)>, text: impl Fn(&T) -> String) -> Vec<Counted> {
    all.into_iter().map(|(what, count)| Counted { what: text(&what), count }).collect()
}

/// Returns the channels that belong to locks without sharing their hash tag.
fn channels(seen: &Observer, names: &Names<'_>, settings: &LockNames) -> LockPatterns {
    let kinship = Kinship::of(names.taken.iter().copied());
    let (mut of_locks, mut others) = (BTreeSet::new(), Vec::new());
    for (_, family) in seen.channels.families() {
        for (name, _) in family.names().filter(|(name, _)| !settings.has_channel(name)) {
            if kinship.has_channel(name) {
                of_locks.insert(name.clone());
            } else {
                others.push(&**name);
            }
        }
    }
    patterns::of(&of_locks, &others)
}

fn mixed(seen: &Observer, settings: &LockNames) -> Vec<Mixed> {
    let mut all: Vec<Mixed> = seen.groups().filter_map(|group| mixed_in(group, settings)).collect();
    all.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.lock.cmp(&other.lock)));
    all.truncate(MOST_LINES);
    all
}

fn mixed_in(group: &Group, settings: &LockNames) -> Option<Mixed> {
    let is_lock =
        |name: &&Name| settings.has_key(name) || group.is_script && settings.has_channel(name);
    let lock = group.names.iter().find(is_lock)?;
    let data = group.names.iter().find(|name| !is_lock(name))?;
    let (command, count) = (group.command.to_string(), group.count);
    Some(Mixed { command, lock: shown(lock), data: shown(data), count })
}

/// Returns names that were taken with `SETNX` but never expired, so that nothing shows whether they are locks.
fn only_set(keys: &NameLedger, settings: &LockNames) -> Vec<String> {
    let names = keys.families().flat_map(|(_, family)| family.names());
    let only = names.filter(|(name, usage)| {
        usage.has_seen("SETNX") && !usage.is_lock() && !settings.has_key(name)
    });
    let mut only: Vec<String> = only.map(|(name, _)| shown(name)).collect();
    only.sort();
    only
}

fn searches(seen: &Observer, names: &Names<'_>) -> Vec<String> {
    let matches_lock =
        |pattern: &&Name| names.taken.iter().any(|name| glob::matches(pattern, name, false));
    seen.searches.iter().filter(matches_lock).map(|pattern| shown(pattern)).collect()
}

/// Returns sentences to read before the patterns are used.
fn notes(seen: &Observer, keys: &LockPatterns, channels: &LockPatterns) -> Vec<String> {
    let mut notes = Vec::new();
    for (what, patterns) in [("keys", keys), ("channels", channels)] {
        if let Some(first) = patterns.caught.first() {
            notes.push(format!(
                "{} {what} of data look like locks by their name or hash tag, such as {}: they would go to the masters",
                patterns.caught.len(),
                shown(first)
            ));
        }
        if let Some(first) = patterns.left_out.first() {
            notes.push(format!(
                "{} {what} of locks, such as {}, have no pattern that leaves data alone, and are too many to be listed: give \
                 locks a prefix of their own",
                patterns.left_out.len(),
                shown(first)
            ));
        }
    }
    let listed = keys.all.iter().filter(|pattern| !pattern.contains('*')).count();
    if listed > MOST_LINES {
        notes.push(format!(
            "{listed} names have no pattern in common: give locks a prefix of their own"
        ));
    }
    notes.extend(limits(seen));
    notes
}

/// Returns a sentence for every limit that was reached.
fn limits(seen: &Observer) -> impl Iterator<Item = String> {
    let totals = seen.totals;
    let several = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
    [
        (seen.keys.is_full || seen.channels.is_full).then(|| {
            format!(
                "more than {MOST_NAMES} names: some data keys were not tracked, and a pattern may match them"
            )
        }),
        seen.has_more_groups.then(|| {
            format!("more than {MOST_GROUPS} ways to name keys together: some requests with keys of both kinds may be missing")
        }),
        seen.scripts.is_full.then(|| {
            format!("more than {MOST_SCRIPTS} scripts: what later ones do is not known when they are called by SHA1")
        }),
        several(totals.long_names, &format!("names are longer than {LONGEST_NAME} bytes and were not examined")),
        several(totals.not_understood, "clients sent invalid requests, and were not watched after that"),
    ]
    .into_iter()
    .flatten()
}

/// Makes a name readable for people and JSON.
fn shown(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => name.escape_ascii().to_string(),
    }
}
