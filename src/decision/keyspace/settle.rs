//! Finding out of promises what keys hold.
//!
//! The newest state that somebody accepted may have been decided, so it has to be adopted, unless something shows that
//! it never can be:
//!
//! * a quorum lacks it, and has promised a higher ballot. That gives it up only where it cannot be adopted: others may have been
//!   accepted along with it;
//! * another key of its group was accepted under a higher ballot without it: had the group been decided, every later
//!   state of that key would have come from it.
//!
//! A group that is given up is so on all its keys, which are accepted without it together. A key remembers its last programs only, so
//! the others could not find out later. For the same reason a group counts as decided where no key can have been gone on with
//! without it, although some have forgotten it.
//!
//! What is overwritten in place is lost on that master, but not what it was: the state that a program ran on was decided,
//! so a quorum had it, and somebody still has.
//!
//! Unless somebody has removed its value by hand, on every master that had it. If all masters say so, it is with nobody, and
//! the key is absent from then on. One that is silent may still have it.

use std::collections::{BTreeMap, BTreeSet};

use super::Program;
use super::remembered::Remembered;
use super::slot::{Adopted, Open, Sight, State};
use crate::decision::quorum::Quorum;
use crate::decision::register::acceptor::Fate;
use crate::decision::register::ballot::Ballot;

/// What promises say of some keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding<P: Program> {
    /// A quorum holds this under each key.
    Known(Vec<Holding<P>>),
    /// These states are to be made a quorum's first, under the ballot of the promises. Each key that was asked about then
    /// holds this, under that ballot.
    Adopt(Vec<Adopted<P>>, Vec<Holding<P>>),
    /// These keys have to be looked at as well.
    More(Vec<P::Key>),
    /// It hangs on masters that have not promised yet, or on a claim that is not over.
    Undecided,
}

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holding<P: Program> {
    /// The register.
    pub state: State<P>,
    /// The lease, if the register is absent.
    pub lease: Option<P::Lease>,
    /// The last flush of its database.
    pub flush: u64,
}

/// What is copied of a key to a master that has forgotten, and is admitted again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copied<P: Program> {
    /// These states, the key's own first, once the masters that were asked have adopted them, beside this lease. It is the
    /// one that they then have, and not the one that they show: adopting brings back what was taken over in vain.
    Settled(Vec<Adopted<P>>, Option<P::Lease>),
    /// These keys have to be looked at as well.
    More(Vec<P::Key>),
    /// Only the forgotten master could have told whether an open register counts, or the lease that it found or stands
    /// beside it. It gets this, so that no claim passes there meanwhile.
    Contested(Box<Contested<P>>),
}

/// What a master gets that does not know whether it has had what is [contested](Copied::Contested).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contested<P: Program> {
    /// The ballot under which a source has accepted what the state holds.
    pub from: Ballot,
    /// What the register holds if it counts, as accepted before all else, with no word of what ran. Where that is absent, what
    /// was there before.
    pub state: State<P>,
    /// The lease, if it is absent.
    pub lease: Option<P::Lease>,
}

/// What promises of all other masters that can be reached, a quorum, say of the first of `keys`, for a master that has
/// forgotten. Nothing that may have been answered is lost: what hangs on the forgotten is taken for decided.
pub fn copy<P: Program>(
    quorum: Quorum,
    ballot: Ballot,
    keys: &[P::Key],
    sights: &[&[Sight<P>]],
) -> Copied<P> {
    // The forgotten one may have what the others have lost.
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

/// What was accepted last of a key, as far as it is shown.
pub(super) fn newest<P: Program>(sights: &[&Sight<P>]) -> State<P> {
    let newest = sights.iter().max_by_key(|sight| sight.state.accepted);
    newest.map(|sight| sight.state.clone()).unwrap_or_default()
}

/// What is given where only the forgotten one could have told at `now_us` what counts, of what the sources show of a key.
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

/// What the promises of a quorum say of the first `asked` of `keys`, each of which every master of `sights` shows after the
/// same flush. What has to be adopted gets the ballot of the promises.
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

/// States whose value has gone from under a stamp, without it: by the place of the key, and the accepted ballot.
type Lost<P> = BTreeMap<(usize, Ballot), State<P>>;

/// What masters have lost, if these are all that there are.
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
    /// The ballot of the promises, which is also the time that they are about.
    ballot: Ballot,
    keys: &'a [P::Key],
    sights: &'a [&'a [Sight<P>]],
    lost: &'a Lost<P>,
    /// No other master can tell more.
    are_all: bool,
    /// Programs, by key and ballot, that are no part of what is decided.
    dead: BTreeSet<(P::Key, Ballot)>,
}

/// The state of a key, and whether it is decided.
struct Chosen<'a, P: Program> {
    key: usize,
    state: &'a State<P>,
    /// Up to here nobody knows what ran, if nothing was accepted.
    floor: Ballot,
    is_decided: bool,
    /// Whether the last program is known to have run.
    is_told: bool,
}

enum Obstacle<P: Program> {
    Dead(Vec<(P::Key, Ballot)>),
    Unseen(Vec<P::Key>),
    /// By leases, which keep masters from adopting what may be decided.
    Blocked,
    Undecided,
}

/// What becomes of a program that no quorum is seen to hold.
enum Verdict {
    Decided,
    Open,
    /// Whether it counts or not, its keys are the same by now.
    Over,
}

impl<'a, P: Program> Settling<'a, P> {
    /// The same as [`Self::chosen`], each time without what turned out to be dead. A group that is none of the key under which it
    /// is shown, which no proxy has left there, tells nothing.
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

    /// The states of the keys that were asked about, and of those that must be adopted along with them.
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

    /// The places of keys that a dead group was accepted for. Who goes on with one of them has all of them accepted without it:
    /// else the one would forget what has become of it, and the others could not tell any more.
    ///
    /// That takes what they held before. As long as some master is out of view, the group may have been adopted there, over the
    /// last copy of that. Where nobody can have it any more, the others go on.
    fn buried(&self) -> impl Iterator<Item = usize> {
        let is_of = |key: &P::Key| self.dead.iter().any(|(other, _)| other == key);
        let is_to_be_shown = |place: &usize| !self.are_all || self.newest(*place).is_some();
        (0..self.keys.len()).filter(move |place| is_of(&self.keys[*place])).filter(is_to_be_shown)
    }

    /// Whether no key of a group can have been gone on with without it. Who does that has it accepted by a quorum that never had
    /// the group, or has it [buried](Self::buried) by one. Of each such quorum some master is among these.
    fn cannot_be_dead(&self, places: &[usize], open: &Open<P>) -> bool {
        let ran_on = |sights: &&&[Sight<P>]| {
            places.iter().zip(&open.group).any(|(place, (_, ballot))| {
                matches!(sights[*place].state.recent.fate(*ballot), Fate::Ran(_))
            })
        };
        let others = self.quorum.masters() - self.sights.iter().filter(ran_on).count();
        others < self.quorum.needed() && places.iter().all(|place| self.newest(*place).is_some())
    }

    /// A group that some master shows under this key, and that `state` has come about without, is dead on its other keys as well.
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
            // What is newest goes on, also where it need not: others may have been accepted along with it. But a lease is not taken
            // away for a program that has come to nothing.
            true if is_known && !(is_lacking && self.takes_a_lease(&places)) => Ok(Verdict::Open),
            _ if is_lacking => Err(Obstacle::Dead(open.group.clone())),
            _ if places.iter().all(|place| self.is_over(*place)) => Ok(Verdict::Over),
            true if self.cannot_be_dead(&places, open) => Ok(Verdict::Decided),
            true => Err(Obstacle::Undecided),
            false => Err(Obstacle::Blocked),
        }
    }

    /// Whether a program has found a lease under one of its keys.
    fn takes_a_lease(&self, places: &[usize]) -> bool {
        let open = |place: &usize| self.newest(*place).and_then(|state| state.open.as_ref());
        places.iter().filter_map(open).any(|open| open.found.is_some())
    }

    /// Whether a key is the same by now whatever became of the program that has run on its newest state: that has only read it,
    /// or what it has left has ended, and what was there before.
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

    /// Whether all have lost this value: it cannot be adopted as it was.
    fn is_with_nobody(&self, key: usize, state: &State<P>) -> bool {
        !P::is_present(&state.value) && self.lost.contains_key(&(key, state.accepted))
    }

    /// What can be told by who has run it of an open program whose value is with nobody: it cannot be adopted, so a quorum that
    /// lacks it gives it up.
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

    /// Whether a master has what the program left, or can adopt it beside its leases.
    fn can_adopt(&self, sights: &[Sight<P>], places: &[usize], open: &Open<P>) -> bool {
        places.iter().zip(&open.group).all(|(place, (_, ballot))| {
            let sight = &sights[*place];
            sight.state.ran() == Some(*ballot)
                || self
                    .newest(*place)
                    .is_none_or(|state| sight.has_room_for(state, self.ballot.counter))
        })
    }

    /// Where the keys of a group stand.
    fn places(&self, open: &Open<P>) -> Result<Vec<usize>, Obstacle<P>> {
        let place = |key| self.keys.iter().position(|other| other == key);
        let unseen = open.group.iter().filter(|(key, _)| place(key).is_none());
        let unseen: Vec<P::Key> = unseen.map(|(key, _)| key.clone()).collect();
        if !unseen.is_empty() {
            return Err(Obstacle::Unseen(unseen));
        }
        Ok(open.group.iter().filter_map(|(key, _)| place(key)).collect())
    }

    /// The newest state that may be decided; `None` if nobody here still has it.
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

    /// What was accepted under this ballot and is lost, from before it was adopted: the last program is the same.
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

    /// Whether enough masters know that nothing newer was accepted. One that was admitted while a key was contested does not
    /// ([`Copied::Contested`]): what it had forgotten may have been decided with its vote.
    fn can_tell(&self, key: usize, newest: &State<P>) -> bool {
        let knows = |sights: &&&[Sight<P>]| sights[key].state.knows_what_followed(newest.accepted);
        self.sights.iter().filter(knows).count() >= self.quorum.needed()
    }

    /// What was decided, and is with nobody any more although a quorum had it, was a tombstone that was dropped.
    fn dropped(&self, key: usize) -> Option<&'a State<P>> {
        let states = self.sights.iter().map(|sights| &sights[key].state);
        let mut without = states.filter(|state| state.accepted == Ballot::NONE);
        (without.clone().count() >= self.quorum.needed()).then(|| without.next()).flatten()
    }

    /// Up to here nobody knows what became of programs on a key that has no stamp.
    fn floor(&self, key: usize) -> Ballot {
        self.sights.iter().map(|sights| sights[key].floor).max().unwrap_or_default()
    }

    /// How far a master has come, and the state if it is still there.
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

    /// Whether some program ran on this state, dead or not: then it was decided before.
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
            holdings.push(Holding { state, lease, flush: self.flush(one.key) });
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

    /// The flush after which all of them show this key.
    fn flush(&self, key: usize) -> u64 {
        self.sights.first().map(|sights| sights[key].flush).unwrap_or_default()
    }

    /// The lease beside a state, once that is a quorum's; `None` if it hangs on who is silent.
    fn lease(&self, chosen: &Chosen<'a, P>) -> Option<Option<P::Lease>> {
        if P::lives(&chosen.state.value, self.ballot.counter) {
            return Some(None);
        }
        let open = chosen.state.open.as_ref().filter(|_| !chosen.is_decided);
        let found = open.and_then(|open| open.found.as_ref());
        if open.is_some_and(|open| open.is_kept) && found.is_some() {
            return Some(found.cloned());
        }
        // Once it is adopted, what it has taken over is gone.
        let leases = self.leases(chosen).map(|lease| lease.filter(|lease| Some(*lease) != found));
        let alike = |lease: &Option<&P::Lease>| {
            leases.clone().filter(|other| other == lease).count() >= self.quorum.needed()
        };
        leases.clone().find(alike).map(Option::<&P::Lease>::cloned)
    }

    /// The lease that a master gets along with a state: what any master then still has may hang on the one that has
    /// forgotten it.
    fn lease_to_copy(&self, chosen: &Chosen<'a, P>) -> Option<P::Lease> {
        let is_decided = chosen.is_decided || P::lives(&chosen.state.value, self.ballot.counter);
        if let (true, Some(lease)) = (is_decided, self.lease(chosen)) {
            return lease;
        }
        let open = chosen.state.open.as_ref().filter(|open| !chosen.is_decided && !open.is_kept);
        let taken = open.and_then(|open| open.found.as_ref());
        self.leases(chosen).flatten().find(|lease| Some(*lease) != taken).cloned()
    }

    /// What each master has beside a state, once it has that.
    fn leases(
        &self,
        chosen: &Chosen<'a, P>,
    ) -> impl Iterator<Item = Option<&'a P::Lease>> + Clone + use<'a, '_, P> {
        let (key, state, sights) = (chosen.key, chosen.state, self.sights);
        sights.iter().map(move |sights| sights[key].lease_under(state))
    }
}

/// The last programs that led to a state. The stamp of one that was never accepted may have been dropped.
fn recent<P: Program>(state: &State<P>, floor: Ballot) -> Remembered<P::Reply> {
    match state.accepted {
        Ballot::NONE => state.recent.without_those_before(floor),
        _ => state.recent.clone(),
    }
}

impl<P: Program> Chosen<'_, P> {
    /// Whether the value was accepted before its end, and has reached it by now. A program that took the end away may still
    /// wait on a master to be adopted, and nothing but a state that was accepted later outbids it: so the end is accepted,
    /// once, before anybody is told of it.
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
