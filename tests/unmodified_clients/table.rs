//! The page that lists the clients known to work: a section for each language, a row for each client.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::checks::{COMMON, Outcome};
use crate::client::Client;
use crate::support::target_is_plain_redis;

/// Compares the page with the results, or writes it with `UPDATE_DOCS=1`.
pub(crate) fn tells(language: &str, rows: &[(Client, Outcome)]) -> Result<(), String> {
    static ONE_WRITER: Mutex<()> = Mutex::new(());
    let _writing = ONE_WRITER.lock().unwrap_or_else(PoisonError::into_inner);
    let (title, section) = (title(language), section(rows));
    let mut sections = sections();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        assert!(!target_is_plain_redis(), "the page is about the proxy");
        sections.insert(title.to_owned(), section);
        std::fs::write(path(), page(&sections)).expect("docs/clients.md can be written");
    } else if sections.get(title) != Some(&section) {
        return Err(format!(
            "{title} in docs/clients.md should be as follows: run `make clients-page`\n{section}"
        ));
    }
    Ok(())
}

/// Returns the sections of the page, by title.
pub(crate) fn sections() -> BTreeMap<String, String> {
    let page = std::fs::read_to_string(path()).unwrap_or_default();
    let sections = page.split("\n## ").skip(1).filter_map(|section| section.split_once("\n\n"));
    sections.map(|(title, rows)| (title.to_owned(), rows.trim_end().to_owned())).collect()
}

/// Returns the display name of a language.
pub(crate) fn title(language: &str) -> &'static str {
    TITLES
        .iter()
        .find(|(directory, _)| *directory == language)
        .map_or_else(|| panic!("{language} has no title"), |(_, title)| title)
}

fn page(sections: &BTreeMap<String, String>) -> String {
    let mut page = String::from(INTRODUCTION);
    for (title, rows) in sections {
        let _ = write!(page, "\n## {title}\n\n{rows}\n");
    }
    page
}

fn section(outcomes: &[(Client, Outcome)]) -> String {
    let mut rows = format!("| client | version | key | {} | also |\n", COMMON.join(" | "));
    rows += &"| --- ".repeat(COMMON.len() + 4);
    rows += "|";
    for (client, outcome) in outcomes {
        let _ = write!(rows, "\n{}", row(client, outcome));
    }
    rows
}

fn row(client: &Client, outcome: &Outcome) -> String {
    let (name, replayed) = match client.name.strip_suffix(" (wire replay)") {
        Some(name) => (name, true),
        None => (client.name.as_str(), false),
    };
    let (common, own) = outcome.split_at(COMMON.len());
    let cells: Vec<_> = common.iter().map(|(_, has)| cell(*has, replayed)).collect();
    let own: Vec<_> = own.iter().filter(|(_, has)| *has).map(|(name, _)| name.as_str()).collect();
    let (version, keys) = (&client.version, &client.keys);
    format!("| {name} | {version} | {keys} | {} | {} |", cells.join(" | "), own.join(", "))
}

fn cell(has: bool, replayed: bool) -> &'static str {
    match (has, replayed) {
        (false, _) => "none",
        (true, false) => "passed",
        (true, true) => "wire replay",
    }
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/clients.md")
}

const TITLES: [(&str, &str); 10] = [
    ("cpp", "C++"),
    ("dotnet", ".NET"),
    ("go", "Go"),
    ("java", "Java"),
    ("node", "Node"),
    ("perl", "Perl"),
    ("php", "PHP"),
    ("python", "Python"),
    ("ruby", "Ruby"),
    ("rust", "Rust"),
];

const INTRODUCTION: &str = "\
# Clients

Generated from the results of `make test-clients`; do not edit it by hand, run `make clients-page`.

Published client libraries, unmodified and at the versions given here, take locks through the proxy in
front of three masters. Each library runs its checks twice: with all masters up, and with one of them
killed (`kill -9`) right after `acquire`, while the lock is held. `passed` means both times.

| check | what is tested |
| --- | --- |
| `acquire` | takes a free lock |
| `refuse` | a second holder is refused |
| `extend` | the holder extends the lock |
| `stranger` | a release by a client that does not hold the lock frees nothing |
| `release` | the holder releases the lock, and the next client gets it |
| `expire` | a lock that is not released is gone after its TTL, and another client gets it |
| `wait` | a client that waits for a lock gets it after its release |

`none`: the library has no such feature. `wire replay`: the library cannot run here, so the test sends the bytes
that the library sends, and checks for the replies that it needs. `key` is the type of the lock's key. *also* lists
the checks of features that only that library has.

In a further test, all clients take locks through one proxy and disconnect without releasing them. Then each client
tries to take every held lock with the same type of key, whatever library and language took it. Each attempt is
refused.

The programs are in [tests/clients](../tests/clients/README.md).
";
