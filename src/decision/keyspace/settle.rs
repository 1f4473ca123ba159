//! Deriving from promises what keys hold.
//!
//! The newest accepted state may have been decided, so it must be adopted unless something shows that it never can be
//! decided:
//!
//! * a quorum lacks it, and has promised a higher ballot. This gives it up only if it cannot be adopted, because other
//!   states may have been accepted along with it;
//! * another key of its group was accepted under a higher ballot without it: had the group been decided, every later
//!   state of that key would have come from it.
//!
//! A group is given up on all its keys, which are accepted without it together. A key remembers only its last programs,
//! so the others could not find out later. For the same reason, a group counts as decided if no key can have moved on
//! without it, even if some keys have forgotten it.
//!
//! A state that is overwritten in place is lost on that master, but still known. The state that a program ran on was
//! decided, so a quorum had it, and some master still has.
//!
//! The exception is a value that somebody has removed by hand on every master that had it. If all masters show this, no
//! master has the value, and the key is absent from then on. A silent master may still have it.

use std::collections::{BTreeMap, BTreeSet};

use super::Program;
use super::remembered::Remembered;
use super::slot::{Adopted, Open, Sight, State};
use crate::decision::quorum::Quorum;
use crate::decision::register::acceptor::Fate;
use crate::decision::register::ballot::Ballot;

/// Result of examining the promises about some keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding<P: Program> {
    /// A quorum holds this under each key.
    Known(Vec<HeldBallot<P>>),
    /// A quorum must first adopt these states, under the ballot of the promises. Each requested key then holds this,
    /// under that ballot.
    Adopt(Vec<Adopted<P>>, Vec<HeldBallot<P>>),
    /// These keys must be examined as well.
    More(Vec<P::Key>),
    /// The result depends on masters that have not promised yet, or on a claim that is not over.
    Undecided,
}

/// Content of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeldBallot<P: Program> {
    /// State of the register.
    pub state: State<P>,
    /// Lease, if the register is absent.
    pub lease: Option<P::Lease>,
    /// Last flush of the key's database.
    pub flush: u64,
}

/// Copy of a key for a master that has forgotten and is being admitted again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copied<P: Program> {
    /// These states, the key's own first, once the masters that were asked have adopted them, together with this lease.
    /// It is the lease that those masters then have, and not the one that they show: adopting brings back a lease whose
    /// takeover came to nothing.
    Settled(Vec<Adopted<P>>, Option<P::Lease>),
    /// These keys must be examined as well.
    More(Vec<P::Key>),
    /// Only the master that forgot could have shown whether an open register counts, or the lease that the register
    /// found or that is next to it. The master gets this, so that until then no claim passes there.
    Contested(Box<Contested<P>>),
}

/// State for a master that does not know whether it has had what is [contested](Copied::Contested).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contested<P: Program> {
    /// Ballot under which a source has accepted the content of the state.
    pub from: Ballot,
    /// Content of the register if it counts, as accepted before everything else, without any record of what ran. If
    /// that is absent, the content from before.
    pub state: State<P>,
    /// Lease, if the register is absent.
    pub lease: Option<P::Lease>,
}

/// Derives the copy of the first of `keys` for a master that has forgotten, from the promises of all other reachable
/// masters, which are a quorum. Nothing that may have been answered is lost: a state that depends on the forgotten
/// votes counts as decided.
pub fn copy<P: Program>(
    quorum: Quorum,
    ballot: Ballot,
    keys: &[P::Key],
    sights: &[&[Sight<P>]],
) -> Copied<P> {
    // The master that forgot may have had what the others have lost.
    let lost = Lost::new();
    let dead = BTreeSet::new();
    let mut settling = Settling { quorum, ballot, keys, sights, lost: &lost, are_all: true, dead };
    let obstacle = match settling.without_dead(1) {
        Ok(chosen) => {
            let adopted = |one: &Chosen<'_, P>| settling.adopted(one);
            let lease = chosen.first().and_then(|own| settling.lease_to_copy(own));
            return Copied::Settled(chosen.iter().map(adopted).collect(), lease);
        }
        Err(Obstacle::Unseen(keys)) => return Copied::More(keys),
        Err(obstacle) => obstacle,
    };
    let firsts: Vec<&Sight<P>> = sights.iter().map(|sights| &sights[0]).collect();
    if matches!(obstacle, Obstacle::Blocked) {
        return Copied::Contested(Box::new(contested(&firsts, ballot.counter)));
    }
    let (newest, floor) = (newest(&firsts), settling.floor(0));
    let newest = Chosen { key: 0, state: &newest, floor, is_decided: true, is_told: true };
    Copied::Settled(vec![settling.adopted(&newest)], settling.lease_to_copy(&newest))
}

/// Returns the last accepted state of a key, as far as the sights show.
pub(super) fn newest<P: Program>(sights: &[&Sight<P>]) -> State<P> {
    let newest = sights.iter().max_by_key(|sight| sight.state.accepted);
    newest.map(|sight| sight.state.clone()).unwrap_or_default()
}

/// Returns what to give for a key if only the master that forgot could have shown, at `now_us`, which of the sources'
/// states counts.
fn contested<P: Program>(sights: &[&Sight<P>], now_us: u64) -> Contested<P> {
    let newest = newest(sights);
    let oldest = sights.iter().map(|sight| &sight.state).min_by_key(|state| state.accepted);
    let oldest = oldest.cloned().unwrap_or_default();
    let stands = sights.iter().find_map(|sight| sight.lease.as_ref());
    let taken = || sights.iter().find_map(|sight| sight.lease_under(&oldest));
    let lease = stands.or_else(taken).cloned();
    let from = newest.accepted;
    if newest.stays(now_us) {
        return Contested { from, state: newest.as_unknown(lease, now_us), lease: None };
    }
    let recent = oldest.recent.without_those_before(from);
    Contested { from: oldest.accepted, state: State { recent, ..oldest }, lease }
}

/// Derives what the first `asked` of `keys` hold from the promises of a quorum. Every master of `sights` must show each
/// key after the same flush. States to adopt get the ballot of the promises.
pub fn settle<P: Program>(
    quorum: Quorum,
    ballot: Ballot,
    keys: &[P::Key],
    asked: usize,
    sights: &[&[Sight<P>]],
) -> Finding<P> {
    let lost = lost(quorum, ballot, sights);
    let (are_all, dead) = (sights.len() == quorum.masters(), BTreeSet::new());
    let mut settling = Settling { quorum, ballot, keys, sights, lost: &lost, are_all, dead };
    match settling.without_dead(asked) {
        Ok(chosen) => settling.finding(ballot, asked, &chosen).unwrap_or(Finding::Undecided),
        Err(Obstacle::Unseen(keys)) => Finding::More(keys),
        Err(_) => Finding::Undecided,
    }
}

/// States whose value has gone from under its stamp, without that value: by index of the key, and accepted ballot.
type Lost<P> = BTreeMap<(usize, Ballot), State<P>>;

/// Returns what masters have lost, if these are all the masters.
fn lost<P: Program>(quorum: Quorum, ballot: Ballot, sights: &[&[Sight<P>]]) -> Lost<P> {
    let all = sights.iter().filter(|_| sights.len() == quorum.masters());
    let all = all.flat_map(|sights| sights.iter().enumerate());
    let lost = all.filter(|(_, sight)| sight.is_lost(ballot.counter));
    let without = |(place, Sight { state, .. }): (usize, &Sight<P>)| {
        ((place, state.accepted), State { value: P::Value::default(), ..state.clone() })
    };
    lost.map(without).collect()
}

struct Settling<'a, P: Program> {
    quorum: Quorum,
    /// Ballot of the promises, which is also the time that they are about.
    ballot: Ballot,
    keys: &'a [P::Key],
    sights: &'a [&'a [Sight<P>]],
    lost: &'a Lost<P>,
    /// Whether there is no other master that could tell more.
    are_all: bool,
    /// Programs, by key and ballot, that are not part of any decided state.
    dead: BTreeSet<(P::Key, Ballot)>,
}

/// State chosen for a key, and whether it is decided.
struct Chosen<'a, P: Program> {
    key: usize,
    state: &'a State<P>,
    /// Ballot up to which it is unknown what ran, if nothing was accepted.
    floor: Ballot,
    is_decided: bool,
    /// Whether the last program is known to have run.
    is_told: bool,
}

enum Obstacle<P: Program> {
    Dead(Vec<(P::Key, Ballot)>),
    Unseen(Vec<P::Key>),
    /// Leases keep masters from adopting a state that may be decided.
    Blocked,
    Undecided,
}

/// Fate of a program that no quorum is seen to hold.
enum Verdict {
    Decided,
    Open,
    /// The program's keys are the same whether it counts or not.
    Over,
}

impl<'a, P: Program> Settling<'a, P> {
    /// Repeats [`Self::chosen`], each time without what turned out to be dead. A group shown under a key that is not
    /// part of it, which no proxy has put there, proves nothing.
    fn without_dead(&mut self, asked: usize) -> Result<Vec<Chosen<'a, P>>, Obstacle<P>> {
        loop {
            match self.chosen(asked) {
                Err(Obstacle::Dead(group)) => {
                    let known = self.dead.len();
                    self.dead.extend(group);
                    if self.dead.len() == known {
                        return Err(Obstacle::Undecided);
                    }
                }
                result => return result,
            }
        }
    }

    /// Chooses the states of the requested keys, and of those that must be adopted along with them.
    fn chosen(&self, asked: usize) -> Result<Vec<Chosen<'a, P>>, Obstacle<P>> {
        let mut wanted: Vec<usize> = (0..asked).collect();
        wanted.extend(self.buried().filter(|place| *place >= asked));
        let mut chosen = Vec::new();
        while let Some(key) = wanted.get(chosen.len()).copied() {
            let state = self.newest(key).filter(|state| self.can_tell(key, state));
            let state = state.ok_or(Obstacle::Undecided)?;
            let is_decided = self.is_held(key, state.accepted) || self.was_decided(key, state);
            let open = state.open.as_ref().filter(|_| !is_decided);
            let verdict = match (open.map_or(Ok(Verdict::Decided), |open| self.judge(open))?, open)
            {
                (Verdict::Open, Some(open)) if self.is_with_nobody(key, state) => {
                    self.ran_on_quorum(open)?
                }
                (verdict, _) => verdict,
            };
            self.find_what_came_to_nothing(key, state)?;
            if let (Verdict::Open | Verdict::Over, Some(open)) = (&verdict, open) {
                let group = self.places(open)?;
                wanted.extend(
                    group.into_iter().filter(|place| !wanted.contains(place)).collect::<Vec<_>>(),
                );
            }
            let is_decided = !matches!(verdict, Verdict::Open);
            let is_told = !matches!(verdict, Verdict::Over);
            chosen.push(Chosen { key, state, floor: self.floor(key), is_decided, is_told });
        }
        Ok(chosen)
    }

    /// Returns the indices of keys for which a dead group was accepted. A worker that continues with one of these keys
    /// has all of them accepted without the group. Otherwise that key would forget the group's fate, and the others
    /// could not find it out any more.
    ///
    /// This needs the state that they held before. While some master is out of view, it may have adopted the group over
    /// the last copy of that state. If no master can have that state any more, the other keys continue without it.
    fn buried(&self) -> impl Iterator<Item = usize> {
        let is_of = |key: &P::Key| self.dead.iter().any(|(other, _)| other == key);
        let is_to_be_shown = |place: &usize| !self.are_all || self.newest(*place).is_some();
        (0..self.keys.len()).filter(move |place| is_of(&self.keys[*place])).filter(is_to_be_shown)
    }

    /// Whether no key of a group can have moved on without the group. To move on, a key must be accepted by a quorum
    /// that never had the group, or has [buried](Self::buried) it. Each such quorum shares a master with those that
    /// show the program as run.
    fn cannot_be_dead(&self, places: &[usize], open: &Open<P>) -> bool {
        let ran_on = |sights: &&&[Sight<P>]| {
            places.iter().zip(&open.group).any(|(place, (_, ballot))| {
                matches!(sights[*place].state.recent.fate(*ballot), Fate::Ran(_))
            })
        };
        let others = self.quorum.masters() - self.sights.iter().filter(ran_on).count();
        others < self.quorum.needed() && places.iter().all(|place| self.newest(*place).is_some())
    }

    /// Finds a group that some master shows under this key and that is not part of `state`. Such a group is dead on its
    /// other keys as well.
    fn find_what_came_to_nothing(&self, key: usize, state: &State<P>) -> Result<(), Obstacle<P>> {
        let recent = recent(state, self.floor(key));
        for State { open, recent: its, .. } in self.sights.iter().map(|sights| &sights[key].state) {
            let (Some(open), Some(ran)) = (open, its.last()) else { continue };
            let is_group = open.group.len() > 1 && !self.is_dead(key, ran);
            if is_group && recent.fate(ran) == Fate::DidNotRun {
                self.places(open)?;
                return Err(Obstacle::Dead(open.group.clone()));
            }
        }
        Ok(())
    }

    fn judge(&self, open: &Open<P>) -> Result<Verdict, Obstacle<P>> {
        let places = self.places(open)?;
        let mut is_known = true;
        let mut is_decided = false;
        for (place, (_, ballot)) in places.iter().zip(&open.group) {
            let Some(state) = self.newest(*place) else {
                is_known = false;
                continue;
            };
            match recent(state, self.floor(*place)).fate(*ballot) {
                Fate::DidNotRun => return Err(Obstacle::Dead(open.group.clone())),
                Fate::Ran(_) => is_decided |= state.ran() != Some(*ballot),
                Fate::NotKnown => is_known = false,
            }
        }
        if is_decided {
            return Ok(Verdict::Decided);
        }
        let can_adopt = |sights: &&&[Sight<P>]| self.can_adopt(sights, &places, open);
        let can_be_adopted = self.sights.iter().filter(can_adopt).count() >= self.quorum.needed();
        let is_lacking = self.is_lacking(&places, open);
        match can_be_adopted {
            // The newest state is kept even if it need not be: others may have been accepted along with it. But no
            // lease is taken away for a program that has come to nothing.
            true if is_known && !(is_lacking && self.takes_a_lease(&places)) => Ok(Verdict::Open),
            _ if is_lacking => Err(Obstacle::Dead(open.group.clone())),
            _ if places.iter().all(|place| self.is_over(*place)) => Ok(Verdict::Over),
            true if self.cannot_be_dead(&places, open) => Ok(Verdict::Decided),
            true => Err(Obstacle::Undecided),
            false => Err(Obstacle::Blocked),
        }
    }

    /// Whether a program found a lease under one of its keys.
    fn takes_a_lease(&self, places: &[usize]) -> bool {
        let open = |place: &usize| self.newest(*place).and_then(|state| state.open.as_ref());
        places.iter().filter_map(open).any(|open| open.found.is_some())
    }

    /// Whether a key is the same, whatever became of the program that ran on its newest state. Either the program only
    /// read the key, or both the value that it left and the value before have ended.
    fn is_over(&self, key: usize) -> bool {
        let now_us = self.ballot.counter;
        let lives = |sights: &&[Sight<P>]| {
            let sight = &sights[key];
            P::lives(&sight.state.value, now_us) && !sight.is_lost(now_us)
        };
        match self.newest(key).and_then(|state| state.open.as_ref()) {
            Some(Open { found: None, is_kept: true, .. }) => true,
            Some(Open { found: None, until_us: Some(end_us), .. }) => {
                *end_us <= now_us && !self.sights.iter().any(lives)
            }
            _ => false,
        }
    }

    /// Whether all masters have lost this value, so that it cannot be adopted as it was.
    fn is_with_nobody(&self, key: usize, state: &State<P>) -> bool {
        !P::is_present(&state.value) && self.lost.contains_key(&(key, state.accepted))
    }

    /// Decides about an open program whose value no master has, by which masters have run it. It cannot be adopted, so
    /// a quorum that lacks it gives it up.
    fn ran_on_quorum(&self, open: &Open<P>) -> Result<Verdict, Obstacle<P>> {
        let places = self.places(open)?;
        let has_run = |sights: &&&[Sight<P>]| {
            places.iter().zip(&open.group).all(|(place, (_, ballot))| {
                matches!(sights[*place].state.recent.fate(*ballot), Fate::Ran(_))
            })
        };
        if self.sights.iter().filter(has_run).count() >= self.quorum.needed() {
            return Ok(Verdict::Decided);
        }
        let is_dead = open.group.len() == 1 && self.is_lacking(&places, open);
        Err(if is_dead { Obstacle::Dead(open.group.clone()) } else { Obstacle::Undecided })
    }

    /// Whether a quorum has certainly not run the program.
    fn is_lacking(&self, places: &[usize], open: &Open<P>) -> bool {
        let lacks = |sights: &&&[Sight<P>]| self.lacks(sights, places, open);
        self.sights.iter().filter(lacks).count() >= self.quorum.needed()
    }

    /// Whether a master has certainly not run the program.
    fn lacks(&self, sights: &[Sight<P>], places: &[usize], open: &Open<P>) -> bool {
        places.iter().zip(&open.group).any(|(place, (_, ballot))| {
            sights[*place].state.recent.fate(*ballot) == Fate::DidNotRun
        })
    }

    /// Whether a master has what the program left, or can adopt it alongside its leases.
    fn can_adopt(&self, sights: &[Sight<P>], places: &[usize], open: &Open<P>) -> bool {
        places.iter().zip(&open.group).all(|(place, (_, ballot))| {
            let sight = &sights[*place];
            sight.state.ran() == Some(*ballot)
                || self
                    .newest(*place)
                    .is_none_or(|state| sight.has_room_for(state, self.ballot.counter))
        })
    }

    /// Returns the indices of the keys of a group.
    fn places(&self, open: &Open<P>) -> Result<Vec<usize>, Obstacle<P>> {
        let place = |key| self.keys.iter().position(|other| other == key);
        let unseen = open.group.iter().filter(|(key, _)| place(key).is_none());
        let unseen: Vec<P::Key> = unseen.map(|(key, _)| key.clone()).collect();
        if !unseen.is_empty() {
            return Err(Obstacle::Unseen(unseen));
        }
        Ok(open.group.iter().filter_map(|(key, _)| place(key)).collect())
    }

    /// Returns the newest state that may be decided; `None` if no master here still has it.
    fn newest(&self, key: usize) -> Option<&'a State<P>> {
        let known = self.sights.iter().map(|sights| self.known(&sights[key], key));
        let newest = known.max_by_key(|(accepted, state)| (*accepted, state.is_some()));
        newest.and_then(|(accepted, state)| {
            state
                .or_else(|| self.elsewhere(key, accepted))
                .or_else(|| self.lost.get(&(key, accepted)))
                .or_else(|| self.dropped(key))
        })
    }

    /// Finds a state that was accepted under this ballot and is lost, as it was before its adoption: its last program
    /// is the same.
    fn elsewhere(&self, key: usize, accepted: Ballot) -> Option<&'a State<P>> {
        let mut states = self.sights.iter().map(|sights| &sights[key].state);
        let others = self.sights.iter().filter_map(|sights| self.known(&sights[key], key).1);
        if let Some(lost) = states.clone().find(|state| state.accepted == accepted) {
            let is_same =
                |state: &&State<P>| state.ran() == lost.ran() && state.value == lost.value;
            return others.filter(is_same).max_by_key(|state| state.accepted);
        }
        let followed = &states.find(|state| state.basis == accepted)?.recent;
        let is_before = |state: &&State<P>| followed.follows(&state.recent);
        others.filter(is_before).max_by_key(|state| state.accepted)
    }

    /// Whether enough masters know that nothing newer was accepted. A master that was admitted while the key was
    /// contested does not know ([`Copied::Contested`]): what it forgot may have been decided with its vote.
    fn can_tell(&self, key: usize, newest: &State<P>) -> bool {
        let knows = |sights: &&&[Sight<P>]| sights[key].state.knows_what_followed(newest.accepted);
        self.sights.iter().filter(knows).count() >= self.quorum.needed()
    }

    /// Returns the absent state if a tombstone was dropped. A decided state that no master has any more, although a
    /// quorum had it, was a dropped tombstone.
    fn dropped(&self, key: usize) -> Option<&'a State<P>> {
        let states = self.sights.iter().map(|sights| &sights[key].state);
        let mut without = states.filter(|state| state.accepted == Ballot::NONE);
        (without.clone().count() >= self.quorum.needed()).then(|| without.next()).flatten()
    }

    /// Returns the ballot up to which the fates of programs on a key without a stamp are unknown.
    fn floor(&self, key: usize) -> Ballot {
        self.sights.iter().map(|sights| sights[key].floor).max().unwrap_or_default()
    }

    /// Returns how far a master has come, and the state if the master still has it.
    fn known(&self, sight: &'a Sight<P>, key: usize) -> (Ballot, Option<&'a State<P>>) {
        let state = &sight.state;
        match (&state.open, state.ran()) {
            (Some(_), Some(ran)) if self.is_dead(key, ran) => (state.basis, None),
            _ => (state.accepted, Some(state).filter(|_| !sight.is_lost(self.ballot.counter))),
        }
    }

    fn is_dead(&self, key: usize, ran: Ballot) -> bool {
        self.dead.contains(&(self.keys[key].clone(), ran))
    }

    fn is_held(&self, key: usize, accepted: Ballot) -> bool {
        let holds = |sights: &&&[Sight<P>]| {
            let sight = &sights[key];
            sight.state.accepted == accepted && !sight.is_lost(self.ballot.counter)
        };
        self.sights.iter().filter(holds).count() >= self.quorum.needed()
    }

    /// Whether some program, dead or not, ran on this state: then it was decided before that.
    fn was_decided(&self, key: usize, state: &State<P>) -> bool {
        let has_followed = |other: &State<P>| {
            let is_among = |ran| matches!(other.recent.fate(ran), Fate::Ran(_));
            [Some(state.accepted), state.ran()].contains(&Some(other.basis))
                || other.ran() != state.ran() && state.ran().is_some_and(is_among)
        };
        self.sights.iter().any(|sights| has_followed(&sights[key].state))
    }

    fn finding(
        &self,
        ballot: Ballot,
        asked: usize,
        chosen: &[Chosen<'a, P>],
    ) -> Option<Finding<P>> {
        let mut holdings = Vec::new();
        let mut is_known = true;
        for one in &chosen[..asked] {
            let lease = self.lease(one)?;
            let holds = |sights: &&&[Sight<P>]| {
                let sight = &sights[one.key];
                sight.state.accepted == one.state.accepted
                    && sight.lease == lease
                    && !sight.is_lost(ballot.counter)
            };
            is_known &= self.sights.iter().filter(holds).count() >= self.quorum.needed()
                && !one.has_ended_since(ballot.counter);
            let state = State { recent: one.recent(), ..one.state.clone() };
            holdings.push(HeldBallot { state, lease, flush: self.flush(one.key) });
        }
        is_known &= chosen[asked..].iter().all(|one| self.is_held(one.key, one.state.accepted));
        if is_known {
            return Some(Finding::Known(holdings));
        }
        let adopted = chosen.iter().map(|one| self.adopted(one)).collect();
        Some(Finding::Adopt(adopted, holdings))
    }

    fn adopted(&self, one: &Chosen<'a, P>) -> Adopted<P> {
        let (key, from) = (self.keys[one.key].clone(), one.state.accepted);
        let (state, flush) = (one.under(self.ballot), self.flush(one.key));
        Adopted { key, from, state, over: Vec::new(), flush }
    }

    /// Returns the flush after which all masters show this key.
    fn flush(&self, key: usize) -> u64 {
        self.sights.first().map(|sights| sights[key].flush).unwrap_or_default()
    }

    /// Returns the lease next to a state, once a quorum has it; `None` if that depends on silent masters.
    fn lease(&self, chosen: &Chosen<'a, P>) -> Option<Option<P::Lease>> {
        if P::lives(&chosen.state.value, self.ballot.counter) {
            return Some(None);
        }
        let open = chosen.state.open.as_ref().filter(|_| !chosen.is_decided);
        let found = open.and_then(|open| open.found.as_ref());
        if open.is_some_and(|open| open.is_kept) && found.is_some() {
            return Some(found.cloned());
        }
        // Once the state is adopted, the lease that it has taken over is gone.
        let leases = self.leases(chosen).map(|lease| lease.filter(|lease| Some(*lease) != found));
        let alike = |lease: &Option<&P::Lease>| {
            leases.clone().filter(|other| other == lease).count() >= self.quorum.needed()
        };
        leases.clone().find(alike).map(Option::<&P::Lease>::cloned)
    }

    /// Returns the lease that a master gets along with a state. A lease that any master then still has may depend on
    /// the master that has forgotten it.
    fn lease_to_copy(&self, chosen: &Chosen<'a, P>) -> Option<P::Lease> {
        let is_decided = chosen.is_decided || P::lives(&chosen.state.value, self.ballot.counter);
        if let (true, Some(lease)) = (is_decided, self.lease(chosen)) {
            return lease;
        }
        let open = chosen.state.open.as_ref().filter(|open| !chosen.is_decided && !open.is_kept);
        let taken = open.and_then(|open| open.found.as_ref());
        self.leases(chosen).flatten().find(|lease| Some(*lease) != taken).cloned()
    }

    /// Returns each master's lease next to a state, once the master has that state.
    fn leases(
        &self,
        chosen: &Chosen<'a, P>,
    ) -> impl Iterator<Item = Option<&'a P::Lease>> + Clone + use<'a, '_, P> {
        let (key, state, sights) = (chosen.key, chosen.state, self.sights);
        sights.iter().map(move |sights| sights[key].lease_under(state))
    }
}

/// Returns the last programs that led to a state. The stamp of a state that was never accepted may have been dropped.
fn recent<P: Program>(state: &State<P>, floor: Ballot) -> Remembered<P::Reply> {
    match state.accepted {
        Ballot::NONE => state.recent.without_those_before(floor),
        _ => state.recent.clone(),
    }
}

impl<P: Program> Chosen<'_, P> {
    /// Whether the value was accepted before its end and has ended by now. A program that removed the end may still
    /// wait on a master to be adopted, and only a state accepted later outbids it. So the end is accepted, once, before
    /// any client sees it.
    fn has_ended_since(&self, now_us: u64) -> bool {
        let State { accepted, value, .. } = self.state;
        P::lives(value, accepted.counter) && !P::lives(value, now_us)
    }

    fn under(&self, ballot: Ballot) -> State<P> {
        let open = self.state.open.clone().filter(|_| !self.is_decided);
        let recent = self.recent();
        State { accepted: ballot, open, recent, ..self.state.clone() }
    }

    fn recent(&self) -> Remembered<P::Reply> {
        match self.is_told {
            true => recent(self.state, self.floor),
            false => self.state.recent.without_the_last(),
        }
    }
}
