//! Opens connections to masters.

use std::io;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::config::{MasterAddr, MasterTls};
use crate::net::tls::Unusable;
use crate::net::tls::client::TlsClient;

/// Transport for links and probes.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Makes closing the stream discard unsent bytes, so that an abandoned request is not delivered when a partition
    /// heals.
    fn abort_on_close(&self);
}

/// Opens connections to masters. Tests and simulations supply their own implementation.
pub trait Dial: 'static {
    /// The stream type of the connections.
    type Stream: Stream;

    /// Opens a connection, resolving the host name each time.
    ///
    /// # Errors
    /// Returns an error if the master cannot be reached.
    fn dial(&self, address: &MasterAddr) -> impl Future<Output = io::Result<Self::Stream>>;
}

/// Plain TCP, or TLS over TCP where an address requests it.
#[derive(Clone, Default)]
pub struct Network {
    tls: Option<Arc<TlsClient>>,
    server_name: Option<String>,
}

/// A connection opened by [`Network`].
pub enum DialledStream {
    /// Unencrypted TCP.
    Plain(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
    /// A Unix socket on this host.
    Unix(UnixStream),
}

impl Network {
    /// Reads the certificates if any of `masters` uses TLS.
    ///
    /// # Errors
    /// Returns an error if the certificates cannot be used.
    pub fn of(masters: &[MasterAddr], tls: &MasterTls) -> Result<Self, Unusable> {
        let is_needed = masters.iter().any(|master| master.is_tls);
        let client = is_needed.then(|| TlsClient::read(&tls.files)).transpose()?;
        Ok(Self { tls: client.map(Arc::new), server_name: tls.server_name.clone() })
    }

    /// Whether any address uses TLS, so that there are certificates.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Reloads the certificates. Open connections are unaffected.
    ///
    /// # Errors
    /// Returns an error if the certificates cannot be used; the previous ones stay in effect.
    pub fn read_again(&self) -> Result<(), Unusable> {
        self.tls.as_ref().map_or(Ok(()), |client| client.read_again())
    }
}

impl Dial for Network {
    type Stream = DialledStream;

    async fn dial(&self, address: &MasterAddr) -> io::Result<DialledStream> {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
        stream.set_nodelay(true)?;
        if !address.is_tls {
            return Ok(DialledStream::Plain(stream));
        }
        let client = self.tls.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let name = self.server_name.as_ref().unwrap_or(&address.host).clone();
        let name = ServerName::try_from(name).map_err(io::Error::other)?;
        let stream = client.get().connect(name, stream).await?;
        Ok(DialledStream::Tls(Box::new(stream)))
    }
}

impl DialledStream {
    /// Whether the connection is open with nothing to read, as the kernel reports it at this moment.
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

impl Stream for DialledStream {
    fn abort_on_close(&self) {
        let stream = match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
            Self::Unix(_) => return,
        };
        // If this fails, the connection closes in the ordinary way.
        let _ = stream.set_zero_linger();
    }
}

impl AsyncRead for DialledStream {
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

impl AsyncWrite for DialledStream {
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

/// Time limit for connecting, probing and the handshake together.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The first and the longest pause before another attempt to connect; both with jitter.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Pauses between attempts to connect: exponential, with jitter, without an end.
pub struct Pauses(ExponentialBackoff);

impl Default for Pauses {
    fn default() -> Self {
        let (first, longest) = PAUSES;
        let exponential = ExponentialBuilder::new().with_min_delay(first).with_max_delay(longest);
        Self(exponential.with_jitter().without_max_times().build())
    }
}

impl Pauses {
    /// Returns the next pause.
    pub fn another(&mut self) -> Duration {
        self.0.next().unwrap_or(PAUSES.1)
    }
}
