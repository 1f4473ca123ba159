//! A master's marks, and their replacement.
//!
//! One script reads the marks of all databases, and one replaces them all, so a master never has half of its marks. A
//! replacement names the marks that were seen and changes nothing if they have changed since.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult};

use super::acceptor;
use crate::catalogue::reserved::{COPYING, MARK, ROSTER};
use crate::decision::roster::mark::{Mark, MarkKind, Tail};
use crate::decision::roster::roster::Accepted;

/// Marks and related state of one master at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The marks as stored, one for each database; empty where there is none.
    stored: Vec<String>,
    /// The mark that all of them together prove.
    mark: Option<Mark>,
    /// The roster's stamp, as stored.
    stamp: String,
    /// The roster's state from the stamp.
    roster: Option<Accepted>,
    /// Number of keys copied to the master and their approximate total, while a proxy is copying.
    copying: Option<(u64, u64)>,
}

/// Treatment of a master's keys when its marks are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// The keys stay.
    Keep,
    /// The keys are removed in all databases.
    Remove,
}

impl Marks {
    /// Parses each database's mark, the stamp, and the progress of a copy.
    fn new(stored: Vec<String>, stamp: String, copying: Option<(u64, u64)>) -> Self {
        let marks: Vec<_> = stored.iter().map(|text| Mark::parse(text)).collect();
        let (mark, roster) = (Mark::of_all(&marks), acceptor::stored(&stamp));
        Self { stored, mark, stamp, roster, copying }
    }

    /// Returns the master's mark; `None` if there is none or the databases disagree.
    pub fn mark(&self) -> Option<&Mark> {
        self.mark.as_ref()
    }

    /// Returns the last flush of each database, 0 where there is no mark.
    pub fn last_flushes(&self) -> Vec<u64> {
        let last = |text: &String| Tail::of_stored(text.as_bytes()).map(|tail| tail.last_flush);
        self.stored.iter().map(|text| last(text).unwrap_or_default()).collect()
    }

    /// Returns any member's mark, else any mark at all, for use while the master's cluster is unknown.
    pub fn any(&self) -> Option<Mark> {
        let marks = || self.stored.iter().filter_map(|text| Mark::parse(text));
        let member = marks().find(|mark| matches!(mark.kind, MarkKind::Member { .. }));
        member.or_else(|| marks().next())
    }

    /// Returns the roster's state that the master has accepted.
    pub fn roster(&self) -> Option<&Accepted> {
        self.roster.as_ref()
    }

    /// Returns the progress of a proxy that is copying to the master now.
    pub fn copying(&self) -> Option<(u64, u64)> {
        self.copying
    }

    /// Returns the call that replaces or removes these marks. It answers 1, or 0 if the marks have changed since.
    pub fn replace(&self, by: Option<&MarkKind>, keys: Keys) -> Cmd {
        self.remark(if keys == Keys::Keep { "keep" } else { "empty" }, by)
    }

    /// Returns the call that gives a founder its mark if it still has these marks and the same roster. It answers like
    /// [`Marks::replace`].
    pub fn found(&self, kind: &MarkKind) -> Cmd {
        self.remark(&format!("found {}", self.stamp), Some(kind))
    }

    fn remark(&self, how: &str, by: Option<&MarkKind>) -> Cmd {
        let mut remark = redis::cmd("EVAL");
        remark.arg(REMARK).arg(2).arg(MARK).arg(ROSTER).arg(how);
        self.stored.iter().for_each(|text| _ = remark.arg(head(text)));
        for database in 0..self.stored.len() as u32 {
            let mark = by.map(|kind| Mark { kind: kind.clone(), database, tail: Tail::default() });
            remark.arg(mark.map_or_else(String::new, |mark| mark.head()));
        }
        remark
    }

    /// Returns the call that removes the roster's stamp if it is still this one.
    pub fn forget_roster(&self) -> Cmd {
        let mut forget = redis::cmd("EVAL");
        forget.arg(FORGET).arg(1).arg(ROSTER).arg(&self.stamp);
        forget
    }
}

/// Returns the part of a mark before the tail, which is what the script compares.
fn head(text: &str) -> &str {
    text.find(';').map_or(text, |at| &text[..=at])
}

/// Asks a master for its marks and the roster's stamp.
///
/// # Errors
/// Returns an error if the master does not answer or refuses.
pub async fn look(connection: &mut MultiplexedConnection, databases: u32) -> RedisResult<Marks> {
    let mut look = redis::cmd("EVAL");
    look.arg(MARKS).arg(3).arg(MARK).arg(ROSTER).arg(COPYING).arg(databases);
    let texts: Vec<Vec<u8>> = look.query_async(connection).await?;
    let mut stored: Vec<_> =
        texts.into_iter().map(|text| String::from_utf8_lossy(&text).into_owned()).collect();
    let copying = stored.pop().and_then(|text| {
        let (copied, total) = text.split_once(' ')?;
        Some((copied.parse().ok()?, total.parse().ok()?))
    });
    let stamp = stored.pop().unwrap_or_default();
    Ok(Marks::new(stored, stamp, copying))
}

const MARKS: &str = include_str!("../../lua/roster/marks.lua");
const REMARK: &str = include_str!("../../lua/roster/remark.lua");
const FORGET: &str = include_str!("../../lua/roster/forget.lua");

#[cfg(test)]
impl Marks {
    /// Builds what a master with these marks in its databases shows.
    pub fn showing(stored: &[&str]) -> Self {
        Self::new(stored.iter().map(|&text| text.to_owned()).collect(), String::new(), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_database_without_its_mark_is_a_master_without_one() {
        let whole = Marks::showing(&["c 1 2 3 0;0 0", "c 1 2 3 1;7 0"]);
        assert!(whole.mark().is_some());
        let flushed = Marks::showing(&["c 1 2 3 0;0 0", ""]);
        assert_eq!(flushed.mark(), None);
        assert_eq!(flushed.any().map(|mark| mark.to_string()), Some("c 1 2 3 0;0 0".to_owned()));
    }

    #[test]
    fn a_replacement_says_what_was_seen_and_what_is_set() {
        let seen = Marks::showing(&["c 1 2 3 0;5 6", "somebody's"]);
        let command = seen.replace(Some(&MarkKind::Provisional { nonce: 9 }), Keys::Remove);
        let packed = String::from_utf8_lossy(&command.get_packed_command()).into_owned();
        let end = "$5\r\nempty\r\n$10\r\nc 1 2 3 0;\r\n$10\r\nsomebody's\r\n$6\r\n? 9 0;\r\n$6\r\n? 9 1;\r\n";
        assert!(packed.ends_with(end), "{packed}");
    }
}
