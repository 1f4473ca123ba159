//! Accepting clients: by TCP, by TLS and through a Unix socket.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;

use super::Session;
use crate::client::memory::{MemoryPart, TLS_CONNECTION};
use crate::client::registry::{Client, Disconnected, Peer};
use crate::config::{Settings, UnixSocket};
use crate::context::portable::Portable;
use crate::context::worker::Worker;
use crate::net::socket_file;
use crate::net::sockets::{Inherited, Offer, SocketKind};
use crate::net::tls::server::Server;

/// Maximum connections that wait to be accepted, as in Redis (`tcp-backlog` in redis.conf).
const BACKLOG: i32 = 511;

/// First and longest pause after `accept` failed, e.g. because of a lack of file descriptors.
const ACCEPT_BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// Maximum duration of a TLS handshake.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The reply to a client beyond `max-clients` (`networking.c`, `acceptCommonHandler`).
pub(crate) const TOO_MANY_CLIENTS: &[u8] = b"-ERR max number of clients reached\r\n";

/// The sockets on which one worker accepts clients.
#[derive(Default)]
pub struct Listeners {
    /// More than one if the previous process had more workers.
    plain: Vec<std::net::TcpListener>,
    tls: Vec<std::net::TcpListener>,
    server: Option<Arc<Server>>,
    unix: Option<std::os::unix::net::UnixListener>,
}

/// The error when the proxy cannot listen at a configured place.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {place} ({why})")]
pub struct CannotListen {
    /// The kind of listener.
    pub kind: SocketKind,
    /// The address or path.
    pub place: String,
    /// The system's error.
    pub why: io::Error,
}

impl Listeners {
    /// Opens every listener named in `settings`, for every worker, unless it was inherited. `server` is required if TLS
    /// is one of them.
    ///
    /// # Errors
    /// Returns an error if an address is in use or does not belong to this host.
    pub fn bind(
        settings: &Settings,
        server: Option<Arc<Server>>,
        inherited: &mut Inherited,
    ) -> Result<Vec<Self>, CannotListen> {
        let of_worker = |_| Self { server: server.clone(), ..Self::default() };
        let mut all: Vec<Self> = (0..settings.workers).map(of_worker).collect();
        if let Some(listen) = &settings.listen {
            let sockets = tcp(settings, SocketKind::Plain, listen, inherited)?;
            deal(sockets, &mut all, |worker| &mut worker.plain);
        }
        if let Some(tls) = &settings.tls {
            let sockets = tcp(settings, SocketKind::Tls, &tls.listen, inherited)?;
            deal(sockets, &mut all, |worker| &mut worker.tls);
        }
        if let Some(socket) = &settings.unix_socket {
            let cannot = |why| CannotListen {
                kind: SocketKind::Unix,
                place: socket.path.display().to_string(),
                why,
            };
            let listener = unix(socket, inherited).map_err(cannot)?;
            for worker in &mut all {
                worker.unix = Some(listener.try_clone().map_err(cannot)?);
            }
        }
        Ok(all)
    }

    /// Returns all listeners as offers to a successor. `settings` are those with which they were opened.
    ///
    /// # Errors
    /// Returns an error if too many files are open.
    pub fn offers(&self, settings: &Settings) -> io::Result<Vec<Offer>> {
        let (listen, tls) = (settings.listen.as_ref(), settings.tls.as_ref());
        let mut offers = Vec::new();
        for socket in &self.plain {
            offers.push(Offer::of(SocketKind::Plain, listen.map_or("", |listen| listen), socket)?);
        }
        for socket in &self.tls {
            offers.push(Offer::of(SocketKind::Tls, tls.map_or("", |tls| &tls.listen), socket)?);
        }
        if let (Some(socket), Some(unix)) = (&self.unix, &settings.unix_socket) {
            offers.push(Offer::of(SocketKind::Unix, &unix.path.display().to_string(), socket)?);
        }
        Ok(offers)
    }

    /// Returns the address for clients without TLS, e.g. with the port that the system chose.
    pub fn address(&self) -> Option<SocketAddr> {
        self.plain.first()?.local_addr().ok()
    }

    /// Returns every place where clients connect, for people to read.
    pub fn places(&self) -> Vec<String> {
        let plain = self.address().map(|address| address.to_string());
        let tls = self.tls.first().and_then(|tls| tls.local_addr().ok());
        let unix = self.unix.as_ref().and_then(|unix| unix.local_addr().ok());
        let unix = unix.and_then(|address| Some(address.as_pathname()?.display().to_string()));
        plain.into_iter().chain(tls.map(|tls| format!("{tls} (TLS)"))).chain(unix).collect()
    }

    /// Accepts clients until the returned value is dropped.
    ///
    /// # Errors
    /// Returns an error if the event loop refuses a socket.
    pub fn accept<D: Doorkeeper>(&self, door: &D) -> io::Result<JoinSet<()>> {
        let mut accepting = JoinSet::new();
        for plain in &self.plain {
            let listener = TcpListener::from_std(plain.try_clone()?)?;
            accepting.spawn_local(accept_tcp(listener, None, door.clone()));
        }
        for tls in &self.tls {
            let listener = TcpListener::from_std(tls.try_clone()?)?;
            accepting.spawn_local(accept_tcp(listener, self.server.clone(), door.clone()));
        }
        if let Some(unix) = &self.unix {
            let listener = UnixListener::from_std(unix.try_clone()?)?;
            accepting.spawn_local(accept_unix(listener, door.clone()));
        }
        Ok(accepting)
    }
}

/// The recipient of accepted connections, which admits clients or rejects them.
pub trait Doorkeeper: Clone + 'static {
    /// Returns the silence after which TCP probes whether a client is still there; zero for never.
    fn keep_alive(&self) -> Duration;

    /// Notes that the system failed to accept a connection.
    fn could_not_accept(&self) {}

    /// Takes a TCP connection. `ends` are the client's address and the proxy's.
    fn tcp(&self, stream: TcpStream, ends: (Peer, Peer));

    /// Takes a TCP connection on which the client starts TLS.
    fn tls(&self, stream: TcpStream, ends: (Peer, Peer), server: &Server);

    /// Takes a connection through the Unix socket.
    fn unix(&self, stream: UnixStream, ends: (Peer, Peer));
}

impl Doorkeeper for Rc<Worker> {
    fn keep_alive(&self) -> Duration {
        self.live().tcp_keepalive
    }

    fn could_not_accept(&self) {
        self.registry().could_not_accept();
    }

    fn tcp(&self, stream: TcpStream, ends: (Peer, Peer)) {
        admit(stream, ends, self);
    }

    fn tls(&self, stream: TcpStream, ends: (Peer, Peer), server: &Server) {
        admit_by_tls(stream, ends, server, self);
    }

    fn unix(&self, stream: UnixStream, ends: (Peer, Peer)) {
        admit(stream, ends, self);
    }
}

/// Returns at least one socket for each worker, and every inherited one.
fn tcp(
    settings: &Settings,
    kind: SocketKind,
    listen: &str,
    inherited: &mut Inherited,
) -> Result<Vec<std::net::TcpListener>, CannotListen> {
    let is_shared = settings.workers > 1 || settings.handover.is_some();
    let mut sockets = inherited.take_tcp(kind, listen);
    let mut open = || {
        if sockets.is_empty() {
            sockets.push(bind(resolve(listen)?, is_shared)?);
        }
        while sockets.len() < settings.workers {
            sockets.push(another(&sockets[0])?);
        }
        sockets.iter().try_for_each(|socket| socket.set_nonblocking(true))
    };
    open().map_err(|why| CannotListen { kind, place: listen.to_owned(), why })?;
    Ok(sockets)
}

/// Opens a socket with a queue of its own, or shares the first one if its port cannot be shared.
fn another(first: &std::net::TcpListener) -> io::Result<std::net::TcpListener> {
    bind(first.local_addr()?, true).or_else(|_| first.try_clone())
}

/// Deals the sockets out evenly; some workers may get one more.
fn deal<T>(
    sockets: Vec<T>,
    workers: &mut [Listeners],
    hand: impl Fn(&mut Listeners) -> &mut Vec<T>,
) {
    let count = workers.len();
    for (index, socket) in sockets.into_iter().enumerate() {
        hand(&mut workers[index % count]).push(socket);
    }
}

fn unix(
    socket: &UnixSocket,
    inherited: &mut Inherited,
) -> io::Result<std::os::unix::net::UnixListener> {
    let listener = match inherited.take_unix(SocketKind::Unix, &socket.path) {
        Some(listener) => {
            socket_file::allow(&socket.path, socket.mode)?;
            listener
        }
        None => socket_file::bind(&socket.path, socket.mode)?,
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn resolve(listen: &str) -> io::Result<SocketAddr> {
    listen.to_socket_addrs()?.next().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// Opens a listening socket. With `is_shared`, several workers of this process may open the same address.
fn bind(address: SocketAddr, is_shared: bool) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(is_shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

async fn accept_tcp(listener: TcpListener, tls: Option<Arc<Server>>, door: impl Doorkeeper) {
    let mut backoff = Backoff::default();
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                backoff = Backoff::default();
                let local_address = stream.local_addr().unwrap_or(address);
                // Replies are written when they are complete; waiting for more would only delay them.
                let _ = stream.set_nodelay(true);
                keep_alive(&stream, door.keep_alive());
                let ends = (Peer::Tcp(address), Peer::Tcp(local_address));
                match &tls {
                    None => door.tcp(stream, ends),
                    Some(server) => door.tls(stream, ends, server),
                }
            }
            Err(error) => {
                door.could_not_accept();
                backoff.rest(&error).await;
            }
        }
    }
}

/// Enables keepalive like `anetKeepAlive` of Redis (`anet.c`): three probes, a third of the time apart.
fn keep_alive(stream: &TcpStream, after: Duration) {
    if after.is_zero() {
        return;
    }
    let pause = (after / 3).max(Duration::from_secs(1));
    let after = after.max(Duration::from_secs(1));
    let how = TcpKeepalive::new().with_time(after).with_interval(pause).with_retries(3);
    // Without keepalive, a dead client host is only noticed by the next write.
    let _ = SockRef::from(stream).set_tcp_keepalive(&how);
}

async fn accept_unix(listener: UnixListener, door: impl Doorkeeper) {
    let path: Arc<Path> = match listener.local_addr() {
        Ok(address) => address.as_pathname().unwrap_or_else(|| Path::new("")).into(),
        Err(_) => Path::new("").into(),
    };
    let mut backoff = Backoff::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                backoff = Backoff::default();
                let end = Peer::Unix(Arc::clone(&path));
                door.unix(stream, (end.clone(), end));
            }
            Err(error) => {
                door.could_not_accept();
                backoff.rest(&error).await;
            }
        }
    }
}

/// Ever longer pauses while `accept` fails.
struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(ACCEPT_BACKOFF.0)
    }
}

impl Backoff {
    async fn rest(&mut self, error: &io::Error) {
        tracing::warn!(%error, "cannot accept a client");
        tokio::time::sleep(self.0).await;
        self.0 = (2 * self.0).min(ACCEPT_BACKOFF.1);
    }
}

/// Serves the client at the other end of `stream`, or rejects it. `ends` are the client's address and the proxy's.
pub fn admit<S>(stream: S, ends: (Peer, Peer), worker: &Rc<Worker>)
where
    S: AsyncRead + AsyncWrite + Portable + Unpin + 'static,
{
    match enter(ends, worker) {
        Some(client) => {
            tokio::task::spawn_local(Session::new(stream, Rc::clone(worker), client));
        }
        None => {
            tokio::task::spawn_local(turn_away(stream));
        }
    }
}

/// Serves the client after a TLS handshake, or rejects it. An unfinished handshake counts as a client.
fn admit_by_tls(stream: TcpStream, ends: (Peer, Peer), server: &Server, worker: &Rc<Worker>) {
    let handshake = server.get().accept(stream);
    let Some(client) = enter(ends, worker) else { return };
    client.holding.set(MemoryPart::Connection, TLS_CONNECTION);
    worker.registry().budget().settle(&client);
    let worker = Rc::clone(worker);
    tokio::task::spawn_local(async move {
        match agree(handshake, &client, &worker).await {
            Some(stream) => Session::new(stream, worker, client).await,
            None => {
                worker.registry().disconnected(match client.holding.is_condemned() {
                    true => Disconnected::Memory,
                    false => Disconnected::Handshake,
                });
                worker.registry().leave(client.id);
            }
        }
    });
}

/// Completes the handshake. Returns `None` if it fails, takes too long, or gives way to others.
async fn agree<T>(
    handshake: impl Future<Output = io::Result<T>>,
    client: &Arc<Client>,
    worker: &Worker,
) -> Option<T> {
    let _trying = worker.registry().handshakes().begin(client);
    let why = tokio::select! {
        biased;
        () = client.ended() => None,
        agreed = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake) => match agreed {
            Ok(Ok(stream)) => return Some(stream),
            failed => failed.ok().and_then(Result::err),
        },
    };
    tracing::debug!(client = %client.address, ?why, "TLS handshake with a client failed");
    None
}

fn enter((address, local_address): (Peer, Peer), worker: &Worker) -> Option<Arc<Client>> {
    worker.registry().enter(address, local_address, worker.live().max_clients)
}

async fn turn_away(mut stream: impl AsyncWrite + Unpin) {
    let _ = stream.write_all(TOO_MANY_CLIENTS).await;
}
