//! One end of a simulated TCP connection.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use redlock_proxy::masters::dial::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::network::{Way, lock, wake};

/// One direction of a connection: data in flight, and data that has arrived but was not read yet.
#[derive(Debug)]
pub struct Pipe {
    way: Arc<Way>,
    pieces: VecDeque<(Instant, Piece)>,
    reader: Option<Waker>,
    /// Whether the reader is gone.
    deaf: bool,
}

#[derive(Debug)]
enum Piece {
    Bytes(VecDeque<u8>),
    Fin,
    Reset,
}

/// Result of looking for data.
enum Found {
    Piece,
    NotBefore(Instant),
    Nothing,
}

impl Pipe {
    pub fn new(way: Arc<Way>) -> Self {
        Self { way, pieces: VecDeque::new(), reader: None, deaf: false }
    }

    /// Reschedules data after the way, blocked at `since`, is free again.
    pub fn resend(
        &mut self,
        since: Instant,
        mut arrival: impl FnMut() -> Instant,
    ) -> Option<Waker> {
        let mut earliest = since;
        for (arrives, _) in self.pieces.iter_mut().filter(|(arrives, _)| *arrives > since) {
            earliest = arrival().max(earliest);
            *arrives = earliest;
        }
        self.reader.take()
    }

    /// Breaks the connection from outside. Data that has arrived can still be read.
    pub fn cut(&mut self) -> Option<Waker> {
        self.discard_on_its_way();
        self.pieces.push_back((Instant::now(), Piece::Reset));
        self.reader.take()
    }

    fn send(&mut self, piece: Piece) -> Option<Waker> {
        if self.deaf {
            return None;
        }
        let arrives = self.way.arrival();
        let arrives = self.pieces.back().map_or(arrives, |(before, _)| arrives.max(*before));
        self.pieces.push_back((arrives, piece));
        self.reader.take()
    }

    /// Drops data that was sent but not received: it is not sent again.
    fn discard_unacknowledged(&mut self) {
        if let Some(since) = self.way.blocked_since() {
            self.pieces.retain(|(arrives, _)| *arrives <= since);
        }
    }

    fn discard_on_its_way(&mut self) {
        self.discard_unacknowledged();
        let now = Instant::now();
        self.pieces.retain(|(arrives, _)| *arrives <= now);
    }

    fn find(&self) -> Found {
        match (self.pieces.front(), self.way.blocked_since()) {
            (None, _) => Found::Nothing,
            (Some((arrives, _)), Some(since)) if *arrives > since => Found::Nothing,
            (Some((arrives, _)), _) if *arrives > Instant::now() => Found::NotBefore(*arrives),
            _ => Found::Piece,
        }
    }

    /// Reads everything that has arrived, as far as there is room.
    fn read(&mut self, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
        let before = buffer.filled().len();
        while matches!(self.find(), Found::Piece) && buffer.remaining() > 0 {
            let Some((_, piece)) = self.pieces.front_mut() else { break };
            match piece {
                Piece::Bytes(bytes) => {
                    let (first, _) = bytes.as_slices();
                    let len = first.len().min(buffer.remaining());
                    buffer.put_slice(&first[..len]);
                    bytes.drain(..len);
                    if bytes.is_empty() {
                        self.pieces.pop_front();
                    }
                }
                Piece::Reset if buffer.filled().len() == before => {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                // These stay in place for the next read.
                Piece::Fin | Piece::Reset => break,
            }
        }
        Ok(())
    }
}

/// One end.
pub struct Socket {
    inbound: Arc<Mutex<Pipe>>,
    outbound: Arc<Mutex<Pipe>>,
    arrival: Option<Pin<Box<Sleep>>>,
    aborts: Cell<bool>,
}

impl Socket {
    pub fn new(inbound: Arc<Mutex<Pipe>>, outbound: Arc<Mutex<Pipe>>) -> Self {
        Self { inbound, outbound, arrival: None, aborts: Cell::new(false) }
    }

    /// Waits until `arrives`.
    fn poll_until(&mut self, arrives: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.arrival.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(arrives)));
        if sleep.deadline() != arrives {
            sleep.as_mut().reset(arrives);
        }
        sleep.as_mut().poll(cx)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let found = {
                let mut pipe = lock(&self.inbound);
                pipe.reader = Some(cx.waker().clone());
                match pipe.find() {
                    Found::Piece => return Poll::Ready(pipe.read(buffer)),
                    other => other,
                }
            };
            match found {
                Found::NotBefore(arrives) if self.poll_until(arrives, cx).is_ready() => {}
                _ => return Poll::Pending,
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let piece = Piece::Bytes(bytes.iter().copied().collect());
        let waker = lock(&self.outbound).send(piece);
        wake(waker);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Stream for Socket {
    fn abort_on_close(&self) {
        self.aborts.set(true);
    }
}

/// Closing with a reset discards data that was not received. Data already received by the other
/// end's kernel can still be read, as on Linux. A reset that cannot get through arrives later,
/// which is kinder than TCP: there the other end would notice only on its next send.
impl Drop for Socket {
    fn drop(&mut self) {
        lock(&self.inbound).deaf = true;
        let mut outbound = lock(&self.outbound);
        let piece = if self.aborts.get() {
            outbound.discard_unacknowledged();
            Piece::Reset
        } else {
            Piece::Fin
        };
        let waker = outbound.send(piece);
        drop(outbound);
        wake(waker);
    }
}
