//! Writing what has gathered in a buffer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::AsyncWrite;

/// Writes until `bytes` is empty; what the peer does not take yet stays in it.
///
/// # Errors
/// When the connection is broken.
pub(crate) fn poll_flush(
    mut stream: Pin<&mut impl AsyncWrite>,
    bytes: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while !bytes.is_empty() {
        let written = ready!(stream.as_mut().poll_write(cx, bytes))?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        bytes.advance(written);
    }
    // With TLS, what was written may still have to be sent.
    stream.poll_flush(cx)
}
