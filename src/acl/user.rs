//! A single user.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::guard::Guard;
use super::password::Hash;
use super::{Commands, Patterns};

/// A user who may log in, and the user's permissions.
#[derive(Clone, Debug)]
pub struct User {
    name: Arc<str>,
    pub(super) is_on: bool,
    is_nopass: bool,
    passwords: Vec<Hash>,
    pub(super) commands: Commands,
    pub(super) keys: Patterns,
    pub(super) channels: Patterns,
    /// Guard for the user's scripts, built for the first of them.
    guard: OnceLock<Arc<Guard>>,
}

impl User {
    /// Creates a user the way a rule does: off, and without permissions.
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            is_on: false,
            is_nopass: false,
            passwords: Vec::new(),
            commands: Commands::none(),
            keys: Patterns::NONE,
            channels: Patterns::NONE,
            guard: OnceLock::new(),
        }
    }

    /// Creates a user with `on nopass allkeys allchannels allcommands`.
    pub(super) fn without_limits(name: &str) -> Self {
        Self {
            is_on: true,
            is_nopass: true,
            commands: Commands::all(),
            keys: Patterns::All,
            channels: Patterns::All,
            ..Self::new(name)
        }
    }

    /// Whether `other` has the same permissions.
    pub fn may_the_same(&self, other: &Self) -> bool {
        self.commands == other.commands
            && self.keys == other.keys
            && self.channels == other.channels
    }

    /// Name of the user.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether the user may do everything.
    pub fn is_unrestricted(&self) -> bool {
        self.commands.is_all() && self.keys.is_all() && self.channels.is_all()
    }

    /// Whether any password is accepted.
    pub fn is_nopass(&self) -> bool {
        self.is_nopass
    }

    /// Whether anyone may log in.
    pub fn is_open(&self) -> bool {
        self.is_on && self.is_nopass
    }

    /// Whether this password is accepted (`ACLCheckUserCredentials`).
    pub fn accepts(&self, password: &[u8]) -> bool {
        let given = Hash::of(password);
        self.is_on && (self.is_nopass || self.passwords.iter().any(|own| own.is(&given)))
    }

    /// Commands that the user may send.
    pub fn commands(&self) -> &Commands {
        &self.commands
    }

    /// Keys that the user may read and write.
    pub fn keys(&self) -> &Patterns {
        &self.keys
    }

    /// Channels that the user may publish and subscribe to.
    pub fn channels(&self) -> &Patterns {
        &self.channels
    }

    /// Returns the guard that restricts the user's scripts.
    pub fn guard(&self) -> &Arc<Guard> {
        self.guard.get_or_init(|| Arc::new(Guard::of(self)))
    }

    /// Returns the flags: `on` or `off`, and `nopass`.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        let on = if self.is_on { "on" } else { "off" };
        std::iter::once(on).chain(self.is_nopass.then_some("nopass"))
    }

    /// Returns the digests of the user's passwords.
    pub fn hashes(&self) -> impl Iterator<Item = String> {
        self.passwords.iter().map(Hash::hex)
    }

    /// Returns the user's line in `ACL LIST` (`ACLDescribeUser`).
    pub fn line(&self) -> Vec<u8> {
        let mut words = vec![b"user".to_vec(), self.name.as_bytes().to_vec()];
        words.extend(self.flags().map(|flag| flag.as_bytes().to_vec()));
        words.extend(self.hashes().map(|hash| format!("#{hash}").into_bytes()));
        words.extend(self.keys.described(b'~'));
        if !self.channels.is_all() {
            words.push(b"resetchannels".to_vec());
        }
        words.extend(self.channels.described(b'&'));
        words.push(self.commands.to_string().into_bytes());
        words.join(&b' ')
    }

    pub(super) fn add_password(&mut self, password: Hash) {
        self.is_nopass = false;
        if !self.passwords.contains(&password) {
            self.passwords.push(password);
        }
    }

    /// Removes a password. Returns false if there is no such password.
    pub(super) fn remove_password(&mut self, password: &Hash) -> bool {
        let before = self.passwords.len();
        self.passwords.retain(|own| own != password);
        self.passwords.len() < before
    }

    pub(super) fn set_nopass(&mut self) {
        self.reset_passwords();
        self.is_nopass = true;
    }

    pub(super) fn reset_passwords(&mut self) {
        self.passwords.clear();
        self.is_nopass = false;
    }

    pub(super) fn reset(&mut self) {
        *self = Self::new(&self.name);
    }
}

/// Compares the rules, regardless of whether the guard has been built.
impl PartialEq for User {
    fn eq(&self, other: &Self) -> bool {
        let rules = |user: &Self| (user.name.clone(), user.is_on, user.is_nopass);
        rules(self) == rules(other) && self.passwords == other.passwords && self.may_the_same(other)
    }
}

/// Prints the line of `ACL LIST`, for people.
impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.line()))
    }
}
