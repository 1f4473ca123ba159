//! Observations of all clients together so far.

use std::collections::BTreeSet;

use foldhash::HashMap;

use super::ledger::NameLedger;
use super::scripts::Scripts;
use super::usage::Usage;
use crate::command::outlook;
use crate::names::kind::LockSign;
use crate::names::skeleton::Skeleton;
use crate::names::{LONGEST_NAME, Name};
use crate::resp::requests::Args;

/// Maximum groups of names that appear together in one request.
pub const MOST_GROUPS: usize = 2048;

/// Maximum names kept of one such group.
pub const NAMES_OF_A_GROUP: usize = 8;

/// Maximum patterns kept of those with which clients search for keys, and maximum scripts kept without keys.
pub const MOST_SEARCHES: usize = 64;

/// Observations of all clients.
#[derive(Clone, Debug, Default)]
pub struct Observer {
    /// The keys.
    pub keys: NameLedger,
    /// The channels.
    pub channels: NameLedger,
    /// The scripts.
    pub scripts: Scripts,
    /// Names that came together, by command and skeletons.
    groups: HashMap<(Box<str>, BTreeSet<Skeleton>), Group>,
    /// Patterns of `KEYS` and `SCAN`.
    pub searches: BTreeSet<Name>,
    /// Scripts that were called without keys.
    pub keyless: BTreeSet<Box<str>>,
    /// Plain counts.
    pub totals: Totals,
    /// Whether there were more groups than are kept.
    pub has_more_groups: bool,
}

/// Plain counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Clients that have connected.
    pub clients: u64,
    /// Requests that were complete.
    pub requests: u64,
    /// Clients that sent something other than requests.
    pub not_understood: u64,
    /// Keys and channels that were not examined, because their names are too long.
    pub long_names: u64,
}

/// Names that came together in one request or transaction.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// `EVAL`, `DEL`, `EXEC`.
    pub command: Box<str>,
    /// Names of the first request of this kind.
    pub names: Vec<Name>,
    /// Number of such requests.
    pub count: u64,
    /// Whether it was a script.
    pub is_script: bool,
}

/// The client that has just used a name.
#[derive(Clone, Copy, Debug)]
pub struct Who<'a> {
    /// The library, or the best substitute that is known.
    pub library: &'a str,
    /// The database.
    pub db: u32,
}

impl Observer {
    /// Records that a request named a key.
    pub fn key(&mut self, name: &[u8], command: &str, args: Args<'_>) -> Option<&mut Usage> {
        if name.len() > LONGEST_NAME {
            self.totals.long_names += 1;
            return None;
        }
        let usage = self.keys.of(name, false)?;
        if !usage.has_seen(command)
            && let Some(why) = outlook::refusal(args)
        {
            usage.refuse(command, &why);
        }
        usage.commands.add(&command.into(), 1);
        Some(usage)
    }

    /// Returns the usage of a key that was just named.
    pub fn used(&mut self, name: &[u8]) -> Option<&mut Usage> {
        if name.len() > LONGEST_NAME { None } else { self.keys.of(name, false) }
    }

    /// Records that a key was seen to be a lock.
    pub fn lock(&mut self, name: &[u8], kind: LockSign, who: Who<'_>) {
        if name.len() > LONGEST_NAME {
            return;
        }
        if let Some(usage) = self.keys.of(name, true) {
            usage.kinds.add(&kind, 1);
            usage.libraries.add(&who.library.into(), 1);
            usage.databases.add(&who.db, 1);
        }
    }

    /// Records that a channel was subscribed to, or published on.
    pub fn channel(&mut self, name: &[u8], command: &str) {
        if name.len() > LONGEST_NAME {
            self.totals.long_names += 1;
        } else if let Some(usage) = self.channels.of(name, false) {
            usage.commands.add(&command.into(), 1);
        }
    }

    /// Records that names came together.
    pub fn together(&mut self, command: &str, names: &[&[u8]], is_script: bool) {
        let names: BTreeSet<&[u8]> = names.iter().copied().collect();
        let short = names.iter().filter(|name| name.len() <= LONGEST_NAME);
        let names: Vec<&[u8]> = short.take(NAMES_OF_A_GROUP).copied().collect();
        if names.len() < 2 {
            return;
        }
        let skeletons = names.iter().map(|name| Skeleton::of(name)).collect();
        let key = (command.into(), skeletons);
        if !self.groups.contains_key(&key) && self.groups.len() >= MOST_GROUPS {
            self.has_more_groups = true;
            return;
        }
        let group = self.groups.entry(key).or_insert_with(|| Group {
            command: command.into(),
            names: names.iter().map(|name| Name::from(*name)).collect(),
            count: 0,
            is_script,
        });
        group.count += 1;
    }

    /// Records a search for all keys that match.
    pub fn search(&mut self, pattern: &[u8]) {
        if self.searches.len() < MOST_SEARCHES && pattern.len() <= LONGEST_NAME {
            self.searches.insert(pattern.into());
        }
    }

    /// Records that a script was called without keys.
    pub fn without_keys(&mut self, script: &str) {
        if self.keyless.len() < MOST_SEARCHES {
            self.keyless.insert(script.into());
        }
    }

    /// Returns all groups of names that came together.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
    }
}
