//! Accepting clients: by TCP, by TLS, and through a socket in the file system.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::task::JoinSet;

use super::registry::{Client, Disconnected, Peer};
use super::session::Session;
use crate::config::{Settings, UnixSocket};
use crate::tls::server::Server;
use crate::worker::Worker;

/// As many connections may wait to be accepted as Redis lets wait (`tcp-backlog` in redis.conf).
const BACKLOG: i32 = 511;

/// The first and longest pause after `accept` failed, e.g. for want of file descriptors.
const ACCEPT_BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// How long a client may take to agree on a cipher.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// What a client too many is told (`networking.c`, `acceptCommonHandler`).
const TOO_MANY_CLIENTS: &[u8] = b"-ERR max number of clients reached\r\n";

/// The sockets on which one worker accepts clients.
pub struct Listeners {
    plain: Option<std::net::TcpListener>,
    tls: Option<(std::net::TcpListener, Arc<Server>)>,
    unix: Option<std::os::unix::net::UnixListener>,
}

/// Why the proxy cannot listen where it was told to.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {place} ({why})")]
pub struct CannotListen {
    /// The address or path.
    pub place: String,
    /// What the system says.
    pub why: io::Error,
}

impl Listeners {
    /// Opens everything that `settings` name; `server` is there if TLS is among it.
    ///
    /// # Errors
    /// When an address is in use or not ours.
    pub fn bind(settings: &Settings, server: Option<Arc<Server>>) -> Result<Self, CannotListen> {
        let is_shared = settings.workers > 1;
        let tcp = |listen: &String| {
            let bound = resolve(listen).and_then(|address| bind(address, is_shared));
            bound.map_err(|why| CannotListen { place: listen.clone(), why })
        };
        let tls = settings.tls.as_ref().zip(server);
        let unix = settings.unix_socket.as_ref().map(|socket| {
            let place = || socket.path.display().to_string();
            bind_unix(socket).map_err(|why| CannotListen { place: place(), why })
        });
        Ok(Self {
            plain: settings.listen.as_ref().map(tcp).transpose()?,
            tls: tls.map(|(tls, server)| Ok((tcp(&tls.listen)?, server))).transpose()?,
            unix: unix.transpose()?,
        })
    }

    /// The same for another worker.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn another(&self) -> io::Result<Self> {
        let tcp = |listener: &std::net::TcpListener| bind(listener.local_addr()?, true);
        let tls = self.tls.as_ref();
        Ok(Self {
            plain: self.plain.as_ref().map(tcp).transpose()?,
            tls: tls
                .map(|(tls, server)| Ok::<_, io::Error>((tcp(tls)?, Arc::clone(server))))
                .transpose()?,
            unix: self.unix.as_ref().map(|unix| unix.try_clone()).transpose()?,
        })
    }

    /// Where clients without TLS connect, e.g. with the port that the system chose.
    pub fn address(&self) -> Option<SocketAddr> {
        self.plain.as_ref()?.local_addr().ok()
    }

    /// Every place where clients connect, for people.
    pub fn places(&self) -> Vec<String> {
        let plain = self.address().map(|address| address.to_string());
        let tls = self.tls.as_ref().and_then(|(tls, _)| tls.local_addr().ok());
        let unix = self.unix.as_ref().and_then(|unix| unix.local_addr().ok());
        let unix = unix.and_then(|address| Some(address.as_pathname()?.display().to_string()));
        plain.into_iter().chain(tls.map(|tls| format!("{tls} (TLS)"))).chain(unix).collect()
    }

    /// Accepts clients until it is dropped.
    ///
    /// # Errors
    /// When the event loop refuses a socket.
    pub fn accept(self, worker: &Rc<Worker>) -> io::Result<JoinSet<()>> {
        let mut accepting = JoinSet::new();
        if let Some(plain) = self.plain {
            accepting.spawn_local(accept_tcp(
                TcpListener::from_std(plain)?,
                None,
                Rc::clone(worker),
            ));
        }
        if let Some((tls, server)) = self.tls {
            let listener = TcpListener::from_std(tls)?;
            accepting.spawn_local(accept_tcp(listener, Some(server), Rc::clone(worker)));
        }
        if let Some(unix) = self.unix {
            accepting.spawn_local(accept_unix(UnixListener::from_std(unix)?, Rc::clone(worker)));
        }
        Ok(accepting)
    }
}

fn resolve(listen: &str) -> io::Result<SocketAddr> {
    listen.to_socket_addrs()?.next().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// With `is_shared`, several workers of this process may open the same address.
fn bind(address: SocketAddr, is_shared: bool) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(is_shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A socket that a proxy has left behind is removed, as Redis does; one that somebody listens on is not.
fn bind_unix(socket: &UnixSocket) -> io::Result<std::os::unix::net::UnixListener> {
    let path = &socket.path;
    if is_left_behind(path) {
        std::fs::remove_file(path)?;
    }
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    if let Some(mode) = socket.mode {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    Ok(listener)
}

fn is_left_behind(path: &Path) -> bool {
    let is_socket = path.metadata().is_ok_and(|it| it.file_type().is_socket());
    let refuses = || std::os::unix::net::UnixStream::connect(path).is_err();
    is_socket && refuses()
}

async fn accept_tcp(listener: TcpListener, tls: Option<Arc<Server>>, worker: Rc<Worker>) {
    let mut backoff = Backoff::default();
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                backoff = Backoff::default();
                let local_address = stream.local_addr().unwrap_or(address);
                // Replies are written when they are complete; waiting for more would only delay them.
                let _ = stream.set_nodelay(true);
                keep_alive(&stream, worker.live().tcp_keepalive);
                let ends = (Peer::Tcp(address), Peer::Tcp(local_address));
                match &tls {
                    None => admit(stream, ends, &worker),
                    Some(server) => admit_by_tls(stream, ends, server, &worker),
                }
            }
            Err(error) => {
                worker.registry().could_not_accept();
                backoff.rest(&error).await;
            }
        }
    }
}

/// As `anetKeepAlive` of Redis (`anet.c`): it asks three times, a third of the time apart.
fn keep_alive(stream: &TcpStream, after: Duration) {
    if after.is_zero() {
        return;
    }
    let pause = (after / 3).max(Duration::from_secs(1));
    let after = after.max(Duration::from_secs(1));
    let how = TcpKeepalive::new().with_time(after).with_interval(pause).with_retries(3);
    // Without it, a client whose host has gone is noticed when it is written to.
    let _ = SockRef::from(stream).set_tcp_keepalive(&how);
}

async fn accept_unix(listener: UnixListener, worker: Rc<Worker>) {
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
                admit(stream, (end.clone(), end), &worker);
            }
            Err(error) => {
                worker.registry().could_not_accept();
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

/// Serves the client at the other end of `stream`, or turns it away. `ends` are its address and ours.
pub fn admit<S>(stream: S, ends: (Peer, Peer), worker: &Rc<Worker>)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
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

/// The same after a handshake. Whoever does not finish it takes a place meanwhile.
fn admit_by_tls(stream: TcpStream, ends: (Peer, Peer), server: &Server, worker: &Rc<Worker>) {
    let handshake = server.get().accept(stream);
    let Some(client) = enter(ends, worker) else { return };
    let worker = Rc::clone(worker);
    tokio::task::spawn_local(async move {
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
            Ok(Ok(stream)) => Session::new(stream, worker, client).await,
            failed => {
                let why = failed.map(|refused| refused.err());
                tracing::debug!(client = %client.address, ?why, "no TLS with a client");
                worker.registry().disconnected(Disconnected::Handshake);
                worker.registry().leave(client.id);
            }
        }
    });
}

fn enter((address, local_address): (Peer, Peer), worker: &Worker) -> Option<Arc<Client>> {
    worker.registry().enter(address, local_address, worker.live().max_clients)
}

async fn turn_away(mut stream: impl AsyncWrite + Unpin) {
    let _ = stream.write_all(TOO_MANY_CLIENTS).await;
}
