//! Small worlds, each around one kind of trouble.

use crate::model::{ADMITTED, AFRESH, DELETED, EXTENDED, REFUSED, RELEASED, SHARED, WENT_ON};
use crate::world::{Event, Job, World};

use Job::{Acquire, Claim, Delete, Extend, Release, Shorten};

/// Two clients want the same lease with equal tokens, through two proxies. Split votes are retried.
pub(crate) fn race() -> World {
    reaching(
        &[REFUSED],
        World { retries: 1, tokens: vec![1, 1], ..World::new(&[&[Claim(0)], &[Claim(1)]]) },
    )
}

/// Same as [`race`], with delayed replies.
pub(crate) fn race_with_late_replies() -> World {
    World { prompt: false, retries: 0, ..race() }
}

/// Same as [`race`], with a lost connection.
pub(crate) fn race_with_lost_connection() -> World {
    World { cuts: 1, retries: 0, ..race() }
}

/// One claim whose connection is lost with requests or replies in flight.
pub(crate) fn lost_connection() -> World {
    World { cuts: 1, prompt: false, ..World::new(&[&[Claim(0)]]) }
}

/// A client that got an error retries through the other proxy with the same token.
pub(crate) fn retry_elsewhere() -> World {
    World::new(&[&[Claim(0), Claim(1)]])
}

/// A client releases after an error, and claims again.
pub(crate) fn release_between() -> World {
    reaching(&[RELEASED], World::new(&[&[Claim(0), Release(0), Claim(1)]]))
}

/// A lease is released while another client with the same token wants it.
pub(crate) fn hand_over() -> World {
    let world = World::new(&[&[Claim(0), Release(0)], &[Claim(1)]]);
    reaching(&[RELEASED, REFUSED], World { tokens: vec![1, 1], ..world })
}

/// Same as [`hand_over`], with a lost connection.
pub(crate) fn hand_over_with_lost_connection() -> World {
    World { cuts: 1, ..hand_over() }
}

/// One master has missed a lease. The lease is released, and a connection is lost, while another
/// client with the same token wants it.
pub(crate) fn hand_over_what_one_missed() -> World {
    let world = World::new(&[&[Release(0)], &[Claim(1)]]);
    let world = World { tokens: vec![1, 1], cuts: 1, begins_held: true, ..world };
    reaching(&[RELEASED, REFUSED], world)
}

/// Same as [`hand_over_what_one_missed`], but released through another proxy than the one that
/// granted it.
pub(crate) fn hand_over_elsewhere_what_one_missed() -> World {
    World { scripts: vec![vec![Release(1)], vec![Claim(0)]], ..hand_over_what_one_missed() }
}

/// Same as [`hand_over_what_one_missed`], while the other client extends the lease that it finds.
pub(crate) fn share_what_one_missed() -> World {
    let scripts = vec![vec![Release(0)], vec![Acquire(1)]];
    reaching(&[RELEASED, SHARED], World { scripts, ..hand_over_what_one_missed() })
}

/// A lease is released through another proxy than the one that granted it, before all masters have
/// it.
pub(crate) fn release_elsewhere() -> World {
    reaching(&[RELEASED], World { end: 1, ..World::new(&[&[Claim(0), Release(1)]]) })
}

/// Same as [`release_elsewhere`], with a lost connection.
pub(crate) fn release_elsewhere_with_lost_connection() -> World {
    World { cuts: 1, ..release_elsewhere() }
}

/// A refused client releases through another proxy while another client holds the lease.
pub(crate) fn release_of_a_refused_claim() -> World {
    World { rounds: 0, ..World::new(&[&[Claim(0), Release(1)], &[Claim(1)]]) }
}

/// A client that got an error extends its token through the other proxy, and releases it through
/// the first.
pub(crate) fn extend_elsewhere() -> World {
    reaching(&[EXTENDED, RELEASED], World::new(&[&[Claim(0), Extend(1), Release(0)]]))
}

/// A client that got an error takes or extends its token through the other proxy.
pub(crate) fn acquire_elsewhere() -> World {
    reaching(&[SHARED, RELEASED], World::new(&[&[Claim(0), Acquire(1), Release(1)]]))
}

/// A client releases through another proxy before all masters have its claim, and takes or extends
/// its token again.
pub(crate) fn acquire_after_release_elsewhere() -> World {
    let world = World::new(&[&[Claim(0), Release(1), Acquire(0)]]);
    reaching(&[RELEASED], World { rounds: 0, ..world })
}

/// A client releases, and another with the same token takes or extends the lease.
pub(crate) fn release_before_acquire() -> World {
    let world = World::new(&[&[Claim(0), Release(0)], &[Acquire(1)]]);
    reaching(&[SHARED, RELEASED], World { tokens: vec![1, 1], ..world })
}

/// Time passes between sending, voting and hearing.
pub(crate) fn slow_masters() -> World {
    let world = World { lease: 1, end: 1, ..World::new(&[&[Claim(0)], &[Claim(1)]]) };
    reaching(&[AFRESH, REFUSED], world)
}

/// A lease is extended on slow masters, while another client waits for its end.
pub(crate) fn slow_extension() -> World {
    let world = World::new(&[&[Claim(0), Extend(0)], &[Claim(1)]]);
    let world = World { lease: 1, end: 1, hasty: false, rounds: 0, ..world };
    reaching(&[EXTENDED, REFUSED], world)
}

/// A lease is extended by less than its remaining time.
pub(crate) fn shorter_extension() -> World {
    let world = World::new(&[&[Claim(0), Shorten(0)]]);
    reaching(&[EXTENDED], World { lease: 3, end: 2, hasty: false, ..world })
}

/// A lease is extended by less than its remaining time through one proxy, and by more through
/// another. A connection is lost.
pub(crate) fn shorter_and_longer_extension() -> World {
    let world = World::new(&[&[Shorten(0), Extend(1)]]);
    reaching(&[EXTENDED], World { lease: 2, cuts: 1, begins_held: true, ..world })
}

/// Same as [`shorter_extension`], while another client waits for the end of the lease.
pub(crate) fn shorter_extension_in_a_race() -> World {
    let scripts = vec![vec![Claim(0), Shorten(0)], vec![Claim(1)]];
    reaching(&[EXTENDED, REFUSED], World { scripts, rounds: 0, ..shorter_extension() })
}

/// Same as [`slow_extension`] for longer, with an extension that is sent again.
pub(crate) fn slower_extension() -> World {
    World { end: 2, rounds: 1, ..slow_extension() }
}

/// A claim made afresh is granted late, because so much time passes.
pub(crate) fn slow_masters_twice() -> World {
    let world = World::new(&[&[Claim(0)], &[Claim(1)]]);
    let (lease, freshness, patience, vote_timeout) = (1, 1, 3, 3);
    let world = World { lease, freshness, patience, vote_timeout, end: 4, hasty: false, ..world };
    reaching(&[AFRESH], world)
}

/// A master forgets everything and is admitted again.
pub(crate) fn forgetting() -> World {
    let world = World::new(&[&[Claim(0)], &[Claim(1)]]);
    reaching(&[ADMITTED], World { forgets: 1, rounds: 0, hasty: false, ..world })
}

/// Same as [`forgetting`], with deadlines at any time.
pub(crate) fn forgetting_in_haste() -> World {
    World { hasty: true, ..forgetting() }
}

/// Same as [`forgetting`], with undecided claims sent again.
pub(crate) fn forgetting_and_asking_again() -> World {
    World { rounds: 1, ..forgetting() }
}

/// A master forgets while a lease is released and another client with the same token wants it.
pub(crate) fn forgetting_while_handed_over() -> World {
    let world = World { forgets: 1, rounds: 0, hasty: false, ..hand_over() };
    reaching(&[ADMITTED, RELEASED], world)
}

/// A lease is deleted through another proxy while it is being granted, extended or neither.
pub(crate) fn delete_elsewhere() -> World {
    reaching(&[DELETED], World { end: 1, ..World::new(&[&[Claim(0)], &[Delete(1)]]) })
}

/// A lease is deleted through another proxy, and claimed by the deleting client.
pub(crate) fn delete_and_claim() -> World {
    let world = World::new(&[&[Claim(0)], &[Delete(1), Claim(1)]]);
    reaching(&[DELETED], World { rounds: 0, ..world })
}

/// Same as [`delete_and_claim`], but claimed through the proxy that did not delete it.
pub(crate) fn delete_and_claim_elsewhere() -> World {
    let world = World::new(&[&[Claim(0)], &[Delete(1), Claim(0)]]);
    reaching(&[DELETED], World { rounds: 0, ..world })
}

/// A lease is deleted by the worker that granted it, and claimed through another.
pub(crate) fn delete_here_and_claim() -> World {
    let world = World::new(&[&[Claim(0)], &[Delete(0), Claim(1)]]);
    reaching(&[DELETED], World { rounds: 0, ..world })
}

/// A lease is deleted while its holder extends it.
pub(crate) fn delete_and_extend() -> World {
    let world = World::new(&[&[Claim(0), Extend(0)], &[Delete(1)]]);
    reaching(&[DELETED, EXTENDED], World { rounds: 0, ..world })
}

/// A lease is deleted while a client that got an error takes or extends its token through another
/// proxy.
pub(crate) fn delete_and_acquire() -> World {
    let world = World::new(&[&[Claim(0), Acquire(1)], &[Delete(0)]]);
    reaching(&[DELETED, SHARED], World { rounds: 0, ..world })
}

/// A lease is deleted while its holder releases it.
pub(crate) fn delete_and_release() -> World {
    let world = World::new(&[&[Claim(0), Release(0)], &[Delete(1)]]);
    reaching(&[DELETED, RELEASED], World { rounds: 0, ..world })
}

/// Two clients delete a lease through two proxies.
pub(crate) fn delete_twice() -> World {
    let world = World::new(&[&[Claim(0)], &[Delete(0)], &[Delete(1)]]);
    reaching(&[DELETED], World { rounds: 0, tokens: vec![1, 2, 3], ..world })
}

/// A lease is deleted while a client that got an error retries with the same token.
pub(crate) fn delete_and_retry() -> World {
    let world = World::new(&[&[Claim(0), Claim(1)], &[Delete(1)]]);
    reaching(&[DELETED], World { rounds: 0, ..world })
}

/// A lease is deleted through another proxy, and a connection is lost.
pub(crate) fn delete_with_lost_connection() -> World {
    World { cuts: 1, ..delete_and_claim() }
}

/// A lease is deleted by the worker that granted it, and a connection is lost.
pub(crate) fn delete_here_with_lost_connection() -> World {
    World { cuts: 1, ..delete_here_and_claim() }
}

/// A lease is deleted while a master forgets and is admitted again.
pub(crate) fn delete_and_forget() -> World {
    let world = World { forgets: 1, hasty: false, ..delete_and_claim() };
    reaching(&[ADMITTED, DELETED, WENT_ON], world)
}

/// A lease is prolonged while a master forgets and is admitted again.
pub(crate) fn extend_and_forget() -> World {
    let world = World::new(&[&[Extend(0)], &[Claim(1)]]);
    let world = World { forgets: 1, hasty: false, rounds: 0, begins_held: true, end: 2, ..world };
    reaching(&[ADMITTED, EXTENDED, WENT_ON], world)
}

/// A lease is deleted while another client wants it.
pub(crate) fn delete_in_a_race() -> World {
    let world = World::new(&[&[Claim(0)], &[Claim(1)], &[Delete(1)]]);
    reaching(&[DELETED], World { rounds: 0, tokens: vec![1, 2, 3], ..world })
}

fn reaching(events: &[Event], world: World) -> World {
    World { reaches: events.to_vec(), ..world }
}
