//! Several clusters behind one address, each of which serves its share of the keys.
//!
//! Two proxies whose settings differ must never grant one key on two clusters. A cluster's own roster cannot tell:
//! each of the two may be right about the clusters that it knows. So each roster takes, once, the list of all clusters
//! that serve together. A proxy serves once it has seen that the rosters of all its shards hold the same list, and that
//! the list names these very clusters. Two proxies that share any cluster then share its list, and so all the others.
//! Proxies that share none belong to separate deployments.

use serde::{Deserialize, Serialize};

use super::roster::{Change, Roster};

/// One cluster's part in a deployment of several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shard {
    /// Name of the shard that the cluster serves, since its founding.
    pub name: String,
    /// Names of all shards in ascending order, since its founding.
    pub names: Vec<String>,
    /// Ids of the clusters of all shards, in the order of their names; empty until the cluster has taken the list.
    pub clusters: Vec<String>,
}

/// Next action of a proxy for one of its shards.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Change the roster of this shard.
    Change(Change),
    /// Wait for the roster of another shard: it is not known, or has yet to take the list.
    WaitFor(usize),
    /// Serve nothing: the settings do not fit the roster of this shard.
    Refuse(usize),
    /// All shards belong together.
    Serve,
}

/// Returns the next action for the shard at `at`.
///
/// `names` are the names of all shards in ascending order; none if the proxy has a single cluster. `known` has the
/// roster of each shard that the proxy has seen founded.
pub fn next(at: usize, names: &[String], known: &[Option<&Roster>]) -> Step {
    let rosters = || known.iter().enumerate().filter_map(|(at, roster)| Some((at, (*roster)?)));
    if let Some((at, _)) = rosters().find(|(at, roster)| !is_called(roster, *at, names)) {
        return Step::Refuse(at);
    }
    if names.is_empty() {
        return Step::Serve;
    }
    if let Some(at) = known.iter().position(Option::is_none) {
        return Step::WaitFor(at);
    }
    let clusters: Vec<String> = rosters().map(|(_, roster)| roster.cluster.clone()).collect();
    let lists = || rosters().map(|(at, roster)| (at, list(roster)));
    if let Some((at, _)) = lists().find(|(_, list)| !list.is_empty() && *list != clusters) {
        return Step::Refuse(at);
    }
    let mut without = lists().filter(|(_, list)| list.is_empty()).map(|(at, _)| at);
    match without.clone().find(|other| *other == at) {
        Some(_) => Step::Change(Change::Together { clusters }),
        None => without.next().map_or(Step::Serve, Step::WaitFor),
    }
}

/// Reason not to found a cluster for a shard whose masters hold no roster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hindrance<'a> {
    /// This roster of another shard was founded with other shards.
    OfOthers(usize, &'a Roster),
    /// The other shards serve with a cluster that had a roster.
    Serves,
    /// Too few masters of this other shard were seen, so it may serve with such a cluster.
    Unseen(usize),
}

/// Returns the reason not to found a cluster for the shard at `at`, if there is one.
///
/// `seen` has the rosters that the masters of each shard hold; `None` for a shard of which too few masters were seen.
/// Whoever founded a second cluster for a shard would keep all proxies from serving, because the others' list names the
/// first.
pub fn keeps_from_founding<'a>(
    at: usize,
    names: &[String],
    seen: &[Option<Vec<&'a Roster>>],
) -> Option<Hindrance<'a>> {
    let (mut serves, mut unseen) = (None, None);
    for (other, rosters) in seen.iter().enumerate().filter(|(other, _)| *other != at) {
        if let Some(roster) = rosters.iter().flatten().find(|it| !is_called(it, other, names)) {
            return Some(Hindrance::OfOthers(other, roster));
        }
        if rosters.iter().flatten().any(|roster| !list(roster).is_empty()) {
            serves = Some(Hindrance::Serves);
        } else if rosters.is_none() {
            unseen = unseen.or(Some(Hindrance::Unseen(other)));
        }
    }
    serves.or(unseen)
}

/// Says that the shard called `name` has lost its roster while the others serve with its cluster.
pub fn has_forgotten(name: &str) -> String {
    format!(
        "the masters of shard {name} have no roster, but the other shards serve with a cluster that had one: wait for a \
         proxy that still serves it, or correct the list of its masters"
    )
}

/// Says why the roster of the shard at `at` makes a proxy refuse to serve.
pub fn mismatch(at: usize, names: &[String], roster: &Roster) -> String {
    let correct = "give all proxies the same shards with the same masters";
    let part = |part: &Shard| format!("shard {} of {}", part.name, part.names.join(", "));
    match (names.get(at), &roster.shard) {
        (None, shard) => {
            let part = shard.as_deref().map(part).unwrap_or_default();
            format!("these masters are {part}: {correct}")
        }
        (Some(name), None) => format!(
            "the masters of shard {name} already serve all keys: {correct}, or empty these masters"
        ),
        (Some(name), Some(shard)) if !is_called(roster, at, names) => {
            let names = names.join(", ");
            format!(
                "the masters of shard {name} are {}, but the settings have {names}: {correct}",
                part(shard)
            )
        }
        (Some(name), Some(_)) => {
            format!("the masters of shard {name} serve together with others than these: {correct}")
        }
    }
}

/// Whether a roster was founded for the shard at `at` of these names.
fn is_called(roster: &Roster, at: usize, names: &[String]) -> bool {
    match &roster.shard {
        None => names.is_empty(),
        Some(shard) => names.get(at) == Some(&shard.name) && shard.names == names,
    }
}

fn list(roster: &Roster) -> &[String] {
    roster.shard.as_ref().map_or(&[], |shard| &shard.clusters)
}

impl Shard {
    /// Returns the shard with its list, or `None` if it has one, or if the list does not name `cluster` for it.
    pub(super) fn together(&self, cluster: &str, clusters: &[String]) -> Option<Self> {
        let at = self.names.iter().position(|name| *name == self.name)?;
        let is_named = clusters.len() == self.names.len() && clusters[at] == cluster;
        (self.clusters.is_empty() && is_named)
            .then(|| Self { clusters: clusters.to_vec(), ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["a", "b"].map(str::to_owned).to_vec()
    }

    fn roster(cluster: &str, name: &str, clusters: &[&str]) -> Roster {
        let clusters = clusters.iter().map(|&it| it.to_owned()).collect();
        let shard = Shard { name: name.to_owned(), names: names(), clusters };
        Roster {
            cluster: cluster.to_owned(),
            version: 2,
            shard: Some(Box::new(shard)),
            ..Roster::default()
        }
    }

    #[test]
    fn a_single_cluster_needs_nobody_else() {
        let alone = Roster { version: 2, ..Roster::default() };
        assert_eq!(next(0, &[], &[Some(&alone)]), Step::Serve);
        assert_eq!(next(0, &[], &[Some(&roster("x", "a", &[]))]), Step::Refuse(0));
        assert_eq!(next(0, &names(), &[Some(&alone), None]), Step::Refuse(0));
    }

    #[test]
    fn all_shards_take_the_list_before_any_serves() {
        let (a, b) = (roster("x", "a", &[]), roster("z", "b", &[]));
        assert_eq!(next(0, &names(), &[Some(&a), None]), Step::WaitFor(1));
        let list = || ["x", "z"].map(str::to_owned).to_vec();
        let taken = Step::Change(Change::Together { clusters: list() });
        assert_eq!(next(0, &names(), &[Some(&a), Some(&b)]), taken);
        let a = roster("x", "a", &["x", "z"]);
        assert_eq!(next(0, &names(), &[Some(&a), Some(&b)]), Step::WaitFor(1));
        assert_eq!(next(1, &names(), &[Some(&a), Some(&b)]), taken);
        let b = roster("z", "b", &["x", "z"]);
        assert_eq!(next(0, &names(), &[Some(&a), Some(&b)]), Step::Serve);
        let other = roster("w", "b", &[]);
        assert_eq!(next(1, &names(), &[Some(&a), Some(&other)]), Step::Refuse(0));
        assert_eq!(next(0, &names(), &[Some(&b), Some(&a)]), Step::Refuse(0), "swapped");
    }

    #[test]
    fn no_cluster_is_founded_for_a_shard_that_may_have_had_one() {
        fn hindrance<'a>(seen: Option<Vec<&'a Roster>>) -> Option<Hindrance<'a>> {
            keeps_from_founding(1, &names(), &[seen, Some(Vec::new())])
        }
        let (new, serving) = (roster("x", "a", &[]), roster("x", "a", &["x", "z"]));
        assert_eq!(hindrance(Some(Vec::new())), None);
        assert_eq!(hindrance(Some(vec![&new])), None);
        assert_eq!(hindrance(None), Some(Hindrance::Unseen(0)));
        assert_eq!(hindrance(Some(vec![&new, &serving])), Some(Hindrance::Serves));
        let swapped = roster("x", "b", &[]);
        assert_eq!(hindrance(Some(vec![&swapped])), Some(Hindrance::OfOthers(0, &swapped)));
        assert_eq!(keeps_from_founding(0, &[], &[Some(Vec::new())]), None, "a single cluster");
    }

    #[test]
    fn a_list_is_taken_once_and_names_its_own_cluster() {
        let own = |clusters: &[&str]| *roster("x", "a", clusters).shard.unwrap_or_default();
        let list = |clusters: [&str; 2]| clusters.map(str::to_owned).to_vec();
        let taken = own(&[]).together("x", &list(["x", "z"]));
        assert_eq!(taken, Some(own(&["x", "z"])));
        assert_eq!(own(&["x", "z"]).together("x", &list(["x", "w"])), None);
        assert_eq!(own(&[]).together("x", &list(["z", "x"])), None);
        assert_eq!(own(&[]).together("x", &list(["x", "z"])[..1]), None);
    }
}
