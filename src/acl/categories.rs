//! Command categories (`ACLCommandCategories` in Redis's `acl.c`).

use std::ops::BitOr;

use crate::catalogue::table::{Family, Spec};

/// A set of categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Categories(u32);

/// Names in the order of `ACL CAT`, which is also that of `COMMAND INFO`.
const NAMES: [&str; 21] = [
    "@keyspace",
    "@read",
    "@write",
    "@set",
    "@sortedset",
    "@list",
    "@hash",
    "@string",
    "@bitmap",
    "@hyperloglog",
    "@geo",
    "@stream",
    "@pubsub",
    "@admin",
    "@fast",
    "@slow",
    "@blocking",
    "@dangerous",
    "@connection",
    "@transaction",
    "@scripting",
];

impl Categories {
    /// Returns the category of this name, in any case.
    pub fn named(name: &[u8]) -> Option<Self> {
        let is_meant = |known: &&str| name.eq_ignore_ascii_case(&known.as_bytes()[1..]);
        let place = NAMES.iter().position(is_meant)?;
        Some(Self(1 << place))
    }

    /// Returns the names of all categories, each with a leading `@`.
    pub fn all_names() -> &'static [&'static str] {
        &NAMES
    }

    /// Iterates over the names of the categories in the set, each with a leading `@`.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let is_here = move |(place, _): &(usize, &&'static str)| self.0 & (1 << place) != 0;
        NAMES.iter().enumerate().filter(is_here).map(|(_, name)| *name)
    }

    /// Whether the sets share a category.
    pub fn overlap(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the categories of a command in the table.
    pub fn of(spec: &Spec) -> Self {
        if is_container(spec) {
            let own = if spec.name == "command" { "connection" } else { "" };
            return Self::of_words(own);
        }
        Self::of_words(by_name_or_family(spec)) | by_flags(spec)
    }

    /// Parses category names and adds what they imply: `slow` without `fast`, and `dangerous` for `admin`
    /// (`setImplicitACLCategories` in Redis's `server.c`).
    pub(super) fn of_words(words: &str) -> Self {
        let named = |word: &str| Self::named(word.as_bytes()).unwrap_or_default();
        let mut categories = words.split_whitespace().map(named).fold(Self::default(), Self::bitor);
        if !categories.overlap(named("fast")) {
            categories = categories | named("slow");
        }
        if categories.overlap(named("admin")) {
            categories = categories | named("dangerous");
        }
        categories
    }
}

impl BitOr for Categories {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        // A command that either side marks as fast is not slow.
        let both = self.0 | other.0;
        let slow = if both & FAST != 0 { SLOW } else { 0 };
        Self(both & !slow)
    }
}

/// Whether a command is a container, whose subcommands have the categories that matter.
fn is_container(spec: &Spec) -> bool {
    const CONTAINERS: [&str; 13] = [
        "acl", "client", "cluster", "command", "config", "function", "latency", "object", "pubsub",
        "script", "slowlog", "xgroup", "xinfo",
    ];
    CONTAINERS.contains(&spec.name)
}

fn by_flags(spec: &Spec) -> Categories {
    let flag = |flag: &str| match flag {
        "readonly" if spec.family != Family::Script => "read",
        "write" => "write",
        "pubsub" => "pubsub",
        "fast" => "fast",
        "blocking" => "blocking",
        _ => "",
    };
    let words = spec.flags.iter().map(|word| flag(word)).collect::<Vec<_>>();
    Categories::of_words(&words.join(" "))
}

/// Returns the family's categories, except for commands that Redis puts elsewhere.
fn by_name_or_family(spec: &Spec) -> &'static str {
    match spec.name {
        "del" | "unlink" | "exists" | "touch" | "type" => "keyspace",
        "flushall" | "flushdb" | "keys" | "restore" => "keyspace dangerous",
        "sort" | "sort_ro" => "set sortedset list dangerous",
        "info" => "dangerous",
        "monitor" | "role" => "admin",
        "wait" => "connection",
        _ => of_family(spec.family),
    }
}

fn of_family(family: Family) -> &'static str {
    match family {
        Family::Lock | Family::Key | Family::Counter => "string",
        Family::Expiry | Family::Keyspace => "keyspace",
        Family::Hash => "hash",
        Family::List => "list",
        Family::Set => "set",
        Family::SortedSet => "sortedset",
        Family::Bitmap => "bitmap",
        Family::HyperLogLog => "hyperloglog",
        Family::Geo => "geo",
        Family::Stream => "stream",
        Family::Transaction => "transaction",
        Family::Script => "scripting",
        Family::Connection => "connection",
        Family::Pubsub | Family::Server => "",
    }
}

const FAST: u32 = 1 << 14;
const SLOW: u32 = 1 << 15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::table;

    fn of(name: &str) -> Vec<&'static str> {
        Categories::of(table::lookup(name.as_bytes()).unwrap())
            .names()
            .map(|name| &name[1..])
            .collect()
    }

    #[test]
    fn what_is_not_fast_is_slow() {
        assert_eq!((NAMES[14], NAMES[15]), ("@fast", "@slow"));
        for spec in table::all() {
            let names = of(spec.name);
            assert_ne!(names.contains(&"fast"), names.contains(&"slow"), "{}", spec.name);
        }
    }

    #[test]
    fn commands_are_in_the_categories_that_redis_has_them_in() {
        assert_eq!(of("get"), ["read", "string", "fast"]);
        assert_eq!(of("del"), ["keyspace", "write", "slow"]);
        assert_eq!(of("role"), ["admin", "fast", "dangerous"]);
        assert_eq!(of("eval_ro"), ["slow", "scripting"]);
        assert_eq!(of("xgroup"), ["slow"]);
        // Redis 7.0 does not know this command.
        assert_eq!(of("delifeq"), ["write", "string", "fast"]);
    }

    #[test]
    fn names_have_any_case() {
        assert_eq!(
            Categories::named(b"ReAd"),
            Some(Categories::of_words("fast read")).map(|it| { Categories(it.0 & !FAST) })
        );
        assert_eq!(Categories::named(b"all"), None);
    }
}
