//! One client and its connection to the data Redis: the same bytes on both sides.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::ready;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use super::conversation::Conversation;
use super::observer::Observer;
use super::opening::{Opened, open};
use super::requests::Requests;
use crate::data::connection::Lost;
use crate::data::upstream::Upstream;
use crate::data::whereabouts::ended;
use crate::masters::dial::Stream as _;

/// Bytes read at a time. All clients read into the same buffer, so that an idle one takes no memory.
const PIECE: usize = 64 << 10;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; PIECE]);
}

/// Passes a client's bytes on, and the replies back, until one side has closed, or until sentinels name another data
/// Redis.
///
/// # Errors
/// Returns an error if the data Redis cannot be reached, rejects the login of the URL or was replaced, or if a
/// connection broke.
pub(super) async fn pass<S>(
    mut client: S,
    upstream: &Upstream,
    observer: &Mutex<Observer>,
) -> Result<(), Lost>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Opened { stream: server, mut tenure } = match open(upstream).await {
        Err(Lost::Refused(text)) => {
            // The client would get this error if it had sent the login itself.
            client.write_all(format!("-{text}\r\n").as_bytes()).await?;
            return Err(Lost::Refused(text));
        }
        opened => opened?,
    };
    lock(observer).totals.clients += 1;
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let mut client = Listener::new(upstream.settings().address.db, observer);
    let there = copy(&mut from_client, &mut to_server, |bytes| client.hear(bytes));
    let back = copy(&mut from_server, &mut to_client, |_| ());
    // A client that only ends its requests still reads. Once the data Redis has closed, nothing more can come.
    let there = async {
        there.await?;
        std::future::pending::<io::Result<()>>().await
    };
    tokio::select! {
        biased;
        () = ended(tenure.as_mut()) => {}
        broken = there => return Ok(broken?),
        closed = back => return Ok(closed?),
    }
    // Bytes on their way to a master that hangs must not arrive when it wakes up.
    from_server.unsplit(to_server).abort_on_close();
    Err(Lost::Replaced)
}

/// Copies until the end of one side, and passes the end on.
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

/// Reads some bytes, into memory that is only allocated once they are there. Returns none at the end.
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

/// Observer of one client's bytes.
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

/// Locks the observer. It holds plain counts, which remain valid after a panic.
pub(super) fn lock(observer: &Mutex<Observer>) -> MutexGuard<'_, Observer> {
    observer.lock().unwrap_or_else(PoisonError::into_inner)
}
