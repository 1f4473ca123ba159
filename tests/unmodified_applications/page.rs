//! The page that lists the applications known to work: a section for each language, a row for each application.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::application::Application;
use crate::checks::{APART, Outcome};

/// Compares the page with the results of all applications, or writes it.
pub(crate) fn tells(outcomes: &[Outcome]) {
    let page = page(outcomes);
    if is_written() {
        std::fs::write(path(), &page).expect("docs/applications.md can be written");
    }
    assert_eq!(page, text(), "docs/applications.md is out of date: run `make applications-page`");
}

/// Returns whether to write the page instead of comparing it.
pub(crate) fn is_written() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

/// Returns whether the page has this row.
pub(crate) fn has(row: &str) -> bool {
    text().lines().any(|line| line == row)
}

/// Returns the row of an application.
pub(crate) fn row(outcome: &Outcome) -> String {
    let own = outcome.checks.iter().filter(|(name, _)| name != APART);
    let (had, without): (Vec<_>, Vec<_>) = own.partition(|(_, has)| *has);
    let names = |checks: &[&(String, bool)]| {
        checks.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let proxy = match without[..] {
        [] => "passed".to_owned(),
        _ => format!("passed, without {}", names(&without)),
    };
    format!("{} passed | {proxy} | {} |", beginning(&outcome.application), names(&had))
}

/// Returns the beginning of an application's row: the cells that are known without running it.
pub(crate) fn beginning(application: &Application) -> String {
    let Application { name, versions, keys, channels, .. } = application;
    let patterns = [quoted(keys), quoted(channels)].concat();
    let patterns = if patterns.is_empty() { "none".to_owned() } else { patterns.join(", ") };
    format!("| {name} | {versions} | {patterns} |")
}

/// Returns the beginnings of all rows on the page.
pub(crate) fn beginnings() -> Vec<String> {
    let text = text();
    // The headings of the tables and the introduction come before them.
    let rows = text.split("\n## ").skip(1).flat_map(|section| section.lines().skip(4));
    rows.filter(|row| row.starts_with("| "))
        .map(|row| {
            let cells: Vec<_> = row.split(" | ").collect();
            format!("{} |", cells[..3].join(" | "))
        })
        .collect()
}

fn quoted(patterns: &str) -> Vec<String> {
    patterns.split_whitespace().map(|pattern| format!("`{pattern}`")).collect()
}

fn page(outcomes: &[Outcome]) -> String {
    let mut sections: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for outcome in outcomes {
        let title = title(&outcome.application.language);
        sections.entry(title).or_default().push(row(outcome));
    }
    let mut page = String::from(INTRODUCTION);
    for (title, rows) in sections {
        let _ = write!(page, "\n## {title}\n\n{HEADINGS}\n{}\n", rows.join("\n"));
    }
    page
}

/// Returns the display name of a language.
fn title(language: &str) -> &'static str {
    let titles = TITLES.iter().find(|(directory, _)| *directory == language);
    titles.map_or_else(|| panic!("{language} has no title"), |(_, title)| title)
}

fn text() -> String {
    std::fs::read_to_string(path()).unwrap_or_default()
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/applications.md")
}

const TITLES: [(&str, &str); 6] = [
    ("java", "Java"),
    ("node", "Node"),
    ("php", "PHP"),
    ("python", "Python"),
    ("ruby", "Ruby"),
    ("shell", "Shell"),
];

const HEADINGS: &str = "\
| application | versions | `--lock-keys`, `--lock-channels` | one Redis | the proxy | checks |
| --- | --- | --- | --- | --- | --- |";

const INTRODUCTION: &str = "\
# Applications

Generated from the results of `make test-applications`; do not edit it by hand, run `make applications-page`.

This page lists published applications and frameworks, unmodified and at the versions given here. Each uses [one address for
locks and data](data.md). Each runs its checks twice: against a plain Redis, and against the proxy with three masters and
`--data`. Workers, schedulers and web pages come from the packages.

* `passed` in the proxy column also means that, after the application ended with a lock held, its locks were on the masters and
  not in the data Redis. Nothing else was on the masters.
* `without` lists optional features that the application displays or probes for. A plain Redis has them and the proxy lacks them.
* `none`: the application has no locks, or keeps them in one transaction, script or key with its data. Such locks stay with the
  data in the data Redis. [The tables](../tests/applications/README.md) say which.

The patterns are worth copying: they match the keys that these applications use as locks. [Clients](clients.md) covers lock
libraries on their own.
";
