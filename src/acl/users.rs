//! The set of all users.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rules::{self, is_about_passwords, may_be_shown};
use super::user::User;
use crate::resp::inline;

/// User of every connection before it logs in.
pub const DEFAULT_USER: &str = "default";

/// All users in the settings, and always [`DEFAULT_USER`].
#[derive(Clone, Debug, PartialEq)]
pub struct Users(BTreeMap<Arc<str>, Arc<User>>);

/// Error in a user's definition, as one sentence that contains no password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("users: {0}")]
pub struct InvalidUser(String);

/// Creates a set with only the default user, who needs no password and may do everything.
impl Default for Users {
    fn default() -> Self {
        let mut users = Self(BTreeMap::new());
        users.put(User::without_limits(DEFAULT_USER));
        users
    }
}

impl Users {
    /// Parses `lines`, each of which holds the text after `user` in a redis.conf. `requirepass` is the password of the
    /// default user.
    ///
    /// # Errors
    /// Returns an error for the first rule that Redis would reject, for a user named twice, and if two settings set
    /// the default user's password.
    pub fn parse<'a>(
        lines: impl IntoIterator<Item = &'a str>,
        requirepass: Option<&str>,
    ) -> Result<Self, InvalidUser> {
        let mut users = Self(BTreeMap::new());
        for (index, line) in lines.into_iter().enumerate() {
            let words = words(line).ok_or_else(|| entry(index, "has an unclosed quote"))?;
            let (name, rules) = words.split_first().ok_or_else(|| entry(index, "is empty"))?;
            let name = checked_name(name)
                .ok_or_else(|| entry(index, "does not begin with a user name"))?;
            if users.0.contains_key(name) {
                return Err(InvalidUser(format!("{name} is named twice")));
            }
            let has_two =
                requirepass.is_some() && rules.iter().any(|word| is_about_passwords(word));
            if name == DEFAULT_USER && has_two {
                return Err(InvalidUser(TWO_PASSWORDS.to_owned()));
            }
            users.put(user(name, rules)?);
        }
        Ok(users.with_default(requirepass))
    }

    fn with_default(mut self, requirepass: Option<&str>) -> Self {
        let given = self.0.get(DEFAULT_USER).map(|user| User::clone(user));
        let mut user = given.unwrap_or_else(|| User::without_limits(DEFAULT_USER));
        if let Some(password) = requirepass {
            user.add_password(super::password::Hash::of(password.as_bytes()));
        }
        self.put(user);
        self
    }

    /// Returns the users with another password for the default user, or with none required
    /// (`ACLUpdateDefaultUserPassword`).
    #[must_use]
    pub fn with_requirepass(&self, requirepass: Option<&str>) -> Self {
        let mut user = User::clone(self.default_user());
        match requirepass {
            Some(password) => {
                user.reset_passwords();
                user.add_password(super::password::Hash::of(password.as_bytes()));
            }
            None => user.set_nopass(),
        }
        let mut users = self.clone();
        users.put(user);
        users
    }

    fn put(&mut self, user: User) {
        self.0.insert(Arc::clone(user.name()), Arc::new(user));
    }

    /// Returns the user of every connection before it logs in.
    pub fn default_user(&self) -> &Arc<User> {
        self.0.get(DEFAULT_USER).expect("no set of users is made without it")
    }

    /// Returns the user with this name.
    pub fn named(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.0.get(std::str::from_utf8(name).ok()?)
    }

    /// Returns the user with this name if the password is correct.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<&Arc<User>> {
        self.named(name).filter(|user| user.accepts(password))
    }

    /// Iterates over all users, by name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<User>> {
        self.0.values()
    }
}

fn user(name: &str, rules: &[Vec<u8>]) -> Result<User, InvalidUser> {
    let mut user = User::new(name);
    for (index, word) in rules.iter().enumerate() {
        rules::apply(&mut user, word).map_err(|wrong| {
            let rule = match may_be_shown(word) {
                true => format!("`{}`", String::from_utf8_lossy(word)),
                false => format!("rule {}", index + 1),
            };
            InvalidUser(format!("{name}: {rule} {wrong}"))
        })?;
    }
    Ok(user)
}

fn entry(index: usize, wrong: &str) -> InvalidUser {
    InvalidUser(format!("entry {} {wrong}", index + 1))
}

/// Splits a line like redis.conf: quotes hold a word together.
fn words(line: &str) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    inline::split(line.as_bytes(), |word| words.push(word.to_vec())).ok()?;
    Some(words)
}

/// Returns the name if it is valid. `CLIENT LIST` must be able to show it, and it must not look like a rule, which
/// could be a password.
fn checked_name(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    let is_plain = !name.chars().any(|letter| letter.is_whitespace() || letter.is_control());
    let is_rule = name.starts_with(['>', '<', '#', '!', '+', '-', '~', '&', '%', '(']);
    (is_plain && !is_rule && !name.is_empty()).then_some(name)
}

const TWO_PASSWORDS: &str =
    "both requirepass and the default user's rules set its password: use only one";

#[cfg(test)]
mod tests {
    use super::*;

    fn users(lines: &[&str]) -> Users {
        Users::parse(lines.iter().copied(), None).unwrap()
    }

    #[test]
    fn without_users_there_is_one_who_may_do_everything() {
        let users = users(&[]);
        assert_eq!(users, Users::default());
        assert!(users.default_user().is_open() && users.default_user().is_unrestricted());
        assert_eq!(users.default_user().to_string(), "user default on nopass ~* &* +@all");
    }

    #[test]
    fn requirepass_is_the_password_of_the_default_user() {
        let users = Users::parse([], Some("secret")).unwrap();
        assert!(users.authenticate(b"default", b"secret").is_some());
        assert!(users.authenticate(b"default", b"").is_none() && !users.default_user().is_open());
        let users = Users::parse(["default on ~a +@read"], Some("secret")).unwrap();
        let user = users.authenticate(b"default", b"secret").unwrap();
        assert!(!user.is_unrestricted() && user.keys().allow(b"a"));
        for rule in [">other", "nopass", "resetpass"] {
            let refused = Users::parse([&*format!("default on {rule}")], Some("secret"));
            assert_eq!(refused, Err(InvalidUser(TWO_PASSWORDS.to_owned())));
        }
    }

    #[test]
    fn only_who_knows_the_password_gets_in() {
        let users = users(&["alice on >pw ~* +@all", "bob off >pw", "'carol' on '>two words'"]);
        let may = |name: &[u8], password: &[u8]| users.authenticate(name, password).is_some();
        assert!(may(b"alice", b"pw") && may(b"carol", b"two words"));
        assert!(!may(b"alice", b"PW") && !may(b"Alice", b"pw") && !may(b"bob", b"pw"));
        assert!(!may(b"nobody", b"") && !may(b"\xff", b""));
        let names: Vec<_> = users.all().map(|user| &**user.name()).collect();
        assert_eq!(names, ["alice", "bob", "carol", "default"]);
    }

    #[test]
    fn what_is_wrong_is_said_without_passwords() {
        for (lines, sentence) in [
            (&["alice +@nonsense"][..], "users: alice: `+@nonsense` is not a command or category"),
            (&["alice on hunter2"], "users: alice: rule 2 is not a rule"),
            (
                &["alice on <hunter2"],
                "users: alice: rule 2 removes a password that the user does not have",
            ),
            (&["alice >a", "alice"], "users: alice is named twice"),
            (&["alice", ""], "users: entry 2 is empty"),
            (&[">hunter2 on"], "users: entry 1 does not begin with a user name"),
            (&["'al ice' on"], "users: entry 1 does not begin with a user name"),
            (&["alice '>hunter2"], "users: entry 1 has an unclosed quote"),
        ] {
            let refused = Users::parse(lines.iter().copied(), None).unwrap_err().to_string();
            assert_eq!(refused, sentence);
            assert!(!refused.contains("hunter"));
        }
        let shown = format!("{:?}", users(&["alice on >hunter2"]));
        assert!(
            !shown.contains("hunter")
                && !shown.contains(&crate::acl::password::Hash::of(b"hunter2").hex())
        );
    }

    #[test]
    fn another_password_is_no_other_right() {
        let before = users(&["alice on >pw +get", "bob on >pw", "carol on >pw +get"]);
        let after = users(&["alice on >pw +set", "bob off >new", "carol on >new +get"]);
        let user = |users: &Users, name: &str| Arc::clone(users.named(name.as_bytes()).unwrap());
        let may_the_same = |name: &str| user(&before, name).may_the_same(&user(&after, name));
        assert_eq!(["alice", "bob", "carol"].map(may_the_same), [false, true, true]);
        // Equality ignores whether a script was guarded.
        let guarded = user(&before, "alice");
        guarded.guard();
        assert!(guarded == user(&users(&["alice on >pw +get"]), "alice"));
    }

    #[test]
    fn the_default_user_gets_another_password_and_keeps_its_rules() {
        let before = users(&["default on >old +get ~a"]);
        let after = before.with_requirepass(Some("new"));
        assert!(after.authenticate(b"default", b"new").is_some());
        assert!(after.authenticate(b"default", b"old").is_none());
        assert!(after.default_user().may_the_same(before.default_user()));
        assert!(after.with_requirepass(None).default_user().is_open());
    }
}
