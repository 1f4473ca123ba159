//! `redlock-proxy check`: asks every master about itself, once, and reports how the proxy would judge it.

mod list;

use std::fmt::Write as _;
use std::time::Duration;

use tokio::task::JoinSet;

use self::list::List;
use super::table::aligned;
use crate::config::Settings;
use crate::decision::quorum::MasterId;
use crate::decision::roster::admission::Shown;
use crate::decision::roster::learning;
use crate::decision::roster::mark::Mark;
use crate::decision::roster::roster::{Roster, Standing};
use crate::decision::roster::seats::is_strange;
use crate::decision::roster::shards::{self, Hindrance, Step};
use crate::masters::dial::Network;
use crate::masters::electorate::ElectorateTerms;
use crate::masters::probe::{ProbeError, ProbeReport, look_once};
use crate::masters::roster::youth::trusted;

/// Maximum time for all answers of one master.
const PATIENCE: Duration = Duration::from_secs(3);

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// A table with a line for each master, the roster, and a sentence.
    pub text: String,
    /// Whether a deployment may go on with these masters.
    pub outcome: Result<(), Unfit>,
}

/// Reason why a deployment should not go on with these masters. A master that is down, loading or restarted is none: a
/// quorum does without it, and it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Unfit {
    /// A proxy could serve, but what answers at some address never votes as it is.
    #[error(
        "a proxy could serve, but not with all of these masters: correct the list, or those that never vote"
    )]
    Mistaken,
    /// No proxy could serve.
    #[error("a proxy could not serve with these masters")]
    CannotServe,
}

const HEADINGS: [&str; 10] = [
    "master",
    "role",
    "version",
    "run id",
    "uptime",
    "persistence",
    "eviction",
    "clock",
    "round trip",
    "verdict",
];

/// Connects to each master once.
pub async fn check(settings: &Settings, network: &Network) -> CheckReport {
    let (mut text, mut unfit, mut rosters) = (String::new(), None, Vec::new());
    for cluster in settings.clusters() {
        let looks = looks_at(&cluster, network).await;
        let found = report(&cluster, &looks);
        let heading = cluster.shard_name().map(|name| format!("\nshard {name}\n"));
        text += &(heading.unwrap_or_default() + &found.text);
        unfit = unfit.max(found.outcome.err());
        rosters.push(newest(&looks));
    }
    if let Some(mismatch) = mismatch(settings.shard_names(), &rosters) {
        text += &format!("{mismatch}.\n");
        unfit = Some(Unfit::CannotServe);
    }
    CheckReport { text: text.trim_start().to_owned(), outcome: unfit.map_or(Ok(()), Err) }
}

/// Returns why the clusters do not serve together, if they do not.
fn mismatch(names: Vec<String>, rosters: &[Option<Roster>]) -> Option<String> {
    let known: Vec<_> = rosters.iter().map(Option::as_ref).collect();
    let seen: Vec<_> = known.iter().map(|roster| Some(Vec::from_iter(*roster))).collect();
    let without = known.iter().position(Option::is_none);
    if let Some(at) = without
        && let Some(Hindrance::Serves) = shards::keeps_from_founding(at, &names, &seen)
    {
        return Some(shards::has_forgotten(&names[at]));
    }
    match shards::next(0, &names, &known) {
        Step::Refuse(at) => Some(shards::mismatch(at, &names, known[at]?)),
        _ => None,
    }
}

async fn looks_at(settings: &Settings, network: &Network) -> Vec<Result<ProbeReport, ProbeError>> {
    let mut looks = JoinSet::new();
    for (index, address) in settings.masters.iter().cloned().enumerate() {
        let network = network.clone();
        looks.spawn_local(async move {
            let look = look_once(&network, &address);
            let look = tokio::time::timeout(PATIENCE, look).await;
            (index, look.unwrap_or_else(|_| Err(too_late())))
        });
    }
    let mut looks = looks.join_all().await;
    looks.sort_by_key(|(index, _)| *index);
    looks.into_iter().map(|(_, look)| look).collect()
}

fn too_late() -> ProbeError {
    let patience = humantime::format_duration(PATIENCE);
    std::io::Error::other(format!("no answer within {patience}")).into()
}

type Looks = [Result<ProbeReport, ProbeError>];

fn report(settings: &Settings, looks: &Looks) -> CheckReport {
    let (roster, list) = (newest(looks), list(settings, looks));
    let quorum = roster.as_ref().map_or_else(|| settings.quorum(), Roster::quorum);
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    let mut voters = 0;
    for (index, look) in looks.iter().enumerate() {
        let verdict = verdict(settings, looks, &list, roster.as_ref(), index);
        voters += usize::from(verdict.is_ok());
        let verdict = verdict.map_or_else(|why| why, |()| "votes".to_owned());
        rows.push(row(settings.masters[index].to_string(), look.as_ref().ok(), verdict));
    }
    let (n, needed) = (quorum.masters(), quorum.needed());
    let outlook = match list.fault(roster.as_ref()) {
        Some(fault) => Err(fault),
        None if voters < needed => Err("that is not a quorum".to_owned()),
        None if roster.is_some() || voters == n => Ok("a quorum could vote".to_owned()),
        None => founding_outlook(looks),
    };
    let (sentence, outcome) = match (outlook, mistaken(settings, looks)) {
        (Err(why), _) => (why, Err(Unfit::CannotServe)),
        (Ok(_), Some(mistaken)) => {
            let why = format!("a quorum could vote, but {mistaken} never will as it is");
            (why, Err(Unfit::Mistaken))
        }
        (Ok(sentence), None) => (sentence, Ok(())),
    };
    let text = format!(
        "{}\n{}{voters} of {n} masters could vote and {needed} are needed: {sentence}.\n",
        aligned(&rows),
        roster.as_ref().map_or_else(|| no_roster(looks), told),
    );
    CheckReport { text, outcome }
}

/// Returns the addresses at which something answers that never votes as it is: no master, or one whose settings or login
/// are wrong.
fn mistaken(settings: &Settings, looks: &Looks) -> Option<String> {
    let is_mistaken = |look: &Result<ProbeReport, ProbeError>| match look {
        Ok(look) => look.facts.bar.is_some(),
        Err(why) => why.is_lasting(),
    };
    let found = settings.masters.iter().zip(looks).filter(|(_, look)| is_mistaken(look));
    let names: Vec<_> = found.map(|(address, _)| address.to_string()).collect();
    (!names.is_empty()).then(|| names.join(" and "))
}

/// Returns the line for a missing roster. Only all masters together prove that there is none.
fn no_roster(looks: &Looks) -> String {
    match looks.iter().all(Result::is_ok) {
        true => "no roster: no proxy has used them yet.\n".to_owned(),
        false => "no roster: those that answer show none.\n".to_owned(),
    }
}

/// Returns the outlook for masters without a roster when a quorum could vote, and some could not. Masters that are
/// merely younger do not keep the others from founding a cluster.
fn founding_outlook(looks: &Looks) -> Result<String, String> {
    let is_there = |look: &Result<ProbeReport, ProbeError>| {
        look.as_ref().is_ok_and(|look| look.facts.bar.is_none() && !is_rest(look))
    };
    match looks.iter().all(is_there) {
        true => Ok("a quorum could vote; masters started later receive copies first".to_owned()),
        false => Err("but all masters must be reachable to found a cluster".to_owned()),
    }
}

/// Whether a master holds remains of a cluster.
fn is_rest(look: &ProbeReport) -> bool {
    look.marks.any().is_some() || look.marks.roster().is_some()
}

fn newest(looks: &Looks) -> Option<Roster> {
    let held: Vec<_> = looks.iter().flatten().filter_map(|look| look.marks.roster()).collect();
    learning::newest(&held).map(|newest| newest.state.value.clone())
}

fn list(settings: &Settings, looks: &Looks) -> List {
    let addresses: Vec<_> = settings.masters.iter().map(ToString::to_string).collect();
    let show = |(look, address): (&Result<ProbeReport, ProbeError>, &String)| {
        let look = look.as_ref().ok()?;
        let (mark, run_id) = (look.marks.mark().cloned(), look.facts.run_id.clone());
        Some(Shown { mark, run_id, address: address.clone() })
    };
    let cluster = |look: &Result<ProbeReport, ProbeError>| {
        look.as_ref().ok()?.marks.any()?.cluster().map(str::to_owned)
    };
    let shown = looks.iter().zip(&addresses).map(show).collect();
    List { shown, clusters: looks.iter().map(cluster).collect(), addresses }
}

/// Formats the roster, a line for each member.
fn told(roster: &Roster) -> String {
    let (cluster, version) = (&roster.cluster, roster.version);
    let mut text = format!("roster: cluster {cluster}, version {version}\n");
    for member in &roster.members {
        let (addresses, incarnation) = (member.addresses.join(","), member.incarnation);
        let standing = match member.standing {
            Standing::In { .. } => "in".to_owned(),
            Standing::Out { since } | Standing::Joining { since } => {
                format!("out since version {since}")
            }
            Standing::Vacant | Standing::Closed => continue,
        };
        let _ = writeln!(text, "  member {addresses}: incarnation {incarnation}, {standing}");
    }
    text
}

/// Returns whether this master would vote, or why not.
fn verdict(
    settings: &Settings,
    looks: &Looks,
    list: &List,
    roster: Option<&Roster>,
    index: usize,
) -> Result<(), String> {
    let look = looks[index].as_ref().map_err(ToString::to_string)?;
    let same = |other: &usize| {
        let other = looks[*other].as_ref().ok();
        other.is_some_and(|other| other.facts.run_id == look.facts.run_id)
    };
    if let Some(other) = (0..index).find(same) {
        return Err(format!("the same instance as {}", settings.masters[other]));
    }
    if let Some(bar) = &look.facts.bar {
        return Err(bar.to_string());
    }
    match roster {
        Some(roster) => membership(list, roster, index),
        None if is_rest(look) => Err("it belongs to an unknown cluster of masters".to_owned()),
        None => youth(settings, looks, index),
    }
}

/// Checks that a master is a member of the roster and remembers: it is not out, was not restarted, and still has its
/// mark.
fn membership(list: &List, roster: &Roster, index: usize) -> Result<(), String> {
    let here = list.shown[index].as_ref().ok_or("it was not seen")?;
    if is_strange(roster, here) {
        return Err("it belongs to another cluster of masters".to_owned());
    }
    let place = list.seats(roster)[index].ok_or("it is not a member of the cluster")?;
    let (Some(member), Some(expected)) = (roster.member(place), Mark::expected(roster, place, 0))
    else {
        return Err("it is not a member of the cluster".to_owned());
    };
    if let Some(home) = &member.home
        && member.is_elsewhere(&here.address, Some(&here.run_id))
    {
        return Err(format!("it was replaced by {}: change the list", home.address));
    }
    let remembers = here
        .mark
        .as_ref()
        .is_some_and(|mark| mark.proves_same(&expected) || mark.missed_a_raise_to(&expected));
    match member.standing {
        Standing::Vacant | Standing::Closed => Err("it is not a member of the cluster".to_owned()),
        Standing::Out { since } | Standing::Joining { since } => {
            Err(format!("out of the roster since version {since}: its lost state is copied back"))
        }
        Standing::In { .. } if member.run_id != here.run_id => {
            Err("it was restarted: its lost state will be copied back".to_owned())
        }
        Standing::In { .. } if !remembers => {
            Err("its mark is gone: its lost state will be copied back".to_owned())
        }
        Standing::In { .. } => Ok(()),
    }
}

/// Returns whether a master would vote when the cluster is founded, or why not.
fn youth(settings: &Settings, looks: &Looks, index: usize) -> Result<(), String> {
    let terms = ElectorateTerms {
        quorum: settings.quorum(),
        restart_wait: settings.restart_wait(),
        cold_start: settings.cold_start,
        are_new: false,
    };
    let seen: Vec<usize> = (0..looks.len()).filter(|at| looks[*at].is_ok()).collect();
    let facts: Vec<_> = looks.iter().flatten().map(|look| &look.facts).collect();
    let trusted = trusted(&terms, &facts)?;
    let place = seen.iter().position(|at| *at == index);
    match place.is_some_and(|place| trusted.masters.contains(MasterId::new(place))) {
        true => Ok(()),
        false => Err("it was started after the others: keys are copied to it first".to_owned()),
    }
}

fn row(address: String, look: Option<&ProbeReport>, verdict: String) -> [String; 10] {
    let text = |of: fn(&ProbeReport) -> String| look.map_or_else(|| "-".to_owned(), of);
    [
        address,
        text(|look| look.facts.role.clone()),
        text(|look| look.facts.version.clone()),
        text(|look| look.facts.run_id.chars().take(8).collect()),
        text(|look| humantime::format_duration(look.facts.uptime).to_string()),
        text(|look| look.facts.persistence.clone()),
        text(|look| look.facts.eviction.clone()),
        text(|look| format!("{:+.1} ms", look.ahead_us as f64 / 1000.0)),
        text(|look| {
            let took = look.reading.answered - look.reading.asked;
            format!("{:.1} ms", took.as_secs_f64() * 1000.0)
        }),
        verdict,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let mut rows = vec![HEADINGS.map(str::to_owned)];
        rows.push([""; 10].map(|_| "x".repeat(12)));
        let text = aligned(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].find("role"), Some(14));
        assert_eq!(lines[1].len(), 10 * 12 + 9 * 2);
    }
}
