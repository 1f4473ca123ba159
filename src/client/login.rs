//! The user of each connection, and the number of connections logged in as each user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::acl::guard::Guard;
use crate::acl::{User, Users};

/// The user of a connection. At first it is the default user, who may need a password.
#[derive(Debug)]
pub struct Login {
    user: Arc<User>,
    /// `None` until the connection has logged in.
    seat: Option<Seat>,
    /// Whether the connection has logged in as a user without restrictions.
    is_free: bool,
}

/// The user already has as many connections as allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSeat(pub Arc<str>);

impl Login {
    /// Returns a connection of the default user that has not logged in.
    pub fn stranger(users: &Users) -> Self {
        Self { user: Arc::clone(users.default_user()), seat: None, is_free: false }
    }

    /// Takes a seat for `user` and gives back the previous one. Without a seat nothing changes.
    ///
    /// # Errors
    /// Returns an error if there are `most` connections of `user` already.
    pub fn enter(
        &mut self,
        user: &Arc<User>,
        seats: &Arc<UserSeats>,
        most: Option<usize>,
    ) -> Result<(), NoSeat> {
        let is_seated = self.seat.as_ref().is_some_and(|seat| seat.name == *user.name());
        if !is_seated {
            self.seat = Some(seats.take(user.name(), most)?);
        }
        self.is_free = user.is_unrestricted();
        self.user = Arc::clone(user);
        Ok(())
    }

    /// Applies the user's new rules.
    pub fn adopt(&mut self, user: &Arc<User>) {
        self.is_free = self.is_authenticated() && user.is_unrestricted();
        self.user = Arc::clone(user);
    }

    /// Returns the user whose rules apply.
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// Whether the connection has logged in, or did not have to.
    pub fn is_authenticated(&self) -> bool {
        self.seat.is_some()
    }

    /// Returns the guard that holds its scripts to the user's rules, if there are any.
    pub fn guard(&self) -> Option<&Arc<Guard>> {
        (!self.is_free).then(|| self.user.guard())
    }

    /// Whether the connection has logged in as a user without restrictions. Every request makes only this one check.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.is_free
    }
}

/// The number of logged-in connections, by the names of their users.
#[derive(Debug, Default)]
pub struct UserSeats(Mutex<HashMap<Arc<str>, usize>>);

/// One logged-in connection, counted until it is dropped.
#[derive(Debug)]
struct Seat {
    seats: Arc<UserSeats>,
    name: Arc<str>,
}

impl UserSeats {
    fn take(self: &Arc<Self>, name: &Arc<str>, most: Option<usize>) -> Result<Seat, NoSeat> {
        self.change(|taken| {
            let count = taken.entry(Arc::clone(name)).or_default();
            if most.is_some_and(|most| *count >= most) {
                return Err(NoSeat(Arc::clone(name)));
            }
            *count += 1;
            Ok(())
        })?;
        Ok(Seat { seats: Arc::clone(self), name: Arc::clone(name) })
    }

    /// No code under the lock can panic; even if it did, the data would still be valid.
    fn change<T>(&self, change: impl FnOnce(&mut HashMap<Arc<str>, usize>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.change(|taken| {
            if let Some(count) = taken.get_mut(&self.name) {
                *count -= 1;
                if *count == 0 {
                    taken.remove(&self.name);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users() -> Users {
        Users::parse(["alice on nopass +get", "bob on nopass ~* &* +@all"], None).unwrap()
    }

    fn named<'a>(users: &'a Users, name: &str) -> &'a Arc<User> {
        users.named(name.as_bytes()).unwrap()
    }

    #[test]
    fn who_comes_too_late_stays_who_it_was() {
        let (users, seats) = (users(), Arc::<UserSeats>::default());
        let [mut first, mut second] = [(); 2].map(|()| Login::stranger(&users));
        assert_eq!(first.enter(named(&users, "alice"), &seats, Some(1)), Ok(()));
        assert_eq!(second.enter(named(&users, "bob"), &seats, Some(1)), Ok(()));
        let refused = second.enter(named(&users, "alice"), &seats, Some(1));
        assert_eq!(refused, Err(NoSeat("alice".into())));
        assert!(&**second.user().name() == "bob" && second.is_free());
        assert!(!first.is_free() && first.is_authenticated());
    }

    #[test]
    fn seats_are_given_back() {
        let (users, seats) = (users(), Arc::<UserSeats>::default());
        let alice = named(&users, "alice");
        let mut first = Login::stranger(&users);
        // Two logins as the same user take one seat.
        assert_eq!(first.enter(alice, &seats, Some(1)), Ok(()));
        assert_eq!(first.enter(alice, &seats, Some(1)), Ok(()));
        drop(first);
        let mut second = Login::stranger(&users);
        assert_eq!(second.enter(alice, &seats, Some(1)), Ok(()));
        assert_eq!(second.enter(named(&users, "bob"), &seats, None), Ok(()));
        let mut third = Login::stranger(&users);
        assert_eq!(third.enter(alice, &seats, Some(1)), Ok(()));
        drop((second, third));
        assert!(seats.change(|taken| taken.is_empty()));
    }
}
