//! The connection by which one worker asks the data Redis for locks, in the order in which it is asked.
//!
//! What was not answered may have been done. So a lost connection is cut off at the data Redis before the next one is used,
//! and what has to be taken back goes over that first.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult};
use tokio::sync::{mpsc, oneshot};

use super::copy::Name;
use crate::clock::{self, Instant};
use crate::data::upstream::{Dialled, Upstream};
use crate::data::watch::HAS_MARK;
use crate::data::whereabouts::ended;
use crate::master::probe::{Predecessor, ProbeError, over};
use crate::reserved::MARK;

/// Between two attempts to reach the data Redis.
const PAUSE: Duration = Duration::from_millis(100);

/// A data Redis that is silent for so long is asked over another connection.
const SILENCE: Duration = Duration::from_secs(5);

/// What can be taken back at most, when the data Redis is away. Beyond that the oldest is left to its TTL.
const MAX_OWED: usize = 65_536;

/// What the data Redis answers; the error is its own.
pub type Answer = Result<i64, String>;

/// Asks the data Redis.
pub struct Gate {
    orders: mpsc::UnboundedSender<Order>,
}

struct Order {
    request: Cmd,
    answer: oneshot::Sender<Answer>,
    /// Until when it has to arrive; `None`: it need not.
    owed_until: Option<Instant>,
}

impl Gate {
    /// Connects, and stays connected for as long as this is kept.
    pub fn open(upstream: Upstream) -> Rc<Self> {
        let (orders, received) = mpsc::unbounded_channel();
        tokio::task::spawn_local(
            Task { upstream, owed: Owed::default(), last: None }.run(received),
        );
        Rc::new(Self { orders })
    }

    /// A name that nothing has had.
    pub fn name() -> Name {
        Name(fastrand::u128(..))
    }

    /// Asks now; `None` if it is not known within `patience` what became of it.
    pub fn ask(
        &self,
        request: Cmd,
        patience: Duration,
    ) -> impl Future<Output = Option<Answer>> + use<> {
        let answer = self.send(request, None);
        async move { tokio::time::timeout(patience, answer).await.ok()?.ok() }
    }

    /// Sees to it that this is done, unless it is `until` before that is possible.
    pub fn owe(&self, request: Cmd, until: Instant) {
        self.send(request, Some(until));
    }

    fn send(&self, request: Cmd, owed_until: Option<Instant>) -> oneshot::Receiver<Answer> {
        let (answer, answered) = oneshot::channel();
        // Its task ends with the worker only.
        let _ = self.orders.send(Order { request, answer, owed_until });
        answered
    }
}

/// What has to arrive, in the order in which it was asked for.
#[derive(Default)]
struct Owed {
    orders: BTreeMap<u64, (Cmd, Instant)>,
    next: u64,
}

impl Owed {
    fn insert(&mut self, request: Cmd, until: Instant) -> u64 {
        if self.orders.len() >= MAX_OWED {
            self.orders.pop_first();
        }
        self.next += 1;
        self.orders.insert(self.next, (request, until));
        self.next
    }
}

struct Task {
    upstream: Upstream,
    owed: Owed,
    /// The last connection.
    last: Option<Predecessor>,
}

impl Task {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        while !orders.is_closed() {
            let Err(error) = self.serve(&mut orders).await;
            tracing::debug!("locks cannot be asked for at the data Redis: {error}");
            let pause = tokio::time::sleep(PAUSE);
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    biased;
                    () = &mut pause => break,
                    order = orders.recv() => match order {
                        Some(order) => self.keep_what_is_owed(order),
                        None => return,
                    },
                }
            }
        }
    }

    /// Nobody can be asked; whoever waits gets no answer.
    fn keep_what_is_owed(&mut self, order: Order) {
        if let Some(until) = order.owed_until {
            self.owed.insert(order.request, until);
        }
    }

    async fn serve(
        &mut self,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> Result<Infallible, ProbeError> {
        let upstream = self.upstream.clone();
        let Dialled { stream, mut tenure } = upstream.dial().await?;
        let login = upstream.login();
        tokio::select! {
            biased;
            () = ended(tenure.as_mut()) => Err(std::io::Error::other("another one is the master now").into()),
            error = over(stream, &login, |connection| self.over(connection, orders)) => error,
        }
    }

    async fn over(
        &mut self,
        mut connection: MultiplexedConnection,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> Result<Infallible, ProbeError> {
        connection.set_response_timeout(SILENCE);
        self.begin(&mut connection).await?;
        let now = clock::now();
        self.owed.orders.retain(|_, (_, until)| *until > now);
        let owed = RefCell::new(&mut self.owed);
        let mut on_their_way = FuturesUnordered::new();
        for (at, (request, _)) in &owed.borrow().orders {
            on_their_way
                .push(tell(connection.clone(), request.clone(), Some(*at), None).boxed_local());
        }
        loop {
            let (at, result) = tokio::select! {
                biased;
                Some(done) = on_their_way.next() => done,
                Some(Order { request, answer, owed_until }) = orders.recv() => {
                    let at = owed_until.map(|until| owed.borrow_mut().insert(request.clone(), until));
                    let mut told = tell(connection.clone(), request, at, Some(answer)).boxed_local();
                    // Polled once, it stands in the connection's queue, behind what was asked for before.
                    match poll_fn(|cx| Poll::Ready(told.poll_unpin(cx))).await {
                        Poll::Ready(done) => done,
                        Poll::Pending => {
                            on_their_way.push(told);
                            continue;
                        }
                    }
                }
                else => std::future::pending().await,
            };
            if let Some(at) = at
                && result.is_ok()
            {
                owed.borrow_mut().orders.remove(&at);
            }
            result?;
        }
    }

    /// Cuts off the connection before this one.
    async fn begin(&mut self, connection: &mut MultiplexedConnection) -> RedisResult<()> {
        let server: redis::InfoDict =
            redis::cmd("INFO").arg("server").query_async(connection).await?;
        let run_id: String = server.get("run_id").unwrap_or_default();
        let has_mark = redis::cmd("EXISTS").arg(MARK).query_async(connection).await?;
        if has_mark {
            return Err((redis::ErrorKind::Client, HAS_MARK).into());
        }
        let client_id = redis::cmd("CLIENT").arg("ID").query_async(connection).await?;
        if let Some(last) = self.last.as_ref().filter(|last| last.run_id == run_id) {
            last.kill(connection).await?;
        }
        self.last = Some(Predecessor { run_id, client_id });
        Ok(())
    }
}

/// Asks, and hands over the answer. The error is that of a connection that is of no use any more, or cannot do what is
/// owed.
async fn tell(
    mut connection: MultiplexedConnection,
    request: Cmd,
    owed_at: Option<u64>,
    answer: Option<oneshot::Sender<Answer>>,
) -> (Option<u64>, RedisResult<()>) {
    let result = request.query_async::<i64>(&mut connection).await;
    let (said, result) = match result {
        Ok(number) => (Some(Ok(number)), Ok(())),
        Err(error) if error.code().is_some() => {
            let text = text_of(&error);
            (Some(Err(text)), if owed_at.is_some() { Err(error) } else { Ok(()) })
        }
        Err(error) => (None, Err(error)),
    };
    if let Some((answer, said)) = answer.zip(said) {
        let _ = answer.send(said);
    }
    (owed_at, result)
}

/// In the words of the server.
fn text_of(error: &redis::RedisError) -> String {
    let (code, detail) = (error.code().unwrap_or("ERR"), error.detail().unwrap_or_default());
    format!("{code} {detail}")
}
