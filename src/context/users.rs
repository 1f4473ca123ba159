//! The user of a session, and the effect on it when users change.

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
    /// Logs in as `user`, and at the data Redis with the client's `own` credentials, if any.
    ///
    /// # Errors
    /// Returns an error if the user has as many connections as allowed; nothing changes then.
    pub fn log_in(&mut self, user: &Arc<User>, own: Option<Credentials>) -> Result<(), Reply> {
        let most = self.worker.live().max_clients_per_user;
        let entered = self.login.enter(user, self.worker.registry().seats(), most);
        entered.map_err(|NoSeat(name)| error::too_many_clients_of(&name))?;
        self.client.words().user = Arc::clone(user.name());
        self.attempts.succeeded();
        self.logged_in_with(own);
        Ok(())
    }

    /// Passes the client's credentials on to the data Redis, where it may have a user, too.
    fn logged_in_with(&mut self, own: Option<Credentials>) {
        if let Some(side) = &mut self.side {
            side.log_in(self.login.is_free(), own);
        }
    }

    /// Returns the time from which the password that this client sends now may be checked, or `None` for at once.
    pub fn login_due(&mut self) -> Option<Instant> {
        let guesses = self.worker.registry().guesses();
        self.attempts.due(guesses, &self.client.address, clock::now())
    }

    /// Records a wrong password.
    pub fn login_failed(&mut self) {
        let guesses = self.worker.registry().guesses();
        self.attempts.failed(guesses, &self.client.address, clock::now());
    }

    /// Logs the client in if the default user needs no password. Returns false if that was refused: the connection then
    /// has to end, and the client receives the error.
    pub fn log_in_if_open(&mut self) -> bool {
        match self.forget_login() {
            Ok(()) => true,
            Err(refused) => {
                self.outbox.push_reply(NO_COMMAND, refused);
                false
            }
        }
    }

    /// Resets the connection to its initial login: the default user, who is logged in if no password is needed.
    ///
    /// # Errors
    /// Returns an error if the default user has as many connections as allowed; this one is then not logged in.
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

    /// Applies changes of users. New rules apply at once, as in Redis.
    ///
    /// # Errors
    /// Returns an error if the client's user is gone, or may no longer access a channel that the client has subscribed
    /// to.
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
            // The queue was accepted under other rules.
            transaction.abort();
        }
        let hears_the_same = user.channels() == before.channels() || !self.has_subscriptions();
        if hears_the_same { Ok(()) } else { Err(Disconnected::User) }
    }
}
