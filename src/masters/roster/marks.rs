//! The marks of a master, and what replaces them.
//!
//! All databases are read, and all are replaced, by one script: a master never has half of its marks. A replacement
//! says what was seen, and changes nothing when that is no longer so.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult};

use super::acceptor;
use crate::catalogue::reserved::{COPYING, MARK, ROSTER};
use crate::decision::roster::mark::{Kind, Mark, Tail};
use crate::decision::roster::roster::Accepted;

/// What one master showed about itself at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// As stored, one for each database; empty where there is none.
    stored: Vec<String>,
    /// What all of them together say.
    mark: Option<Mark>,
    /// The stamp of the roster, as stored.
    stamp: String,
    /// The state of the roster in the stamp.
    roster: Option<Accepted>,
    /// Keys that were copied to it, and about how many there are, as long as a proxy is at it.
    copying: Option<(u64, u64)>,
}

/// What becomes of the keys of a master that gets other marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// They stay.
    Keep,
    /// They are removed, in all databases.
    Remove,
}

impl Marks {
    /// What stands in each database, in the stamp, and how far a copy has come.
    fn new(stored: Vec<String>, stamp: String, copying: Option<(u64, u64)>) -> Self {
        let marks: Vec<_> = stored.iter().map(|text| Mark::parse(text)).collect();
        let (mark, roster) = (Mark::of_all(&marks), acceptor::stored(&stamp));
        Self { stored, mark, stamp, roster, copying }
    }

    /// The mark of the master; `None`: it has none, or not the same in all databases.
    pub fn mark(&self) -> Option<&Mark> {
        self.mark.as_ref()
    }

    /// The last flush of each database, 0 where there is no mark.
    pub fn last_flushes(&self) -> Vec<u64> {
        let last = |text: &String| Tail::of_stored(text.as_bytes()).map(|tail| tail.last_flush);
        self.stored.iter().map(|text| last(text).unwrap_or_default()).collect()
    }

    /// Any mark of a member, as long as nobody knows to which cluster the master belongs.
    pub fn any(&self) -> Option<Mark> {
        let marks = || self.stored.iter().filter_map(|text| Mark::parse(text));
        let member = marks().find(|mark| matches!(mark.kind, Kind::Member { .. }));
        member.or_else(|| marks().next())
    }

    /// The state of the roster that the master has accepted.
    pub fn roster(&self) -> Option<&Accepted> {
        self.roster.as_ref()
    }

    /// How far a proxy has come that copies to it just now.
    pub fn copying(&self) -> Option<(u64, u64)> {
        self.copying
    }

    /// How many databases were looked at.
    pub fn databases(&self) -> usize {
        self.stored.len()
    }

    /// The call that replaces these marks by others, or removes them. It answers 1, or 0 when they are others by now.
    pub fn replace(&self, by: Option<&Kind>, keys: Keys) -> Cmd {
        self.remark(if keys == Keys::Keep { "keep" } else { "empty" }, by)
    }

    /// The call that gives a founder its mark, if it still shows these and holds the same roster. It answers as that does
    /// that replaces.
    pub fn found(&self, kind: &Kind) -> Cmd {
        self.remark(&format!("found {}", self.stamp), Some(kind))
    }

    fn remark(&self, how: &str, by: Option<&Kind>) -> Cmd {
        let mut remark = redis::cmd("EVAL");
        remark.arg(REMARK).arg(2).arg(MARK).arg(ROSTER).arg(how);
        self.stored.iter().for_each(|text| _ = remark.arg(head(text)));
        for database in 0..self.stored.len() as u32 {
            let mark = by.map(|kind| Mark { kind: kind.clone(), database, tail: Tail::default() });
            remark.arg(mark.map_or_else(String::new, |mark| mark.head()));
        }
        remark
    }

    /// The call that removes the stamp of the roster, if it is still this one.
    pub fn forget_roster(&self) -> Cmd {
        let mut forget = redis::cmd("EVAL");
        forget.arg(FORGET).arg(1).arg(ROSTER).arg(&self.stamp);
        forget
    }
}

/// All before the tail, as the script sees it.
fn head(text: &str) -> &str {
    text.find(';').map_or(text, |at| &text[..=at])
}

/// Asks a master for its marks and for its stamp of the roster.
///
/// # Errors
/// It does not answer, or refuses.
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
    /// What a master shows that has these marks in its databases.
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
        let command = seen.replace(Some(&Kind::Provisional { nonce: 9 }), Keys::Remove);
        let packed = String::from_utf8_lossy(&command.get_packed_command()).into_owned();
        let end = "$5\r\nempty\r\n$10\r\nc 1 2 3 0;\r\n$10\r\nsomebody's\r\n$6\r\n? 9 0;\r\n$6\r\n? 9 1;\r\n";
        assert!(packed.ends_with(end), "{packed}");
    }
}
