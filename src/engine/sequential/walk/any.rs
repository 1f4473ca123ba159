//! `RANDOMKEY`: one of the keys that a quorum holds.
//!
//! A randomly chosen master draws some of its keys; the first that a quorum holds is the reply. Nearly half of the
//! drawn keys are stamps. After too many draws without success, there may be no keys at all, so the reply is drawn from
//! everything that `KEYS` shows.

use bytes::Bytes;

use super::{Walker, keys};
use crate::catalogue::reserved::is_reserved;
use crate::client::outbox::Target;
use crate::decision::quorum::MasterId;
use crate::operation::request;
use crate::resp::flat;
use crate::resp::reply::Reply;

/// Number of keys that a master draws at a time.
const DRAWN: usize = 8;

/// Maximum number of draws. Redis itself makes as many attempts to find a key that has not expired (`dbRandomKey` in
/// `db.c`).
const DRAWS: usize = 100 / DRAWN;

impl Walker<'_> {
    pub(super) async fn any(&mut self, target: &Target) -> Result<Reply, Reply> {
        for _ in 0..DRAWS {
            if let Some(reply) = self.engine.lacks_quorum() {
                return Err(reply);
            }
            let Some(master) = self.masters[fastrand::usize(..self.masters.len())] else {
                continue;
            };
            let drawn = self.drawn_by(master).await.unwrap_or_default();
            if let Some(name) = self.first_that_is_there(master, drawn).await {
                return Ok(Reply::bulk(name));
            }
            if target.is_closed() {
                return Ok(Reply::Nil);
            }
        }
        let mut all = self.all(target).await?;
        Ok(match all.len() {
            0 => Reply::Nil,
            count => all.swap_remove(fastrand::usize(..count)),
        })
    }

    /// Returns the keys that a master draws, without those hidden from clients, or `None` if it does not answer.
    async fn drawn_by(&self, master: MasterId) -> Option<Vec<Bytes>> {
        let mut request = Vec::new();
        for _ in 0..DRAWN {
            request::encode(&mut request, &[b"RANDOMKEY"]);
        }
        let answer = self.engine.ask_aside(master, self.walk.db, request, DRAWN).await?;
        let (mut rest, mut names) = (&answer[..], Vec::new());
        for _ in 0..DRAWN {
            let (name, after) = flat::split_frame(rest)?;
            names.extend(flat::bulk(name).map(|name| answer.slice_ref(name)));
            rest = after;
        }
        names.retain(|name| !is_reserved(name));
        Some(names)
    }

    async fn first_that_is_there(&self, master: MasterId, drawn: Vec<Bytes>) -> Option<Bytes> {
        for name in drawn {
            let names = vec![name];
            let there = keys::that_are_there(self.engine, self.walk.db, master, names).await;
            if let Some(name) = there.into_iter().next() {
                return Some(name);
            }
        }
        None
    }
}
