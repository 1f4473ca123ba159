//! Bytes from the data Redis: replies to the client, replies to the connection's own requests, and messages.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};

use super::{Awaited, DataConnection, Lost, Stage};
use crate::client::outbox::Recipient;
use crate::data::answers::{error_text, is_question, must_be_master, must_have_no_mark, selected};
use crate::resp::PASS_BUFFER;
use crate::resp::extent::Head;

/// Kind of a piece of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// The reply to a request of the client.
    Answer,
    /// The reply to a request of the connection itself.
    Own,
    /// One of the confirmations.
    Confirmation,
    /// A message, which answers nothing.
    Message,
}

impl DataConnection {
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        to: &impl Recipient,
        buffer: &mut [u8],
    ) -> Result<bool, Lost> {
        let mut has_happened = false;
        if !self.unread.is_empty() {
            let unread = std::mem::take(&mut self.unread);
            let passed = self.pass(&unread, to)?;
            has_happened = passed > 0;
            self.keep(&unread[passed..]);
        }
        // Reads until nothing is left: only then does new data wake the task.
        while self.unread.is_empty() && self.has_room(to) {
            if self.is_amid_long() {
                let Poll::Ready(read) = self.poll_read_long(cx) else { break };
                let piece = read?;
                if piece.is_empty() {
                    return Err(Lost::Closed);
                }
                self.replies.read(&piece)?;
                to.pass_long(piece);
                has_happened = true;
                continue;
            }
            let Poll::Ready(read) = self.poll_read_some(cx, buffer) else { break };
            let read = read?;
            if read == 0 {
                return Err(Lost::Closed);
            }
            let passed = self.pass(&buffer[..read], to)?;
            self.keep(&buffer[passed..read]);
            has_happened = true;
        }
        Ok(has_happened)
    }

    /// Whether the rest of a reply to the client is too long to be worth copying.
    fn is_amid_long(&self) -> bool {
        self.amid == Some(Piece::Answer) && self.replies.certain() >= LONG_PIECE
    }

    /// Reads bytes of such a reply into memory of their own.
    fn poll_read_long(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Lost>> {
        let Stage::Open(stream) = &mut self.stage else { return Poll::Pending };
        let mut piece = BytesMut::with_capacity(PASS_BUFFER.min(self.replies.certain()));
        ready!(pin!(stream.read_buf(&mut piece)).poll(cx))?;
        Poll::Ready(Ok(piece.freeze()))
    }

    fn poll_read_some(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<Result<usize, Lost>> {
        let Stage::Open(stream) = &mut self.stage else { return Poll::Pending };
        let mut free = ReadBuf::new(buffer);
        ready!(Pin::new(&mut **stream).poll_read(cx, &mut free))?;
        Poll::Ready(Ok(free.filled().len()))
    }

    /// Whether bytes that are read now would have a place to go.
    fn has_room(&self, to: &impl Recipient) -> bool {
        match (self.amid, self.awaited.front()) {
            (Some(Piece::Answer), _) => to.may_pass(),
            (None, None) if self.is_changing => false,
            (Some(Piece::Message), _) | (None, None) => to.may_pass_message(),
            (None, Some(Awaited::Answer)) => to.may_pass(),
            _ => true,
        }
    }

    fn keep(&mut self, rest: &[u8]) {
        self.unread.extend_from_slice(rest);
    }

    /// Hands each reply to its recipient. Returns how many of the bytes had a place to go.
    fn pass(&mut self, bytes: &[u8], to: &impl Recipient) -> Result<usize, Lost> {
        let mut rest = bytes;
        while !rest.is_empty() && self.has_room(to) {
            let found = self.replies.read(rest)?;
            let (piece, after) = rest.split_at(found.bytes);
            rest = after;
            let head = self.replies.head();
            let Some(what) = self.amid.or_else(|| self.recognise(head, found.ended.is_some()))
            else {
                self.beginning.extend_from_slice(piece);
                continue;
            };
            let begins = self.amid.replace(what).is_none();
            let whole;
            let piece = if self.beginning.is_empty() {
                piece
            } else {
                whole = [&std::mem::take(&mut self.beginning)[..], piece].concat();
                &whole[..]
            };
            let error = if begins { error_text(piece) } else { None };
            self.give(what, piece, found.ended, error, to)?;
            if found.ended.is_some() {
                self.amid = None;
            }
        }
        Ok(bytes.len() - rest.len())
    }

    /// Returns the kind of the reply that has begun; `None`: too few of its bytes have arrived. Messages come between
    /// replies. In RESP3 they have a type of their own. In RESP2 a client with subscriptions gets nothing else here.
    fn recognise(&self, head: Head, has_ended: bool) -> Option<Piece> {
        let Some(awaited) = self.awaited.front() else { return Some(Piece::Message) };
        match (awaited, head.kind) {
            (_, 0) => None,
            (Awaited::Confirmations { .. }, b'*' | b'>') => {
                let is_confirmation = || head.label().ends_with(b"subscribe");
                let known = has_ended || head.is_labelled();
                known.then(|| if is_confirmation() { Piece::Confirmation } else { Piece::Message })
            }
            (Awaited::Confirmations { .. }, _) => Some(Piece::Confirmation),
            (_, b'>') => Some(Piece::Message),
            (Awaited::Answer, _) => Some(Piece::Answer),
            (Awaited::Step(_) | Awaited::Ignored | Awaited::Mark, _) => Some(Piece::Own),
            (Awaited::Role | Awaited::Database(_), _) => Some(Piece::Own),
        }
    }

    fn give(
        &mut self,
        what: Piece,
        piece: &[u8],
        ended: Option<Head>,
        error: Option<&[u8]>,
        to: &impl Recipient,
    ) -> Result<(), Lost> {
        match what {
            Piece::Answer => {
                to.pass(piece);
                if let Some(head) = ended {
                    self.awaited.pop_front();
                    to.passed(head.is_error().then(|| error.unwrap_or(UNREAD_ERROR)));
                }
            }
            Piece::Message if is_question(piece) => {}
            Piece::Message => to.pass_message(piece, ended.is_some()),
            Piece::Own => {
                if let Some(Awaited::Database(_) | Awaited::Role) = self.awaited.front() {
                    self.description.extend_from_slice(piece);
                }
                if ended.is_some() {
                    self.own_reply(piece, error)?;
                }
            }
            Piece::Confirmation if ended.is_some() => self.confirm(error),
            Piece::Confirmation => {}
        }
        Ok(())
    }

    /// Handles the complete reply to a request of the connection itself: its last piece, and its text if it is an
    /// error.
    fn own_reply(&mut self, last: &[u8], error: Option<&[u8]>) -> Result<(), Lost> {
        match self.awaited.pop_front() {
            Some(Awaited::Step(step)) => self.step_answered(step, error),
            Some(Awaited::Mark) => {
                let said = must_have_no_mark(last)?;
                self.question_answered(said);
            }
            Some(Awaited::Role) => {
                let said = std::mem::take(&mut self.description);
                self.question_answered(must_be_master(&said)?);
            }
            Some(Awaited::Database(chosen)) => {
                let selected = selected(&std::mem::take(&mut self.description));
                // If it is unknown, the client returns to the database it had.
                self.setup.db = selected.unwrap_or(u32::MAX);
                if selected.is_some() {
                    chosen.set(selected);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Counts one confirmation, or handles an error in place of all of them.
    fn confirm(&mut self, error: Option<&[u8]>) {
        let Some(Awaited::Confirmations { left, .. }) = self.awaited.front_mut() else { return };
        *left -= 1;
        if (*left == 0 || error.is_some())
            && let Some(Awaited::Confirmations { then, .. }) = self.awaited.pop_front()
        {
            then(error.map_or(Ok(()), Err));
        }
    }
}

/// Stands for an error whose first piece held no complete line.
const UNREAD_ERROR: &[u8] = b"ERR";

/// Size from which pieces are not copied.
const LONG_PIECE: usize = 64 << 10;
