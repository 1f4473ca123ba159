//! Listening sockets, and their handover from one process to the next.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::admin_socket::{AdminSocket, path_of};

/// Purpose of a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SocketKind {
    /// Clients without TLS.
    Plain,
    /// Clients with TLS.
    Tls,
    /// Clients on this host.
    Unix,
    /// Operators.
    Admin,
    /// The next process.
    Handover,
}

impl SocketKind {
    /// Flag that sets the address.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Plain => "--listen",
            Self::Tls => "--tls-listen",
            Self::Unix => "--unixsocket",
            Self::Admin => "--admin",
            Self::Handover => "--handover",
        }
    }
}

/// A listening socket's purpose, and its address as spelled in the settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketPlace {
    /// Purpose of the socket.
    pub kind: SocketKind,
    /// `host:port` or a path.
    pub name: String,
}

/// A listening socket offered to a successor.
#[derive(Debug)]
pub struct Offer {
    /// Purpose and address of the socket.
    pub place: SocketPlace,
    /// Handle to the socket.
    pub socket: OwnedFd,
}

impl Offer {
    /// Offers a socket that this process continues to use.
    ///
    /// # Errors
    /// Returns an error if too many files are open.
    pub fn of(kind: SocketKind, name: &str, socket: &impl AsFd) -> io::Result<Self> {
        let place = SocketPlace { kind, name: name.to_owned() };
        Ok(Self { place, socket: socket.as_fd().try_clone_to_owned()? })
    }
}

/// A predecessor's offers that have not been used yet. Those that remain in the end are closed.
#[derive(Debug, Default)]
pub struct Inherited(Vec<Offer>);

impl Inherited {
    /// Wraps the sockets that a predecessor has offered.
    pub fn new(offers: Vec<Offer>) -> Self {
        Self(offers)
    }

    /// Whether there is a TCP socket of this kind and name, or any at this address.
    pub fn has_tcp(&self, kind: SocketKind, listen: &str) -> bool {
        self.0.iter().any(|offer| offer.is_tcp_at(kind, listen))
    }

    /// Takes all matching sockets, because each has clients in its queue.
    pub fn take_tcp(&mut self, kind: SocketKind, listen: &str) -> Vec<TcpListener> {
        let taken = self.0.extract_if(.., |offer| offer.is_tcp_at(kind, listen));
        taken.map(|offer| TcpListener::from(offer.socket)).collect()
    }

    /// Takes the socket at this path. Each worker has offered it.
    pub fn take_unix(&mut self, kind: SocketKind, path: &Path) -> Option<UnixListener> {
        let is_there =
            |offer: &mut Offer| offer.place.kind == kind && Path::new(&offer.place.name) == path;
        let mut taken: Vec<_> = self.0.extract_if(.., is_there).collect();
        Some(UnixListener::from(taken.pop()?.socket))
    }

    /// Takes the operators' socket at this place.
    pub fn take_admin(&mut self, place: &str) -> Option<AdminSocket> {
        match path_of(place) {
            Some(path) => self.take_unix(SocketKind::Admin, path).map(AdminSocket::Unix),
            None => self.take_tcp(SocketKind::Admin, place).pop().map(AdminSocket::Tcp),
        }
    }

    /// Takes the socket on which the next process asks for a handover.
    pub fn take_handover(&mut self) -> Option<UnixListener> {
        let at = self.0.iter().position(|offer| offer.place.kind == SocketKind::Handover)?;
        Some(UnixListener::from(self.0.swap_remove(at).socket))
    }

    /// Returns paths of socket files on which nothing will listen any more.
    pub fn deserted(&self) -> Vec<PathBuf> {
        let is_file = |offer: &&Offer| match offer.place.kind {
            SocketKind::Unix => true,
            SocketKind::Admin => path_of(&offer.place.name).is_some(),
            SocketKind::Plain | SocketKind::Tls | SocketKind::Handover => false,
        };
        let unix = self.0.iter().filter(is_file);
        unix.map(|offer| PathBuf::from(&offer.place.name)).collect()
    }
}

impl Offer {
    fn is_tcp_at(&self, kind: SocketKind, listen: &str) -> bool {
        let is_tcp =
            matches!(self.place.kind, SocketKind::Plain | SocketKind::Tls | SocketKind::Admin);
        // With port 0, two sockets have the same name.
        let is_named = self.place.kind == kind && self.place.name == listen;
        is_tcp && (is_named || self.address().is_some_and(|address| means(listen, address)))
    }

    fn address(&self) -> Option<SocketAddr> {
        rustix::net::getsockname(&self.socket).ok()?.try_into().ok()
    }
}

fn means(listen: &str, address: SocketAddr) -> bool {
    let mut resolved = listen.to_socket_addrs().into_iter().flatten();
    resolved.next() == Some(address)
}

/// Borrows the handles of several sockets.
pub fn handles(offers: &[Offer]) -> Vec<BorrowedFd<'_>> {
    offers.iter().map(|offer| offer.socket.as_fd()).collect()
}
