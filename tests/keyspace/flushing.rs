//! Flushes of all masters while other clients work on them.

use redlock_proxy::decision::keyspace::flush::{Flush, Request, Step};
use redlock_proxy::decision::quorum::{MasterId, Quorum};

use crate::bugs::Bug;
use crate::server::{Job, Reply};
use crate::specification::slots::Slots;
use crate::world::{At, MASTERS, State, World};

/// A flush request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FlushLetter {
    client: usize,
    version: u64,
    request: Request,
}

impl FlushLetter {
    /// Whether it makes a master do a flush that it has not done yet.
    pub(crate) fn is_new(self, slots: &Slots<Job>) -> bool {
        matches!(self.request, Request::Flush(counter) if counter > slots.last_flush())
    }
}

impl World {
    pub(crate) fn begin_flush(&self, state: &mut State, client: usize) {
        state.go_on();
        let (flush, request) = Flush::new(Quorum::of(MASTERS));
        state.clients[client].at = At::Flushing(flush);
        state.post_flush(client, request);
    }

    /// Continues a flush after the roster has changed.
    pub(crate) fn flush_again(&self, state: &mut State, client: usize) {
        let At::Flushing(flush) = &mut state.clients[client].at else { return };
        let request = if self.is(Bug::MixesVersions) { flush.request() } else { flush.again() };
        state.post_flush(client, request);
    }

    /// Delivers a request to a master, and its answer to the client unless that has moved on.
    pub(crate) fn deliver_flush(&self, state: &mut State, index: usize, letter: FlushLetter) {
        let FlushLetter { client, version, request } = letter;
        let time = self.flush_time(state);
        let master = &mut state.masters[index];
        master.is_touched = true;
        master.flushes.retain(|other| *other != letter);
        let last = match request {
            Request::Look if self.is(Bug::FlushesByItsOwnClock) => 0,
            Request::Look => master.slots.last_flush(),
            // The proxy that copies to this master performs the flushes there.
            Request::Flush(_) if master.version.is_none() => 0,
            Request::Flush(counter) if self.is(Bug::FlushesWithoutATrace) => {
                master.slots = Slots::default();
                counter
            }
            Request::Flush(counter) => master.slots.flush(counter),
        };
        let is_proved = master.version == Some(version) || self.is(Bug::MixesVersions);
        let me = &mut state.clients[client];
        let is_of_now = is_proved && me.version == version;
        let (true, At::Flushing(flush)) = (is_of_now, &mut me.at) else { return };
        match flush.answer(request, MasterId::new(index), last, time) {
            Step::Wait => {}
            Step::Send(request) => state.post_flush(client, request),
            Step::Done => state.answer(client, Reply::Number(1)),
        }
    }

    /// Clock of the flushing proxy, which may be far behind all others.
    fn flush_time(&self, state: &State) -> u64 {
        if self.flushes_late { 0 } else { state.clock }
    }
}

impl State {
    pub(crate) fn post_flush(&mut self, client: usize, request: Request) {
        let version = self.clients[client].version;
        for master in &mut self.masters {
            master.flushes.retain(|old| old.client != client || old.request != Request::Look);
            master.flushes.push(FlushLetter { client, version, request });
        }
    }

    /// The last flush that any master has done.
    pub(crate) fn last_flush(&self) -> u64 {
        let flushes = self.masters.iter().map(|master| master.slots.last_flush());
        flushes.max().unwrap_or_default()
    }
}
