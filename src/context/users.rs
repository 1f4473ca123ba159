//! Who a session is logged in as, and what becomes of it when users change.

use std::sync::Arc;

use super::caller::Caller;
use crate::acl::User;
use crate::catalogue::error;
use crate::catalogue::table::NO_COMMAND;
use crate::client::login::{Login, NoSeat};
use crate::client::registry::Disconnected;
use crate::data::setup::Credentials;
use crate::resp::reply::Reply;
use crate::time::clock::{self, Instant};

impl Caller {
    /// Logs in as `user`, with what is its `own` at the data Redis, too, perhaps.
    ///
    /// # Errors
    /// There are as many of them as there may be; everything stays as it was.
    pub fn log_in(&mut self, user: &Arc<User>, own: Option<Credentials>) -> Result<(), Reply> {
        let most = self.worker.live().max_clients_per_user;
        let entered = self.login.enter(user, self.worker.registry().seats(), most);
        entered.map_err(|NoSeat(name)| error::too_many_clients_of(&name))?;
        self.client.words().user = Arc::clone(user.name());
        self.attempts.succeeded();
        self.logged_in_with(own);
        Ok(())
    }

    /// What the client has logged in with: perhaps it is somebody at the data Redis, too.
    fn logged_in_with(&mut self, own: Option<Credentials>) {
        if let Some(side) = &mut self.side {
            side.log_in(self.login.is_free(), own);
        }
    }

    /// When the password may be looked at that this client gives now; `None`: at once.
    pub fn login_due(&mut self) -> Option<Instant> {
        let guesses = self.worker.registry().guesses();
        self.attempts.due(guesses, &self.client.address, clock::now())
    }

    /// It was wrong.
    pub fn login_failed(&mut self) {
        let guesses = self.worker.registry().guesses();
        self.attempts.failed(guesses, &self.client.address, clock::now());
    }

    /// Logs the client in if the default user needs no password. Returns false if the connection has to end, as it may
    /// not be logged in; the client is told so.
    pub fn log_in_if_open(&mut self) -> bool {
        match self.forget_login() {
            Ok(()) => true,
            Err(refused) => {
                self.outbox.push_reply(NO_COMMAND, refused);
                false
            }
        }
    }

    /// As every connection is at first: the default user, who is let in if no password is needed.
    ///
    /// # Errors
    /// There are as many of them as there may be; this one is not logged in.
    pub fn forget_login(&mut self) -> Result<(), Reply> {
        let users = Arc::clone(&self.worker.live().users);
        self.login = Login::stranger(&users);
        self.client.words().user = Arc::clone(self.login.user().name());
        self.logged_in_with(None);
        match users.default_user() {
            user if user.is_open() => self.log_in(user, None),
            _ => Ok(()),
        }
    }

    /// Takes over what somebody has changed about users: their new rules count at once, as in Redis.
    ///
    /// # Errors
    /// This one is there no more, or has subscribed to what it may not hear any more.
    pub fn adopt_users(&mut self) -> Result<(), Disconnected> {
        if Arc::ptr_eq(&self.users, &self.worker.live().users) {
            return Ok(());
        }
        self.users = Arc::clone(&self.worker.live().users);
        if !self.login.is_authenticated() {
            return self.forget_login().map_err(|_| Disconnected::User);
        }
        let before = Arc::clone(self.login.user());
        let user = self.users.named(before.name().as_bytes()).ok_or(Disconnected::User)?;
        self.login.adopt(user);
        if let Some(side) = &mut self.side {
            side.settle_login(self.login.is_free());
        }
        if user.may_the_same(&before) {
            return Ok(());
        }
        if let Some(transaction) = &mut self.transaction {
            // What was queued was allowed by other rules.
            transaction.abort();
        }
        let hears_the_same = user.channels() == before.channels() || !self.has_subscriptions();
        if hears_the_same { Ok(()) } else { Err(Disconnected::User) }
    }
}
