//! The resource that the locks protect: a place that admits one visitor at a time. It knows nothing
//! of servers. Visitors state their lease on entry, and the witness checks it at that very moment.

use std::collections::HashMap;

use crate::history::Nanos;

/// The places, one for each key.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    inside: HashMap<String, Vec<Visit>>,
    /// Entries in which two visitors with valid leases were inside together.
    pub(crate) crowds: usize,
    /// Entries while another visitor was still inside after its lease was over, which no lock
    /// service can prevent.
    pub(crate) trespasses: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) key: String,
    pub(crate) token: String,
    pub(crate) since: Nanos,
    /// End of the lease, as far as the visitor can be sure.
    pub(crate) until: Nanos,
}

impl Witness {
    /// Admits the visitor. Returns whether it is alone.
    pub(crate) fn enter(&mut self, visit: Visit) -> bool {
        let here = self.inside.entry(visit.key.clone()).or_default();
        let valid = |other: &Visit| other.until > visit.since;
        let crowd = valid(&visit) && here.iter().any(valid);
        self.crowds += usize::from(crowd);
        self.trespasses += usize::from(!crowd && !here.is_empty());
        here.push(visit);
        here.len() == 1
    }

    pub(crate) fn prolong(&mut self, key: &str, token: &str, until: Nanos) {
        for visit in self.inside.get_mut(key).into_iter().flatten() {
            if visit.token == token {
                visit.until = visit.until.max(until);
            }
        }
    }

    pub(crate) fn leave(&mut self, key: &str, token: &str) {
        if let Some(here) = self.inside.get_mut(key) {
            here.retain(|visit| visit.token != token);
        }
    }

    pub(crate) fn visits(&self) -> impl Iterator<Item = &Visit> {
        self.inside.values().flatten()
    }
}

#[test]
fn two_with_valid_leases_are_a_crowd() {
    let mut witness = Witness::default();
    assert!(witness.enter(visit("a", 0, 10)));
    assert!(!witness.enter(visit("b", 9, 20)));
    assert_eq!((witness.crowds, witness.trespasses), (1, 0));
}

#[test]
fn who_stays_beyond_the_lease_trespasses() {
    let mut witness = Witness::default();
    witness.enter(visit("a", 0, 10));
    assert!(!witness.enter(visit("b", 10, 20)));
    assert_eq!((witness.crowds, witness.trespasses), (0, 1));
}

#[test]
fn who_comes_after_the_other_has_left_is_alone() {
    let mut witness = Witness::default();
    witness.enter(visit("a", 0, 10));
    witness.leave("key", "a");
    assert!(witness.enter(visit("b", 5, 20)));
    witness.prolong("key", "b", 30);
    assert!(!witness.enter(visit("c", 25, 40)));
    assert_eq!((witness.crowds, witness.trespasses), (1, 0));
}

#[cfg(test)]
fn visit(token: &str, since: Nanos, until: Nanos) -> Visit {
    Visit { key: "key".to_owned(), token: token.to_owned(), since, until }
}
