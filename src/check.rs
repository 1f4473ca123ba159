//! `redlock-proxy check`: asks every master about itself, once, and says what the proxy would make of it.

use std::fmt::Write as _;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::clock;
use crate::config::Settings;
use crate::master::dial::Network;
use crate::master::membership::Membership;
use crate::master::probation::{Probation, Standing, Terms};
use crate::master::probe::{Look, ProbeError, look_once};
use crate::quorum::{MasterId, Quorum};

/// How long a master may take for everything.
const PATIENCE: Duration = Duration::from_secs(3);

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// A table with a line for each master, and a sentence.
    pub text: String,
    /// Whether a quorum could vote.
    pub has_quorum: bool,
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
pub async fn check(settings: &Settings, network: &Network) -> Report {
    let membership = Membership::of(&settings.masters);
    let mut looks = JoinSet::new();
    for (index, address) in settings.masters.iter().cloned().enumerate() {
        let (membership, network) = (membership.clone(), network.clone());
        looks.spawn_local(async move {
            let look = look_once(&network, &address, &membership);
            let look = tokio::time::timeout(PATIENCE, look).await;
            (index, look.unwrap_or_else(|_| Err(too_late())))
        });
    }
    let mut looks = looks.join_all().await;
    looks.sort_by_key(|(index, _)| *index);
    let looks: Vec<_> = looks.into_iter().map(|(_, look)| look).collect();
    report(settings, &looks)
}

fn too_late() -> ProbeError {
    let patience = humantime::format_duration(PATIENCE);
    std::io::Error::other(format!("no answer within {patience}")).into()
}

fn report(settings: &Settings, looks: &[Result<Look, ProbeError>]) -> Report {
    let quorum = Quorum::of(settings.masters.len());
    let (restart_wait, cold_start) = (settings.restart_wait(), settings.cold_start);
    let mut probation = Probation::new(Terms { quorum, restart_wait, cold_start }, clock::now());
    let known =
        looks.iter().enumerate().filter_map(|(index, look)| Some((index, look.as_ref().ok()?)));
    for (index, look) in known {
        probation.observe(MasterId::new(index), look.facts.clone());
    }
    probation.everybody_was_met(clock::now());

    let mut rows = vec![HEADINGS.map(str::to_owned)];
    let mut voters = 0;
    for (index, look) in looks.iter().enumerate() {
        let verdict = verdict(settings, looks, &probation, index);
        voters += usize::from(verdict.is_ok());
        let verdict = verdict.map_or_else(|why| why, |()| "votes".to_owned());
        rows.push(row(settings.masters[index].to_string(), look.as_ref().ok(), verdict));
    }
    let has_quorum = voters >= quorum.needed();
    let (n, needed) = (quorum.masters(), quorum.needed());
    let sentence = if has_quorum { "a quorum could vote" } else { "that is no quorum" };
    let text = format!(
        "{}\n{voters} of {n} masters could vote and {needed} are needed: {sentence}.\n",
        table(&rows)
    );
    Report { text, has_quorum }
}

/// Whether this master would vote, or why not.
fn verdict(
    settings: &Settings,
    looks: &[Result<Look, ProbeError>],
    probation: &Probation,
    index: usize,
) -> Result<(), String> {
    let look = looks[index].as_ref().map_err(ToString::to_string)?;
    if let Some(rival) = &look.rival {
        return Err(format!("another proxy that runs now has other masters: {rival}"));
    }
    let same = |other: &usize| {
        let other = looks[*other].as_ref().ok();
        other.is_some_and(|other| other.facts.run_id == look.facts.run_id)
    };
    if let Some(other) = (0..index).find(same) {
        return Err(format!("the same instance as {}", settings.masters[other]));
    }
    match probation.standing(MasterId::new(index)) {
        Standing::Voter => Ok(()),
        Standing::Barred(bar) => Err(bar.to_string()),
        Standing::Probation { cause, .. } => Err(format!("on probation at first: {cause}")),
        Standing::Young | Standing::Unknown => {
            Err("too young to be trusted without the others".to_owned())
        }
    }
}

fn row(address: String, look: Option<&Look>, verdict: String) -> [String; 10] {
    let text = |of: fn(&Look) -> String| look.map_or_else(|| "-".to_owned(), of);
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

/// Columns two spaces apart.
fn table(rows: &[[String; 10]]) -> String {
    let mut widths = [0; 10];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            let _ = write!(line, "{cell:width$}  ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let mut rows = vec![HEADINGS.map(str::to_owned)];
        rows.push([""; 10].map(|_| "x".repeat(12)));
        let text = table(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].find("role"), Some(14));
        assert_eq!(lines[1].len(), 10 * 12 + 9 * 2);
    }
}
