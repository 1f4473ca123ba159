//! The command table: what a command is called, how many arguments it takes, where its keys are and
//! how the masters answer it.
//!
//! It is asked for every request, it answers `COMMAND`, and the documentation is made from it.

mod others;
mod rows;

pub use rows::Command;
use rows::SPECS;

/// One command.
#[derive(Debug)]
pub struct Spec {
    /// In lower case.
    pub name: &'static str,
    /// Number of arguments, the name included; `-n`: at least `n`.
    pub arity: i8,
    /// Which file answers it.
    pub family: Family,
    /// Itself.
    pub id: Command,
    /// Redis's own flags, in the order of `COMMAND INFO`.
    pub flags: &'static [&'static str],
    /// Position of the first key; 0: it has none, or they move as in `EVAL`.
    pub first_key: i8,
    /// Position of the last key; negative: counted from the end.
    pub last_key: i8,
    /// Distance between keys.
    pub step: i8,
    /// What it does, for a reader of the table.
    pub summary: &'static str,
    /// The version of Redis (for `DELIFEQ`: of Valkey) that brought it.
    pub since: &'static str,
    /// One sentence or two: how the masters answer it.
    pub rule: &'static str,
}

impl Spec {
    /// Whether a request of this many arguments, the name included, may be this command.
    #[inline]
    pub fn accepts(&self, args: usize) -> bool {
        let bound = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { args >= bound } else { args == bound }
    }

    /// Whether clients may send it before `AUTH`.
    pub fn allowed_before_auth(&self) -> bool {
        self.flags.contains(&"no_auth")
    }
}

/// Commands that are answered alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Claims, releases and other writes of a whole value.
    Lock,
    /// Values.
    Key,
    /// Times to live.
    Expiry,
    /// Numbers.
    Counter,
    /// All keys of a database.
    Keyspace,
    /// Lua.
    Script,
    /// The state of one connection.
    Connection,
    /// Facts about the proxy.
    Server,
}

impl Command {
    /// Its row in the table.
    #[inline]
    pub fn spec(self) -> &'static Spec {
        &SPECS[self as usize]
    }
}

/// All commands in alphabetical order.
pub fn all() -> &'static [Spec] {
    SPECS
}

/// The command of this name in any case.
#[inline]
pub fn lookup(name: &[u8]) -> Option<&'static Spec> {
    let row = PACKED.binary_search(&pack(name)?).ok()?;
    // A NUL at the end of a name packs like nothing.
    Some(&SPECS[row]).filter(|spec| spec.name.len() == name.len())
}

/// Whether Redis 7.0 has a command of this name, in any case, that the proxy does not answer. Such
/// a command is refused by name instead of being called unknown.
pub fn known_to_redis(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    others::OTHERS.binary_search_by(|other| other.as_bytes().cmp(&name)).is_ok()
}

/// Whether this is the first word of an HTTP request with a body, or of a header. Redis closes such
/// a connection (`securityWarningCommand` in `server.c`): a web page has made a browser send it.
pub fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// A name in lower case as one number, in the order of the alphabet, so that looking one up is a
/// few comparisons of registers. `None`: longer than any name in the table may be.
#[inline]
const fn pack(name: &[u8]) -> Option<u128> {
    if name.len() > NAME_MAX {
        return None;
    }
    let mut packed = [0; NAME_MAX];
    let mut at = 0;
    while at < name.len() {
        packed[at] = name[at].to_ascii_lowercase();
        at += 1;
    }
    Some(u128::from_be_bytes(packed))
}

const NAME_MAX: usize = size_of::<u128>();

/// The names of [`SPECS`], packed. Does not compile when they are out of order.
static PACKED: [u128; SPECS.len()] = {
    let mut packed = [0; SPECS.len()];
    let mut row = 0;
    while row < SPECS.len() {
        packed[row] = pack(SPECS[row].name.as_bytes()).expect("a name of at most 16 bytes");
        assert!(row == 0 || packed[row - 1] < packed[row], "the table is in alphabetical order");
        assert!(SPECS[row].id as usize == row);
        row += 1;
    }
    packed
};

/// Makes [`Command`] and [`SPECS`] from rows of name, arity, keys, flags, version, family, summary
/// and rule.
macro_rules! commands {
    ($($id:ident $name:literal $arity:literal $keys:ident [$($flag:literal)*] $since:literal
       $family:ident $summary:literal, $rule:expr;)*) => {
        /// Every command that the proxy answers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Command {
            $(#[doc = $summary] $id,)*
        }

        pub(super) const SPECS: &[Spec] = &[$(Spec {
            name: $name,
            arity: $arity,
            family: Family::$family,
            id: Command::$id,
            flags: &[$($flag),*],
            first_key: $keys[0],
            last_key: $keys[1],
            step: $keys[2],
            summary: $summary,
            since: $since,
            rule: $rule,
        },)*];
    };
}
use commands;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case() {
        for spec in all() {
            assert_eq!(lookup(spec.name.as_bytes()).map(|found| found.id), Some(spec.id));
            assert_eq!(lookup(spec.name.to_uppercase().as_bytes()).map(|s| s.id), Some(spec.id));
            assert_eq!(spec.id.spec().name, spec.name);
            assert!(!known_to_redis(spec.name.as_bytes()), "{}", spec.name);
        }
    }

    #[test]
    fn near_misses_are_not_found() {
        let long = [b'a'; 100];
        for name in [&b""[..], b"se", b"sett", b"set\0", b"\0set", b"set ", b"s\xe5t", &long] {
            assert!(lookup(name).is_none(), "{name:?}");
        }
    }

    #[test]
    fn other_commands_of_redis_are_known_by_name() {
        assert!(known_to_redis(b"HSet") && known_to_redis(b"multi") && known_to_redis(b"zunion"));
        assert!(!known_to_redis(b"nonsense") && !known_to_redis(b""));
        assert!(others::OTHERS.is_sorted());
    }

    #[test]
    fn sentinel_is_unknown_as_in_a_plain_redis() {
        assert!(lookup(b"sentinel").is_none() && !known_to_redis(b"sentinel"));
    }

    #[test]
    fn arity_counts_the_name() {
        let spec = |name: &str| lookup(name.as_bytes()).expect("in the table");
        assert!(spec("get").accepts(2) && !spec("get").accepts(1) && !spec("get").accepts(3));
        assert!(spec("set").accepts(3) && spec("set").accepts(9) && !spec("set").accepts(2));
    }

    #[test]
    fn only_the_handshake_goes_before_auth() {
        let early: Vec<_> =
            all().iter().filter(|spec| spec.allowed_before_auth()).map(|spec| spec.name).collect();
        assert_eq!(early, ["auth", "hello", "quit", "reset"]);
    }
}
