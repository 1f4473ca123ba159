//! Bytes from a master, split into replies in place.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};

use crate::resp::answer::{Answer, Decoder};
use crate::resp::flat::Malformed;

/// Maximum bytes read from a master at once, before others get their turn.
const READ_BUFFER: usize = 64 << 10;

/// Bytes of replies: `buffer[start..end]` are unprocessed.
#[derive(Default)]
pub struct Reader {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes after `start` of whole replies that wait for later ones.
    passed: usize,
    decoder: Decoder,
}

impl Reader {
    /// Reads once.
    ///
    /// # Errors
    /// Returns an error if the connection is broken, or was closed by the master.
    pub fn poll_read(
        &mut self,
        stream: Pin<&mut impl AsyncRead>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        self.make_room();
        let most = self.buffer.len().min(self.end + READ_BUFFER);
        let mut free = ReadBuf::new(&mut self.buffer[self.end..most]);
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

    /// Returns the next reply that was not passed over, and its bytes, once it is complete.
    ///
    /// # Errors
    /// Returns an error if it is not a reply.
    pub fn peek(&mut self) -> Result<Option<(Answer<'_>, &[u8])>, Malformed> {
        self.decoder.decode(&self.buffer[self.start + self.passed..self.end])
    }

    /// Passes over the peeked reply, which stays in place, to the next one.
    pub fn pass(&mut self, len: usize) {
        self.passed += len;
    }

    /// Returns the first reply and its bytes; one that was passed over is complete.
    ///
    /// # Errors
    /// Returns an error if it is not a reply.
    pub fn first(&self) -> Result<Option<(Answer<'_>, &[u8])>, Malformed> {
        Decoder::default().decode(&self.buffer[self.start..self.end])
    }

    /// Drops the first reply.
    pub fn taken(&mut self, len: usize) {
        self.start += len;
        self.passed = self.passed.saturating_sub(len);
        // A long string has enlarged the buffer; votes do not need that much.
        if self.start == self.end && self.buffer.capacity() > 16 * READ_BUFFER {
            *self = Self::default();
        }
    }

    /// Takes all passed-over replies without copying them, or returns `None` if there are more bytes after them.
    pub(super) fn take_passed(&mut self) -> Option<Bytes> {
        if self.start + self.passed < self.end {
            return None;
        }
        let Self { mut buffer, start, end, .. } = std::mem::take(self);
        buffer.truncate(end);
        Some(Bytes::from(buffer).slice(start..))
    }

    /// Whether everything read has been processed.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 && self.buffer.len() - self.end < READ_BUFFER / 4 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            self.grow();
        }
    }

    /// Grows the buffer. Zeroed memory from the system costs nothing until something is read into it.
    fn grow(&mut self) {
        let unread = &self.buffer[self.start..self.end];
        // Doubling would waste a lot on a string of 100 MB, three times over.
        let lacks = self.decoder.lacks(&unread[self.passed..]);
        let more = lacks.max(unread.len());
        let mut larger = vec![0; unread.len() + more + READ_BUFFER];
        larger[..unread.len()].copy_from_slice(unread);
        (self.start, self.end, self.buffer) = (0, unread.len(), larger);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Reads until this number of replies has been passed over.
    async fn pass(reader: &mut Reader, mut bytes: &[u8], replies: usize) {
        for _ in 0..replies {
            let len = loop {
                if let Some((_, raw)) = reader.peek().expect("RESP") {
                    break raw.len();
                }
                let read = poll_fn(|cx| reader.poll_read(Pin::new(&mut bytes), cx)).await;
                read.expect("more bytes");
            };
            reader.pass(len);
        }
    }

    #[tokio::test]
    async fn a_long_string_takes_little_more_room_than_it_needs() {
        let len = 20 * READ_BUFFER;
        let string = [format!("${len}\r\n").as_bytes(), &vec![b'x'; len], b"\r\n"].concat();
        let mut reader = Reader::default();
        pass(&mut reader, &string, 1).await;
        assert!(reader.buffer.capacity() <= string.len() + 2 * READ_BUFFER);
        assert_eq!(reader.take_passed().as_deref(), Some(&string[..]));
        assert!(reader.is_empty() && reader.buffer.capacity() == 0);
    }

    #[tokio::test]
    async fn replies_are_taken_all_or_none() {
        let (mut reader, bytes) = (Reader::default(), b"+OK\r\n*1\r\n:1\r\n");
        pass(&mut reader, bytes, 1).await;
        assert_eq!(reader.take_passed(), None);
        pass(&mut reader, b"", 1).await;
        assert_eq!(reader.take_passed().as_deref(), Some(&bytes[..]));
    }
}
