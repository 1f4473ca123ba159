//! Completes flushes that a master has missed or that only a minority has done. Any proxy that sees one has the other
//! masters do it.

use futures_util::future::join_all;

use super::{Keeper, LOOK_TIMEOUT};
use crate::decision::quorum::MasterId;
use crate::masters::dial::Dial;
use crate::masters::electorate::MasterSight;
use crate::masters::side_connection::Failed;
use crate::operation::register::ask;

/// A flush that a master has missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Missed {
    master: MasterId,
    db: u32,
    counter: u64,
}

impl<D: Dial + Clone> Keeper<D> {
    /// Has voters repeat flushes that others have done. Failures are retried in the next turn.
    pub(super) async fn complete_flushes(&self, sights: &[Option<MasterSight>]) {
        let voters = self.errands.electorate.voters();
        let shown: Vec<(MasterId, Vec<u64>)> = voters
            .iter()
            .filter_map(|master| {
                Some((master, sights.get(master.index())?.as_ref()?.marks.last_flushes()))
            })
            .collect();
        let missed = missed(&shown);
        let flushing = missed.iter().map(|missed| async move {
            let done = tokio::time::timeout(LOOK_TIMEOUT, self.flush(*missed)).await;
            match done {
                Ok(Ok(())) => {
                    let (master, db) = (self.address(missed.master), missed.db);
                    tracing::debug!(%master, db, "repeated a flush that the master had missed");
                }
                Ok(Err(why)) => self.tell(&why),
                Err(_) => {}
            }
            self.errands.electorate.attend(missed.master);
        });
        join_all(flushing).await;
    }

    async fn flush(&self, missed: Missed) -> Result<(), Failed> {
        let errand = self.errands.to(missed.master).await?;
        let words = ask::flush(missed.counter, "ASYNC", Some(missed.db));
        let (text, words) = words.script();
        let mut eval = redis::cmd("EVAL");
        eval.arg(text).arg(words);
        Ok(eval.query_async(&mut errand.connection.clone()).await?)
    }
}

/// Returns the flushes that each of these masters has missed, according to what they show of each database.
fn missed(shown: &[(MasterId, Vec<u64>)]) -> Vec<Missed> {
    let databases = shown.iter().map(|(_, flushes)| flushes.len()).min().unwrap_or_default();
    let in_db = |db: usize| {
        let counter = shown.iter().map(|(_, flushes)| flushes[db]).max().unwrap_or_default();
        let behind = shown.iter().filter(move |(_, flushes)| flushes[db] < counter);
        behind.map(move |(master, _)| Missed { master: *master, db: db as u32, counter })
    };
    (0..databases).flat_map(in_db).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_flush_of_each_database_is_done_by_those_that_have_missed_it() {
        let masters = [0, 1, 2].map(MasterId::new);
        let shown = |flushes: [[u64; 2]; 3]| -> Vec<_> {
            masters.into_iter().zip(flushes.map(Vec::from)).collect()
        };
        assert_eq!(missed(&shown([[0, 0]; 3])), []);
        let of = |at: usize, db, counter| Missed { master: masters[at], db, counter };
        assert_eq!(missed(&shown([[7, 5], [7, 0], [3, 5]])), [of(2, 0, 7), of(1, 1, 5)]);
        assert_eq!(missed(&shown([[0, 0], [0, 0], [9, 0]])), [of(0, 0, 9), of(1, 0, 9)]);
    }
}
