//! Who wants to hear when this worker has changed a key.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use tokio::sync::Notify;

/// Those who wait, by fingerprint of database and key, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Changes {
    listeners: RefCell<HashMap<u64, Vec<Rc<Heard>>, foldhash::fast::RandomState>>,
}

#[derive(Debug, Default)]
struct Heard {
    something: Cell<bool>,
    /// Only the first of those who stand in line is told when to try.
    in_line: Cell<bool>,
    notify: Notify,
}

/// Hears of changes of some keys, until it is dropped.
#[derive(Debug)]
pub struct Listener {
    changes: Rc<Changes>,
    keys: Vec<u64>,
    heard: Rc<Heard>,
}

impl Changes {
    pub(super) fn listen(self: &Rc<Self>, keys: Vec<u64>) -> Listener {
        let heard = Rc::new(Heard::default());
        let mut listeners = self.listeners.borrow_mut();
        for key in &keys {
            listeners.entry(*key).or_default().push(Rc::clone(&heard));
        }
        drop(listeners);
        Listener { changes: Rc::clone(self), keys, heard }
    }

    /// Whether nobody listens, so that nothing need be told.
    pub(super) fn is_unheard(&self) -> bool {
        self.listeners.borrow().is_empty()
    }

    /// The key has changed.
    pub(super) fn tell(&self, key: u64) {
        if let Some(listeners) = self.listeners.borrow().get(&key) {
            for heard in listeners {
                heard.something.set(true);
            }
            wake(first(listeners));
        }
    }
}

/// Who has stood in line for longest.
fn first(listeners: &[Rc<Heard>]) -> Option<&Rc<Heard>> {
    listeners.iter().find(|heard| heard.in_line.get())
}

fn wake(heard: Option<&Rc<Heard>>) {
    if let Some(heard) = heard {
        heard.notify.notify_one();
    }
}

impl Listener {
    /// Stands in line with others for what comes into the keys: behind those who listened before.
    pub fn in_line(self) -> Self {
        self.heard.in_line.set(true);
        self
    }

    /// Whether it is the first in line for one of its keys.
    pub fn is_first(&self) -> bool {
        let listeners = self.changes.listeners.borrow();
        let is_first = |others: &Vec<_>| first(others).is_some_and(|it| self.is(it));
        self.keys.iter().filter_map(|key| listeners.get(key)).any(is_first)
    }

    fn is(&self, heard: &Rc<Heard>) -> bool {
        Rc::ptr_eq(heard, &self.heard)
    }

    /// Resolves when it is its turn, also if that was before this is awaited: as the first in line at the
    /// next change, or as the next when the first has left.
    pub async fn turn(&self) {
        self.heard.notify.notified().await;
    }

    /// Whether there was any change so far.
    pub fn has_heard(&self) -> bool {
        self.heard.something.get()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut listeners = self.changes.listeners.borrow_mut();
        for key in &self.keys {
            if let Some(others) = listeners.get_mut(key) {
                let was_first = first(others).is_some_and(|it| self.is(it));
                others.retain(|other| !self.is(other));
                if was_first {
                    wake(first(others));
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
        let listener = changes.listen(vec![1, 2]).in_line();
        changes.tell(2);
        assert!(listener.has_heard() && is_told(&listener).await);
        changes.tell(3);
        assert!(!is_told(&listener).await);
        drop(listener);
        assert!(changes.is_unheard());
    }

    #[tokio::test]
    async fn one_change_is_for_the_first_in_line_and_then_for_the_next() {
        let changes = Rc::new(Changes::default());
        let watching = changes.listen(vec![1]);
        let [first, second, third] =
            [vec![1], vec![2, 1], vec![1]].map(|keys| changes.listen(keys).in_line());
        changes.tell(1);
        assert!(watching.has_heard() && is_told(&first).await && !is_told(&second).await);
        assert!(first.is_first() && second.is_first() && !third.is_first());
        drop(first);
        assert!(is_told(&second).await && !is_told(&third).await);
        drop(third);
        assert!(!is_told(&second).await, "nobody was before it");
    }

    async fn is_told(listener: &Listener) -> bool {
        tokio::time::timeout(std::time::Duration::ZERO, listener.turn()).await.is_ok()
    }
}
