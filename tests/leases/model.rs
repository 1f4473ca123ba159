//! Possible next events, and invariants.

use crate::specification::lease::MasterLease;
use redlock_proxy::decision::lease::attempt::Generation;
use redlock_proxy::decision::quorum::Quorum;
use stateright::{Model, Property};

use crate::world::*;

pub(crate) const EXCLUSION: &str = "no two clients hold the lease";
pub(crate) const CONFIRMED: &str = "what was confirmed stays until it ends";
pub(crate) const NO_GHOSTS: &str = "nothing is left of what was refused or released";
pub(crate) const TRUTH: &str = "no release succeeds while another client holds the lease";
pub(crate) const ONE_END: &str = "one release ends one lease";
pub(crate) const IN_TIME: &str = "no quorum keeps a lease for longer than its client was told";
pub(crate) const ENDED: &str = "what was there before a deletion is held by no quorum after it";
pub(crate) const FOUND: &str = "no deletion overlooks a lease that is held all the time";

const GRANTED: &str = "a lease is granted";

pub(crate) const REFUSED: Event = ("a claim is refused", |_, state| state.seen.held);
pub(crate) const AFRESH: Event = ("a late claim is made afresh", |_, state| state.seen.afresh);
pub(crate) const EXTENDED: Event = ("a lease is extended", |_, state| state.seen.extended);
pub(crate) const ADMITTED: Event = ("a master is admitted", |_, state| state.seen.admitted);
pub(crate) const WENT_ON: Event =
    ("an operation forgets the answer of a master", |_, state| state.seen.went_on);
pub(crate) const RELEASED: Event = ("a lease is released", |_, state| !state.released.is_empty());
pub(crate) const DELETED: Event = ("a lease is deleted", |_, state| state.seen.deleted);
pub(crate) const SHARED: Event = ("a client finds its own token", |_, state| {
    state.clients.iter().any(|client| client.holds.is_some_and(|holds| holds.shares))
});

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.now < self.end {
            actions.push(Action::Tick);
        }
        let may_start = |client: &usize| {
            state.clients[*client].next < self.scripts[*client].len() && !state.is_busy(*client)
        };
        actions.extend((0..self.scripts.len()).filter(may_start).map(Action::Start));
        actions.extend(state.flights.iter().filter_map(|flight| self.action_of(state, flight)));
        for proxy in 0..PROXIES {
            for master in (0..MASTERS).filter(|master| !state.is_like_another(*master)) {
                self.actions_of_link(state, proxy, master, actions);
            }
        }
        for master in (0..MASTERS).filter(|master| !state.is_like_another(*master)) {
            self.actions_of_master(state, master, actions);
        }
        let due = |place: &usize| state.later[*place].due <= state.now;
        actions.extend((0..state.later.len()).filter(due).map(Action::Redeliver));
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Tick => tick(&mut state),
            Action::Start(client) => self.begin(&mut state, client),
            Action::Deadline(id) => self.notice_deadline(&mut state, id),
            Action::Again(id) => {
                let index = state.position(id)?;
                self.send_again(&mut state, index);
            }
            Action::Execute(proxy, master) => {
                self.execute(&mut state, proxy, master);
                if self.prompt {
                    self.hear_first(&mut state, proxy, master);
                }
            }
            Action::ExecuteOld(proxy, master) => self.execute_old(&mut state, proxy, master),
            Action::Hear(proxy, master) => self.hear_first(&mut state, proxy, master),
            Action::Cut(proxy, master) => self.cut(&mut state, proxy, master),
            Action::Forget(master) => forget(&mut state, master),
            Action::PutOut(master) => self.put_out(&mut state, master),
            Action::Admit(master) => self.admit(&mut state, master),
            Action::Redeliver(place) => {
                let Later { proxy, master, attempt, .. } = state.later.remove(place);
                state.send(proxy, master, Command::Deliver(attempt), None);
            }
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(EXCLUSION, |world: &Self, state: &State| !held_twice(world, state)),
            Property::always(CONFIRMED, confirmed_stays),
            Property::always(NO_GHOSTS, |world: &Self, state: &State| {
                !is_quiet(world, state)
                    || state.masters.iter().all(|master| !is_ghost(state, master))
            }),
            Property::always(TRUTH, |_: &Self, state: &State| !state.seen.false_release),
            Property::always(ONE_END, |_: &Self, state: &State| !state.seen.ended_two),
            Property::always(IN_TIME, |_: &Self, state: &State| !state.seen.ends_late),
            Property::always(ENDED, |_: &Self, state: &State| deleted_is_ended(state)),
            Property::always(FOUND, |_: &Self, state: &State| !state.seen.false_missing),
            Property::sometimes(GRANTED, |_: &Self, state: &State| !state.live.is_empty()),
        ];
        let (events, seen) = (&self.reaches, |name, holds| Property::sometimes(name, holds));
        properties.extend(events.iter().map(|event| seen(event.0, event.1)));
        properties
    }
}

impl World {
    fn action_of(&self, state: &State, flight: &Flight) -> Option<Action> {
        if flight.pausing {
            return (flight.round < self.rounds).then_some(Action::Again(flight.id));
        }
        let deadline = flight.operation.deadline()?;
        (self.hasty || deadline <= state.time()).then_some(Action::Deadline(flight.id))
    }

    fn actions_of_link(
        &self,
        state: &State,
        proxy: usize,
        master: usize,
        actions: &mut Vec<Action>,
    ) {
        let link = &state.links[proxy][master];
        if !link.requests.is_empty() {
            actions.push(Action::Execute(proxy, master));
        }
        if !link.old.is_empty() {
            actions.push(Action::ExecuteOld(proxy, master));
        }
        if !link.replies.is_empty() {
            actions.push(Action::Hear(proxy, master));
        }
        if state.cuts < self.cuts && !link.is_idle() {
            actions.push(Action::Cut(proxy, master));
        }
    }

    fn actions_of_master(&self, state: &State, index: usize, actions: &mut Vec<Action>) {
        let master = &state.masters[index];
        match master.mark {
            Some(_) if state.forgets < self.forgets => actions.push(Action::Forget(index)),
            Some(_) => {}
            None if master.is_out => actions.push(Action::Admit(index)),
            None => actions.push(Action::PutOut(index)),
        }
    }
}

fn tick(state: &mut State) {
    state.now += 1;
    let now = state.now;
    for master in &mut state.masters {
        master.key = master.key.filter(|copy| u64::from(now) < copy.end_ms);
    }
    for client in &mut state.clients {
        client.holds = client.holds.filter(|holds| now < holds.until);
    }
}

fn forget(state: &mut State, index: usize) {
    state.forgets += 1;
    let born = state.masters[index].born;
    state.masters[index] =
        Master { key: None, mark: None, born, is_out: false, forgot: true, touched: true };
}

/// Whether two clients hold the lease. Clients with equal tokens may share it if one of them asked
/// to find its own token.
fn held_twice(world: &World, state: &State) -> bool {
    let holders: Vec<_> = believers(world, state).collect();
    let share =
        |one: (Holds, u8), other: (Holds, u8)| one.1 == other.1 && (one.0.shares || other.0.shares);
    let conflict = |pair: &[(Holds, u8)]| !share(pair[0], pair[1]);
    holders.windows(2).any(conflict)
}

/// Leases that clients hold, each with its token, except those that a deletion in progress may have
/// ended.
fn believers<'a>(world: &'a World, state: &'a State) -> impl Iterator<Item = (Holds, u8)> + 'a {
    let clients = state.clients.iter().zip(&world.tokens);
    let held = clients.filter_map(|(client, token)| Some((client.holds?, *token)));
    held.filter(|(holds, _)| holds.doubts == 0)
}

/// Whether no quorum keeps a deleted lease. Masters that forgot are left out, because the others
/// decide what they receive.
fn deleted_is_ended(state: &State) -> bool {
    state.deleted.iter().all(|attempt| {
        let is_it = |copy: MasterLease<u8>| copy.tag.attempt == *attempt;
        let keeps = |master: &&Master| !master.forgot && master.key.is_some_and(is_it);
        state.masters.iter().filter(keeps).count() < Quorum::of(MASTERS).needed()
    })
}

/// Whether a quorum keeps every lease that a client believes in, for as long as the client does.
/// Masters that forgot are exempt.
fn confirmed_stays(world: &World, state: &State) -> bool {
    believers(world, state).all(|(holds, token)| {
        let is_it = |copy: MasterLease<u8>| {
            let is_its = holds.attempt == copy.tag.attempt || holds.shares && copy.token == token;
            is_its && copy.end_ms >= u64::from(holds.until)
        };
        let keeps = |master: &&Master| master.forgot || master.key.is_some_and(is_it);
        state.masters.iter().filter(keeps).count() >= Quorum::of(MASTERS).needed()
    })
}

/// Whether everything was delivered and no client has anything left to do.
fn is_quiet(world: &World, state: &State) -> bool {
    let idle = state.links.iter().flatten().all(Link::is_idle);
    let told = state.flights.iter().all(|flight| flight.told);
    let done = (0..world.scripts.len()).all(|client| !state.is_busy(client));
    idle && told && done && state.later.is_empty()
}

/// Whether a master keeps a lease that was refused and never extended, or was released. Masters
/// that forgot are left out, because the others decide what they receive.
fn is_ghost(state: &State, master: &Master) -> bool {
    let Some(copy) = master.key.filter(|_| !master.forgot) else { return false };
    let (attempt, generation) = (copy.tag.attempt, copy.tag.generation);
    let refused = generation == Generation::FRESH && !state.live.contains(&attempt);
    refused || state.released.contains(&attempt)
}
