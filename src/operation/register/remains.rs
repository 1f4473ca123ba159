//! First sightings of leases on a minority, for [`crate::decision::keyspace::remains`], which has no clock of its own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use super::{Job, Lease, Place};
use crate::decision::keyspace::remains::Over;
use crate::time::clock::Instant;

/// Maximum keys remembered. Other keys are considered once there is room.
const MOST: usize = 10_000;

/// Multiple of the patience after which no claim or extension counts votes any more. Their freshness doubles before the
/// patience ends, so it stays below twice the patience. The rest is a margin for proxies that are more patient, and for
/// slow clocks.
const PATIENCES: u32 = 4;

/// Leases of a minority, with the time since which they have been seen.
#[derive(Debug, Default)]
pub struct Remains {
    seen: RefCell<HashMap<Place, Vec<(Lease, Instant)>>>,
}

impl Remains {
    /// Returns how long a lease of a minority must have been seen.
    pub fn wait(patience: Duration) -> Duration {
        patience * PATIENCES
    }

    /// Notes the leases that fewer than a quorum hold, after all masters have shown their content under `places`.
    pub fn see(&self, places: &[Place], minor: Vec<(Place, Lease)>, now: Instant) {
        let mut seen = self.seen.borrow_mut();
        for place in places {
            let before = seen.remove(place).unwrap_or_default();
            let since = |lease: &Lease| {
                let known = before.iter().find(|(other, _)| other == lease);
                known.map_or(now, |(_, since)| *since)
            };
            let of_place = minor.iter().filter(|(other, _)| other == place);
            let leases: Vec<_> = of_place.map(|(_, lease)| (lease.clone(), since(lease))).collect();
            if !leases.is_empty() && seen.len() < MOST {
                seen.insert(place.clone(), leases);
            }
        }
    }

    /// Returns the leases under any of `places` that have been seen for at least `wait`.
    pub fn over(&self, places: &[Place], wait: Duration, now: Instant) -> Over<Job> {
        let seen = self.seen.borrow();
        let leases = places.iter().flat_map(|place| {
            let leases = seen.get(place).into_iter().flatten();
            leases.map(move |(lease, since)| (place, lease, *since))
        });
        let over = leases.filter(|(_, _, since)| now.saturating_duration_since(*since) >= wait);
        Over::These(over.map(|(place, lease, _)| (place.clone(), lease.clone())).collect())
    }

    /// Returns the leases that are being waited for under this key.
    pub fn of(&self, place: &Place) -> Vec<Lease> {
        let seen = self.seen.borrow();
        seen.get(place).into_iter().flatten().map(|(lease, _)| lease.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::time::clock;

    fn lease(value: &'static str) -> Lease {
        Lease { value: Bytes::from_static(value.as_bytes()), kept_until_ms: -1, ahead_ms: 0 }
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_is_seen_all_the_time_is_over() {
        let remains = Remains::default();
        let place = Place { db: 0, key: Bytes::from_static(b"k") };
        let places = std::slice::from_ref(&place);
        let wait = Remains::wait(Duration::from_secs(1));
        let over = |leases: &[&'static str]| {
            Over::These(leases.iter().map(|it| (place.clone(), lease(it))).collect())
        };
        let see = |leases: &[&'static str]| {
            let minor = leases.iter().map(|it| (place.clone(), lease(it))).collect();
            remains.see(places, minor, clock::now());
        };
        see(&["old", "gone"]);
        tokio::time::advance(wait / 2).await;
        see(&["old", "new"]);
        see(&["old", "new", "gone"]);
        tokio::time::advance(wait / 2).await;
        assert_eq!(remains.over(places, wait, clock::now()), over(&["old"]));
        tokio::time::advance(wait / 2).await;
        assert_eq!(remains.over(places, wait, clock::now()), over(&["old", "new", "gone"]));
        see(&[]);
        assert_eq!(remains.over(places, wait, clock::now()), over(&[]));
        assert_eq!(remains.of(&place), []);
    }
}
