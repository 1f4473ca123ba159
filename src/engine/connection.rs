//! A connection to a master: its bytes, split into replies, and its initial greeting.
//!
//! Links, lanes and subscriptions use it, and handle requests and timeouts themselves.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use tokio::io::{AsyncRead, AsyncWrite};

use super::reader::Reader;
use crate::config::MasterAddr;
use crate::masters::dial::{Dial, Stream as _};
use crate::net::write::poll_flush;
use crate::operation::request::{self, Number};
use crate::resp::answer::Answer;
use crate::resp::flat::Malformed;

/// The proxy's name in a master's `CLIENT LIST`.
pub const NAME: &[u8] = b"redlock-proxy";

/// The user for a password without a user name (`acl.c`).
const DEFAULT_USER: &str = "default";

/// Number of replies to a greeting.
const GREETING_REPLIES: usize = 3;

/// One connection.
pub struct Connection<S> {
    stream: S,
    /// The replies read so far.
    pub replies: Reader,
}

/// Reasons to reject a connection after dialling.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unwelcome {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("the master answered `{0}` to a new link")]
    Refused(String),
    #[error("it was restarted while the proxy was connecting")]
    Restarted,
}

/// Opens a connection to the process with this `run_id`, or to any if that is empty. Also returns the connection's id
/// at the master.
pub(super) async fn open<D: Dial>(
    dial: &D,
    address: &MasterAddr,
    run_id: &str,
) -> Result<(Connection<D::Stream>, i64), Unwelcome> {
    let stream = dial.dial(address).await?;
    stream.abort_on_close();
    let mut connection = Connection::from(stream);
    let client_id = connection.greet(address, run_id).await?;
    Ok((connection, client_id))
}

/// Returns the user and password for a master, if it needs a password.
pub fn login(address: &MasterAddr) -> Option<[&[u8]; 2]> {
    let password = address.password.as_ref()?;
    let user = address.user.as_deref().unwrap_or(DEFAULT_USER);
    Some([user.as_bytes(), password.expose().as_bytes()])
}

fn greeting(address: &MasterAddr) -> Vec<u8> {
    let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
    if let Some([user, password]) = login(address) {
        hello.extend([b"AUTH", user, password]);
    }
    hello.extend([b"SETNAME", NAME]);
    let mut requests = Vec::new();
    request::encode(&mut requests, &hello);
    request::encode(&mut requests, &[b"CLIENT", b"ID"]);
    request::encode(&mut requests, &[b"INFO", b"server"]);
    requests
}

/// Returns the request that selects a database.
pub(super) fn select(db: u32) -> Vec<u8> {
    let mut request = Vec::new();
    request::encode(&mut request, &[b"SELECT", Number::default().digits(i64::from(db))]);
    request
}

impl<S> From<S> for Connection<S> {
    fn from(stream: S) -> Self {
        Self { stream, replies: Reader::default() }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Negotiates RESP3, which distinguishes a script's map from its array. Learns the connection's id, and checks that
    /// the process is still the one that was probed.
    async fn greet(&mut self, address: &MasterAddr, run_id: &str) -> Result<i64, Unwelcome> {
        let requests = greeting(address);
        let mut unsent = &requests[..];
        let (mut replies, mut client_id, mut is_same) = (GREETING_REPLIES, 0, run_id.is_empty());
        while replies > 0 {
            let Some((answer, raw)) = self.replies.peek()? else {
                self.exchange(&mut unsent).await?;
                continue;
            };
            match answer {
                Answer::Error(error) => {
                    return Err(Unwelcome::Refused(String::from_utf8_lossy(error).into_owned()));
                }
                Answer::Int(id) => client_id = id,
                _ => is_same |= raw.windows(run_id.len().max(1)).any(|it| it == run_id.as_bytes()),
            }
            let len = raw.len();
            self.replies.taken(len);
            replies -= 1;
        }
        match (is_same, self.replies.is_empty()) {
            (true, true) => Ok(client_id),
            (true, false) => Err(Malformed.into()),
            (false, _) => Err(Unwelcome::Restarted),
        }
    }

    /// Writes and reads once. The master answers a long pipeline while the proxy is still writing it.
    ///
    /// # Errors
    /// Returns an error if the connection is broken, or was closed by the master.
    pub(super) async fn exchange(&mut self, unsent: &mut &[u8]) -> io::Result<()> {
        poll_fn(|cx| match self.poll_write(unsent, cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => self.poll_read(cx),
        })
        .await
    }

    /// Reads once.
    ///
    /// # Errors
    /// Returns an error if the connection is broken, or was closed by the master.
    pub fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.replies.poll_read(Pin::new(&mut self.stream), cx)
    }

    /// Writes until `unsent` is empty; bytes that the master does not accept yet stay in it.
    ///
    /// # Errors
    /// Returns an error if the connection is broken.
    pub fn poll_write(
        &mut self,
        unsent: &mut impl Buf,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        poll_flush(Pin::new(&mut self.stream), unsent, cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt as _, duplex};

    use super::*;

    /// Greets a process with this `run_id` that is expected to be `probed`.
    async fn greet(probed: &str, run_id: &str) -> Result<i64, Unwelcome> {
        let (ours, mut theirs) = duplex(4096);
        let info = format!("run_id:{run_id}\r\n");
        let replies = format!("%0\r\n:7\r\n${}\r\n{info}\r\n", info.len());
        theirs.write_all(replies.as_bytes()).await.expect("room for all of it");
        let address = "127.0.0.1:6379".parse().expect("an address");
        Connection::from(ours).greet(&address, probed).await
    }

    #[tokio::test]
    async fn a_master_that_was_restarted_after_it_was_probed_gets_no_link() {
        assert!(matches!(greet("abc", "abc").await, Ok(7)));
        assert!(matches!(greet("abc", "xyz").await, Err(Unwelcome::Restarted)));
    }
}
