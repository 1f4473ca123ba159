//! Opening a connection to a master.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::config::MasterAddr;

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

/// Plain TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tcp;

impl Dial for Tcp {
    type Stream = TcpStream;

    async fn dial(&self, address: &MasterAddr) -> io::Result<TcpStream> {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Stream for TcpStream {
    fn abort_on_close(&self) {
        // Should it fail, the connection is closed in the ordinary way.
        let _ = self.set_zero_linger();
    }
}
