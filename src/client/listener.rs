//! Accepting clients.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

use super::session::Session;
use crate::worker::Worker;

/// As many connections may wait to be accepted as Redis lets wait (`tcp-backlog` in redis.conf).
const BACKLOG: i32 = 511;

/// The first and longest pause after `accept` failed, e.g. for want of file descriptors.
const ACCEPT_BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// What a client too many is told (`networking.c`, `acceptCommonHandler`).
const TOO_MANY_CLIENTS: &[u8] = b"-ERR max number of clients reached\r\n";

/// Opens a listening socket. With `shared`, several workers of this process may open the same one.
///
/// # Errors
/// When the address is in use or not ours.
pub fn bind(address: SocketAddr, shared: bool) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts clients until it is dropped.
pub async fn accept(listener: TcpListener, worker: Rc<Worker>) {
    let mut pause = ACCEPT_BACKOFF.0;
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                pause = ACCEPT_BACKOFF.0;
                let local_address = stream.local_addr().unwrap_or(address);
                // Replies are written when they are complete; waiting for more would only delay them.
                let _ = stream.set_nodelay(true);
                admit(stream, address, local_address, &worker);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a client");
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(ACCEPT_BACKOFF.1);
            }
        }
    }
}

/// Serves the client at the other end of `stream`, or turns it away.
pub fn admit<S>(stream: S, address: SocketAddr, local_address: SocketAddr, worker: &Rc<Worker>)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let max = worker.settings().max_clients;
    match worker.registry().enter(address, local_address, max) {
        Some(client) => {
            tokio::task::spawn_local(Session::new(stream, Rc::clone(worker), client));
        }
        None => {
            tokio::task::spawn_local(turn_away(stream));
        }
    }
}

async fn turn_away(mut stream: impl AsyncWrite + Unpin) {
    let _ = stream.write_all(TOO_MANY_CLIENTS).await;
}
