//! Bytes to send to a client. Large parts of masters' replies are passed on without a copy.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::AsyncWrite;

use crate::net::write::poll_flush;

/// Minimum size of a piece that is passed on. Copying smaller ones is cheaper than an extra system call.
pub const LARGE: usize = 16 << 10;

/// Room that is made for the first reply: enough for the short ones of a pipeline.
const LEAST_ROOM: usize = 128;

/// Encoded replies, in order.
#[derive(Debug, Default)]
pub struct Output {
    /// Pieces sent before `tail`.
    pieces: VecDeque<Bytes>,
    /// Total length of `pieces`.
    pieces_bytes: usize,
    tail: BytesMut,
}

impl Output {
    /// Returns the number of bytes still to be written.
    #[inline]
    pub fn len(&self) -> usize {
        self.pieces_bytes + self.tail.len()
    }

    /// Whether nothing is left to write.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of memory that the output holds.
    #[inline]
    pub fn held(&self) -> usize {
        self.pieces_bytes + self.tail.capacity()
    }

    /// Makes room for `bytes` more bytes.
    #[inline]
    pub fn reserve(&mut self, bytes: usize) {
        self.begin(bytes);
        self.tail.reserve(bytes);
    }

    #[inline]
    fn begin(&mut self, bytes: usize) {
        if self.tail.capacity() == 0 {
            self.tail = BytesMut::with_capacity(bytes.max(LEAST_ROOM));
        }
    }

    /// Appends one byte.
    #[inline]
    pub fn put_u8(&mut self, byte: u8) {
        self.begin(1);
        self.tail.put_u8(byte);
    }

    /// Appends a copy of `bytes`.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.begin(bytes.len());
        self.tail.extend_from_slice(bytes);
    }

    /// Appends `bytes`, without a copy if that pays off.
    #[inline]
    pub fn share(&mut self, bytes: &Bytes) {
        if bytes.len() < LARGE {
            return self.extend_from_slice(bytes);
        }
        self.share_large(bytes.clone());
    }

    fn share_large(&mut self, bytes: Bytes) {
        if !self.tail.is_empty() {
            let before = std::mem::take(&mut self.tail).freeze();
            self.push(before);
        }
        self.push(bytes);
    }

    fn push(&mut self, piece: Bytes) {
        self.pieces_bytes += piece.len();
        self.pieces.push_back(piece);
    }

    /// Writes until nothing is left. Bytes that the client does not accept yet stay.
    ///
    /// # Errors
    /// Returns an error if the connection is broken.
    pub fn poll_write(
        &mut self,
        mut stream: Pin<&mut impl AsyncWrite>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while let Some(piece) = self.pieces.front_mut() {
            let written = ready!(stream.as_mut().poll_write(cx, piece))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            piece.advance(written);
            self.pieces_bytes -= written;
            if piece.is_empty() {
                self.pieces.pop_front();
            }
        }
        poll_flush(stream, &mut self.tail, cx)
    }

    /// Appends everything in `other`.
    pub fn append(&mut self, other: Self) {
        for piece in &other.pieces {
            self.share(piece);
        }
        self.tail.extend_from_slice(&other.tail);
    }

    /// Returns everything as one piece.
    pub fn into_bytes(mut self) -> Bytes {
        self.take().into()
    }

    /// Takes everything as one piece and leaves the output empty.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let Self { pieces, tail, .. } = std::mem::take(self);
        pieces.iter().flat_map(|piece| piece.iter()).chain(&tail[..]).copied().collect()
    }
}

impl Extend<u8> for Output {
    fn extend<I: IntoIterator<Item = u8>>(&mut self, bytes: I) {
        self.tail.extend(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_passed_on_keeps_its_place_and_is_not_copied() {
        let (large, mut output) = (Bytes::from(vec![b'x'; LARGE]), Output::default());
        output.extend_from_slice(b"before");
        output.share(&large);
        output.extend_from_slice(b"after");
        output.share(&Bytes::from_static(b"small"));
        assert_eq!(output.pieces[1].as_ptr(), large.as_ptr());
        let expected = [b"before", &large[..], b"aftersmall"].concat();
        assert_eq!(output.len(), expected.len());

        let mut written = Vec::new();
        let write = std::future::poll_fn(|cx| output.poll_write(Pin::new(&mut written), cx));
        write.await.expect("memory takes all");
        assert!(written == expected && output.is_empty());
    }
}
