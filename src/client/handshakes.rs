//! Clients that have not agreed on a cipher yet: they cost most, and nobody knows who they are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::registry::Client;

/// Most clients that may try at a time; then the one that has tried for longest is disconnected. As many as two workers let wait
/// to be accepted: who comes back after a network was down finishes in milliseconds, one after the other.
pub const MOST: usize = 1024;

/// All of the process.
#[derive(Debug, Default)]
pub struct Handshakes(Mutex<BTreeMap<u64, Arc<Client>>>);

/// A client tries as long as this lives.
#[derive(Debug)]
pub struct Handshake {
    all: Arc<Handshakes>,
    id: u64,
}

impl Handshakes {
    /// `client` begins to try.
    pub fn begin(self: &Arc<Self>, client: &Arc<Client>) -> Handshake {
        let mut trying = self.trying();
        trying.insert(client.id, Arc::clone(client));
        let oldest = if trying.len() > MOST { trying.pop_first() } else { None };
        drop(trying);
        if let Some((_, oldest)) = oldest {
            oldest.kill();
        }
        Handshake { all: Arc::clone(self), id: client.id }
    }

    /// Nothing that panics is done under this lock.
    fn trying(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.all.trying().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::registry::{Peer, Registry};

    #[test]
    fn the_oldest_gives_way_and_who_has_finished_does_not_count() {
        let (registry, all) = (Registry::default(), Arc::<Handshakes>::default());
        let end = || Peer::Unix(std::path::Path::new("/s").into());
        let client = || registry.enter(end(), end(), usize::MAX).expect("there is room");
        let (first, second) = (client(), client());
        let finished = all.begin(&client());
        let _trying = [all.begin(&first), all.begin(&second)];
        drop(finished);
        let _others: Vec<_> = (2..MOST).map(|_| all.begin(&client())).collect();
        assert!(!first.is_killed());
        let _last = all.begin(&client());
        assert!(first.is_killed() && !second.is_killed());
    }
}
