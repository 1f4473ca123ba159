//! Results as the tables of `docs/reliability.md`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::data::findings::Findings;
use crate::data::{self, Front};
use crate::fault::Fault;
use crate::phase::Outcome;
use crate::system::System;

/// Results of one fault with one system; `None` if the fault cannot affect it.
pub(crate) type Cell<T> = Option<T>;

/// A part of the page.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Locks,
    Data,
}

impl Part {
    fn marks(self) -> [&'static str; 2] {
        match self {
            Part::Locks => {
                ["<!-- what `make chaos` saw: -->", "<!-- end of what `make chaos` saw -->"]
            }
            Part::Data => [
                "<!-- what `make chaos` saw of data: -->",
                "<!-- end of what `make chaos` saw of data -->",
            ],
        }
    }
}

/// Writes the tables into the page.
pub(crate) fn write(part: Part, tables: &str, lasting: Duration, seed: u64) {
    let page = page();
    let [begin, end] = part.marks();
    let (before, rest) = page.split_once(begin).expect("the page has a place for the tables");
    let (_, after) = rest.split_once(end).expect("the place has an end");
    let facts = facts(lasting, seed);
    let page = format!("{before}{begin}\n\n{tables}\n{facts}\n\n{end}{after}");
    std::fs::write(path(), page).expect("docs/reliability.md can be written");
}

pub(crate) fn page() -> String {
    std::fs::read_to_string(path()).expect("docs/reliability.md")
}

/// Renders a table of violations and one of client results, for the systems in the order of
/// [`System::ALL`].
pub(crate) fn tables(rows: &[(Fault, Vec<Cell<Outcome>>)]) -> String {
    let names = System::ALL.map(System::name);
    let violations = table("violations under", &names, rows, violations);
    let service = table("strikes, locks granted, longest pause under", &names, rows, service);
    format!("{violations}\n{service}")
}

/// Renders the same tables for data under this name, in the order of [`Front::ALL`].
pub(crate) fn tables_of_data(data: &str, rows: &[(Fault, Vec<Cell<data::Outcome>>)]) -> String {
    let names = Front::ALL.map(Front::name);
    let violations =
        table(&format!("violations with {data} under"), &names, rows, violations_of_data);
    let service = table(SERVICE_OF_DATA, &names, rows, service_of_data);
    format!("{violations}\n{service}")
}

fn table<T>(
    title: &str,
    names: &[&str],
    rows: &[(Fault, Vec<Cell<T>>)],
    cell: fn(Fault, &T) -> String,
) -> String {
    let mut table =
        format!("| {title} | {} |\n|{}\n", names.join(" | "), " --- |".repeat(names.len() + 1));
    for (fault, cells) in rows {
        let cells = cells.iter().map(|it| it.as_ref().map(|outcome| cell(*fault, outcome)));
        let cells: Vec<String> = cells.map(|cell| cell.unwrap_or("–".to_owned())).collect();
        let _ = writeln!(table, "| {} | {} |", fault.name(), cells.join(" | "));
    }
    table
}

/// Returns `0`, or the number of violations by kind.
fn violations(fault: Fault, outcome: &Outcome) -> String {
    let found = &outcome.findings;
    let trespasses = if fault == Fault::Sleepers { outcome.trespasses } else { 0 };
    told([
        (trespasses, "beyond the TTL"),
        (found.overlaps.len(), "double"),
        (found.losses.len(), "lost"),
        (found.ghosts.len(), "ghost"),
        (found.wrong.len(), "wrong"),
        (found.missing.len(), "without reply"),
        (found.excused, "without reply as the proxy was down"),
    ])
}

fn violations_of_data(_: Fault, outcome: &data::Outcome) -> String {
    let found = &outcome.findings;
    told([
        (found.impossible.len(), "impossible"),
        (found.untold.len(), "undecided"),
        (found.differing.len(), "different"),
        (found.mute.len(), "stuck"),
        (found.wrong.len(), "wrong"),
        (found.missing.len(), "without reply"),
        (found.excused, "without reply as the proxy was down"),
    ])
}

fn told<const N: usize>(counts: [(usize, &str); N]) -> String {
    let some = counts.into_iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = some.map(|(count, kind)| format!("{count} {kind}")).collect();
    if words.is_empty() { "0".to_owned() } else { words.join(", ") }
}

fn service(_: Fault, outcome: &Outcome) -> String {
    let pause_ms = outcome.findings.pause / crate::history::MILLISECOND;
    format!("{}, {}, {:.1} s", outcome.strikes, outcome.findings.grants, pause_ms as f64 / 1e3)
}

fn service_of_data(_: Fault, outcome: &data::Outcome) -> String {
    let Findings { objects, answers, open, pause, .. } = &outcome.findings;
    let pause_ms = pause / crate::history::MILLISECOND;
    let pause_s = pause_ms as f64 / 1e3;
    format!("{}, {objects}, {answers}, {open}, {pause_s:.1} s", outcome.strikes.len())
}

/// Facts needed to compare the results with those of another machine.
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

const SERVICE_OF_DATA: &str = "strikes, objects, answers, calls left open, longest pause under";
