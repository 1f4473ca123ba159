//! Settling registers on which some master is behind.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::Engine;
use crate::decision::quorum::MasterSet;
use crate::operation::register::Place;
use crate::operation::settle::Settle;
use crate::operation::{Kind, Operation};
use crate::resp::reply::Reply;

/// Number of keys settled at a time.
const AT_ONCE: usize = 32;

/// Interval between checks of whether a master that is behind is back.
const LOOK: Duration = Duration::from_millis(100);

/// First and longest pause of a key that could not be settled: another worker is busy with it, or a master has just
/// gone.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(3));

impl Engine {
    /// Makes all voting masters hold the same state under `place`. Returns those that then hold it.
    ///
    /// # Errors
    /// Returns the error reply that a client would get: there is no quorum, or other clients kept interfering.
    pub async fn settle_register(self: &Rc<Self>, place: Place) -> Result<MasterSet, Reply> {
        self.settle_with(place, |settle| settle).await
    }

    /// Like [`Engine::settle_register`], and removes the lease on the key, whoever holds it.
    ///
    /// # Errors
    /// As there.
    pub async fn release_register(self: &Rc<Self>, place: Place) -> Result<MasterSet, Reply> {
        self.settle_with(place, Settle::releasing).await
    }

    async fn settle_with(
        self: &Rc<Self>,
        place: Place,
        how: impl FnOnce(Settle) -> Settle,
    ) -> Result<MasterSet, Reply> {
        let fingerprint = self.fingerprint(place.db.into(), &place.key);
        let (db, key) = (place.db.into(), place.key.as_ref().into());
        let kind = Kind::Settle(Box::new(how(Settle::new(place, fingerprint))));
        match self.run(Operation { db, key, kind }, fingerprint).await {
            Reply::Int(bits) => Ok(MasterSet::from_bits(bits as u32)),
            other => Err(other),
        }
    }

    /// Continuously settles registers on which masters are behind.
    pub async fn keep_settling(self: Rc<Self>) {
        let free = Arc::new(Semaphore::new(AT_ONCE));
        loop {
            let rules = self.rules();
            let behind = &rules.registers.behind;
            let Some(place) = behind.take(self.voters()) else {
                let _ = tokio::time::timeout(LOOK, behind.added()).await;
                continue;
            };
            // The semaphore is never closed.
            let Ok(permit) = Arc::clone(&free).acquire_owned().await else { return };
            let engine = Rc::clone(&self);
            tokio::task::spawn_local(async move {
                let settled = engine.settle_register(place.clone()).await;
                drop(permit);
                engine.see_settled(&place, settled).await;
            });
        }
    }

    async fn see_settled(&self, place: &Place, settled: Result<MasterSet, Reply>) {
        let rules = self.rules();
        let behind = &rules.registers.behind;
        let everybody = rules.quorum.everybody();
        match settled {
            Ok(holders) if everybody.without(holders).and(self.voters()).is_empty() => {
                behind.settled(place, everybody.without(holders));
            }
            not_by_all => {
                tracing::debug!(key = %place.key.escape_ascii(), ?not_by_all, "a register is not settled");
                let doubled =
                    PAUSES.0 * 2_u32.saturating_pow(behind.failed(place).clamp(1, 10) - 1);
                tokio::time::sleep(doubled.min(PAUSES.1)).await;
                behind.put_back(place);
            }
        }
    }
}
