//! The mark by which a master proves that it remembers.
//!
//! # Format
//!
//! `cluster version member incarnation database;tail`, numbers in decimal. The part after the semicolon changes without
//! the master having forgotten anything, so marks are compared up to it. A master that is being copied to has a
//! provisional mark, `? nonce database;tail`, which proves nothing.
//!
//! Masters execute the commands of a connection in order. So a mark that is read after a command, in the same write,
//! proves that the master had not forgotten when it executed the command.

use super::noted::Timekeeper;
use super::roster::{Identity, Roster};
use crate::decision::quorum::MasterId;

/// Value of the key by which a master proves that it remembers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    /// Statement that the mark proves.
    pub kind: MarkKind,
    /// Database that the mark is stored in. It reveals a `SWAPDB`.
    pub database: u32,
    /// Data in the mark that is not part of the proof.
    pub tail: Tail,
}

/// Statement that a mark proves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MarkKind {
    /// The master remembers everything that this incarnation has received.
    Member {
        /// Id of the cluster.
        cluster: String,
        /// Version of the roster that its votes belong to.
        version: u64,
        /// Id of the member.
        member: u64,
        /// Incarnation of the member that the mark belongs to.
        incarnation: u64,
    },
    /// The master is being copied to, and has not forgotten since that began.
    Provisional {
        /// Number drawn for this copy, never 0.
        nonce: u64,
    },
}

/// Data in a mark that is not part of the proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tail {
    /// Highest ballot counter of the dropped stamps.
    pub floor: u64,
    /// Ballot counter of the last flush.
    pub last_flush: u64,
}

impl Mark {
    /// Returns the mark that `master` shows in `database` while `roster` is in force; `None` if it is not a member.
    pub fn expected(roster: &Roster, master: MasterId, database: u32) -> Option<Self> {
        let member = roster.member(master)?;
        let kind = MarkKind::Member {
            cluster: roster.cluster.clone(),
            version: roster.version,
            member: member.id,
            incarnation: member.incarnation,
        };
        Some(Self { kind, database, tail: Tail::default() })
    }

    /// Parses a mark; `None` if it is not one of ours.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, tail) = text.split_once(';')?;
        let (floor, last_flush) = tail.split_once(' ')?;
        let tail = Tail { floor: number(floor)?, last_flush: number(last_flush)? };
        let words: Vec<_> = head.split(' ').collect();
        let (kind, database) = match words[..] {
            ["?", nonce, database] => (MarkKind::Provisional { nonce: number(nonce)? }, database),
            [cluster, version, member, incarnation, database] if !cluster.is_empty() => {
                let (version, member) = (number(version)?, number(member)?);
                let (cluster, incarnation) = (cluster.to_owned(), number(incarnation)?);
                (MarkKind::Member { cluster, version, member, incarnation }, database)
            }
            _ => return None,
        };
        Some(Self { kind, database: u32::try_from(number(database)?).ok()?, tail })
    }

    /// Returns the stored form of the statement: everything before the tail, with the semicolon.
    pub fn head(&self) -> String {
        let mut text = self.to_string();
        text.truncate(text.find(';').map_or(text.len(), |at| at + 1));
        text
    }

    /// Returns the mark of a master from the marks in its databases, in their order; `None` if they differ.
    pub fn of_all(shown: &[Option<Self>]) -> Option<Self> {
        let first = shown.first()?.as_ref()?;
        let is_same = |(at, mark): (usize, &Option<Self>)| {
            let mark = mark.as_ref();
            mark.is_some_and(|mark| mark.kind == first.kind && mark.database as usize == at)
        };
        shown.iter().enumerate().all(is_same).then(|| first.clone())
    }

    /// Whether both marks prove the same.
    pub fn proves_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.database == other.database
    }

    /// Returns the cluster that the master belongs to; `None` if it is yet to be admitted.
    pub fn cluster(&self) -> Option<&str> {
        match &self.kind {
            MarkKind::Member { cluster, .. } => Some(cluster),
            MarkKind::Provisional { .. } => None,
        }
    }

    /// Whether the master belongs to `cluster`.
    pub fn is_of(&self, cluster: &str) -> bool {
        self.cluster() == Some(cluster)
    }

    /// Returns the version that the master votes under.
    pub fn version(&self) -> Option<u64> {
        match self.kind {
            MarkKind::Member { version, .. } => Some(version),
            MarkKind::Provisional { .. } => None,
        }
    }

    /// Returns the nonce of a provisional mark.
    pub fn nonce(&self) -> Option<u64> {
        match self.kind {
            MarkKind::Provisional { nonce } => Some(nonce),
            MarkKind::Member { .. } => None,
        }
    }

    /// Returns the owner of the master's clock; `None` for a master that is yet to be admitted.
    pub fn timekeeper(&self) -> Option<Timekeeper> {
        match self.kind {
            MarkKind::Member { member, incarnation, .. } => {
                Some(Timekeeper { member, incarnation })
            }
            MarkKind::Provisional { .. } => None,
        }
    }

    /// Returns how the master identifies itself in answers about the roster.
    pub fn identity(&self, run_id: &str) -> Option<Identity> {
        match &self.kind {
            MarkKind::Member { cluster, incarnation, .. } => Some(Identity {
                cluster: cluster.clone(),
                incarnation: *incarnation,
                run_id: run_id.to_owned(),
            }),
            MarkKind::Provisional { .. } => None,
        }
    }

    /// Whether the master missed a raise of the marks, but has forgotten nothing.
    pub fn missed_a_raise_to(&self, expected: &Self) -> bool {
        let (Some(shown), Some(due)) = (self.version(), expected.version()) else { return false };
        shown < due && self.at(due).proves_same(expected)
    }

    /// Returns the mark with another version.
    fn at(&self, due: u64) -> Self {
        let mut mark = self.clone();
        if let MarkKind::Member { version, .. } = &mut mark.kind {
            *version = due;
        }
        mark
    }
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            MarkKind::Member { cluster, version, member, incarnation } => {
                write!(f, "{cluster} {version} {member} {incarnation}")?;
            }
            MarkKind::Provisional { nonce } => write!(f, "? {nonce}")?,
        }
        write!(f, " {};{} {}", self.database, self.tail.floor, self.tail.last_flush)
    }
}

impl Tail {
    /// Parses the tail of a stored mark; `None` if it has none.
    pub fn of_stored(mark: &[u8]) -> Option<Self> {
        let at = mark.iter().position(|byte| *byte == b';')?;
        let (floor, last_flush) = std::str::from_utf8(&mark[at + 1..]).ok()?.split_once(' ')?;
        Some(Self { floor: number(floor)?, last_flush: number(last_flush)? })
    }
}

/// Whether this is valid after the semicolon.
fn is_tail(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    text.split_once(' ')
        .is_some_and(|(floor, last_flush)| number(floor).is_some() && number(last_flush).is_some())
}

fn number(text: &str) -> Option<u64> {
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_decimal)
}

/// Mark and time as read at the end of a batch of commands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MarkReading {
    /// Mark of the master; `None` if there was none, or none of ours.
    pub mark: Option<Mark>,
    /// Whether the time that was read with it continues the master's clock.
    pub time_continues: bool,
}

/// An answer that a master gave while it remembered. Only a [`Proof`] can create one.
///
/// Code that counts votes takes this type, so that a vote without its proof cannot be counted by mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Proven<T> {
    seal: Seal,
    answer: T,
}

/// Expectation that the answers to an operation must meet, fixed when the operation is sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proof {
    seal: Seal,
    expected: Mark,
    /// Mark as stored, up to and including the semicolon.
    head: String,
    run_id: String,
}

/// Confirmation that a reading proves the answers before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seal {
    master: MasterId,
    version: u64,
    incarnation: u64,
    flush: Option<u64>,
}

impl Proof {
    /// Returns the proof that `master` owes for what is sent to it now; `None` if it has no vote.
    pub fn due(roster: &Roster, master: MasterId, database: u32) -> Option<Self> {
        let (member, expected) =
            (roster.member(master)?, Mark::expected(roster, master, database)?);
        let (version, incarnation) = (roster.version, member.incarnation);
        let flush = None;
        let (seal, head) = (Seal { master, version, incarnation, flush }, expected.head());
        let run_id = member.run_id.clone();
        member.is_in().then_some(Self { seal, expected, head, run_id })
    }

    /// Returns the proof for a master that a proxy has at another place of its list.
    #[must_use]
    pub fn of(self, master: MasterId) -> Self {
        Self { seal: Seal { master, ..self.seal }, ..self }
    }

    /// Returns the incarnation that must answer.
    pub fn incarnation(&self) -> u64 {
        self.seal.incarnation
    }

    /// Returns the process that must answer. An older volume of the same master has the same mark.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Returns the expected mark.
    pub fn expected(&self) -> &Mark {
        &self.expected
    }

    /// Returns the answer as one that counts, if the reading after it proves that.
    ///
    /// The mark may be of another version: its master has received a change that this proxy has yet to learn, or the
    /// reverse. [`Poll`](super::poll::Poll) decides which versions go together.
    pub fn check<T>(&self, reading: &MarkReading, answer: T) -> Option<Proven<T>> {
        let version = self.version_of(reading.mark.as_ref()?)?;
        let seal = Seal { version, ..self.seal };
        reading.time_continues.then(|| seal.proves(answer))
    }

    /// Checks all answers before a stored mark at once.
    pub fn check_stored(&self, mark: &[u8], time_continues: bool) -> Option<Seal> {
        let version = match mark.strip_prefix(self.head.as_bytes()) {
            Some(tail) if is_tail(tail) => self.seal.version,
            _ => self.version_of(&Mark::parse(std::str::from_utf8(mark).ok()?)?)?,
        };
        time_continues.then_some(Seal { version, ..self.seal })
    }

    /// Returns the version of the mark, if it proves the expected incarnation.
    fn version_of(&self, mark: &Mark) -> Option<u64> {
        let version = mark.version()?;
        self.expected.at(version).proves_same(mark).then_some(version)
    }
}

impl Seal {
    /// Returns an answer that was given before the reading as proven.
    pub fn proves<T>(self, answer: T) -> Proven<T> {
        Proven { seal: self, answer }
    }

    /// Returns the roster version that the master had received.
    pub fn version(self) -> u64 {
        self.version
    }

    /// Returns the seal for answers given after this flush and before the next one; `None` if that is unknown.
    #[must_use]
    pub fn after_flush(self, flush: Option<u64>) -> Self {
        Self { flush, ..self }
    }
}

impl<T> Proven<T> {
    /// Returns the master that answered.
    pub fn master(&self) -> MasterId {
        self.seal.master
    }

    /// Returns the roster version that the master had received.
    pub fn version(&self) -> u64 {
        self.seal.version
    }

    /// Returns the incarnation of the master.
    pub fn incarnation(&self) -> u64 {
        self.seal.incarnation
    }

    /// Returns the last flush of the database that the master had done when it answered, if known.
    pub fn flush(&self) -> Option<u64> {
        self.seal.flush
    }

    /// Returns the seal that proves the answer.
    pub fn seal(&self) -> Seal {
        self.seal
    }

    /// Returns a reference to the answer.
    pub fn answer(&self) -> &T {
        &self.answer
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decision::roster::roster::{Member, Stage, Standing};

    fn roster(version: u64) -> Roster {
        let member =
            |id| Member { incarnation: 4, ..Member::founder(id, format!("run{id}"), Vec::new()) };
        let mut members: Vec<_> = (10..13).map(member).collect();
        members[2].standing = Standing::Out { since: 2 };
        Roster {
            cluster: "c1".to_owned(),
            version,
            stage: Stage::Founded,
            members,
            ..Roster::default()
        }
    }

    fn reading(text: &str) -> MarkReading {
        MarkReading { mark: Mark::parse(text), time_continues: true }
    }

    fn counts(text: &str) -> bool {
        let proof = Proof::due(&roster(7), MasterId::new(0), 3).expect("a voter");
        proof.check(&reading(text), ()).is_some()
    }

    #[test]
    fn only_the_mark_of_the_incarnation_that_was_sent_to_counts() {
        assert!(counts("c1 7 10 4 3;0 0"));
        assert!(counts("c1 7 10 4 3;99 98"), "the tail is no part of the proof");
        assert!(counts("c1 8 10 4 3;0 0") && counts("c1 6 10 4 3;0 0"), "whatever the version");
        let others = ["c2 7 10 4 3;0 0", "c1 7 11 4 3;0 0"];
        assert!(others.iter().all(|text| !counts(text)));
        let others = ["c1 7 10 5 3;0 0", "c1 7 10 4 2;0 0", "? 5 3;0 0", "", "c1 7 10 4 3"];
        assert!(others.iter().all(|text| !counts(text)));
    }

    #[test]
    fn a_vote_beside_a_clock_that_was_set_does_not_count() {
        let proof = Proof::due(&roster(7), MasterId::new(0), 3).expect("a voter");
        let reading = MarkReading { time_continues: false, ..reading("c1 7 10 4 3;0 0") };
        assert_eq!(proof.check(&reading, ()), None);
    }

    #[test]
    fn who_is_out_owes_no_proof() {
        assert_eq!(Proof::due(&roster(7), MasterId::new(2), 0), None);
        assert_eq!(Proof::due(&roster(7), MasterId::new(9), 0), None);
    }

    #[test]
    fn a_lower_version_alone_is_a_missed_raise() {
        let expected = Mark::expected(&roster(7), MasterId::new(0), 3).expect("a member");
        let missed = |text| Mark::parse(text).is_some_and(|mark| mark.missed_a_raise_to(&expected));
        assert!(missed("c1 5 10 4 3;8 9"));
        let others = ["c1 7 10 4 3;0 0", "c1 8 10 4 3;0 0", "c1 5 10 3 3;0 0", "? 5 3;0 0"];
        assert!(others.iter().all(|text| !missed(text)));
    }

    #[test]
    fn a_master_shows_one_mark_only_if_all_its_databases_do() {
        let marks = |texts: &[&str]| {
            let marks: Vec<_> = texts.iter().map(|text| Mark::parse(text)).collect();
            Mark::of_all(&marks).is_some()
        };
        assert!(marks(&["c1 7 10 4 0;0 0", "c1 7 10 4 1;5 0"]));
        assert!(!marks(&["c1 7 10 4 0;0 0", "c1 7 10 4 0;0 0"]), "swapped or copied");
        assert!(!marks(&["c1 7 10 4 0;0 0", "c1 6 10 4 1;0 0"]));
        assert!(!marks(&["c1 7 10 4 0;0 0", ""]));
        assert!(!marks(&[]));
    }

    #[test]
    fn numbers_are_digits_only() {
        assert_eq!(Mark::parse("c1 +7 10 4 3;0 0"), None);
        assert_eq!(Mark::parse("c1 7 10 4 3 5;0 0"), None);
        assert_eq!(Mark::parse("c1 7 10 4 3;0"), None);
        assert_eq!(Mark::parse("c1 7 10 4 99999999999;0 0"), None);
    }

    proptest! {
        #[test]
        fn a_mark_is_read_as_it_was_written(
            numbers: [u64; 5], database: u32, provisional: bool
        ) {
            let [version, member, incarnation, floor, last_flush] = numbers;
            let cluster = "c1".to_owned();
            let kind = match provisional {
                true => MarkKind::Provisional { nonce: version },
                false => MarkKind::Member { cluster, version, member, incarnation },
            };
            let mark = Mark { kind, database, tail: Tail { floor, last_flush } };
            prop_assert_eq!(Mark::parse(&mark.to_string()), Some(mark));
        }

        #[test]
        fn no_text_breaks_the_reader(text: String) {
            let _ = Mark::parse(&text);
        }

        /// Includes stored marks that are nearly right.
        #[test]
        fn a_stored_mark_is_judged_as_a_read_one(
            text in "(c1|c2) [678] 10 [45] [34];[0-9]{0,2} [0-9a]{0,2}", time_continues: bool
        ) {
            let proof = Proof::due(&roster(7), MasterId::new(0), 3).expect("a voter");
            let reading = MarkReading { mark: Mark::parse(&text), time_continues };
            let stored = proof.check_stored(text.as_bytes(), time_continues);
            prop_assert_eq!(stored.map(|seal| seal.proves(1)), proof.check(&reading, 1));
        }
    }
}
