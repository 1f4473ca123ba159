//! Commands that a user may send.

use std::fmt;

use super::Categories;
use super::catalogue::{self, CommandPlace};

/// A set of commands and subcommands, and the rules that produced it.
#[derive(Clone, PartialEq, Eq)]
pub struct Commands {
    bits: [u64; WORDS],
    /// Whether the set includes commands that are unknown so far.
    all: bool,
    /// Whether the rules start from all commands.
    from_all: bool,
    rules: Vec<String>,
}

const WORDS: usize = 8;

impl Commands {
    /// `-@all`
    pub fn none() -> Self {
        Self { bits: [0; WORDS], all: false, from_all: false, rules: Vec::new() }
    }

    /// `+@all`
    pub fn all() -> Self {
        Self { bits: [u64::MAX; WORDS], all: true, from_all: true, rules: Vec::new() }
    }

    /// Whether the set includes everything.
    #[inline]
    pub fn is_all(&self) -> bool {
        self.all
    }

    /// Whether the set includes this command.
    pub fn contains(&self, place: CommandPlace) -> bool {
        self.all || catalogue::all()[place].is_free || self.has(place)
    }

    /// Adds or removes one command with its subcommands, or one subcommand.
    pub(super) fn change(&mut self, place: CommandPlace, allow: bool) {
        self.set(place, allow);
        for subcommand in catalogue::all()[place].subcommands.clone() {
            self.set(subcommand, allow);
        }
        self.note(catalogue::all()[place].name, allow);
    }

    /// Adds or removes all commands of a category.
    pub(super) fn change_category(&mut self, category: Categories, allow: bool) {
        for (place, entry) in catalogue::all().iter().enumerate() {
            if entry.categories.overlap(category) {
                self.set(place, allow);
                entry.subcommands.clone().for_each(|subcommand| self.set(subcommand, allow));
            }
        }
        for name in category.names() {
            self.note(name, allow);
        }
    }

    fn has(&self, place: CommandPlace) -> bool {
        self.bits[place / 64] & (1 << (place % 64)) != 0
    }

    fn set(&mut self, place: CommandPlace, allow: bool) {
        let bit = 1 << (place % 64);
        match allow {
            true => self.bits[place / 64] |= bit,
            false => {
                self.bits[place / 64] &= !bit;
                self.all = false;
            }
        }
    }

    /// Records a rule in place of those that it overrides (`ACLUpdateCommandRules` of Redis 7.2).
    fn note(&mut self, rule: &str, allow: bool) {
        self.rules.retain(|old| {
            let rest = old[1..].strip_prefix(rule);
            !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
        });
        self.rules.push(format!("{}{rule}", if allow { '+' } else { '-' }));
    }
}

/// Prints the form of `ACL LIST`: `-@all +@read +client|id`.
impl fmt::Display for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.from_all { "+@all" } else { "-@all" })?;
        self.rules.iter().try_for_each(|rule| write!(f, " {rule}"))
    }
}

impl fmt::Debug for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> CommandPlace {
        catalogue::find(name.as_bytes()).unwrap()
    }

    #[test]
    fn there_is_room_for_everything() {
        assert!(catalogue::all().len() <= WORDS * 64, "{}", catalogue::all().len());
    }

    #[test]
    fn a_command_brings_its_subcommands_and_takes_them_along() {
        let mut commands = Commands::none();
        commands.change(place("client"), true);
        assert!(commands.contains(place("client|list")));
        commands.change(place("client|kill"), false);
        assert!(!commands.contains(place("client|kill")) && commands.contains(place("client|id")));
        assert_eq!(commands.to_string(), "-@all +client -client|kill");
        commands.change(place("client"), false);
        assert!(!commands.contains(place("client|id")));
        assert_eq!(commands.to_string(), "-@all -client");
    }

    #[test]
    fn what_is_free_before_login_is_free_after_it() {
        for name in ["auth", "hello", "quit", "reset"] {
            assert!(Commands::none().contains(place(name)), "{name}");
        }
    }

    #[test]
    fn who_lacks_one_has_not_all() {
        let mut commands = Commands::all();
        assert!(commands.is_all() && commands.contains(place("get")));
        commands.change(place("get"), false);
        assert!(!commands.is_all() && !commands.contains(place("get")));
        commands.change(place("get"), true);
        assert!(!commands.is_all() && commands.contains(place("get")));
        assert_eq!(commands.to_string(), "+@all +get");
    }

    #[test]
    fn the_category_of_a_container_is_that_of_its_subcommands() {
        let mut commands = Commands::none();
        commands.change_category(Categories::named(b"slow").unwrap(), true);
        assert!(commands.contains(place("config|set")) && commands.contains(place("set")));
        assert!(!commands.contains(place("get")));
        let mut commands = Commands::none();
        commands.change_category(Categories::named(b"connection").unwrap(), true);
        assert!(commands.contains(place("client|id")) && !commands.contains(place("client")));
    }
}
