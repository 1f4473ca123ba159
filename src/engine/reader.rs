//! Bytes that come from a master, cut into replies in place.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use crate::resp::answer::{Answer, Decoder};
use crate::resp::flat::Malformed;

/// How much is read from a master at once.
const READ_BUFFER: usize = 64 << 10;

/// Bytes of replies: `buffer[start..end]` were not dealt with.
pub struct Reader {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes behind `start` of whole replies that wait for what comes behind them.
    passed: usize,
    decoder: Decoder,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            buffer: vec![0; READ_BUFFER],
            start: 0,
            end: 0,
            passed: 0,
            decoder: Decoder::default(),
        }
    }
}

impl Reader {
    /// Reads once.
    ///
    /// # Errors
    /// When the connection is broken, or was closed by the master.
    pub fn poll_read(
        &mut self,
        stream: Pin<&mut impl AsyncRead>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        self.make_room();
        let mut free = ReadBuf::new(&mut self.buffer[self.end..]);
        ready!(stream.poll_read(cx, &mut free))?;
        match free.filled().len() {
            0 => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it closed the connection",
            ))),
            read => {
                self.end += read;
                Poll::Ready(Ok(()))
            }
        }
    }

    /// The next reply that was not passed over, and its bytes, if all of it is there.
    ///
    /// # Errors
    /// When it is no reply.
    pub fn peek(&mut self) -> Result<Option<(Answer<'_>, &[u8])>, Malformed> {
        self.decoder.decode(&self.buffer[self.start + self.passed..self.end])
    }

    /// The reply that was peeked at stays where it is, and the next one is looked at.
    pub fn pass(&mut self, len: usize) {
        self.passed += len;
    }

    /// The first reply, and its bytes; one that was passed over is whole.
    ///
    /// # Errors
    /// When it is no reply.
    pub fn first(&self) -> Result<Option<(Answer<'_>, &[u8])>, Malformed> {
        Decoder::default().decode(&self.buffer[self.start..self.end])
    }

    /// The first reply has been dealt with.
    pub fn taken(&mut self, len: usize) {
        self.start += len;
        self.passed = self.passed.saturating_sub(len);
        // A long string has made it large; votes do not need that.
        if self.start == self.end && self.buffer.len() > 16 * READ_BUFFER {
            *self = Self::default();
        }
    }

    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 && self.buffer.len() - self.end < READ_BUFFER / 4 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            // Twice a string of 100 MB is a lot, three times over.
            let lacks = self.decoder.lacks(&self.buffer[self.start + self.passed..self.end]);
            let more = if lacks > self.end { lacks + READ_BUFFER } else { self.end };
            self.buffer.reserve_exact(more);
            self.buffer.resize(self.end + more, 0);
        }
    }
}
