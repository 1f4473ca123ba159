//! What belongs to a connection and has to be brought to the data Redis: who the client is, and what it has chosen.

use crate::acl::DEFAULT_USER;
use crate::client::reply::Protocol;
use crate::config::Secret;
use crate::operation::request;

/// Who a client is, and what it has chosen for its connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// As whom to log in, if at all.
    pub login: Option<Credentials>,
    /// `HELLO`
    pub protocol: Protocol,
    /// `CLIENT SETNAME`; an empty name is none.
    pub name: String,
    /// `SELECT`
    pub db: u32,
}

/// A user and its password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// `None` is the default user.
    pub user: Option<String>,
    /// The password.
    pub password: Secret,
}

impl Credentials {
    /// Those that a client has given. A password that is no text is none that Redis could compare.
    pub fn of(user: &str, password: &[u8]) -> Self {
        let user = Some(user.to_owned()).filter(|user| user != DEFAULT_USER);
        Self { user, password: Secret::new(String::from_utf8_lossy(password)) }
    }
}

impl Setup {
    /// The same for a connection that clients share: it has no name.
    pub fn shared(&self) -> Self {
        Self { name: String::new(), ..self.clone() }
    }

    /// Whether a connection that was brought to `shared` serves a client that wants `self`.
    pub fn is_served_by(&self, shared: &Self) -> bool {
        let Self { login, protocol, name: _, db } = self;
        *db == shared.db && *protocol == shared.protocol && *login == shared.login
    }

    /// Appends the requests after which a connection that has been brought to `before` has been brought to `self`.
    pub fn bring(&self, before: &Self, out: &mut Vec<u8>) -> Brought {
        let mut brought = Brought::default();
        let mut say = |words: &[&[u8]]| {
            request::encode(out, words);
            brought.needed += 1;
        };
        if self.login != before.login
            && let Some(Credentials { user, password }) = &self.login
        {
            // With its name the default user is let in with any password where it needs none.
            let user = user.as_deref().unwrap_or(DEFAULT_USER);
            say(&[b"AUTH", user.as_bytes(), password.expose().as_bytes()]);
        }
        if self.protocol != before.protocol {
            let version: &[u8] = if self.protocol == Protocol::Resp3 { b"3" } else { b"2" };
            say(&[b"HELLO", version]);
        }
        if self.db != before.db {
            say(&[b"SELECT", self.db.to_string().as_bytes()]);
        }
        if self.name != before.name {
            request::encode(out, &[b"CLIENT", b"SETNAME", self.name.as_bytes()]);
            brought.optional += 1;
        }
        brought
    }
}

/// How many requests have been said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// Those without which the connection is of no use, and which come first.
    pub needed: usize,
    /// Those that a user may not be allowed to send.
    pub optional: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(setup: &Setup, before: &Setup) -> ([usize; 2], String) {
        let mut out = Vec::new();
        let brought = setup.bring(before, &mut out);
        let words = String::from_utf8(out).expect("text").replace("\r\n", " ");
        ([brought.needed, brought.optional], words)
    }

    #[test]
    fn a_connection_that_is_as_it_should_be_is_told_nothing() {
        let setup = Setup { db: 3, name: "n".to_owned(), ..Setup::default() };
        assert_eq!(said(&setup, &setup), ([0, 0], String::new()));
        assert_eq!(said(&Setup::default(), &Setup::default()).0, [0, 0], "as a new one");
    }

    #[test]
    fn who_it_is_comes_before_what_it_has_chosen() {
        let login = Credentials { user: Some("al".to_owned()), password: Secret::new("pw") };
        let setup =
            Setup { login: Some(login), protocol: Protocol::Resp3, name: "n".to_owned(), db: 2 };
        let (requests, words) = said(&setup, &Setup::default());
        let expected = "*3 $4 AUTH $2 al $2 pw *2 $5 HELLO $1 3 *2 $6 SELECT $1 2 \
                        *3 $6 CLIENT $7 SETNAME $1 n ";
        assert_eq!((requests, words.as_str()), ([3, 1], expected));
        assert_eq!(
            said(&Setup::default(), &Setup { db: 2, ..Setup::default() }).1,
            "*2 $6 SELECT $1 0 "
        );
    }
}
