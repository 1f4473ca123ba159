//! Listeners for keys that this worker changes.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use tokio::sync::Notify;

/// Waiting listeners by fingerprint of database and key, in order of arrival.
#[derive(Debug, Default)]
pub struct Changes {
    listeners: RefCell<HashMap<u64, Vec<Rc<Heard>>, foldhash::fast::RandomState>>,
}

/// The purpose of a listener. In each line of a key, only the first listener is woken to try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Line {
    /// Nothing.
    #[default]
    None,
    /// An element, which one listener gets.
    Elements,
    /// Entries of a stream, which one consumer of the group with this fingerprint gets.
    Group(u64),
    /// Entries of a stream, which all get: all are woken.
    Readers,
}

#[derive(Debug, Default)]
struct Heard {
    something: Cell<bool>,
    line: Cell<Line>,
    notify: Notify,
}

/// Receives changes of some keys until it is dropped.
#[derive(Debug)]
pub struct Listener {
    changes: Rc<Changes>,
    keys: Vec<u64>,
    heard: Rc<Heard>,
}

impl Changes {
    /// Registers a listener for changes of these keys.
    pub fn listen(self: &Rc<Self>, keys: Vec<u64>) -> Listener {
        let heard = Rc::new(Heard::default());
        let mut listeners = self.listeners.borrow_mut();
        for key in &keys {
            listeners.entry(*key).or_default().push(Rc::clone(&heard));
        }
        drop(listeners);
        Listener { changes: Rc::clone(self), keys, heard }
    }

    /// Whether nobody listens, so that notifying can be skipped.
    pub fn is_unheard(&self) -> bool {
        self.listeners.borrow().is_empty()
    }

    /// Notifies the key's listeners of a change. If that is not `certain`, the program may only have read the key;
    /// listeners in line then check again.
    pub fn tell(&self, key: u64, certain: bool) {
        if let Some(listeners) = self.listeners.borrow().get(&key) {
            let mut told = HashSet::new();
            for heard in listeners {
                let line = heard.line.get();
                heard.something.set(heard.something.get() || certain || line != Line::None);
                match line {
                    Line::None => {}
                    Line::Readers => wake(Some(heard)),
                    Line::Elements | Line::Group(_) if !told.insert(line) => {}
                    Line::Elements | Line::Group(_) => wake(Some(heard)),
                }
            }
        }
    }
}

/// Returns the listener that has been longest in this line.
fn first(listeners: &[Rc<Heard>], line: Line) -> Option<&Rc<Heard>> {
    listeners.iter().find(|heard| line != Line::None && heard.line.get() == line)
}

fn wake(heard: Option<&Rc<Heard>>) {
    if let Some(heard) = heard {
        heard.notify.notify_one();
    }
}

impl Listener {
    /// Joins a line for values put into the keys, behind those that listened before.
    pub fn in_line(self, line: Line) -> Self {
        self.heard.line.set(line);
        self
    }

    /// Whether it is the first in its line for one of its keys.
    pub fn is_first(&self) -> bool {
        let listeners = self.changes.listeners.borrow();
        let is_first = |others: &Vec<_>| self.first(others).is_some_and(|it| self.is(it));
        self.keys.iter().filter_map(|key| listeners.get(key)).any(is_first)
    }

    /// Wakes all others in its line for its keys to try, because it has seen a change.
    pub fn nudge_others(&self) {
        let listeners = self.changes.listeners.borrow();
        for heard in self.keys.iter().filter_map(|key| listeners.get(key)).flatten() {
            if heard.line == self.heard.line && !self.is(heard) {
                wake(Some(heard));
            }
        }
    }

    fn first<'a>(&self, listeners: &'a [Rc<Heard>]) -> Option<&'a Rc<Heard>> {
        first(listeners, self.heard.line.get())
    }

    fn is(&self, heard: &Rc<Heard>) -> bool {
        Rc::ptr_eq(heard, &self.heard)
    }

    /// Resolves when it is this listener's turn, even if the turn came before the call. The first in line has its turn
    /// at the next change, and the next in line once the first has left.
    pub async fn turn(&self) {
        self.heard.notify.notified().await;
    }

    /// Whether there was any change so far; only certain changes count unless it stands in line.
    pub fn has_heard(&self) -> bool {
        self.heard.something.get()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut listeners = self.changes.listeners.borrow_mut();
        for key in &self.keys {
            if let Some(others) = listeners.get_mut(key) {
                let was_first = self.first(others).is_some_and(|it| self.is(it));
                others.retain(|other| !self.is(other));
                if was_first {
                    wake(self.first(others));
                }
                if others.is_empty() {
                    listeners.remove(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_change_before_one_waits_is_heard_and_a_dropped_listener_is_forgotten() {
        let changes = Rc::new(Changes::default());
        let listener = changes.listen(vec![1, 2]).in_line(Line::Elements);
        changes.tell(2, true);
        assert!(listener.has_heard() && is_told(&listener).await);
        changes.tell(3, true);
        assert!(!is_told(&listener).await);
        drop(listener);
        assert!(changes.is_unheard());
    }

    #[tokio::test]
    async fn one_change_is_for_the_first_in_line_and_then_for_the_next() {
        let changes = Rc::new(Changes::default());
        let watching = changes.listen(vec![1]);
        let [first, second, third] =
            [vec![1], vec![2, 1], vec![1]].map(|keys| changes.listen(keys).in_line(Line::Elements));
        changes.tell(1, false);
        assert!(!watching.has_heard() && first.has_heard());
        changes.tell(1, true);
        assert!(watching.has_heard() && is_told(&first).await && !is_told(&second).await);
        assert!(first.is_first() && second.is_first() && !third.is_first());
        drop(first);
        assert!(is_told(&second).await && !is_told(&third).await);
        drop(third);
        assert!(!is_told(&second).await, "nobody was before it");
    }

    #[tokio::test]
    async fn one_of_each_group_is_told_and_all_readers() {
        let changes = Rc::new(Changes::default());
        let lines = [Line::Group(1), Line::Readers, Line::Group(1), Line::Group(2), Line::Readers];
        let listeners = lines.map(|line| changes.listen(vec![1]).in_line(line));
        changes.tell(1, true);
        let mut told = Vec::new();
        for listener in &listeners {
            told.push(is_told(listener).await);
        }
        assert_eq!(told, [true, true, false, true, true]);
        listeners[4].nudge_others();
        assert!(is_told(&listeners[1]).await && !is_told(&listeners[4]).await);
        assert!(!is_told(&listeners[0]).await);
    }

    async fn is_told(listener: &Listener) -> bool {
        tokio::time::timeout(std::time::Duration::ZERO, listener.turn()).await.is_ok()
    }
}
