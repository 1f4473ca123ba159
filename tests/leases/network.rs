//! Behaviour of masters and connections: executing, losing, forgetting.

use crate::specification::lease::{self as master, MasterLease};
use redlock_proxy::decision::lease::attempt::Generation;
use redlock_proxy::decision::lease::attempt::Tag;
use redlock_proxy::decision::lease::{claim, delete, extend, release};

use crate::bugs::Bug;
use crate::world::*;

/// A token that no client has, for a master that would receive two different ones. Its tag is
/// nobody's either, because a take-back of either attempt would otherwise delete it.
const NOBODY: u8 = u8::MAX;

impl World {
    pub(crate) fn execute(&self, state: &mut State, proxy: usize, master: usize) {
        let Some(request) = state.links[proxy][master].requests.pop_front() else { return };
        let answer = self.obey(state, master, request);
        self.note_end(state, request, answer);
        if let (Some(answer), Some(flight)) = (answer, request.flight) {
            let Master { mark, born, .. } = state.masters[master];
            let proof = mark.map(|version| (version, born));
            let reply = Reply { flight, round: request.round, answer, proof };
            state.links[proxy][master].replies.push_back(reply);
        }
    }

    /// Executes a request on a connection whose answers nobody reads any more.
    pub(crate) fn execute_old(&self, state: &mut State, proxy: usize, master: usize) {
        if let Some(request) = state.links[proxy][master].old.pop_front() {
            let answer = self.obey(state, master, request);
            self.note_end(state, request, answer);
        }
    }

    /// Records a copy deleted by a release, which ends its lease.
    fn note_end(&self, state: &mut State, request: Request, answer: Option<Answer>) {
        let (Command::GiveBack(tag, _), Some(flight)) = (request.command, request.flight) else {
            return;
        };
        let hit = (flight, tag.attempt);
        if answer == Some(Answer::Delete(release::Vote::Deleted))
            && !state.given_back.contains(&hit)
        {
            state.given_back.push(hit);
            state.given_back.sort_unstable();
            state.count_ends();
        }
    }

    fn obey(&self, state: &mut State, index: usize, request: Request) -> Option<Answer> {
        let now = state.now;
        let master = &mut state.masters[index];
        master.touched = true;
        let proven = master.mark.is_some() || self.has(Bug::NoProof);
        let answer = self.run(&mut master.key, request.command, now)?;
        Some(if proven { answer } else { unknown(answer) })
    }

    fn run(&self, key: &mut Option<MasterLease<u8>>, command: Command, now: u8) -> Option<Answer> {
        let end = |ttl: u8| u64::from(now + ttl);
        Some(match command {
            Command::Claim { tag, token, ttl, or_prolong } => {
                let new = MasterLease { tag, token, end_ms: end(ttl) };
                let take = if or_prolong { master::acquire::<u8> } else { master::claim::<u8> };
                let vote = take(key, new);
                self.forget_generation(key);
                Answer::Claim(tag.attempt, vote)
            }
            Command::Extend { token, ttl } => {
                let vote = master::extend(key, &token, end(ttl));
                self.forget_generation(key);
                Answer::Extend(vote, key.map(|copy| (copy.tag, copy.end_ms)))
            }
            Command::Shorten { tag, seen_ms, ttl } => {
                master::shorten(key, tag, seen_ms, end(ttl));
                Answer::Shortened
            }
            Command::Look { token } => Answer::Sight(master::look(key, &token)),
            Command::Show => Answer::Shown(master::show(key)),
            Command::Delete(tag) | Command::GiveBack(tag, _)
                if self.has(Bug::DeleteAnyGeneration) =>
            {
                Answer::Delete(master::deliver(key, tag.attempt))
            }
            Command::GiveBack(tag, token) => Answer::Delete(master::give_back(key, tag, &token)),
            Command::Delete(tag) => Answer::Delete(master::delete(key, tag)),
            Command::TakeBack(_, token) if self.has(Bug::TakeBackByToken) => {
                Answer::Delete(delete_token(key, token))
            }
            Command::TakeBack(tag, _) => Answer::Delete(master::delete(key, tag)),
            Command::Deliver(attempt) => Answer::Delete(master::deliver(key, attempt)),
            Command::DeleteToken(token) => Answer::Delete(delete_token(key, token)),
            Command::DeleteAnything => {
                let token = key.map_or(NOBODY, |copy| copy.token);
                Answer::Delete(delete_token(key, token))
            }
        })
    }

    fn forget_generation(&self, key: &mut Option<MasterLease<u8>>) {
        if self.has(Bug::NoGenerations)
            && let Some(copy) = key
        {
            copy.tag = Tag { generation: Generation::FRESH, ..copy.tag };
        }
    }

    /// Loses a connection with everything in flight. The new connection closes the old one on the
    /// master before it is used, and begins with the requests that must not be lost.
    pub(crate) fn cut(&self, state: &mut State, proxy: usize, master: usize) {
        state.cuts += 1;
        state.masters[master].touched = true;
        let lost = std::mem::take(&mut state.links[proxy][master]);
        let link = &mut state.links[proxy][master];
        link.requests.extend(lost.requests.iter().filter(|request| is_owed(request.command)));
        if self.has(Bug::OldConnectionLives) {
            link.old =
                lost.requests.iter().filter(|request| !is_owed(request.command)).copied().collect();
        }
        let unheard =
            lost.replies.into_iter().map(|reply| (reply.flight, reply.round, reply.answer));
        let unasked = lost.requests.into_iter().filter_map(|request| {
            Some((request.flight?, request.round, unanswered(request.command)?))
        });
        for (flight, round, answer) in unheard.chain(unasked).collect::<Vec<_>>() {
            let answer = unknown(answer);
            self.hear(state, master, Reply { flight, round, answer, proof: None });
        }
    }

    /// Copies the longest lease of the other members, and lets the master vote under a new version.
    pub(crate) fn admit(&self, state: &mut State, index: usize) {
        let others = (0..MASTERS).filter(|other| *other != index);
        let copies: Vec<_> = others.filter_map(|other| state.masters[other].key).collect();
        if let Some(longest) = copies.iter().copied().max_by_key(|copy| copy.end_ms) {
            let agree = copies.iter().all(|copy| copy.tag.attempt == longest.tag.attempt);
            let one_of_them = self.has(Bug::NobodysTagIsOneOfThem);
            let tag = if one_of_them { longest.tag } else { attempt(PROXIES, (0, 0), 0).fresh() };
            let nobodys = MasterLease { tag, token: NOBODY, ..longest };
            state.masters[index].key = Some(if agree { longest } else { nobodys });
        }
        state.masters[index].is_out = false;
        state.masters[index].born = state.roster + 1;
        state.seen.admitted = true;
        self.raise(state);
        state.masters[index].mark = Some(state.roster);
    }

    pub(crate) fn put_out(&self, state: &mut State, index: usize) {
        state.masters[index].is_out = true;
        self.raise(state);
    }

    fn raise(&self, state: &mut State) {
        state.roster += 1;
        for master in &mut state.masters {
            master.mark = master.mark.map(|_| state.roster);
        }
        let born =
            |index: usize| Some(state.masters[index].born).filter(|_| !state.masters[index].is_out);
        state.rosters.push(std::array::from_fn(born));
    }
}

fn delete_token(key: &mut Option<MasterLease<u8>>, token: u8) -> release::Vote {
    match key {
        Some(copy) if copy.token == token => {
            *key = None;
            release::Vote::Deleted
        }
        Some(_) => release::Vote::Other,
        None => release::Vote::Missing,
    }
}

fn is_owed(command: Command) -> bool {
    matches!(command, Command::TakeBack(..) | Command::Deliver(_) | Command::DeleteToken(_))
}

pub(crate) fn unknown(answer: Answer) -> Answer {
    match answer {
        Answer::Claim(attempt, _) => Answer::Claim(attempt, claim::Vote::Unknown),
        Answer::Extend(..) => Answer::Extend(extend::Vote::Unknown, None),
        Answer::Shortened | Answer::Unshortened => Answer::Unshortened,
        Answer::Sight(_) => Answer::Sight(release::Sight::Unknown),
        Answer::Shown(_) => Answer::Shown(delete::Sight::Unknown),
        Answer::Delete(_) => Answer::Delete(release::Vote::Unknown),
    }
}

fn unanswered(command: Command) -> Option<Answer> {
    Some(match command {
        Command::Claim { tag, .. } => Answer::Claim(tag.attempt, claim::Vote::Unknown),
        Command::Extend { .. } => Answer::Extend(extend::Vote::Unknown, None),
        Command::Shorten { .. } => Answer::Unshortened,
        Command::Look { .. } => Answer::Sight(release::Sight::Unknown),
        Command::Show => Answer::Shown(delete::Sight::Unknown),
        Command::Delete(_) | Command::GiveBack(..) | Command::DeleteAnything => {
            Answer::Delete(release::Vote::Unknown)
        }
        Command::TakeBack(..) | Command::Deliver(_) | Command::DeleteToken(_) => return None,
    })
}
