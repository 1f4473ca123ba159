//! Checks that the documentation matches the program: tables are generated from the source, texts are searched for in
//! it, and the README's transcript is played against a real proxy.
#![allow(clippy::unwrap_used, reason = "a broken test set-up should end the test")]

#[path = "documentation/links.rs"]
mod links;
#[path = "documentation/texts.rs"]
mod texts;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::CommandFactory as _;
use redlock_proxy::catalogue::table::{self, Family};
use redlock_proxy::config::command_line::Cli;

/// `UPDATE_DOCS=1 cargo test --test documentation` writes the page instead of comparing it.
#[test]
fn the_page_of_commands_is_the_command_table() {
    let path = root().join("docs/commands.md");
    let page = commands_page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap();
    assert_eq!(committed, page, "docs/commands.md is out of date: run `make docs`");
    let rows = page.trim_end_matches(COMMANDS_WITH_DATA).matches("\n| `").count();
    assert_eq!(rows, table::all().len(), "a family of commands has no section");
}

#[test]
fn every_flag_is_explained_with_its_variable_and_default() {
    let page = read("docs/configuration.md");
    let cli = Cli::command();
    for arg in cli.get_arguments().filter(|arg| arg.get_id() != "help") {
        let Some(flag) = arg.get_long() else { continue };
        let row = row(&page, &format!("| `--{flag}"));
        if let Some(variable) = arg.get_env() {
            assert!(row.contains(&format!("`{}`", variable.display())), "variable of --{flag}");
        }
        let help = arg.get_long_help().or(arg.get_help()).unwrap().to_string();
        if let Some((_, default)) = help.split_once("[default: ") {
            let default = default.trim_end_matches(']');
            assert!(row.contains(&format!("| `{default}` |")), "default of --{flag}: {default}");
        }
    }
    for subcommand in cli.get_subcommands() {
        let name = subcommand.get_name();
        for flag in subcommand.get_arguments().filter_map(|arg| arg.get_long()) {
            // `check`, `settle` and `learn` take the settings themselves.
            let is_setting = cli.get_arguments().any(|arg| arg.get_long() == Some(flag));
            let takes_settings = ["check", "learn", "settle"].contains(&name) && is_setting;
            let own = if takes_settings { String::new() } else { format!("{name} ") };
            row(&page, &format!("| `{own}--{flag}"));
        }
    }
}

/// Errors of the masters that the proxy passes on, and that the page explains.
const OF_MASTERS: [&str; 2] = [
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "ERR increment or decrement would overflow",
];

/// `…` stands for parts that differ from reply to reply.
#[test]
fn every_error_that_is_explained_is_in_the_source() {
    let of_masters = OF_MASTERS.map(str::to_owned).to_vec();
    let sent = [errors_in_the_source(), texts::for_operators(), of_masters].concat();
    let explained = explained_errors();
    assert!(explained.len() > 40, "the page has {} errors", explained.len());
    for error in explained {
        assert!(sent.contains(&error), "docs/errors.md explains what nobody sends: {error}");
    }
}

#[test]
fn every_error_in_the_source_is_explained() {
    let explained = explained_errors();
    let sent = errors_in_the_source();
    assert!(sent.len() > 40, "the source has {} errors", sent.len());
    for error in sent {
        assert!(explained.contains(&error), "docs/errors.md does not explain: {error}");
    }
}

#[test]
fn everything_that_operators_are_told_is_explained() {
    let explained = explained_errors();
    let told = texts::for_operators();
    assert!(told.len() > 60, "operators are told {} things", told.len());
    let missing: Vec<_> = told.into_iter().filter(|text| !explained.contains(text)).collect();
    assert!(missing.is_empty(), "docs/errors.md does not explain {missing:#?}");
}

#[test]
fn links_lead_somewhere() {
    assert_eq!(links::broken(), [""; 0]);
}

#[test]
fn the_readme_leads_to_every_page() {
    assert_eq!(links::unlisted(), [""; 0]);
}

#[test]
fn every_alert_says_what_to_do() {
    let rules = read("config/prometheus-alerts.yaml");
    let runbooks: Vec<_> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("runbook: ")).collect();
    assert_eq!(runbooks.len(), rules.matches("- alert: ").count());
    for runbook in runbooks {
        let (page, anchor) = runbook.split_once('#').unwrap();
        assert!(links::anchors(&root().join(page)).contains(&anchor.to_owned()), "{runbook}");
    }
}

#[test]
fn the_transcript_of_the_readme_is_what_happens() {
    assert_plays(&read("README.md"), 5);
}

#[test]
fn the_transcripts_of_the_quick_start_are_what_happens() {
    assert_plays(&read("docs/quick-start.md"), 6);
}

#[test]
fn the_transcript_of_the_page_about_fencing_is_what_happens() {
    assert_plays(&read("docs/fencing.md"), 2);
}

/// Plays the `redis-cli` commands in the transcripts of a page, which must be at least `at_least`.
fn assert_plays(page: &str, at_least: usize) {
    let transcripts =
        page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut dev = Dev::start();
    let mut played = 0;
    // The reader of the page starts it again.
    let mut gone = "nothing yet";
    for entry in transcripts.flat_map(|transcript| transcript.split("$ ").skip(1)) {
        let (command, expected) = entry.split_once('\n').unwrap();
        if command.starts_with("kill") {
            dev.kill_a_master();
        } else if command.starts_with("redis-cli") && !command.starts_with(gone) {
            assert_eq!(dev.play(command), expected.trim_end(), "{command}");
            played += 1;
            gone = command.strip_suffix(" SHUTDOWN NOSAVE").unwrap_or(gone);
        }
    }
    assert!(played >= at_least, "{played} commands were played");
}

/// `redlock-proxy dev` on a free port.
struct Dev {
    process: Child,
    port: String,
    /// The ports and process ids of the masters.
    masters: Vec<(String, String)>,
}

impl Dev {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_redlock-proxy"))
            .args(["--admin", "127.0.0.1:0", "dev", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut masters = Vec::new();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = loop {
            let line = lines.next().expect("dev says where it listens").unwrap();
            if let Some((port, pid)) = line.split_once(" (pid ") {
                let (_, port) = port.rsplit_once(':').unwrap();
                masters.push((port.to_owned(), pid.trim_end_matches(')').to_owned()));
            } else if let Some(rest) = line.strip_prefix("the proxy listens on 127.0.0.1:") {
                break rest.split(' ').next().unwrap().to_owned();
            }
        };
        // Reads the rest of the output, so that the proxy never writes to a closed pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, port, masters }
    }

    /// Runs a `redis-cli` line of the transcript and returns the output that a terminal would show. The page's
    /// masters have the ports from 7001 on, and its proxy another port.
    fn play(&self, command: &str) -> String {
        let words = command.strip_prefix("redis-cli ").expect("a redis-cli line");
        let (typed, words) = match words.strip_prefix("-p ").and_then(|rest| rest.split_once(' ')) {
            Some((port, words)) => (port, words),
            None => ("6379", words),
        };
        let port = self.master_at(typed).map_or(&self.port, |(port, _)| port);
        let line = format!("redis-cli --no-raw -p {port} {words}");
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    fn master_at(&self, port: &str) -> Option<&(String, String)> {
        let number = port.strip_prefix("700")?.parse::<usize>().ok()?;
        self.masters.get(number.checked_sub(1)?)
    }

    fn kill_a_master(&mut self) {
        let (_, pid) = self.masters.pop().expect("a master is left");
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Ends it as Ctrl-C does, so that the masters end as well.
        let _ = Command::new("kill").args(["-INT", &self.process.id().to_string()]).status();
        let _ = self.process.wait();
    }
}

fn commands_page() -> String {
    let mut page = String::from(COMMANDS_INTRODUCTION);
    for (family, title) in FAMILIES {
        let _ = write!(
            page,
            "\n## {title}\n\n| command | since | what it does | how it is answered |\n"
        );
        page += "| --- | --- | --- | --- |\n";
        for spec in table::all().iter().filter(|spec| spec.family == family) {
            let name = spec.name.to_uppercase();
            let (since, summary, rule) = (spec.since, spec.summary, spec.rule);
            let _ = writeln!(page, "| `{name}` | {since} | {summary} | {rule} |");
        }
    }
    page + COMMANDS_WITH_DATA
}

/// The end of the page, written by hand.
const COMMANDS_WITH_DATA: &str = include_str!("documentation/commands-with-data.md");

const COMMANDS_INTRODUCTION: &str = "\
# Commands

Made from the command table in `src/catalogue/table/` by `make docs`; do not edit it by hand.

What claims, releases, votes, padding, registers and programs are: [how it decides](how-it-decides.md). *Since* is
the version of Redis (for `DELIFEQ`: of Valkey) that brought the command. Commands of later versions and of modules [run as well](scripts.md#commands-that-the-proxy-does-not-know), if
all masters know them. Every other command gets an
error and the connection stays open: [errors](errors.md). With `--data` all of this is about keys of locks, and a [table
below](#with-a-data-redis) says where each command goes.
";

const FAMILIES: [(Family, &str); 18] = [
    (Family::Lock, "Locks and whole values"),
    (Family::Key, "Values"),
    (Family::Expiry, "Times to live"),
    (Family::Counter, "Numbers"),
    (Family::Script, "Scripts"),
    (Family::Transaction, "Transactions"),
    (Family::Hash, "Hashes"),
    (Family::List, "Lists"),
    (Family::Set, "Sets"),
    (Family::SortedSet, "Sorted sets"),
    (Family::Bitmap, "Bitmaps"),
    (Family::HyperLogLog, "HyperLogLogs"),
    (Family::Geo, "Places"),
    (Family::Stream, "Streams"),
    (Family::Pubsub, "Messages"),
    (Family::Keyspace, "Keys and databases"),
    (Family::Connection, "The connection"),
    (Family::Server, "The server"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap()
}

fn row<'a>(page: &'a str, start: &str) -> &'a str {
    page.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no row {start}"))
}

/// Returns the texts in the first column of the error tables.
fn explained_errors() -> Vec<String> {
    let page = read("docs/errors.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let texts = rows.filter_map(|row| row.split("` |").next()).map(|text| text.replace("\\|", "|"));
    // `filled_in` does the same.
    texts.map(|text| text.trim_start_matches('-').to_owned()).collect()
}

/// Returns the string literals of the source that are errors, without those of tests.
fn errors_in_the_source() -> Vec<String> {
    let mut errors = Vec::new();
    for file in files(&root().join("src"), "rs") {
        if file.ends_with("tests.rs") {
            continue;
        }
        let source = std::fs::read_to_string(file).unwrap();
        let source = joined(source.split("#[cfg(test)]").next().unwrap_or_default());
        errors.extend(literals(&source).filter_map(error));
    }
    for file in files(&root().join("src"), "lua") {
        let source = lua_as_rust(&std::fs::read_to_string(file).unwrap());
        errors.extend(literals(&source).filter_map(error));
    }
    errors
}

/// Turns `"a" .. b .. "c"` into the format string `"a{b}c"`.
fn lua_as_rust(source: &str) -> String {
    source.replace("\" .. ", "{").replace(" .. \"", "}")
}

/// Returns the error in a literal as the documentation shows it, if the literal is an error.
fn error(literal: &str) -> Option<String> {
    let text = filled_in(literal);
    if text.starts_with("Protocol error: ") {
        return Some(format!("ERR {text}"));
    }
    let (code, rest) = text.split_once(' ')?;
    // A code with only a placeholder after it builds errors whose texts are elsewhere.
    (CODES.contains(&code) && !matches!(rest, "" | "…")).then_some(text)
}

/// The first words of the proxy's errors, by which clients tell them apart.
const CODES: [&str; 15] = [
    "ERR",
    "LOADING",
    "CLUSTERDOWN",
    "CROSSSLOT",
    "EXECABORT",
    "TRYAGAIN",
    "UNKNOWN",
    "NOAUTH",
    "NOPERM",
    "NOPROTO",
    "NOSCRIPT",
    "NOTBUSY",
    "UNKILLABLE",
    "WRONGPASS",
    "WRONGTYPE",
];

/// Removes the line breaks from string literals: `\` at the end of a line.
fn joined(source: &str) -> String {
    let mut parts = source.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |joined, part| joined + part.trim_start())
}

/// Returns every part of a line between two quotes. This includes pieces of code, which does no harm.
fn literals(source: &str) -> impl Iterator<Item = &str> {
    source.lines().flat_map(|line| line.split('"'))
}

/// Returns a format string with `…` for each placeholder.
fn filled_in(text: &str) -> String {
    let mut pieces = text.split('{');
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        filled += "…";
        filled += piece.split_once('}').map_or("", |(_, rest)| rest);
    }
    filled.trim_end_matches("\\r\\n").trim_start_matches('-').to_owned()
}

fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    found
}
