//! The command table: each command's name, number of arguments, key positions, and the way that masters answer it.
//!
//! It is consulted for every request, it answers `COMMAND`, and the documentation is generated from it.

mod data;
mod others;
mod rows;
mod subcommands;

use crate::resp::reply::Protocol;
use data::DATA;
pub use rows::Command;
use rows::SPECS;
pub use subcommands::{SUBCOMMANDS, Subcommand};

/// One command.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Name in lower case.
    pub name: &'static str,
    /// Number of arguments including the name; `-n` means at least `n`.
    pub arity: i8,
    /// Family, which is the file that answers the command.
    pub family: Family,
    /// Identifier of the command.
    pub id: Command,
    /// Redis's flags, in the order of `COMMAND INFO`.
    pub flags: &'static [&'static str],
    /// Position of the first key; 0 if there is none, or if positions vary as in `EVAL`.
    pub first_key: i8,
    /// Position of the last key; negative values count from the end.
    pub last_key: i8,
    /// Distance between keys.
    pub step: i8,
    /// One-line description for a reader of the table.
    pub summary: &'static str,
    /// Version of Redis (for `DELIFEQ`: of Valkey) that introduced the command.
    pub since: &'static str,
    /// One or two sentences on how the masters answer it.
    pub rule: &'static str,
    /// Executor of the command.
    pub run: RunBy,
    /// Whether the first argument names one of its [`SUBCOMMANDS`].
    pub is_container: bool,
    /// Index among [`all`] commands.
    pub place: u16,
}

/// Executor of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunBy {
    /// A dedicated function, selected by [`Spec::id`].
    Own,
    /// The masters, by majority; the value is the answer if no value has a majority.
    Read(Nothing),
    /// One master after another, page by page.
    Walk,
    /// The masters, as a program of one command.
    Write,
    /// Like [`RunBy::Write`], repeated until there is something.
    Wait,
    /// Like [`RunBy::Read`]; with `BLOCK`, repeated until there is something.
    Follow,
    /// Like [`RunBy::Write`]; with `BLOCK`, repeated until there is something.
    Deliver,
}

impl RunBy {
    const fn rule(self) -> &'static str {
        match self {
            Self::Own => "",
            Self::Read(_) => "The answer of a quorum of masters.",
            Self::Walk => {
                "One master after another, page by page; only keys that a majority holds."
            }
            Self::Write => rows::REGISTER,
            Self::Wait => {
                "Retried as a program on registers until there is a result, without blocking other clients."
            }
            Self::Follow => {
                "The answer of a quorum of masters. With BLOCK, repeated after each change until there is a result."
            }
            Self::Deliver => {
                "A program on registers. With BLOCK, retried after each change until there is a result."
            }
        }
    }
}

/// Answer of a read to a key that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// Null.
    Nil,
    /// The integer 0.
    Zero,
    /// An empty array.
    List,
    /// An empty map.
    Map,
    /// An empty set.
    Set,
    /// An answer that depends on the arguments, so the client must try again.
    Again,
    /// A null array in place of streams and their entries, which are a map, or in this protocol an array of pairs.
    Streams(Protocol),
}

impl Spec {
    /// Whether a request with this many arguments, including the name, fits the arity.
    #[inline]
    pub fn accepts(&self, args: usize) -> bool {
        let bound = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { args >= bound } else { args == bound }
    }

    /// Whether the keys are preceded by their number.
    pub fn has_counted_keys(&self) -> bool {
        self.flags.contains(&"movablekeys")
            && !matches!(
                self.name,
                "sort" | "sort_ro" | "georadius" | "georadiusbymember" | "xread" | "xreadgroup"
            )
    }

    /// Whether clients may send the command before `AUTH`.
    pub fn allowed_before_auth(&self) -> bool {
        self.flags.contains(&"no_auth")
    }
}

/// Commands that are answered in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Claims, releases and other writes of a whole value.
    Lock,
    /// Values.
    Key,
    /// Times to live.
    Expiry,
    /// Integers.
    Counter,
    /// All keys of a database.
    Keyspace,
    /// Hashes.
    Hash,
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Strings as bits.
    Bitmap,
    /// Approximate counts.
    HyperLogLog,
    /// Places.
    Geo,
    /// Streams.
    Stream,
    /// `MULTI` and related commands.
    Transaction,
    /// Messages.
    Pubsub,
    /// Lua.
    Script,
    /// The state of one connection.
    Connection,
    /// Information about the proxy.
    Server,
}

impl Command {
    /// Returns the command's row in the table.
    #[inline]
    pub fn spec(self) -> &'static Spec {
        &SPECS[self as usize]
    }
}

/// Returns all commands in alphabetical order.
pub fn all() -> &'static [Spec] {
    &ALL
}

/// Returns the command at this index of [`all`], or none for [`super::table::NO_COMMAND`].
pub fn at(place: u16) -> Option<&'static Spec> {
    ALL.get(usize::from(place))
}

#[inline]
fn place(name: &[u8]) -> Option<usize> {
    let packed = pack(name)?;
    let mut bucket = bucket(packed);
    // No bucket is far from an empty one, since most are.
    loop {
        match BUCKETS[bucket] {
            EMPTY => return None,
            place if PACKED[usize::from(place)] == packed => return Some(usize::from(place)),
            _ => bucket = (bucket + 1) % BUCKETS.len(),
        }
    }
}

/// Finds a command by its name, in any case.
#[inline]
pub fn lookup(name: &[u8]) -> Option<&'static Spec> {
    // A NUL at the end of a name packs as if it were absent.
    Some(&ALL[place(name)?]).filter(|spec| spec.name.len() == name.len())
}

/// Whether Redis 7.0 has a command of this name, in any case, that the proxy does not answer. Such a command is
/// refused by name, not reported as unknown.
pub fn known_to_redis(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    others::OTHERS.binary_search_by(|(other, _)| other.as_bytes().cmp(&name)).is_ok()
}

/// Returns the names of those commands and their categories of `ACL CAT` (see `others.rs`).
pub fn others() -> &'static [(&'static str, &'static str)] {
    others::OTHERS
}

/// Whether this is the first word of an HTTP request with a body, or of a header. Redis closes such a connection
/// (`securityWarningCommand` in `server.c`), because a web page has made a browser send it.
pub fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// A lower-case name as two numbers in alphabetical order, so that a lookup takes a few register comparisons.
type Packed = (u128, u64);

/// Packs a name. Returns `None` if it is longer than any name in the table may be.
#[inline]
const fn pack(name: &[u8]) -> Option<Packed> {
    let (mut first, mut rest) = ([0; size_of::<u128>()], [0; size_of::<u64>()]);
    if name.len() > first.len() + rest.len() {
        return None;
    }
    let mut at = 0;
    while at < name.len() {
        let letter = name[at].to_ascii_lowercase();
        match at < first.len() {
            true => first[at] = letter,
            false => rest[at - first.len()] = letter,
        }
        at += 1;
    }
    Some((u128::from_be_bytes(first), u64::from_be_bytes(rest)))
}

const fn is_before(one: Packed, other: Packed) -> bool {
    one.0 < other.0 || one.0 == other.0 && one.1 < other.1
}

/// Both tables merged, in alphabetical order.
static ALL: [Spec; SPECS.len() + DATA.len()] = {
    let mut all = [SPECS[0]; SPECS.len() + DATA.len()];
    let (mut own, mut data) = (0, 0);
    while own + data < all.len() {
        let own_is_next = data == DATA.len()
            || own < SPECS.len() && is_before(packed(SPECS[own].name), packed(DATA[data].name));
        let mut spec = if own_is_next { SPECS[own] } else { DATA[data] };
        spec.place = (own + data) as u16;
        all[own + data] = spec;
        if own_is_next { own += 1 } else { data += 1 }
    }
    all
};

/// Packed names of [`ALL`]. Fails to compile if a table is out of order.
static PACKED: [Packed; ALL.len()] = {
    let mut names = [(0, 0); ALL.len()];
    let mut row = 0;
    while row < names.len() {
        names[row] = packed(ALL[row].name);
        assert!(
            row == 0 || is_before(names[row - 1], names[row]),
            "the tables are in alphabetical order"
        );
        assert!(row >= SPECS.len() || SPECS[row].id as usize == row);
        row += 1;
    }
    names
};

/// Marks a bucket without a command.
const EMPTY: u16 = u16::MAX;

/// The binary logarithm of the number of buckets.
const BUCKET_BITS: u32 = 10;

/// The place of each command, in the bucket of its packed name or the next free one.
static BUCKETS: [u16; 1 << BUCKET_BITS] = {
    let mut buckets = [EMPTY; 1 << BUCKET_BITS];
    assert!(2 * ALL.len() < buckets.len(), "few names share a bucket");
    let mut place = 0;
    while place < ALL.len() {
        let mut at = bucket(packed(ALL[place].name));
        while buckets[at] != EMPTY {
            at = (at + 1) % buckets.len();
        }
        buckets[at] = place as u16;
        place += 1;
    }
    buckets
};

/// Returns the bucket in which to look for a name: the top bits of a product with the golden ratio (Fibonacci hashing).
#[inline]
const fn bucket((first, rest): Packed) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let folded = (first >> 64) as u64 ^ (first as u64).rotate_left(29) ^ rest.rotate_left(13);
    (folded.wrapping_mul(GOLDEN) >> (u64::BITS - BUCKET_BITS)) as usize
}

const fn packed(name: &str) -> Packed {
    pack(name.as_bytes()).expect("a name that fits")
}

/// Whether [`SUBCOMMANDS`] contains any for this command.
const fn has_subcommands(command: &str) -> bool {
    let command = command.as_bytes();
    let mut row = 0;
    while row < SUBCOMMANDS.len() {
        let name = SUBCOMMANDS[row].name.as_bytes();
        let mut same = 0;
        while same < command.len() && same < name.len() && name[same] == command[same] {
            same += 1;
        }
        if same == command.len() && same < name.len() && name[same] == b'|' {
            return true;
        }
        row += 1;
    }
    false
}

/// First key, last key, and step.
type Keys = [i8; 3];
const NO_KEY: Keys = [0, 0, 0];
const ONE_KEY: Keys = [1, 1, 1];
const KEYS: Keys = [1, -1, 1];

/// Defines [`Command`] and [`SPECS`] from rows of name, arity, keys, flags, version, family, summary and rule.
macro_rules! commands {
    ($($id:ident $name:literal $arity:literal $keys:ident [$($flag:literal)*] $since:literal
       $family:ident $summary:literal, $rule:expr;)*) => {
        /// The commands that the proxy answers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Command {
            $(#[doc = $summary] $id,)*
            /// A command of the data table, specified by [`Spec::run`].
            Data,
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
            run: RunBy::Own,
            is_container: super::has_subcommands($name),
            place: 0,
        },)*];
    };
}
use commands;

/// Defines [`DATA`] from rows of name, arity, keys, flags, version, family, executor and summary.
macro_rules! data_commands {
    ($($name:literal $arity:literal $keys:ident [$($flag:literal)*] $since:literal
       $family:ident $run:ident $(($nothing:ident))? $summary:literal;)*) => {
        pub(super) const DATA: &[Spec] = &[$(Spec {
            name: $name,
            arity: $arity,
            family: Family::$family,
            id: super::Command::Data,
            flags: &[$($flag),*],
            first_key: $keys[0],
            last_key: $keys[1],
            step: $keys[2],
            summary: $summary,
            since: $since,
            rule: RunBy::$run $((Nothing::$nothing))?.rule(),
            run: RunBy::$run $((Nothing::$nothing))?,
            is_container: super::has_subcommands($name),
            place: 0,
        },)*];
    };
}
use data_commands;

/// Index used for requests that are not a command.
pub const NO_COMMAND: u16 = u16::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case() {
        for spec in all() {
            assert_eq!(lookup(spec.name.as_bytes()).map(|found| found.id), Some(spec.id));
            assert_eq!(lookup(spec.name.to_uppercase().as_bytes()).map(|s| s.id), Some(spec.id));
            assert_eq!(all()[usize::from(spec.place)].name, spec.name);
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
        assert!(known_to_redis(b"MemorY") && known_to_redis(b"debug") && known_to_redis(b"swapdb"));
        assert!(!known_to_redis(b"nonsense") && !known_to_redis(b""));
        assert!(others::OTHERS.is_sorted_by_key(|(name, _)| name));
        assert!(SUBCOMMANDS.is_sorted_by_key(|subcommand| subcommand.name));
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
