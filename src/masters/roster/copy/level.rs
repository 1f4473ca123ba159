//! Whether the members that stay hold enough for another one to leave.

use std::collections::HashSet;
use std::time::Duration;

use super::page::{self, Kind as Keys};
use super::{Copying, PAGE, Source, stamped};
use crate::catalogue::reserved::is_reserved;
use crate::decision::lease::attempt::Attempt;
use crate::decision::quorum::{MasterId, MasterSet, Quorum};
use crate::decision::roster::copying::living;
use crate::decision::roster::level::is_level;
use crate::decision::roster::mark::Mark;
use crate::masters::side_connection::Failed;

/// Looks at keys that are not level before everything is looked at anew. Claims under way are over by then.
const LOOKS: usize = 20;

/// The members that stay, and the quorum of the seats without the others.
#[derive(Clone, Copy, Debug)]
pub(in crate::masters::roster) struct Staying {
    pub(in crate::masters::roster) members: MasterSet,
    pub(in crate::masters::roster) after: Quorum,
}

impl<P: Fn(&Source, Option<&Mark>) -> bool> Copying<'_, P> {
    /// Settles registers, and waits for locks, until those that stay hold enough.
    ///
    /// # Errors
    /// Returns an error if a master cannot be reached, a page is not proved, or locks that are not level remain.
    pub(in crate::masters::roster) async fn level(&self, staying: Staying) -> Result<(), Failed> {
        let tails = self.tails().await?;
        *self.flushes.borrow_mut() = tails.iter().map(|tail| tail.last_flush).collect();
        for db in self.databases().await? {
            self.select(db).await?;
            let over = self.over(db).await?;
            for source in &self.sources {
                self.level_all_of(source, db, &over, staying).await?;
            }
        }
        Ok(())
    }

    async fn level_all_of(
        &self,
        walked: &Source,
        db: u32,
        over: &HashSet<Attempt>,
        staying: Staying,
    ) -> Result<(), Failed> {
        let (mut cursor, mut registers, mut locks) = (0, Vec::new(), Vec::new());
        loop {
            let (onwards, mut keys) = page::scan(&walked.errand, cursor, PAGE).await?;
            let stamps = stamped(&keys);
            keys.retain(|key| !is_reserved(key));
            registers.extend(self.unsettled(db, &stamps).await?);
            locks.extend(self.not_level(db, keys, over, staying).await?);
            cursor = onwards;
            if cursor == 0 {
                break;
            }
        }
        for _ in 0..LOOKS {
            if registers.is_empty() && locks.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(self.pause.max(LEAST_PAUSE)).await;
            registers = self.unsettled(db, &registers).await?;
            locks = self.not_level(db, locks, over, staying).await?;
        }
        let (registers, locks) = (registers.len(), locks.len());
        tracing::info!(registers, locks, "too few of the members that stay hold some keys yet");
        Err(Failed::Overtaken)
    }

    /// Settles the registers whose state no quorum is seen to hold. Returns those that others are changing.
    async fn unsettled(&self, db: u32, keys: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Failed> {
        let mut open = Vec::new();
        for keys in keys.chunks(PAGE) {
            open.extend(self.settle_differing(db, keys).await?);
        }
        Ok(open)
    }

    /// Returns those of `keys` that may be held by too few of the members that stay.
    async fn not_level(
        &self,
        db: u32,
        keys: Vec<Vec<u8>>,
        over: &HashSet<Attempt>,
        staying: Staying,
    ) -> Result<Vec<Vec<u8>>, Failed> {
        let mut found = Vec::new();
        for keys in keys.chunks(PAGE) {
            let read = self.sources.iter().map(|source| self.read(source, db, Keys::Bare, keys));
            let pages = futures_util::future::try_join_all(read).await?;
            for (at, key) in keys.iter().enumerate() {
                let held =
                    pages.iter().map(|page| page.entries[at].as_ref().map(page::Entry::held));
                let held = living(held.collect(), over);
                let masters = self.sources.iter().map(|source| source.master);
                let looks: Vec<(MasterId, _)> = masters.zip(held).collect();
                let has_stamp = pages.iter().filter_map(|page| page.entries[at].as_ref());
                let is_register = has_stamp.into_iter().any(page::Entry::is_stamp);
                let Staying { members, after } = staying;
                if !is_register && !is_level(self.quorum, after, members, &looks) {
                    found.push(key.clone());
                }
            }
        }
        Ok(found)
    }
}

/// Least time between two looks.
const LEAST_PAUSE: Duration = Duration::from_millis(50);
