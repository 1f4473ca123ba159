//! What is to become of one key of a master that has forgotten. Pure.
//!
//! A lock that had counted the lost vote was there before the master forgot, and stays. A claim that is on its
//! way to be refused stands where the lock is missing for a moment, often lasts longer, may even have an equal
//! token, and is taken back, on this master as well. Copied in the lock's place it would free the key. So two
//! looks are taken, further apart than anything is on its way, and what has changed in between is no such lock.
//!
//! Not even a lock that is being prolonged: what a quorum of the others holds does not depend on this master,
//! and what fewer hold cannot be prolonged without its vote.

use std::collections::HashMap;

use super::image::State;

/// What everybody held under a key at one look.
#[derive(Debug)]
pub(super) struct Look {
    /// The master that has forgotten.
    pub(super) ours: State,
    /// The others, by number.
    pub(super) theirs: Vec<State>,
}

/// What a decision needs to know besides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// So many of the others hold a lock that had counted the lost vote, or more.
    pub(super) least_holders: usize,
    /// So many hold one that does not depend on it.
    pub(super) quorum: usize,
    /// So far apart masters may execute the same request.
    pub(super) slack_ms: i64,
    /// Rollbacks may hit what has up to so much less time to live than their claim.
    pub(super) reach_ms: i64,
    /// The key has been looked at often enough to know that no lock stays there.
    pub(super) is_restless: bool,
    /// No other proxy has been there since before the first look: nobody has counted this master's vote since.
    pub(super) is_alone: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Nothing any more.
    Settled,
    /// It cannot be told yet.
    LookAgain,
    /// Copy what this one of the others holds, to live for at least so long (-1: for ever).
    Copy {
        /// Its number.
        source: usize,
        /// In milliseconds.
        ttl_ms: i64,
    },
    /// Delete what was copied: it has ended elsewhere.
    Forget,
}

/// What a decision to copy has come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wished<'a> {
    /// Of what is copied.
    pub(super) digest: &'a [u8],
    /// For how long it is to live; -1: for ever.
    pub(super) ttl_ms: i64,
}

/// Decides on a key after two looks; `copied` is the digest of what it was given by an earlier decision.
pub(super) fn decide(before: &Look, now: &Look, terms: Terms, copied: Option<&[u8]>) -> Move {
    let is_free = |look: &Look| look.theirs.iter().all(State::is_missing);
    match (is_free(before), is_free(now)) {
        (true, true) if copied == Some(&now.ours.digest) => Move::Forget,
        (true, true) => Move::Settled,
        // Released, or about to be put back by whoever takes a program back.
        (false, true) => Move::LookAgain,
        (_, false) => match lock(before, now, terms) {
            Lock::None => Move::Settled,
            Lock::Doubtful => Move::LookAgain,
            Lock::At(source) => match give(before, now, terms, source) {
                Move::LookAgain | Move::Copy { .. }
                    if terms.is_restless && is_on_a_quorum(now, source, terms) =>
                {
                    Move::Settled
                }
                chosen => chosen,
            },
        },
    }
}

/// Whether the master and all others hold the same, and go on holding it: then no other look is needed. A lock that
/// had counted the lost vote is back, and whatever ends or changes it now, the master is told.
pub(super) fn is_everywhere(before: &Look, now: &Look, terms: Terms) -> bool {
    let is_here = |state: &State| !state.is_missing() && state.digest == now.ours.digest;
    let then = std::iter::once(&before.ours).chain(&before.theirs);
    let mut all = then.zip(std::iter::once(&now.ours).chain(&now.theirs));
    all.all(|(then, now)| is_here(now) && is_steady(then, now, terms))
}

/// Whether so many of the others hold what `source` does, since the same moment, that it does not depend on this
/// master.
fn is_on_a_quorum(now: &Look, source: usize, terms: Terms) -> bool {
    let is_same = |state: &&State| is_in_step(state, &now.theirs[source], terms);
    now.theirs.iter().filter(is_same).count() >= terms.quorum
}

/// Whether both hold the same since the same moment. What holds an equal token since another moment may be a claim
/// on its way.
fn is_in_step(one: &State, other: &State, terms: Terms) -> bool {
    let is_same = !one.is_missing() && one.digest == other.digest;
    let end_alike = (one.ttl_ms < 0) == (other.ttl_ms < 0)
        && one.ttl_ms.abs_diff(other.ttl_ms) <= 2 * terms.slack_ms.unsigned_abs();
    is_same && end_alike
}

/// What a lock may be that had counted the lost vote.
enum Lock {
    None,
    Doubtful,
    /// What this one of the others holds.
    At(usize),
}

fn lock(before: &Look, now: &Look, terms: Terms) -> Lock {
    let held_by = |source: &usize| !now.theirs[*source].is_missing();
    let everybody = (0..now.theirs.len()).filter(held_by);
    if let Some(source) = everybody.clone().find(|at| is_on_a_quorum(now, *at, terms)) {
        return Lock::At(source);
    }
    let mut steady: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for source in everybody.filter(|at| is_steady(&before.theirs[*at], &now.theirs[*at], terms)) {
        steady.entry(&now.theirs[source].digest).or_default().push(source);
    }
    let held = || now.theirs.iter().filter(|state| !state.is_missing());
    let are_strings = held().all(|state| state.is_string);
    if !are_strings && !agree(held()) {
        // Parts of it may belong to different holders, and no choice would be safe.
        return Lock::Doubtful;
    }
    if steady.is_empty() {
        // Whatever it is has been written since: the master was told as well.
        let has_it = held().any(|state| state.digest == now.ours.digest);
        return if has_it || are_strings && terms.is_restless {
            Lock::None
        } else {
            Lock::Doubtful
        };
    }
    if steady.len() > 1 {
        steady.retain(|_, holders| holders.len() >= terms.least_holders);
    }
    match (steady.len(), steady.values().next()) {
        (1, Some(holders)) => Lock::At(holders[0]),
        (0, _) => Lock::None,
        // One of them is the rest of a claim. Whose it is must not find it here in the place of somebody's lock.
        _ => Lock::Doubtful,
    }
}

/// Whether it is the same all the time. An extension that was refused, and taken back, may have moved its end by a
/// little; a claim that was tried again has moved it by more.
fn is_steady(before: &State, now: &State, terms: Terms) -> bool {
    before.digest == now.digest
        && before.ends_at_ms.abs_diff(now.ends_at_ms) <= terms.slack_ms.unsigned_abs()
}

fn agree<'a>(mut states: impl Iterator<Item = &'a State>) -> bool {
    let first = states.next();
    states.all(|state| first.is_some_and(|first| first.digest == state.digest))
}

/// How the master comes to hold what `source` does.
fn give(before: &Look, now: &Look, terms: Terms, source: usize) -> Move {
    let wanted = &now.theirs[source];
    // Not what a claim on its way with an equal token would have: then its rollback would hit the copy.
    let of_lock = |(then, theirs): &(&State, &State)| {
        theirs.digest == wanted.digest
            && (is_steady(then, theirs, terms) || is_in_step(theirs, wanted, terms))
    };
    let all = before.theirs.iter().zip(&now.theirs).filter(of_lock);
    let longest = all.map(|(_, theirs)| lasts(theirs.ttl_ms)).max().unwrap_or(0);
    let copy = Move::Copy { source, ttl_ms: if longest == i64::MAX { -1 } else { longest } };
    if now.ours.digest != wanted.digest {
        // If something is here, whether it may be replaced is seen when that is to happen.
        return copy;
    }
    let stays = is_steady(&before.ours, &now.ours, terms)
        || is_in_step(&before.ours, &before.theirs[source], terms)
            && is_in_step(&now.ours, wanted, terms);
    let ours = lasts(now.ours.ttl_ms);
    match stays {
        true if ours.saturating_add(terms.slack_ms) >= longest => Move::Settled,
        true => copy,
        // A claim with an equal token, whose rollback is told by the time to live from the lock.
        false if may_shorten(ours, longest, terms) && is_told_apart(&now.ours, longest, terms) => {
            copy
        }
        false => Move::LookAgain,
    }
}

/// Whether what is `wished`, which was decided on after these looks, may take the place of what is here by now.
///
/// Another proxy may know this master as a voter all the while: one that was there when it came back, while this one
/// has just been started. Then what is here may be a lock that has counted this vote a moment ago. It is never
/// shortened, and replaced only when it was there long enough for all of its ballots to be in, and they are too few.
/// Where many keep asking that may take until they stop. A proxy that is alone knows that nobody has counted it.
pub(super) fn may_replace(
    before: &Look,
    now: &Look,
    here: &State,
    wished: Wished<'_>,
    terms: Terms,
) -> bool {
    if here.is_missing() {
        return true;
    }
    let is_same = here.digest == now.ours.digest && here.ends_at_ms == now.ours.ends_at_ms;
    if here.digest == wished.digest {
        let longest = lasts(wished.ttl_ms);
        let may_go = is_same || is_told_apart(here, longest, terms);
        return may_go && may_shorten(lasts(here.ttl_ms), longest, terms);
    }
    let holders = now.theirs.iter().filter(|theirs| theirs.digest == here.digest).count();
    let stays_on_too_few =
        is_same && is_steady(&before.ours, &now.ours, terms) && holders < terms.least_holders;
    terms.is_alone || stays_on_too_few
}

/// Whether what lives for `ours` may be made to live for `longest`.
fn may_shorten(ours: i64, longest: i64, terms: Terms) -> bool {
    terms.is_alone || ours < longest
}

/// Whether no rollback of the claim that is here can hit a copy that ends so much later or earlier.
fn is_told_apart(ours: &State, ttl_ms: i64, terms: Terms) -> bool {
    lasts(ours.ttl_ms).abs_diff(ttl_ms) > terms.reach_ms.unsigned_abs()
}

fn lasts(ttl_ms: i64) -> i64 {
    if ttl_ms < 0 { i64::MAX } else { ttl_ms }
}

#[cfg(test)]
mod tests;
