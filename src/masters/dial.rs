//! Opening a connection to a master.

use std::io;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::config::{MasterAddr, MasterTls};
use crate::net::tls::Unusable;
use crate::net::tls::client::Client;

/// What a link and a probe run over.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Closing discards what has not been sent yet, so that a request that was given up is not
    /// delivered after all when a partition heals.
    fn abort_on_close(&self);
}

/// Opens connections to masters; tests and simulations bring their own.
pub trait Dial: 'static {
    /// What it opens.
    type Stream: Stream;

    /// Opens a connection, with the host name resolved anew.
    ///
    /// # Errors
    /// When the master cannot be reached.
    fn dial(&self, address: &MasterAddr) -> impl Future<Output = io::Result<Self::Stream>>;
}

/// TCP, with TLS over it where an address asks for that.
#[derive(Clone, Default)]
pub struct Network {
    tls: Option<Arc<Client>>,
    server_name: Option<String>,
}

/// A connection of [`Network`].
pub enum Connection {
    /// Readable by everybody on its way.
    Plain(TcpStream),
    /// By nobody else.
    Tls(Box<TlsStream<TcpStream>>),
    /// On this host.
    Unix(UnixStream),
}

impl Network {
    /// Reads certificates if one of `masters` asks for TLS.
    ///
    /// # Errors
    /// They cannot be used.
    pub fn of(masters: &[MasterAddr], tls: &MasterTls) -> Result<Self, Unusable> {
        let is_needed = masters.iter().any(|master| master.is_tls);
        let client = is_needed.then(|| Client::read(&tls.files)).transpose()?;
        Ok(Self { tls: client.map(Arc::new), server_name: tls.server_name.clone() })
    }

    /// Reads the certificates again. Connections that are open stay as they are.
    ///
    /// # Errors
    /// They cannot be used; the ones before go on to count.
    pub fn read_again(&self) -> Result<(), Unusable> {
        self.tls.as_ref().map_or(Ok(()), |client| client.read_again())
    }
}

impl Dial for Network {
    type Stream = Connection;

    async fn dial(&self, address: &MasterAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
        stream.set_nodelay(true)?;
        if !address.is_tls {
            return Ok(Connection::Plain(stream));
        }
        let client = self.tls.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let name = self.server_name.as_ref().unwrap_or(&address.host).clone();
        let name = ServerName::try_from(name).map_err(io::Error::other)?;
        let stream = client.get().connect(name, stream).await?;
        Ok(Connection::Tls(Box::new(stream)))
    }
}

impl Connection {
    /// Whether it is open, and nothing has come, as the system knows it at this very moment.
    pub fn is_silent(&self) -> bool {
        let socket = match self {
            Self::Plain(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.get_ref().0.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        };
        let mut asked = [PollFd::new(&socket, PollFlags::IN | PollFlags::RDHUP)];
        let events = poll(&mut asked, Some(&Timespec::default()));
        events == Ok(0)
    }
}

impl Stream for Connection {
    fn abort_on_close(&self) {
        let stream = match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
            Self::Unix(_) => return,
        };
        // Should it fail, the connection is closed in the ordinary way.
        let _ = stream.set_zero_linger();
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// How long dialling, probing and saying hello may take together.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The first and the longest pause before another attempt to connect; both with jitter.
pub const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Pauses between attempts to connect: exponential, with jitter, without an end.
pub fn backoff() -> impl Iterator<Item = Duration> {
    let (first, longest) = BACKOFF;
    let exponential = ExponentialBuilder::new().with_min_delay(first).with_max_delay(longest);
    exponential.with_jitter().without_max_times().build()
}
