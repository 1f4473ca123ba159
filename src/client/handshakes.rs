//! Clients whose TLS handshake is unfinished: they cost the most, and are still unknown.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::registry::Client;

/// Maximum handshakes at a time. Beyond it, the proxy disconnects the client that has tried for longest. It matches the
/// accept queues of two workers: clients that return after a network outage finish in milliseconds, one after the
/// other.
pub const MOST: usize = 1024;

/// All unfinished handshakes of the process.
#[derive(Debug, Default)]
pub struct Handshakes(Mutex<BTreeMap<u64, Arc<Client>>>);

/// Counts a client's handshake as unfinished until it is dropped.
#[derive(Debug)]
pub struct Handshake {
    all: Arc<Handshakes>,
    id: u64,
}

impl Handshakes {
    /// Notes that `client` begins its handshake.
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

    /// No code under this lock can panic.
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
