//! One worker's connection for requests for locks at the data Redis, in the order in which they are made.
//!
//! A request that was not answered may still have been carried out. So a lost connection is cut off at the data Redis
//! before the next one is used. Locks to be taken back are sent over that one first.

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

use super::pending::{Pending, UnderWay};
use super::script::CopyName;
use crate::catalogue::reserved::MARK;
use crate::data::upstream::{Dialled, Upstream};
use crate::data::watch::HAS_MARK;
use crate::data::whereabouts::ended;
use crate::masters::probe::{Predecessor, ProbeError, over};
use crate::time::clock::{self, Instant};

/// Pause between two attempts to reach the data Redis.
const PAUSE: Duration = Duration::from_millis(100);

/// Silence of the data Redis after which another connection is opened.
const SILENCE: Duration = Duration::from_secs(5);

/// Maximum requests owed while the data Redis is away. Beyond that, the oldest lock is left to its TTL.
const MAX_OWED: usize = 65_536;

/// The data Redis's answer; the error is its own.
pub type GateAnswer = Result<i64, String>;

/// Queue of requests for the data Redis.
pub struct Gate {
    orders: mpsc::UnboundedSender<Order>,
    pending: Rc<Pending>,
}

struct Order {
    request: Cmd,
    answer: oneshot::Sender<GateAnswer>,
    /// Time until which the request must arrive; `None`: it need not.
    owed_until: Option<Instant>,
    under_way: UnderWay,
}

impl Gate {
    /// Connects, and stays connected for as long as this is kept.
    pub fn open(upstream: Upstream) -> Rc<Self> {
        let (orders, received) = mpsc::unbounded_channel();
        let pending = Rc::<Pending>::default();
        let (owed, last) = (Owed::default(), None);
        let task = Task { upstream, owed, last, pending: Rc::clone(&pending), refusal: None };
        tokio::task::spawn_local(task.run(received));
        Rc::new(Self { orders, pending })
    }

    /// Returns a name never used before.
    pub fn name() -> CopyName {
        CopyName(fastrand::u128(..))
    }

    /// Sends a request now. Returns `None` if its outcome is not known within `patience`.
    pub fn ask(
        &self,
        request: Cmd,
        patience: Duration,
    ) -> impl Future<Output = Option<GateAnswer>> + use<> {
        let answer = self.send(request, None);
        async move { tokio::time::timeout(patience, answer).await.ok()?.ok() }
    }

    /// Makes sure that a request arrives, unless `until` comes before that is possible.
    pub fn owe(&self, request: Cmd, until: Instant) {
        self.send(request, Some(until));
    }

    /// Returns the unfinished work, including answers that nobody waits for.
    pub fn pending(&self) -> &Rc<Pending> {
        &self.pending
    }

    fn send(&self, request: Cmd, owed_until: Option<Instant>) -> oneshot::Receiver<GateAnswer> {
        let (answer, answered) = oneshot::channel();
        // The task lives as long as the worker.
        let under_way = self.pending.begin();
        let _ = self.orders.send(Order { request, answer, owed_until, under_way });
        answered
    }
}

/// Requests that must arrive, in the order in which they were made.
#[derive(Default)]
struct Owed {
    orders: BTreeMap<u64, Debt>,
    next: u64,
}

struct Debt {
    request: Cmd,
    until: Instant,
    _under_way: UnderWay,
}

impl Owed {
    fn insert(&mut self, debt: Debt) -> u64 {
        if self.orders.len() >= MAX_OWED {
            self.orders.pop_first();
        }
        self.next += 1;
        self.orders.insert(self.next, debt);
        self.next
    }
}

struct Task {
    upstream: Upstream,
    owed: Owed,
    /// The last connection.
    last: Option<Predecessor>,
    pending: Rc<Pending>,
    /// Error with which the data Redis last refused to take requests.
    refusal: Option<String>,
}

impl Task {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        while !orders.is_closed() {
            let mut was_there = false;
            let Err(error) = self.serve(&mut orders, &mut was_there).await;
            self.pending.found(was_there);
            self.refuse(&error, was_there);
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

    /// Remembers why no request can be sent. An error that the server itself sends persists until an operator acts.
    fn refuse(&mut self, error: &ProbeError, was_there: bool) {
        let said = words_of(error);
        let is_news = was_there || said != self.refusal;
        match &said {
            Some(said) if is_news => {
                tracing::warn!("the data Redis rejects this proxy's requests for locks: {said}");
            }
            _ => tracing::debug!("cannot request locks at the data Redis: {error}"),
        }
        self.refusal = said;
    }

    /// Keeps an owed request for later. For any other, answers with the refusal of the data Redis, if there was one.
    fn keep_what_is_owed(&mut self, order: Order) {
        let Order { request, answer, owed_until, under_way } = order;
        if let Some(until) = owed_until {
            self.owed.insert(Debt { request, until, _under_way: under_way });
        } else if let Some(said) = &self.refusal {
            let _ = answer.send(Err(said.clone()));
        }
    }

    async fn serve(
        &mut self,
        orders: &mut mpsc::UnboundedReceiver<Order>,
        was_there: &mut bool,
    ) -> Result<Infallible, ProbeError> {
        let upstream = self.upstream.clone();
        let Dialled { stream, mut tenure } = upstream.dial().await?;
        let login = upstream.login();
        tokio::select! {
            biased;
            () = ended(tenure.as_mut()) => Err(std::io::Error::other("the master was replaced").into()),
            error = over(stream, &login, |connection| self.over(connection, orders, was_there)) => error,
        }
    }

    async fn over(
        &mut self,
        mut connection: MultiplexedConnection,
        orders: &mut mpsc::UnboundedReceiver<Order>,
        was_there: &mut bool,
    ) -> Result<Infallible, ProbeError> {
        connection.set_response_timeout(SILENCE);
        self.begin(&mut connection).await?;
        *was_there = true;
        self.pending.found(true);
        let now = clock::now();
        self.owed.orders.retain(|_, debt| debt.until > now);
        let owed = RefCell::new(&mut self.owed);
        let mut on_their_way = FuturesUnordered::new();
        for (at, Debt { request, .. }) in &owed.borrow().orders {
            on_their_way
                .push(tell(connection.clone(), request.clone(), Some(*at), None).boxed_local());
        }
        loop {
            let (at, result) = tokio::select! {
                biased;
                Some(done) = on_their_way.next() => done,
                Some(Order { request, answer, owed_until, under_way }) = orders.recv() => {
                    let (at, asked) = match owed_until {
                        Some(until) => {
                            let debt = Debt { request: request.clone(), until, _under_way: under_way };
                            (Some(owed.borrow_mut().insert(debt)), None)
                        }
                        None => (None, Some(under_way)),
                    };
                    let telling = tell(connection.clone(), request, at, Some(answer));
                    let mut told = async move {
                        let _asked = asked;
                        telling.await
                    }
                    .boxed_local();
                    // After one poll the request is in the connection's queue, behind all earlier ones.
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

    /// Cuts off the previous connection.
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

/// Sends a request, and hands over the answer. Returns an error if the connection is of no further use, or if the data
/// Redis rejects an owed request.
async fn tell(
    mut connection: MultiplexedConnection,
    request: Cmd,
    owed_at: Option<u64>,
    answer: Option<oneshot::Sender<GateAnswer>>,
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

/// Returns the error in the words of the server.
fn text_of(error: &redis::RedisError) -> String {
    let (code, detail) = (error.code().unwrap_or("ERR"), error.detail().unwrap_or_default());
    format!("{code} {detail}")
}

/// Returns the server's words, if the error comes from the server.
fn words_of(error: &ProbeError) -> Option<String> {
    match error {
        ProbeError::WrongPassword => {
            Some("WRONGPASS the user or the password in --data is wrong".to_owned())
        }
        ProbeError::Refused(error) => error.code().map(|_| text_of(error)),
        ProbeError::NotRedis | ProbeError::Unreachable(_) => None,
    }
}
