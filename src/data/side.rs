//! One session's view of its client's dealings with the data Redis.

use std::rc::Rc;
use std::task::{Context, Poll};

use super::answers::is_occupied;
use super::connection::{DataConnection, Lost, Ready};
use super::setup::{Credentials, Setup};
use super::shared::{SharedConnection, SharedConnections, SharedRequest};
use super::spare::Spares;
use super::upstream::Upstream;
use crate::catalogue::reserved::CAUGHT_UP;
use crate::client::outbox::Outbox;
use crate::operation::request;
use crate::pubsub::subscriber::Subscriber;
use crate::resp::reply::Protocol;

/// A client's side of the data Redis: its connection, once it needs one, and the state to keep for it.
pub struct Side {
    spares: Rc<Spares>,
    /// The client's own connection.
    connection: Option<Box<DataConnection>>,
    /// The worker's connections for short requests.
    all_shared: Rc<SharedConnections>,
    /// The shared connection that took the client's last short request.
    shared: Option<Rc<SharedConnection>>,
    /// Whether one of its short requests has changed something.
    has_shared_change: bool,
    /// Whether it is better off with a connection of its own.
    wants_own: bool,
    /// A request that a shared connection has sent back, to be passed on over the client's own.
    sent_back: Option<Box<[u8]>>,
    /// Setup that the client wants for the connection.
    wanted: Setup,
    /// Credentials of the client's login to the proxy, if it had to log in.
    own: Option<Credentials>,
    /// Whether it logs in to the data Redis with its own credentials.
    is_itself: bool,
    /// Whether it must not use the data Redis: as a user unknown there, it would become the user that needs no
    /// password.
    is_barred: bool,
    /// Whether the connection's open work belongs to the client's previous user.
    is_condemned: bool,
    /// Place where the commands of a `MULTI` run.
    pub transaction: DataTransaction,
    /// A key that the client watches there.
    pub watched: Option<Box<[u8]>>,
    /// The client's subscriptions, once it has some at the data Redis.
    subscriber: Option<Rc<Subscriber>>,
    /// Words of the current request, some of which may not have arrived yet.
    pub words: usize,
    /// Whether the request about to be passed on may select another database.
    pub has_selected: bool,
    /// Whether the data Redis refused the client when it was last needed.
    pub was_refused: bool,
    /// Whether monitors at the data Redis see the request that the proxy answers now.
    pub was_told: bool,
    /// Whether messages without a subscription may come: of `MONITOR` and `CLIENT TRACKING`.
    pub is_told: bool,
    /// Whether `CLIENT TRACKING` is on there.
    pub is_tracking: bool,
    /// Whether a request waits for the connection.
    is_needed: bool,
    /// Whether messages wait until the client knows their new form.
    is_changing: bool,
    /// Error for that request, sent by the data Redis before it closed the connection.
    last_words: Option<String>,
}

/// Place where the commands of a `MULTI` run: all of them at the same place.
#[derive(Debug, Default)]
pub enum DataTransaction {
    /// No transaction has begun.
    #[default]
    None,
    /// No key has decided yet. Holds the queued requests, to be sent again if it turns out to be the data Redis.
    Undecided {
        /// Requests since `MULTI`.
        requests: Vec<u8>,
        /// Number of these requests.
        count: usize,
        /// A command among them that changes the connection, which cannot be done there.
        bar: Option<Box<str>>,
        /// Whether one of them is a `SELECT`.
        selects: bool,
    },
    /// On the masters, because of this key.
    Locks(Box<[u8]>),
    /// On the data Redis.
    Data {
        /// The key that decided it, if it was one.
        key: Box<[u8]>,
        /// Whether a command was refused, so that `EXEC` will be refused, too.
        is_refused: bool,
        /// Whether it may select another database.
        selects: bool,
    },
}

impl Side {
    /// Returns the side of a client that has not needed the data Redis yet.
    pub fn new(spares: Rc<Spares>, all_shared: Rc<SharedConnections>) -> Self {
        let wanted = Setup { db: spares.upstream().settings().address.db, ..Setup::default() };
        Self {
            spares,
            connection: None,
            all_shared,
            shared: None,
            has_shared_change: false,
            wants_own: false,
            sent_back: None,
            wanted,
            own: None,
            is_itself: false,
            is_barred: true,
            is_condemned: false,
            transaction: DataTransaction::None,
            watched: None,
            subscriber: None,
            words: 0,
            has_selected: false,
            was_refused: false,
            was_told: false,
            is_told: false,
            is_tracking: false,
            is_needed: false,
            is_changing: false,
            last_words: None,
        }
    }

    /// Sets the client's user and its credentials. A client without restrictions may become the user that the settings
    /// name for the data Redis. Every other client has the same user there as here.
    pub fn log_in(&mut self, is_free: bool, own: Option<Credentials>) {
        self.own = own;
        self.settle_login(is_free);
    }

    /// Derives the login again, after the client's rules have changed.
    pub fn settle_login(&mut self, is_free: bool) {
        let address = &self.spares.upstream().settings().address;
        let configured = address.password.as_ref().filter(|_| is_free).map(|password| {
            let (user, password) = (address.user.clone(), password.clone());
            Credentials { user, password }
        });
        self.is_itself = configured.is_none() && self.own.is_some();
        let login = configured.or_else(|| self.own.clone());
        self.is_barred = !is_free && login.is_none();
        if self.wanted.login != login {
            self.wanted.login = login;
            // Redis has no way to undo a login.
            if self.wanted.login.is_none() {
                self.is_condemned = self.connection.is_some() && !self.is_at_rest();
                if !self.is_condemned {
                    self.connection = None;
                }
            }
        }
    }

    /// Whether the client must not use the data Redis.
    pub fn is_barred(&self) -> bool {
        self.is_barred
    }

    /// `CLIENT SETNAME`
    pub fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.wanted.name);
    }

    /// `CLIENT NO-EVICT`
    pub fn set_never_evicted(&mut self, is_on: bool) {
        self.wanted.is_never_evicted = is_on;
    }

    /// `CLIENT NO-TOUCH`
    pub fn set_touches_nothing(&mut self, is_on: bool) {
        self.wanted.touches_nothing = is_on;
    }

    /// `RESET`: as a new client, on a new connection.
    pub fn reset(&mut self) {
        self.disconnect();
        self.wanted.name.clear();
        self.wanted.touches_nothing = false;
    }

    /// Takes over the results of `SELECT` and `HELLO` for the next request.
    pub fn choose(&mut self, db: u32, protocol: Protocol) {
        (self.wanted.db, self.wanted.protocol) = (db, protocol);
    }

    /// Returns the way to the data Redis.
    pub fn upstream(&self) -> &Upstream {
        self.spares.upstream()
    }

    /// Whether the next short request can travel with those of others: of clients that have the same user and no
    /// connection of their own. If so, [`Side::share`] passes it on.
    pub fn may_share(&mut self) -> bool {
        let has_own = self.connection.is_some() || self.sent_back.is_some() || self.wants_own;
        if has_own || self.is_itself || !matches!(self.transaction, DataTransaction::None) {
            return false;
        }
        if self.shared.as_ref().is_some_and(|shared| shared.serves(&self.wanted)) {
            return true;
        }
        // A new client in doubt asks the data Redis over a connection of its own.
        if self.upstream().health().is_in_trouble() {
            return false;
        }
        self.spares.expect(&self.wanted);
        self.shared = self.all_shared.of(self.spares.upstream(), &self.wanted);
        self.shared.is_some()
    }

    /// Passes a request on with those of others.
    pub fn share(&mut self, request: SharedRequest) {
        self.has_shared_change |= !request.is_read;
        if let Some(shared) = &self.shared {
            shared.request(request);
        }
    }

    /// Whether the client's last request was passed on with those of others, or was sent back from there and is to be
    /// passed on again.
    pub fn has_shared(&self) -> bool {
        self.shared.is_some() && (self.connection.is_none() || self.sent_back.is_some())
    }

    /// Notes that the client is better off with a connection of its own. It sends long requests, or sends the next one
    /// before it has the reply to the last.
    pub fn want_own(&mut self) {
        self.wants_own = true;
    }

    /// Takes back a request that a shared connection could not answer, for the client's own connection.
    pub fn take_back(&mut self, request: Box<[u8]>) {
        self.sent_back = Some(request);
    }

    /// Passes such a request on if possible; `None`: there is none.
    pub fn pass_again(&mut self) -> Option<Ready> {
        let request = self.sent_back.take()?;
        let ready = self.ready();
        match (&ready, self.connection.as_mut()) {
            (Ready::Now, Some(connection)) => {
                connection.request(&request);
                self.is_needed = false;
            }
            (Ready::Later, _) => self.sent_back = Some(request),
            _ => {}
        }
        Some(ready)
    }

    /// Returns whether a request can be passed on now. If not, starts everything that this requires.
    pub fn ready(&mut self) -> Ready {
        self.ready_over(|side| match side.is_itself {
            true => side.spares.open(),
            false => side.spares.connection(&side.wanted),
        })
    }

    /// Like [`Side::ready`], for `MONITOR`. Never uses a spare connection: the client would see how the next spare is
    /// set up, right at the confirmation. ioredis 5 takes a line that arrives together with the confirmation for
    /// another request's reply.
    pub fn ready_to_watch(&mut self) -> Ready {
        self.ready_over(|side| side.spares.open())
    }

    fn ready_over(&mut self, begin: impl FnOnce(&Self) -> Box<DataConnection>) -> Ready {
        let ready = match self.last_words.take() {
            Some(said) => Ready::Refused(said),
            None => {
                let connection = self.connection.take().unwrap_or_else(|| begin(self));
                self.connection.insert(connection).ready(&self.wanted)
            }
        };
        self.was_refused = matches!(ready, Ready::Refused(_));
        match &ready {
            Ready::Now => {}
            Ready::Later => self.is_needed = true,
            Ready::Refused(_) => self.is_needed = false,
        }
        ready
    }

    /// Like [`Side::ready`], for a change of the form of messages. From then on no message comes before the client
    /// knows.
    pub fn ready_to_change(&mut self) -> Ready {
        let ready = self.ready();
        self.is_changing = ready == Ready::Later;
        self.is_needed &= self.is_changing;
        ready
    }

    /// Whether messages may come.
    pub fn hears(&self) -> bool {
        self.is_told || self.listens()
    }

    /// Whether a request may be passed on in spite of `refusal`, because Redis runs it even when it runs no others.
    pub fn may_pass_regardless(&self, refusal: &str) -> bool {
        is_occupied(refusal) && self.connection.is_some() && self.has_begun_nothing()
    }

    /// Like [`Side::ready`], for a request that can do without the data Redis; `None`: it must do without.
    pub fn ready_if_there(&mut self) -> Option<Ready> {
        if self.is_barred || self.upstream().health().is_in_trouble() {
            return None;
        }
        let was_needed = self.is_needed;
        let ready = self.ready();
        self.is_needed = was_needed;
        Some(ready)
    }

    /// Returns the connection, after [`Side::ready`] has reported it ready.
    pub fn connection(&mut self) -> Option<&mut DataConnection> {
        self.is_needed = false;
        self.connection.as_deref_mut()
    }

    /// Whether it is not known yet which database a transaction has selected.
    pub fn is_choosing(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.is_choosing())
    }

    /// Returns how many more bytes of a long request may be passed on now.
    pub fn room(&self) -> usize {
        self.connection.as_ref().map_or(0, |connection| connection.room())
    }

    /// Whether the client would not notice a change of its connection.
    pub fn is_at_rest(&self) -> bool {
        !self.is_needed && self.has_begun_nothing()
    }

    fn has_begun_nothing(&self) -> bool {
        let is_awaited = self.connection.as_ref().is_some_and(|it| it.is_awaited());
        let is_open = matches!(self.transaction, DataTransaction::Data { .. });
        !is_awaited && !is_open && !self.hears() && self.watched.is_none()
    }

    /// Prepares for a subscription of the client at the data Redis.
    pub fn listen(&mut self, subscriber: &Rc<Subscriber>) {
        self.subscriber.get_or_insert_with(|| Rc::clone(subscriber));
    }

    fn listens(&self) -> bool {
        self.subscriber.as_ref().is_some_and(|it| it.listens_elsewhere() || it.is_changing())
    }

    /// Prepares for `WAIT`, which is about its own connection's last write (`networking.c`, `woff` of a client), while
    /// the client's writes went another way. So the connection publishes to replicas afterwards, on a channel that
    /// nobody can hear. A Redis before 7.0 does not know this command, but there any command of the connection records
    /// the current offset.
    pub fn catch_up(&mut self) {
        if std::mem::take(&mut self.has_shared_change)
            && let Some(connection) = self.connection()
        {
            let mut publish = Vec::new();
            request::encode(&mut publish, &[b"SPUBLISH", CAUGHT_UP.as_bytes(), b""]);
            connection.say(&publish, 1);
        }
    }

    /// `MONITOR`: everything that happens there is shown. The proxy itself answers the client.
    pub fn monitor(&mut self) {
        if !self.is_told
            && let Some(connection) = self.connection()
        {
            connection.say(b"*1\r\n$7\r\nMONITOR\r\n", 1);
            self.is_told = true;
        }
    }

    /// Drops the connection. The next request gets a new one.
    pub fn disconnect(&mut self) {
        (self.connection, self.transaction, self.watched) = Default::default();
        self.sent_back = None;
        (self.is_needed, self.is_condemned, self.is_told) = (false, false, false);
        (self.is_changing, self.is_tracking) = (false, false);
        if let Some(subscriber) = self.subscriber.take() {
            subscriber.leave_all_elsewhere();
        }
    }

    /// Notes that the client will send no more.
    pub fn end_of_requests(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.end_of_requests();
        }
    }

    /// Drives the connection. Returns ready if anything has happened.
    ///
    /// # Errors
    /// Returns an error if the connection is lost and the client must notice.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        outbox: &Outbox,
        buffer: &mut [u8],
    ) -> Poll<Result<(), Lost>> {
        let Some(connection) = &mut self.connection else { return Poll::Pending };
        if self.is_condemned {
            return Poll::Ready(Err(Lost::AnotherUser));
        }
        // A message must not come before its subscription is confirmed.
        let is_joining = self.subscriber.as_ref().is_some_and(|it| it.is_changing());
        let is_changing = self.is_changing || is_joining;
        match connection.poll(cx, outbox, is_changing, buffer) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(lost) => self.lost(lost),
        }
    }

    /// Handles a lost connection. The client need not notice while nothing is open there. A transaction goes on if it
    /// is not known yet where it runs.
    fn lost(&mut self, lost: Lost) -> Poll<Result<(), Lost>> {
        let last_words = self.connection.as_mut().and_then(|it| it.refusal());
        if !self.has_begun_nothing() || self.is_needed && last_words.is_none() {
            return Poll::Ready(Err(lost));
        }
        self.last_words = last_words.filter(|_| self.is_needed);
        (self.connection, self.is_needed) = (None, false);
        Poll::Ready(Ok(()))
    }

    /// Returns the memory it takes, in bytes.
    pub fn held(&self) -> usize {
        let connection = self.connection.as_ref().map_or(0, |it| it.held());
        let queued = match &self.transaction {
            DataTransaction::Undecided { requests, .. } => requests.capacity(),
            _ => 0,
        };
        connection + queued + self.sent_back.as_ref().map_or(0, |request| request.len())
    }
}
