//! What was seen, as the tables of `docs/reliability.md`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::fault::Fault;
use crate::phase::Outcome;
use crate::system::System;

/// One line of what was found under one fault with one system; `None` where there is nothing to suffer it.
pub(crate) type Cell = Option<Outcome>;

/// Puts the tables into the page.
pub(crate) fn write(tables: &str, lasting: Duration, seed: u64) {
    let page = page();
    let (before, rest) = page.split_once(BEGIN).expect("the page has a place for the tables");
    let (_, after) = rest.split_once(END).expect("the place has an end");
    let facts = facts(lasting, seed);
    let page = format!("{before}{BEGIN}\n\n{tables}\n{facts}\n\n{END}{after}");
    std::fs::write(path(), page).expect("docs/reliability.md can be written");
}

pub(crate) fn page() -> String {
    std::fs::read_to_string(path()).expect("docs/reliability.md")
}

/// A table of violations and one of what clients got, for the systems in the order of [`System::ALL`].
pub(crate) fn tables(rows: &[(Fault, Vec<Cell>)]) -> String {
    let violations = table("violations under", rows, violations);
    let service = table("strikes, locks granted, longest pause under", rows, service);
    format!("{violations}\n{service}")
}

fn table(title: &str, rows: &[(Fault, Vec<Cell>)], cell: fn(Fault, &Outcome) -> String) -> String {
    let names = System::ALL.map(System::name).join(" | ");
    let mut table = format!("| {title} | {names} |\n|{}\n", " --- |".repeat(System::ALL.len() + 1));
    for (fault, cells) in rows {
        let cells = cells.iter().map(|it| it.as_ref().map(|outcome| cell(*fault, outcome)));
        let cells: Vec<String> = cells.map(|cell| cell.unwrap_or("–".to_owned())).collect();
        let _ = writeln!(table, "| {} | {} |", fault.name(), cells.join(" | "));
    }
    table
}

/// `0`, or how many of which kind.
fn violations(fault: Fault, outcome: &Outcome) -> String {
    let found = &outcome.findings;
    let trespasses = if fault == Fault::Sleepers { outcome.trespasses } else { 0 };
    let counts = [
        (trespasses, "beyond the TTL"),
        (found.overlaps.len(), "double"),
        (found.losses.len(), "lost"),
        (found.ghosts.len(), "ghost"),
        (found.wrong.len(), "wrong"),
        (found.missing.len(), "without reply"),
        (found.excused, "without reply as the proxy was down"),
    ];
    let some = counts.into_iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = some.map(|(count, kind)| format!("{count} {kind}")).collect();
    if words.is_empty() { "0".to_owned() } else { words.join(", ") }
}

fn service(_: Fault, outcome: &Outcome) -> String {
    let pause_ms = outcome.findings.pause / crate::history::MILLISECOND;
    format!("{}, {}, {:.1} s", outcome.strikes, outcome.findings.grants, pause_ms as f64 / 1e3)
}

/// What somebody needs to know who compares this with what another machine says.
fn facts(lasting: Duration, seed: u64) -> String {
    let cores = std::thread::available_parallelism().expect("a number of cores");
    let version = Command::new("redis-server").arg("--version").output().expect("redis-server");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let version = version.split_whitespace().find_map(|word| word.strip_prefix("v="));
    format!(
        "{} s of each, seed {seed}; {cores} cores, Redis {}; everything on this one machine.",
        lasting.as_secs(),
        version.unwrap_or("of an unknown version")
    )
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/reliability.md")
}

const BEGIN: &str = "<!-- what `make chaos` saw: -->";
const END: &str = "<!-- end of what `make chaos` saw -->";
