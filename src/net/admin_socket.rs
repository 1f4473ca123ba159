//! The operators' socket: a TCP port, or a socket file for programs on this host.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;

use tokio::io::{AsyncRead, AsyncWrite};

use super::socket_file;

/// Mode of the file: its user and group may connect.
const FOR_ITS_GROUP: u32 = 0o660;

/// Returns the path of a socket file, if `place` is one and no `host:port`.
pub fn path_of(place: &str) -> Option<&Path> {
    place.starts_with('/').then(|| Path::new(place))
}

/// The listening socket.
#[derive(Debug)]
pub enum AdminSocket {
    /// A port.
    Tcp(TcpListener),
    /// A socket file.
    Unix(UnixListener),
}

/// A connection of an operator.
pub(crate) trait AdminStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> AdminStream for T {}

impl AdminSocket {
    /// Listens at `place`, a `host:port` or a path.
    ///
    /// # Errors
    /// Returns an error if it is in use, or not ours.
    pub fn bind(place: &str) -> io::Result<Self> {
        match path_of(place) {
            Some(path) => Ok(Self::Unix(socket_file::bind(path, Some(FOR_ITS_GROUP))?)),
            None => Ok(Self::Tcp(TcpListener::bind(place)?)),
        }
    }

    /// Returns the port's address, e.g. with the number that the system chose; `None` for a socket file.
    ///
    /// # Errors
    /// Returns an error if the system does not tell.
    pub fn address(&self) -> io::Result<Option<SocketAddr>> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Some),
            Self::Unix(_) => Ok(None),
        }
    }

    /// Returns the socket for an event loop, in which this is called.
    ///
    /// # Errors
    /// Returns an error if the event loop refuses it.
    pub(crate) fn in_event_loop(self) -> io::Result<AdminListener> {
        match self {
            Self::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                tokio::net::TcpListener::from_std(listener).map(AdminListener::Tcp)
            }
            Self::Unix(listener) => {
                listener.set_nonblocking(true)?;
                tokio::net::UnixListener::from_std(listener).map(AdminListener::Unix)
            }
        }
    }
}

impl AsFd for AdminSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

/// The listening socket in an event loop.
pub(crate) enum AdminListener {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

impl AdminListener {
    /// Accepts a connection. Who uses the socket file is on this host.
    ///
    /// # Errors
    /// Returns an error if the system refuses it.
    pub(crate) async fn accept(&self) -> io::Result<(Box<dyn AdminStream>, IpAddr)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                Ok((Box::new(stream), from.ip()))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((Box::new(stream), Ipv4Addr::LOCALHOST.into()))
            }
        }
    }
}
