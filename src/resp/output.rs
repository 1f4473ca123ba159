//! Bytes on their way to a client. Large pieces of what masters answered are passed on, not copied.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::AsyncWrite;

use crate::net::write::poll_flush;

/// From this size on a piece is passed on. Copying less is cheaper than a system call of its own.
pub const LARGE: usize = 16 << 10;

/// Encoded replies, in order.
#[derive(Debug, Default)]
pub struct Output {
    /// What goes before `tail`.
    pieces: VecDeque<Bytes>,
    /// The sum of their lengths.
    pieces_bytes: usize,
    tail: BytesMut,
}

impl Output {
    /// How many bytes have still to be written.
    #[inline]
    pub fn len(&self) -> usize {
        self.pieces_bytes + self.tail.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How much memory they take.
    #[inline]
    pub fn held(&self) -> usize {
        self.pieces_bytes + self.tail.capacity()
    }

    /// Makes room for so many more.
    #[inline]
    pub fn reserve(&mut self, bytes: usize) {
        self.tail.reserve(bytes);
    }

    /// Appends one byte.
    #[inline]
    pub fn put_u8(&mut self, byte: u8) {
        self.tail.put_u8(byte);
    }

    /// Appends a copy.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
    }

    /// Appends, without a copy if that is worth it.
    #[inline]
    pub fn share(&mut self, bytes: &Bytes) {
        if bytes.len() < LARGE {
            return self.tail.extend_from_slice(bytes);
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

    /// Writes until nothing is left; what the client does not take yet stays.
    ///
    /// # Errors
    /// When the connection is broken.
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

    /// Appends all of `other`.
    pub fn append(&mut self, other: Self) {
        for piece in &other.pieces {
            self.share(piece);
        }
        self.tail.extend_from_slice(&other.tail);
    }

    /// All of it, in one piece.
    pub fn into_bytes(mut self) -> Bytes {
        self.take().into()
    }

    /// All of it, in one piece. Nothing is left.
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
