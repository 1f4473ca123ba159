//! Decides which masters of a first deployment count as remembering.

use std::time::Duration;

use crate::config::ColdStart;
use crate::decision::quorum::{MasterId, MasterSet};
use crate::masters::electorate::ElectorateTerms;
use crate::masters::facts::Facts;
use crate::time::clock::Instant;

/// Maximum spread between the start times of masters deployed together. `INFO` reports whole seconds.
const TOGETHER: Duration = Duration::from_secs(2);

/// Masters of a list that vote from its founding on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trusted {
    /// The trusted masters, at least a quorum.
    pub masters: MasterSet,
    /// Whether all masters are young, so that this looks like a first deployment, but need not be one.
    pub is_first_deployment: bool,
}

/// Returns the masters that count as remembering, or why there are none yet. `facts` has an entry for each master of
/// the list.
///
/// A master that has been running for longer than any lock lasts has forgotten none. Its persistence proves nothing,
/// because its volume may be an older one. Young masters among others that remember were restarted. If all are young,
/// this is a first deployment, or looks like one.
///
/// # Errors
/// Returns one sentence about the condition that is awaited.
pub fn trusted(terms: &ElectorateTerms, facts: &[&Facts]) -> Result<Trusted, String> {
    let of = |is: &dyn Fn(&Facts) -> bool| -> MasterSet {
        let those = facts.iter().enumerate().filter(|(_, facts)| is(facts));
        those.map(|(at, _)| MasterId::new(at)).collect()
    };
    let old = of(&|facts| facts.uptime >= terms.restart_wait);
    if terms.quorum.reached_by(old) {
        return Ok(Trusted { masters: old, is_first_deployment: false });
    }
    if terms.cold_start != ColdStart::Trust || !old.is_empty() {
        return Err("the masters started recently and may have forgotten locks: they vote once they have been up for --restart-wait"
            .to_owned());
    }
    let mut starts: Vec<Instant> = facts.iter().filter_map(|facts| facts.started()).collect();
    starts.sort_unstable();
    let last = starts.get(terms.quorum.needed() - 1).copied();
    let last = last.ok_or_else(|| "too few masters report their start time".to_owned())?;
    let masters = of(&|facts| facts.started().is_some_and(|start| start <= last + TOGETHER));
    Ok(Trusted { masters, is_first_deployment: !terms.are_new })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::quorum::Quorum;
    use crate::time::clock;

    const WAIT: Duration = Duration::from_secs(60);

    fn facts(uptimes: &[u64]) -> Vec<Facts> {
        // Later than the clock's first hour, so that masters can be older than that.
        let at = clock::now() + Duration::from_secs(3600);
        let fact = |(place, uptime): (usize, &u64)| Facts {
            run_id: format!("run{place}"),
            version: String::new(),
            role: "master".to_owned(),
            persistence: String::new(),
            eviction: String::new(),
            databases: 16,
            uptime: Duration::from_secs(*uptime),
            bar: None,
            replid: String::new(),
            replid_before: String::new(),
            evicted: 0,
            at,
        };
        uptimes.iter().enumerate().map(fact).collect()
    }

    fn who(cold_start: ColdStart, uptimes: &[u64]) -> Option<Vec<usize>> {
        let quorum = Quorum::of(uptimes.len());
        let terms = ElectorateTerms { quorum, restart_wait: WAIT, cold_start, are_new: false };
        let all = facts(uptimes);
        let trusted = trusted(&terms, &all.iter().collect::<Vec<_>>()).ok()?;
        Some(trusted.masters.iter().map(MasterId::index).collect())
    }

    #[test]
    fn old_masters_remember_and_a_young_one_among_them_does_not() {
        assert_eq!(who(ColdStart::Wait, &[100, 60, 80]), Some(vec![0, 1, 2]));
        assert_eq!(who(ColdStart::Trust, &[100, 3, 80]), Some(vec![0, 2]));
        assert_eq!(who(ColdStart::Trust, &[100, 3, 3]), None, "one is no quorum");
    }

    #[test]
    fn masters_that_are_all_young_are_a_first_deployment_if_that_is_trusted() {
        assert_eq!(who(ColdStart::Trust, &[5, 4, 6]), Some(vec![0, 1, 2]));
        assert_eq!(who(ColdStart::Wait, &[5, 4, 6]), None);
        assert_eq!(who(ColdStart::Trust, &[50, 1, 52]), Some(vec![0, 2]), "restarted since");
    }
}
