//! The new process, which takes the place of the running one.

use std::io;
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::watch;

use super::message::{HandoverMessage, Loaded, ReceivedMessage, VERSION, Wire, not_understood};
use super::predecessor::Predecessor;
use super::worker_control::{Helm, Obeyed, Orders, Phase};
use super::{ANSWER_TIMEOUT, READY_TIMEOUT};
use crate::context::portable::PortableConnection;
use crate::context::shared::Shared;
use crate::net::admin_socket::AdminSocket;
use crate::net::socket_file;
use crate::net::sockets::{Inherited, Offer, SocketKind, SocketPlace};
use crate::session::listener::Listeners;
use crate::time::clock;

/// Origin of this process's sockets, and the way to pass them on.
#[derive(Debug)]
pub struct Handover {
    /// Where a successor asks for them.
    place: Option<UnixListener>,
    path: PathBuf,
    /// Sockets that a predecessor has offered.
    inherited: Inherited,
    predecessor: Option<Wire>,
    /// Sockets offered to a successor in addition to those where clients arrive.
    offers: Vec<Offer>,
    phase: watch::Sender<Phase>,
    fate: Arc<Fate>,
}

/// State of this process at its end.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    /// Whether another process may still need the files of our sockets.
    keeps_files: AtomicBool,
    successor: OnceLock<u32>,
}

/// Reason why nothing is taken over, and nothing started.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum CannotTakeOver {
    #[error("cannot listen on {} ({why}): choose another path with --handover", path.display())]
    NoPlace { path: PathBuf, why: io::Error },
    #[error(
        "the proxy at {} does not hand over ({why}): see what its log says, or stop it first",
        path.display()
    )]
    NoAnswer { path: PathBuf, why: io::Error },
    #[error("this process could not serve, so the one at {} goes on: {why}", path.display())]
    NotServing { path: PathBuf, why: String },
    #[error("the proxy at {} does not hand over: {why}", path.display())]
    Refused { path: PathBuf, why: String },
}

impl Handover {
    /// Returns a handover without a predecessor or a successor.
    pub fn none() -> Self {
        Self::at(PathBuf::new(), Phase::Serving)
    }

    /// Returns such a handover for a process that already listens for its status page.
    pub fn with_admin(listen: &str, listener: TcpListener) -> Self {
        let place = SocketPlace { kind: SocketKind::Admin, name: listen.to_owned() };
        let inherited = Inherited::new(vec![Offer { place, socket: listener.into() }]);
        Self { inherited, ..Self::none() }
    }

    /// Asks the process that listens at `path` for its sockets. If there is none, listens there.
    ///
    /// # Errors
    /// Returns an error if a process is there and does not hand over, or if the path cannot be used.
    pub fn begin(path: &Path) -> Result<Self, CannotTakeOver> {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        match UnixStream::connect(path) {
            Ok(stream) => Self::ask(path, stream),
            Err(nobody) if matches!(nobody.kind(), ConnectionRefused | NotFound) => {
                let place = socket_file::bind(path, Some(FOR_ITS_USER));
                let place = place.map_err(|why| CannotTakeOver::NoPlace { path: path.into(), why });
                let begun = Self::at(path.to_owned(), Phase::Serving);
                Ok(Self { place: Some(place?), ..begun })
            }
            Err(why) => Err(CannotTakeOver::NoAnswer { path: path.into(), why }),
        }
    }

    fn at(path: PathBuf, phase: Phase) -> Self {
        let (inherited, fate) = (Inherited::default(), Arc::default());
        let (place, predecessor, offers) = (None, None, Vec::new());
        Self { place, path, inherited, predecessor, offers, phase: watch::Sender::new(phase), fate }
    }

    fn ask(path: &Path, stream: UnixStream) -> Result<Self, CannotTakeOver> {
        let no_answer = |why| CannotTakeOver::NoAnswer { path: path.into(), why };
        let (wire, received) = introduce(stream).map_err(no_answer)?;
        let offers = match received.message {
            HandoverMessage::Sockets { places } if places.len() == received.sockets.len() => {
                let offer = |(place, socket)| Offer { place, socket };
                places.into_iter().zip(received.sockets).map(offer).collect()
            }
            HandoverMessage::Refused { why } => {
                return Err(CannotTakeOver::Refused { path: path.into(), why });
            }
            _ => return Err(no_answer(not_understood())),
        };
        let mut inherited = Inherited::new(offers);
        let place = inherited.take_handover().ok_or_else(|| no_answer(not_understood()))?;
        let begun = Self::at(path.to_owned(), Phase::Starting);
        begun.fate.keep_files(true);
        Ok(Self { place: Some(place), inherited, predecessor: Some(wire), ..begun })
    }

    /// Whether there is a predecessor to take over from.
    pub fn has_predecessor(&self) -> bool {
        self.predecessor.is_some()
    }

    /// Returns the sockets that the predecessor has offered.
    pub fn inherited(&mut self) -> &mut Inherited {
        &mut self.inherited
    }

    /// Offers a socket to a successor, in addition to those where clients arrive.
    ///
    /// # Errors
    /// Returns an error if too many files are open.
    pub fn offer_admin(&mut self, name: &str, socket: &AdminSocket) -> io::Result<()> {
        self.offers.push(Offer::of(SocketKind::Admin, name, socket)?);
        Ok(())
    }

    /// Returns the phase of the workers.
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    pub(crate) fn helm(&self, workers: usize) -> (Helm, Vec<Orders>) {
        Helm::new(self.phase.clone(), workers)
    }

    /// Takes over once the workers are ready: from now on this process accepts, and no other does.
    ///
    /// # Errors
    /// Returns an error if the predecessor did not let go. It serves on then.
    pub(crate) fn take_over(&mut self, helm: &Helm, shared: &Shared) -> Result<(), CannotTakeOver> {
        let Some(wire) = &mut self.predecessor else { return Ok(()) };
        if let Some(why) = keeps_from_serving(shared) {
            return Err(CannotTakeOver::NotServing { path: self.path.clone(), why });
        }
        let taken = take_over_from(wire, helm, shared);
        taken.map_err(|why| CannotTakeOver::NoAnswer { path: self.path.clone(), why })?;
        for path in self.inherited.deserted() {
            // The file is only in the way.
            let _ = std::fs::remove_file(path);
        }
        self.inherited = Inherited::default();
        Ok(())
    }

    /// Goes on with the predecessor's clients, and waits for a successor, on a thread of its own.
    ///
    /// # Errors
    /// Returns an error if the system refuses a thread.
    pub(crate) fn run(
        mut self,
        helm: Helm,
        shared: Shared,
        listeners: Vec<Weak<Listeners>>,
    ) -> io::Result<Arc<Fate>> {
        let fate = Arc::clone(&self.fate);
        let Some(place) = self.place else { return Ok(fate) };
        let offer = Offer::of(SocketKind::Handover, &self.path.display().to_string(), &place)?;
        self.offers.push(offer);
        std::thread::Builder::new().name("handover".to_owned()).spawn(move || {
            if let Some(wire) = self.predecessor {
                Successor { wire, place: &place, helm: &helm, shared: &shared }.receive_clients();
                self.fate.keep_files(false);
            }
            let fate = self.fate;
            Predecessor { helm, shared, listeners, offers: self.offers, fate }.wait(&place);
        })?;
        Ok(fate)
    }

    /// Returns the path at which a successor asks.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Fate {
    /// Sets whether the files of our sockets belong to another process.
    pub(super) fn keep_files(&self, keep: bool) {
        self.keeps_files.store(keep, Ordering::Relaxed);
    }

    /// Whether the files of our sockets are to stay when this process ends.
    pub(crate) fn keeps_files(&self) -> bool {
        self.keeps_files.load(Ordering::Relaxed)
    }

    pub(super) fn succeeded_by(&self, pid: u32) {
        let _ = self.successor.set(pid);
    }

    /// Returns the id of the process that has taken over from this one.
    pub(crate) fn successor(&self) -> Option<u32> {
        self.successor.get().copied()
    }
}

fn introduce(stream: UnixStream) -> io::Result<(Wire, ReceivedMessage)> {
    let mut wire = Wire::over(stream)?;
    wire.be_patient(Some(ANSWER_TIMEOUT))?;
    wire.send(&HandoverMessage::Hello { version: VERSION })?;
    let received = wire.receive()?;
    Ok((wire, received))
}

/// Maximum time for a new process to find that it can serve, less than the previous one waits for it.
const BEGINS_TO_SERVE: Duration = Duration::from_secs(8);

/// Returns why this process does not serve its masters, if it has still not begun to after some time.
#[allow(clippy::disallowed_methods, reason = "no worker runs on this thread")]
fn keeps_from_serving(shared: &Shared) -> Option<String> {
    let limit = clock::now() + BEGINS_TO_SERVE;
    let waiting = || shared.clusters().filter(|cluster| !cluster.electorate.serves());
    while waiting().next().is_some() && clock::now() < limit {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut obstacles = waiting().filter_map(|cluster| cluster.electorate.why_it_waits());
    obstacles.find(|obstacle| !obstacle.passes).map(|obstacle| obstacle.why)
}

fn take_over_from(wire: &mut Wire, helm: &Helm, shared: &Shared) -> io::Result<()> {
    helm.obeyed(Obeyed::Phase(Phase::Starting))?;
    wire.be_patient(Some(READY_TIMEOUT))?;
    wire.send(&HandoverMessage::Ready)?;
    loop {
        let received = wire.receive()?;
        match received.message {
            HandoverMessage::Scripts { scripts } => load(shared, &scripts, &received.raw)?,
            HandoverMessage::Yours { last_id } => {
                shared.registry.number_from(last_id);
                break;
            }
            HandoverMessage::Refused { why } => return Err(io::Error::other(why)),
            _ => return Err(not_understood()),
        }
    }
    helm.order(Phase::Serving)?;
    wire.send(&HandoverMessage::Serving)
}

fn load(shared: &Shared, scripts: &[Loaded], mut texts: &[u8]) -> io::Result<()> {
    let mut cache = shared.scripts();
    for script in scripts {
        let (text, rest) = texts.split_at_checked(script.bytes).ok_or_else(not_understood)?;
        texts = rest;
        let loaded = cache.load(text.to_vec().into());
        loaded.keep();
        if script.is_lua {
            loaded.found_lua();
        }
    }
    Ok(())
}

/// The new process while the predecessor's clients arrive.
struct Successor<'a> {
    wire: Wire,
    place: &'a UnixListener,
    helm: &'a Helm,
    shared: &'a Shared,
}

impl Successor<'_> {
    fn receive_clients(&mut self) {
        let received = self.receive_all();
        self.helm.stop_listening();
        match received {
            Ok(clients) => tracing::info!(clients, "took over from the previous process"),
            Err(why) => {
                tracing::warn!("the previous process ended while it still had clients ({why})");
            }
        }
    }

    fn receive_all(&mut self) -> io::Result<usize> {
        self.wire.be_patient(None)?;
        let mut clients = 0;
        loop {
            self.turn_others_away()?;
            let received = self.wire.receive()?;
            match received.message {
                HandoverMessage::Scripts { scripts } => load(self.shared, &scripts, &received.raw)?,
                HandoverMessage::Listen { topics } => {
                    self.helm.listen(&topics)?;
                    self.wire.send(&HandoverMessage::Listening)?;
                }
                HandoverMessage::Client { .. } => {
                    self.receive(received)?;
                    clients += 1;
                }
                HandoverMessage::Done => return Ok(clients),
                _ => return Err(not_understood()),
            }
        }
    }

    /// Takes a client. A predecessor that gets no `Taken` goes on with it, so it is served only after that was sent.
    fn receive(&mut self, received: ReceivedMessage) -> io::Result<()> {
        let ReceivedMessage { message: HandoverMessage::Client { state }, raw, mut sockets } =
            received
        else {
            return Err(not_understood());
        };
        let socket = sockets.pop().ok_or_else(not_understood)?;
        self.wire.send(&HandoverMessage::Taken { id: state.client.id })?;
        self.helm.settle(Box::new(PortableConnection { state: *state, unread: raw, socket }));
        Ok(())
    }

    /// Turns other successors away until the predecessor sends something.
    fn turn_others_away(&self) -> io::Result<()> {
        loop {
            let mut ready =
                [PollFd::new(&self.wire, PollFlags::IN), PollFd::new(self.place, PollFlags::IN)];
            rustix::io::retry_on_intr(|| poll(&mut ready, None))?;
            if ready[1].revents().contains(PollFlags::IN)
                && let Ok((stream, _)) = self.place.accept()
                && let Ok(wire) = Wire::over(stream)
            {
                turn_away(wire);
            }
            if !ready[0].revents().is_empty() {
                return Ok(());
            }
        }
    }
}

fn turn_away(mut wire: Wire) {
    let why = "it is still taking over from its predecessor: try again in a moment".to_owned();
    // A process that does not read the refusal finds out later.
    let _ = wire.be_patient(Some(Duration::from_secs(1)));
    let _ = wire.receive();
    let _ = wire.send(&HandoverMessage::Refused { why });
}

/// A process that gets the sockets gets the clients, too.
const FOR_ITS_USER: u32 = 0o600;
