//! All commands and subcommands that rules can name. The commands are those of the table, and those of Redis 7.0 that
//! only scripts can call. The subcommands are those of both.

use std::ops::Range;
use std::sync::LazyLock;

use super::Categories;
use crate::catalogue::table::{self, SUBCOMMANDS, Spec};
use crate::resp::requests::Args;

/// Index of a command or subcommand in the catalogue. Commands of the table come first, in its order.
pub type CommandPlace = usize;

/// Properties of a command or subcommand.
#[derive(Debug)]
pub struct CommandEntry {
    /// Name in lower case; a subcommand's follows its command: `client|list`.
    pub name: &'static str,
    /// Categories of the command.
    pub categories: Categories,
    /// Number of arguments including the names; `-n` means at least `n`. Set only for subcommands.
    pub arity: Option<i8>,
    /// Whether clients may always send it (`no_auth` among Redis's flags).
    pub is_free: bool,
    /// Places of the subcommands.
    pub subcommands: Range<CommandPlace>,
}

static ENTRIES: LazyLock<Vec<CommandEntry>> = LazyLock::new(|| {
    let commands = table::all().iter().map(|spec| (spec.name, Categories::of(spec)));
    let others = table::others().iter().map(|(name, words)| (*name, Categories::of_words(words)));
    let subcommands = SUBCOMMANDS.iter().map(|it| CommandEntry {
        name: it.name,
        categories: Categories::of_words(it.categories),
        arity: Some(it.arity),
        is_free: false,
        subcommands: 0..0,
    });
    let first = table::all().len() + table::others().len();
    let commands = commands.chain(others).map(|(name, categories)| CommandEntry {
        name,
        categories,
        arity: None,
        is_free: table::lookup(name.as_bytes()).is_some_and(Spec::allowed_before_auth),
        subcommands: subcommands_of(name, first),
    });
    commands.chain(subcommands).collect()
});

/// Returns the places of the subcommands of `name`, where `first` is the place of the first subcommand of all.
fn subcommands_of(name: &str, first: CommandPlace) -> Range<CommandPlace> {
    let container = |full: &'static str| full.split('|').next().unwrap_or(full);
    let start = SUBCOMMANDS.partition_point(|it| container(it.name) < name);
    let end = SUBCOMMANDS.partition_point(|it| container(it.name) <= name);
    first + start..first + end
}

/// Returns all entries, indexed by place.
pub fn all() -> &'static [CommandEntry] {
    &ENTRIES
}

/// Returns the entry of a command in the table.
pub fn of(spec: &Spec) -> (CommandPlace, &'static CommandEntry) {
    let place = usize::from(spec.place);
    (place, &ENTRIES[place])
}

/// Returns the entry of the subcommand that a request names, or that of the command if Redis has none of that name.
pub fn named(spec: &Spec, args: Args<'_>) -> (CommandPlace, &'static CommandEntry) {
    let (place, entry) = of(spec);
    let subcommand = args.get(1).and_then(|word| entry.subcommand(word));
    subcommand.map_or((place, entry), |place| (place, &ENTRIES[place]))
}

/// Finds a command, or with `|` a subcommand, by name in any case.
pub fn find(name: &[u8]) -> Option<CommandPlace> {
    ENTRIES.iter().position(|entry| name.eq_ignore_ascii_case(entry.name.as_bytes()))
}

impl CommandEntry {
    /// Finds a subcommand of this command by name, in any case.
    pub fn subcommand(&self, word: &[u8]) -> Option<CommandPlace> {
        let own = self.name.len() + 1;
        let is_meant = |place: &CommandPlace| {
            ENTRIES[*place].name.as_bytes()[own..].eq_ignore_ascii_case(word)
        };
        self.subcommands.clone().find(is_meant)
    }

    /// Whether a request with this many words fits the arity.
    pub fn accepts(&self, words: usize) -> bool {
        self.arity.is_none_or(|arity| {
            let bound = usize::from(arity.unsigned_abs());
            if arity < 0 { words >= bound } else { words == bound }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_places_of_the_table() {
        for spec in table::all() {
            assert_eq!(of(spec).1.name, spec.name);
            assert_eq!(find(spec.name.to_uppercase().as_bytes()), Some(spec.place.into()));
        }
    }

    #[test]
    fn every_subcommand_belongs_to_a_command() {
        let of_commands: usize = all().iter().map(|entry| entry.subcommands.len()).sum();
        assert_eq!(of_commands, SUBCOMMANDS.len());
        let client = &all()[find(b"client").unwrap()];
        assert_eq!(client.subcommand(b"LIST"), find(b"client|list"));
        assert_eq!(client.subcommand(b"whoami"), None);
        assert!(all()[find(b"get").unwrap()].subcommands.is_empty());
    }

    #[test]
    fn the_arity_of_a_subcommand_counts_both_names() {
        let entry = |name: &[u8]| &all()[find(name).unwrap()];
        assert!(entry(b"client|id").accepts(2) && !entry(b"client|id").accepts(3));
        assert!(entry(b"config|set").accepts(9) && !entry(b"config|set").accepts(3));
    }
}
