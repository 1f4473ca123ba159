//! The running process, which hands over to the one started in its place.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::message::{HandoverMessage, Loaded, VERSION, Wire, not_understood};
use super::successor::Fate;
use super::worker_control::{Helm, Phase};
use super::{ANSWER_TIMEOUT, READY_TIMEOUT};
use crate::context::portable::{Departure, PortableConnection};
use crate::context::shared::Shared;
use crate::net::sockets::{Offer, handles};
use crate::session::listener::Listeners;
use crate::time::clock;

/// Maximum clients sent before their acknowledgements are read.
const CLIENTS_AT_A_TIME: usize = 64;

/// Interval at which remaining clients are checked.
const LOOK: Duration = Duration::from_millis(50);

/// Pause after the system has refused a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// State that a process needs to hand over.
pub(super) struct Predecessor {
    pub(super) helm: Helm,
    pub(super) shared: Shared,
    /// The workers' listeners, dropped when the process is about to end.
    pub(super) listeners: Vec<Weak<Listeners>>,
    /// Sockets offered in addition to them.
    pub(super) offers: Vec<Offer>,
    pub(super) fate: Arc<Fate>,
}

/// Clients on their way to one successor.
struct Passage<'a> {
    wire: &'a mut Wire,
    helm: &'a Helm,
    shared: &'a Shared,
    /// Clients that were sent, and may not have been taken.
    sent: VecDeque<Box<PortableConnection>>,
    /// The scripts that the successor has.
    scripts: &'a mut HashSet<String>,
    moved: usize,
    closed: usize,
}

impl Predecessor {
    /// Waits at `place` for successors until one has taken over.
    pub(super) fn wait(mut self, place: &UnixListener) {
        loop {
            match place.accept().and_then(|(stream, _)| Wire::over(stream)) {
                Ok(wire) => {
                    if self.try_to_hand_over(wire) {
                        return;
                    }
                }
                Err(why) => {
                    tracing::warn!("cannot accept a successor ({why})");
                    pause();
                }
            }
        }
    }

    /// Tries to hand over. Returns whether it succeeded.
    fn try_to_hand_over(&mut self, mut wire: Wire) -> bool {
        let pid = wire.pid().unwrap_or_default();
        match self.offer_to(&mut wire) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(why) => {
                tracing::warn!(
                    "process {pid} did not take over ({why}): this process keeps serving"
                );
                return false;
            }
        }
        match self.hand_over_to(&mut wire) {
            Ok((moved, closed)) => {
                tracing::info!(
                    "handed over to process {pid}: {moved} clients moved, {closed} closed"
                );
                self.fate.succeeded_by(pid);
                // A worker that does not answer has ended already.
                let _ = self.helm.order(Phase::Departed);
                true
            }
            Err(why) => {
                tracing::warn!(
                    "the handover to process {pid} has failed ({why}): this process keeps serving"
                );
                false
            }
        }
    }

    /// Makes the offer, which changes nothing yet. Returns false if the successor was refused.
    fn offer_to(&self, wire: &mut Wire) -> io::Result<bool> {
        wire.be_patient(Some(ANSWER_TIMEOUT))?;
        let HandoverMessage::Hello { version } = wire.receive()?.message else {
            return Err(not_understood());
        };
        let refusal = if version == VERSION {
            self.listeners
                .iter()
                .any(|listeners| listeners.strong_count() == 0)
                .then(|| "it is shutting down: start again once it has stopped".to_owned())
        } else {
            Some(format!(
                "it speaks version {VERSION} of the handover and not {version}: stop it, then start again"
            ))
        };
        if let Some(why) = refusal {
            tracing::warn!("refused a takeover by another process: {why}");
            wire.send(&HandoverMessage::Refused { why })?;
            return Ok(false);
        }
        self.send_sockets(wire)?;
        wire.be_patient(Some(READY_TIMEOUT))?;
        match wire.receive()?.message {
            HandoverMessage::Ready => Ok(true),
            _ => Err(not_understood()),
        }
    }

    fn send_sockets(&self, wire: &mut Wire) -> io::Result<()> {
        let mut offers = Vec::new();
        for listeners in self.listeners.iter().filter_map(Weak::upgrade) {
            offers.extend(listeners.offers(&self.shared.settings)?);
        }
        for offer in &self.offers {
            offers.push(Offer::of(offer.place.kind, &offer.place.name, &offer.socket.as_fd())?);
        }
        let places = offers.iter().map(|offer| offer.place.clone()).collect();
        wire.send_with(&HandoverMessage::Sockets { places }, &[], &handles(&offers))
    }

    /// Hands over. Either the successor accepts from here on, or everything is as before. Returns how many clients were
    /// moved, and how many closed.
    fn hand_over_to(&self, wire: &mut Wire) -> io::Result<(usize, usize)> {
        let (mut scripts, sent) = (HashSet::new(), VecDeque::new());
        let (helm, shared) = (&self.helm, &self.shared);
        let scripts = &mut scripts;
        let mut passage = Passage { wire, helm, shared, sent, scripts, moved: 0, closed: 0 };
        let passed = passage.close().and_then(|()| {
            self.fate.keep_files(true);
            passage.let_listen()?;
            passage.pass()
        });
        if let Err(why) = passed {
            passage.go_on();
            self.fate.keep_files(false);
            return Err(why);
        }
        Ok((passage.moved, passage.closed))
    }
}

impl Passage<'_> {
    /// Stops accepting clients; the successor starts to.
    fn close(&mut self) -> io::Result<()> {
        self.wire.be_patient(Some(ANSWER_TIMEOUT))?;
        self.helm.order(Phase::Closed)?;
        self.send_scripts()?;
        let last_id = self.shared.registry.last_id();
        self.wire.send(&HandoverMessage::Yours { last_id })?;
        match self.wire.receive()?.message {
            HandoverMessage::Serving => Ok(()),
            _ => Err(not_understood()),
        }
    }

    /// Makes the successor listen, too. Subscribers leave only once their messages also arrive there.
    fn let_listen(&mut self) -> io::Result<()> {
        let topics = self.shared.registry.audience().topics_of_all();
        if topics.is_empty() {
            return Ok(());
        }
        self.wire.send(&HandoverMessage::Listen { topics })?;
        match self.wire.receive()?.message {
            HandoverMessage::Listening => Ok(()),
            _ => Err(not_understood()),
        }
    }

    /// Releases clients until none is left, or until the time for stopping is over.
    fn pass(&mut self) -> io::Result<()> {
        let limit = clock::now() + self.shared.live().drain_timeout;
        self.helm.order(Phase::Departing)?;
        loop {
            // A session leaves the registry after it has reported where it goes.
            let is_last = self.shared.registry.connected() == 0;
            match self.helm.departure(if is_last { Duration::ZERO } else { LOOK }) {
                Some(first) => self.send_clients(first)?,
                None if is_last || clock::now() >= limit => break,
                None => self.look_around()?,
            }
        }
        self.closed += self.shared.registry.connected();
        self.wire.send(&HandoverMessage::Done)
    }

    /// Checks on the successor and the clients, after no client has left for a while.
    fn look_around(&mut self) -> io::Result<()> {
        if self.wire.is_broken() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Sessions that close when they are idle do not notice by themselves that their time is up.
        self.shared.registry.wake_all();
        self.send_scripts()
    }

    fn send_clients(&mut self, first: Departure) -> io::Result<()> {
        let mut next = Some(first);
        let mut departures = Vec::new();
        while let Some(departure) = next {
            departures.push(departure);
            let is_full = departures.len() == CLIENTS_AT_A_TIME;
            next = if is_full { None } else { self.helm.departure(Duration::ZERO) };
        }
        for departure in departures {
            match departure {
                Departure::Moved(connection) => self.sent.push_back(connection),
                Departure::Closed => self.closed += 1,
            }
        }
        // At the successor, a client may call the scripts that it has loaded here.
        self.send_scripts()?;
        for connection in &self.sent {
            let client = HandoverMessage::Client { state: Box::new(connection.state.clone()) };
            self.wire.send_with(&client, &connection.unread, &[connection.socket.as_fd()])?;
        }
        while let Some(connection) = self.sent.front() {
            match self.wire.receive()?.message {
                HandoverMessage::Taken { id } if id == connection.state.client.id => {}
                _ => return Err(not_understood()),
            }
            self.sent.pop_front();
            self.moved += 1;
        }
        Ok(())
    }

    /// Sends the scripts that the successor does not have yet.
    fn send_scripts(&mut self) -> io::Result<()> {
        let mut kept = self.shared.scripts().kept();
        kept.retain(|script| self.scripts.insert(script.sha.clone()));
        if kept.is_empty() {
            return Ok(());
        }
        let loaded = |bytes, is_lua| Loaded { bytes, is_lua };
        let scripts =
            kept.iter().map(|script| loaded(script.text.len(), script.is_lua())).collect();
        let texts: Vec<&[u8]> = kept.iter().map(|script| &script.text[..]).collect();
        self.wire.send_with(&HandoverMessage::Scripts { scripts }, &texts.concat(), &[])
    }

    /// Serves on after the successor has failed: clients that it has not taken stay here, as do all new ones.
    fn go_on(&mut self) {
        let served = self.helm.order(Phase::Serving);
        self.sent.drain(..).for_each(|connection| self.helm.settle(connection));
        while let Some(departure) = self.helm.departure(Duration::ZERO) {
            if let Departure::Moved(connection) = departure {
                self.helm.settle(connection);
            }
        }
        if let Err(why) = served {
            tracing::error!(
                "this process may have stopped accepting clients ({why}): start this process again"
            );
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "this thread serves nobody")]
fn pause() {
    std::thread::sleep(PAUSE);
}
