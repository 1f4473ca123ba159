//! Writes buffered bytes to a stream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use tokio::io::AsyncWrite;

/// Writes until `bytes` is empty. Bytes that the peer does not accept yet stay in it.
///
/// # Errors
/// Returns an error if the connection is broken.
pub(crate) fn poll_flush(
    mut stream: Pin<&mut impl AsyncWrite>,
    bytes: &mut impl Buf,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while bytes.has_remaining() {
        let written = ready!(stream.as_mut().poll_write(cx, bytes.chunk()))?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        bytes.advance(written);
    }
    // With TLS, written bytes may still need to be sent.
    stream.poll_flush(cx)
}
