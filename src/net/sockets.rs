//! The places where clients arrive, on their way from one process to another.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Who arrives at a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Clients without TLS.
    Plain,
    /// Clients with TLS.
    Tls,
    /// Clients of this host.
    Unix,
    /// Operators.
    Admin,
    /// The next process.
    Handover,
}

impl Kind {
    /// The flag that says where.
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

/// A listening socket's use, and its address as the settings spell it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Who arrives there.
    pub kind: Kind,
    /// `host:port`, or a path.
    pub name: String,
}

/// A listening socket that is offered to a successor.
#[derive(Debug)]
pub struct Offer {
    /// What it is for.
    pub place: Place,
    /// A handle on it.
    pub socket: OwnedFd,
}

impl Offer {
    /// Offers a socket that this process goes on to use.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn of(kind: Kind, name: &str, socket: &impl AsFd) -> io::Result<Self> {
        let place = Place { kind, name: name.to_owned() };
        Ok(Self { place, socket: socket.as_fd().try_clone_to_owned()? })
    }
}

/// What a predecessor has offered and was not used yet. What is still here in the end is closed.
#[derive(Debug, Default)]
pub struct Inherited(Vec<Offer>);

impl Inherited {
    /// The sockets that a predecessor has offered.
    pub fn new(offers: Vec<Offer>) -> Self {
        Self(offers)
    }

    /// Whether there is a socket for this use, or one at this address for another.
    pub fn has_tcp(&self, kind: Kind, listen: &str) -> bool {
        self.0.iter().any(|offer| offer.is_tcp_at(kind, listen))
    }

    /// Those sockets: each has clients in its queue.
    pub fn take_tcp(&mut self, kind: Kind, listen: &str) -> Vec<TcpListener> {
        let taken = self.0.extract_if(.., |offer| offer.is_tcp_at(kind, listen));
        taken.map(|offer| TcpListener::from(offer.socket)).collect()
    }

    /// The socket at this path. Each worker has offered it.
    pub fn take_unix(&mut self, path: &Path) -> Option<UnixListener> {
        let is_there = |offer: &mut Offer| {
            offer.place.kind == Kind::Unix && Path::new(&offer.place.name) == path
        };
        let mut taken: Vec<_> = self.0.extract_if(.., is_there).collect();
        Some(UnixListener::from(taken.pop()?.socket))
    }

    /// Where the next process asks.
    pub fn take_handover(&mut self) -> Option<UnixListener> {
        let at = self.0.iter().position(|offer| offer.place.kind == Kind::Handover)?;
        Some(UnixListener::from(self.0.swap_remove(at).socket))
    }

    /// Where files are that nobody will listen at any more.
    pub fn deserted(&self) -> Vec<PathBuf> {
        let unix = self.0.iter().filter(|offer| offer.place.kind == Kind::Unix);
        unix.map(|offer| PathBuf::from(&offer.place.name)).collect()
    }
}

impl Offer {
    fn is_tcp_at(&self, kind: Kind, listen: &str) -> bool {
        let is_tcp = matches!(self.place.kind, Kind::Plain | Kind::Tls | Kind::Admin);
        // With port 0 two of them have one name.
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

/// The handles of several sockets.
pub fn handles(offers: &[Offer]) -> Vec<BorrowedFd<'_>> {
    offers.iter().map(|offer| offer.socket.as_fd()).collect()
}
