//! One client and its connection to the data Redis: the same bytes on both sides.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::ready;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use super::conversation::Conversation;
use super::observer::Observer;
use super::requests::Requests;
use crate::config::DataAddr;
use crate::data::setup::{Credentials, Setup};
use crate::data::upstream::Upstream;
use crate::master::dial::Connection;

/// Bytes that are read at a time. All clients read into the same place, so that an idle one takes no memory.
const PIECE: usize = 64 << 10;

/// The longest answer to a login or `SELECT`, in bytes.
const LONGEST_ANSWER: usize = 4 << 10;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; PIECE]);
}

/// Passes the bytes of a client on, and those that come back, until one side has closed.
///
/// # Errors
/// The data Redis cannot be reached, does not take the login of the URL, or a connection broke.
pub(super) async fn pass<S>(
    mut client: S,
    upstream: &Upstream,
    observer: &Mutex<Observer>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut server = connect(upstream).await?;
    let address = &upstream.settings().address;
    for answer in bring(&mut server, address).await? {
        if answer.starts_with(b"-") {
            // It is what the client would see if it had sent that itself.
            client.write_all(&answer).await?;
            return Err(refused(&answer));
        }
    }
    lock(observer).totals.clients += 1;
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let mut client = Listener::new(address.db, observer);
    let there = copy(&mut from_client, &mut to_server, |bytes| client.hear(bytes));
    let back = copy(&mut from_server, &mut to_client, |_| ());
    // A client that only ends its requests still reads. When the data Redis has closed, nothing more can come.
    let there = async {
        there.await?;
        std::future::pending::<io::Result<()>>().await
    };
    tokio::select! {
        broken = there => broken,
        ended = back => ended,
    }
}

/// Opens a connection to the data Redis.
///
/// # Errors
/// It cannot be reached in time.
pub(super) async fn connect(upstream: &Upstream) -> io::Result<Connection> {
    Ok(upstream.dial().await?.stream)
}

/// Logs in and selects the database as the URL says. Returns the answers.
///
/// # Errors
/// The connection broke.
pub(super) async fn bring(server: &mut Connection, address: &DataAddr) -> io::Result<Vec<Vec<u8>>> {
    let login = address
        .password
        .as_ref()
        .map(|password| Credentials { user: address.user.clone(), password: password.clone() });
    let setup = Setup { login, db: address.db, ..Setup::default() };
    let mut requests = Vec::new();
    let steps = setup.bring(&Setup::default(), &mut requests);
    ask(server, &requests, steps.len()).await
}

/// Sends requests and returns the lines that answer them.
///
/// # Errors
/// The connection broke, or something else answers than a Redis.
pub(super) async fn ask(
    server: &mut Connection,
    requests: &[u8],
    answers: usize,
) -> io::Result<Vec<Vec<u8>>> {
    server.write_all(requests).await?;
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    while lines.len() < answers {
        // No more than these answers can come, and they are short.
        line.push(server.read_u8().await?);
        let is_answer = matches!(line[0], b'+' | b'-' | b':');
        if !is_answer || line.len() > LONGEST_ANSWER {
            return Err(io::Error::other("what answers there is no Redis"));
        }
        if line.ends_with(b"\r\n") {
            lines.push(std::mem::take(&mut line));
        }
    }
    Ok(lines)
}

/// What an error of the data Redis says.
pub(super) fn refused(answer: &[u8]) -> io::Error {
    let text = String::from_utf8_lossy(answer);
    io::Error::other(format!("it says: {}", text.trim_start_matches('-').trim_end()))
}

/// Until the end of one side, which is passed on.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut look: impl FnMut(&[u8]),
) -> io::Result<()> {
    loop {
        let bytes = read_some(from).await?;
        if bytes.is_empty() {
            return to.shutdown().await;
        }
        look(&bytes);
        to.write_all(&bytes).await?;
        to.flush().await?;
    }
}

/// Some bytes, in memory that is taken only when they are there; none at the end.
async fn read_some(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    poll_fn(|cx| {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut free = ReadBuf::new(scratch);
            ready!(Pin::new(&mut *from).poll_read(cx, &mut free))?;
            Ok(free.filled().to_vec()).into()
        })
    })
    .await
}

/// What is understood of one client's bytes.
struct Listener<'a> {
    requests: Requests,
    conversation: Conversation,
    observer: &'a Mutex<Observer>,
    is_lost: bool,
}

impl<'a> Listener<'a> {
    fn new(db: u32, observer: &'a Mutex<Observer>) -> Self {
        let (requests, conversation) = (Requests::default(), Conversation::new(db));
        Self { requests, conversation, observer, is_lost: false }
    }

    fn hear(&mut self, bytes: &[u8]) {
        if self.is_lost {
            return;
        }
        let mut all = lock(self.observer);
        let conversation = &mut self.conversation;
        self.is_lost = !self.requests.read(bytes, |args| conversation.hear(args, &mut all));
        all.totals.not_understood += u64::from(self.is_lost);
    }
}

/// What is observed is plain counts: they are as good after a panic as before.
pub(super) fn lock(observer: &Mutex<Observer>) -> MutexGuard<'_, Observer> {
    observer.lock().unwrap_or_else(PoisonError::into_inner)
}
