//! Checks whether the masters of a list belong together, with the same result as in a proxy started with them.

use crate::decision::roster::admission::Shown;
use crate::decision::roster::roster::Roster;
use crate::decision::roster::seats::{Seats, missing, seats};

/// A list of masters, with an entry for each in all fields.
pub(super) struct List {
    pub(super) addresses: Vec<String>,
    /// Data that each master shows about itself; `None` if the master could not be queried.
    pub(super) shown: Vec<Option<Shown>>,
    /// Cluster named in any mark of each master.
    pub(super) clusters: Vec<Option<String>>,
}

impl List {
    /// Returns why no proxy serves this list, whichever masters could vote.
    pub(super) fn fault(&self, roster: Option<&Roster>) -> Option<String> {
        if self.has_one_twice() {
            return Some("one instance is listed twice: name each master once".to_owned());
        }
        if self.has_strangers(roster) {
            return Some("these are masters of different clusters: correct the list".to_owned());
        }
        let roster = roster.filter(|roster| self.is_another(roster))?;
        Some(format!(
            "the list is not that of the cluster, which has {} members, {}: give all proxies the same list",
            roster.size(),
            roster.addresses()
        ))
    }

    /// Returns the member that each master is.
    pub(super) fn seats(&self, roster: &Roster) -> Seats {
        seats(roster, &self.addresses, &self.shown, &Seats::new())
    }

    fn has_one_twice(&self) -> bool {
        let mut ids: Vec<&str> = self.shown.iter().flatten().map(|it| &*it.run_id).collect();
        ids.sort_unstable();
        ids.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// Whether masters belong to different clusters. Without a roster, masters that agree with each other are no
    /// strangers: they may have lost the roster.
    fn has_strangers(&self, roster: Option<&Roster>) -> bool {
        let mut clusters = self.clusters.iter().flatten();
        let ours = roster.map(|roster| &roster.cluster).or_else(|| clusters.clone().next());
        clusters.any(|cluster| Some(cluster) != ours)
    }

    fn is_another(&self, roster: &Roster) -> bool {
        let seats = self.seats(roster);
        let is_unknown = |at: usize| self.shown[at].is_some() && seats[at].is_none();
        let extra = seats.iter().filter(|seat| seat.is_none()).count();
        extra > missing(roster, &seats).len() || (0..self.shown.len()).any(is_unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::roster::mark::{Mark, MarkKind, Tail};
    use crate::decision::roster::roster::{Member, Stage};

    fn roster() -> Roster {
        let member = |id: u64| Member::founder(id, format!("run{id}"), vec![format!("a:{id}")]);
        let (cluster, members) = ("a".to_owned(), (1..4).map(member).collect());
        Roster { cluster, version: 2, stage: Stage::Founded, members, ..Roster::default() }
    }

    /// Returns a list of masters by short names: `a1` is the first member of the cluster `a`, `-9` is an empty master,
    /// and `?3` is one that cannot be seen.
    fn list(names: &[&str]) -> List {
        let cluster = |name: &&str| match name.split_at(1) {
            ("-" | "?", _) => None,
            (cluster, _) => Some(cluster.to_owned()),
        };
        let shown = |name: &&str| {
            let mark = cluster(name).map(|cluster| {
                let member = name[1..].parse().expect("a number");
                let kind = MarkKind::Member { cluster, version: 2, member, incarnation: 1 };
                Mark { kind, database: 0, tail: Tail::default() }
            });
            let run_id = format!("run{}", &name[1..]);
            Some(Shown { mark, run_id, address: String::new() }).filter(|_| !name.starts_with('?'))
        };
        List {
            addresses: names.iter().map(|name| format!("a:{}", &name[1..])).collect(),
            shown: names.iter().map(shown).collect(),
            clusters: names.iter().map(cluster).collect(),
        }
    }

    #[test]
    fn the_list_of_the_cluster_is_served_in_any_order_and_with_one_that_is_down_or_has_forgotten() {
        for names in
            [["a2", "a3", "a1"], ["a1", "?2", "a3"], ["a1", "?9", "a3"], ["a1", "-2", "a3"]]
        {
            assert_eq!(list(&names).fault(Some(&roster())), None, "{names:?}");
        }
    }

    #[test]
    fn a_part_of_the_cluster_leads_to_the_others() {
        for names in [&["a1", "a2"][..], &["a3"], &["a1", "?2", "a3"], &["a1", "a2", "?9"]] {
            assert_eq!(list(names).fault(Some(&roster())), None, "{names:?}");
        }
    }

    #[test]
    fn a_list_with_a_stranger_is_another_list() {
        for names in [&["a1", "a2", "-9"][..], &["a1", "a2", "a3", "-9"], &["a1", "a2", "a3", "?9"]]
        {
            let fault = list(names).fault(Some(&roster())).expect("it is another list");
            assert!(fault.contains("has 3 members, a:1,a:2,a:3: give all proxies"), "{fault}");
        }
    }

    #[test]
    fn masters_of_two_clusters_are_served_with_and_without_a_roster_by_nobody() {
        let fault = |names: [&str; 3], roster| list(&names).fault(roster).unwrap_or_default();
        let roster = roster();
        assert!(fault(["a1", "a2", "b7"], Some(&roster)).contains("different clusters"));
        assert!(fault(["b1", "b2", "b3"], Some(&roster)).contains("different clusters"));
        assert!(fault(["a1", "-2", "b7"], None).contains("different clusters"));
        assert_eq!(fault(["a1", "-2", "a3"], None), "", "they have lost their roster");
        assert_eq!(fault(["-1", "-2", "?3"], None), "");
    }

    #[test]
    fn one_instance_with_two_names_is_a_fault() {
        let mut list = list(&["-1", "-2", "-2"]);
        list.addresses[2] = "localhost:2".to_owned();
        assert!(list.fault(None).expect("one has two votes").contains("listed twice"));
    }
}
