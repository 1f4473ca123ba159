//! State of a connection to bring to the data Redis: the client's user, and what it has chosen.

use crate::acl::DEFAULT_USER;
use crate::config::Secret;
use crate::operation::request;
use crate::resp::reply::Protocol;

/// A client's user, and what it has chosen for its connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Login, if there is one.
    pub login: Option<Credentials>,
    /// `HELLO`
    pub protocol: Protocol,
    /// `CLIENT SETNAME`; empty means no name.
    pub name: String,
    /// `SELECT`
    pub db: u32,
    /// `CLIENT NO-EVICT ON`
    pub is_never_evicted: bool,
    /// `CLIENT NO-TOUCH ON`
    pub touches_nothing: bool,
}

/// A user and its password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// User name; `None`: the default user.
    pub user: Option<String>,
    /// The password.
    pub password: Secret,
}

impl Credentials {
    /// Returns the credentials that a client has given. A password that is no text is one that Redis could not compare.
    pub fn of(user: &str, password: &[u8]) -> Self {
        let user = Some(user.to_owned()).filter(|user| user != DEFAULT_USER);
        Self { user, password: Secret::new(String::from_utf8_lossy(password)) }
    }
}

impl Setup {
    /// Returns the same setup for a connection that clients share: it has no name.
    pub fn shared(&self) -> Self {
        Self { name: String::new(), ..self.clone() }
    }

    /// Whether a connection that was brought to `shared` serves a client that wants `self`.
    pub fn is_served_by(&self, shared: &Self) -> bool {
        let Self { login, protocol, name: _, db, is_never_evicted, touches_nothing } = self;
        let is_treated_alike = *is_never_evicted == shared.is_never_evicted
            && *touches_nothing == shared.touches_nothing;
        *db == shared.db
            && *protocol == shared.protocol
            && is_treated_alike
            && *login == shared.login
    }

    /// Appends the requests that bring a connection from `before` to `self`. Returns the step that each of them takes.
    pub fn bring(&self, before: &Self, out: &mut Vec<u8>) -> Vec<SetupStep> {
        let mut steps = Vec::new();
        let mut say = |words: &[&[u8]], step: SetupStep| {
            request::encode(out, words);
            steps.push(step);
        };
        if self.login != before.login
            && let Some(Credentials { user, password }) = &self.login
        {
            // Under its name, the default user is let in with any password if it needs none.
            let user = user.as_deref().unwrap_or(DEFAULT_USER);
            let words: [&[u8]; 3] = [b"AUTH", user.as_bytes(), password.expose().as_bytes()];
            say(&words, SetupStep::Login(before.login.clone()));
        }
        let hello: Option<[&[u8]; 2]> =
            (self.protocol != before.protocol).then_some([b"HELLO", self.protocol.number()]);
        // In RESP2 a subscriber can send nothing else, so a switch to it comes last.
        let (first, last) = match self.protocol {
            Protocol::Resp3 => (hello, None),
            Protocol::Resp2 => (None, hello),
        };
        if let Some(hello) = first {
            say(&hello, SetupStep::Protocol(before.protocol));
        }
        if self.db != before.db {
            say(&[b"SELECT", self.db.to_string().as_bytes()], SetupStep::Database(before.db));
        }
        let mut say_optional = |words: [&[u8]; 2]| {
            say(&[b"CLIENT", words[0], words[1]], SetupStep::Optional);
        };
        if self.name != before.name {
            say_optional([b"SETNAME", self.name.as_bytes()]);
        }
        if self.is_never_evicted != before.is_never_evicted {
            say_optional([b"NO-EVICT", on_or_off(self.is_never_evicted)]);
        }
        if self.touches_nothing != before.touches_nothing {
            say_optional([b"NO-TOUCH", on_or_off(self.touches_nothing)]);
        }
        if let Some(hello) = last {
            say(&hello, SetupStep::Protocol(before.protocol));
        }
        steps
    }

    /// Undoes a step that the data Redis has refused: the previous value still holds. An optional step is not tried
    /// again.
    pub fn undo(&mut self, step: SetupStep) {
        match step {
            SetupStep::Login(login) => self.login = login,
            SetupStep::Protocol(protocol) => self.protocol = protocol,
            SetupStep::Database(db) => self.db = db,
            SetupStep::Optional => {}
        }
    }
}

fn on_or_off(is_on: bool) -> &'static [u8] {
    if is_on { b"ON" } else { b"OFF" }
}

/// One request of a set-up, with the value that holds if the data Redis refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupStep {
    /// `AUTH`
    Login(Option<Credentials>),
    /// `HELLO`
    Protocol(Protocol),
    /// `SELECT`
    Database(u32),
    /// A request that a user may be forbidden to send, and can do without. No other request waits for it.
    Optional,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(setup: &Setup, before: &Setup) -> (Vec<SetupStep>, String) {
        let mut out = Vec::new();
        let steps = setup.bring(before, &mut out);
        let words = String::from_utf8(out).expect("text").replace("\r\n", " ");
        (steps, words)
    }

    fn everything() -> Setup {
        let login = Credentials { user: Some("al".to_owned()), password: Secret::new("pw") };
        let name = "n".to_owned();
        Setup { login: Some(login), protocol: Protocol::Resp3, name, db: 2, ..Setup::default() }
    }

    #[test]
    fn a_connection_that_is_as_it_should_be_is_told_nothing() {
        let setup = Setup { db: 3, name: "n".to_owned(), ..Setup::default() };
        assert_eq!(said(&setup, &setup), (Vec::new(), String::new()));
        assert_eq!(said(&Setup::default(), &Setup::default()).0, [], "as a new one");
    }

    #[test]
    fn who_it_is_comes_before_what_it_has_chosen() {
        let (steps, words) = said(&everything(), &Setup::default());
        let expected = "*3 $4 AUTH $2 al $2 pw *2 $5 HELLO $1 3 *2 $6 SELECT $1 2 \
                        *3 $6 CLIENT $7 SETNAME $1 n ";
        let needed =
            [SetupStep::Login(None), SetupStep::Protocol(Protocol::Resp2), SetupStep::Database(0)];
        assert_eq!((&steps[..3], &steps[3..]), (&needed[..], &[SetupStep::Optional][..]));
        assert_eq!(words, expected);
        assert_eq!(
            said(&Setup::default(), &Setup { db: 2, ..Setup::default() }).1,
            "*2 $6 SELECT $1 0 "
        );
    }

    #[test]
    fn what_is_switched_on_is_switched_off_again() {
        let on = Setup { is_never_evicted: true, touches_nothing: true, ..Setup::default() };
        let expected = "*3 $6 CLIENT $8 NO-EVICT $2 ON *3 $6 CLIENT $8 NO-TOUCH $2 ON ";
        assert_eq!(said(&on, &Setup::default()).1, expected);
        let (steps, words) = said(&Setup::default(), &on);
        assert_eq!(words, expected.replace("$2 ON", "$3 OFF"));
        assert_eq!(steps, [SetupStep::Optional, SetupStep::Optional]);
    }

    #[test]
    fn a_step_that_was_refused_is_taken_again() {
        let (wanted, before) = (everything(), Setup { db: 7, ..Setup::default() });
        let (steps, all) = said(&wanted, &before);
        let mut setup = wanted.clone();
        steps.into_iter().for_each(|step| setup.undo(step));
        assert_eq!(setup, Setup { name: "n".to_owned(), ..before.clone() });
        assert!(all.starts_with(&said(&wanted, &setup).1), "all but the name");
        let mut setup = wanted.clone();
        setup.undo(SetupStep::Database(7));
        assert_eq!(said(&wanted, &setup).1, "*2 $6 SELECT $1 2 ");
    }
}
