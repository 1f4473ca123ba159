//! Who wants to hear when this worker has changed a key.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use tokio::sync::Notify;

/// Those who wait, by fingerprint of database and key.
#[derive(Debug, Default)]
pub(super) struct Changes {
    listeners: RefCell<HashMap<u64, Vec<Rc<Heard>>, foldhash::fast::RandomState>>,
}

#[derive(Debug, Default)]
struct Heard {
    something: Cell<bool>,
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
                heard.notify.notify_one();
            }
        }
    }
}

impl Listener {
    /// Resolves at the next change, also one before this is awaited.
    pub async fn next(&self) {
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
                others.retain(|other| !Rc::ptr_eq(other, &self.heard));
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
        let listener = changes.listen(vec![1, 2]);
        changes.tell(2);
        listener.next().await;
        changes.tell(3);
        let nothing = tokio::time::timeout(std::time::Duration::ZERO, listener.next()).await;
        assert!(nothing.is_err());
        drop(listener);
        assert!(changes.is_unheard());
    }
}
