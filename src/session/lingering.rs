//! Discarding the input of a client that receives an error while it still sends.
//!
//! Closing a connection with unread bytes resets it, which loses the reply that explains the error.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::{READ_BUFFER, READS_AT_A_TIME, Session};
use crate::client::timeslice;
use crate::context::portable::Portable;

/// Maximum time to discard input.
const LONGEST: Duration = Duration::from_secs(2);

/// The state of a connection whose input is discarded before it is closed.
pub(super) struct Lingering {
    end: Pin<Box<Sleep>>,
    /// Whether the proxy has shut down its side of the connection, so that the client expects no more replies.
    is_told: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Portable> Session<S> {
    /// Ready once the client has stopped sending bytes that would go unread, or its time is up.
    pub(super) fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.dialogue.is_refused || self.ended || self.dialogue.caller.worker.is_draining() {
            return Poll::Ready(());
        }
        let lingering = self.lingering.get_or_insert_with(|| Lingering {
            end: Box::pin(tokio::time::sleep(LONGEST)),
            is_told: false,
        });
        if lingering.end.as_mut().poll(cx).is_ready() || self.dialogue.caller.client.is_killed() {
            return Poll::Ready(());
        }
        if !lingering.is_told {
            if ready!(Pin::new(&mut self.stream).poll_shutdown(cx)).is_err() {
                return Poll::Ready(());
            }
            lingering.is_told = true;
        }
        let mut buffer = self.dialogue.caller.home.read_buffer();
        for _ in 0..READS_AT_A_TIME {
            let mut free = ReadBuf::new(&mut buffer[..READ_BUFFER]);
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut free));
            if read.is_err() || free.filled().is_empty() {
                return Poll::Ready(());
            }
        }
        timeslice::others_first(cx)
    }
}
