//! Markdown tables, and the machine they were measured on.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::available_parallelism;

use anyhow::{Context, Result};

use crate::settings::Settings;

/// One table with its heading and a sentence on how to read it.
pub(crate) struct Table {
    heading: String,
    reading: String,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(heading: &str, reading: &str, columns: &[&'static str]) -> Table {
        let (heading, reading) = (heading.into(), reading.into());
        Table { heading, reading, columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## {}\n\n| {} |", self.heading, self.columns.join(" | "))?;
        writeln!(f, "| --- |{}", " ---: |".repeat(self.columns.len() - 1))?;
        for row in &self.rows {
            writeln!(f, "| {} |", row.join(" | "))?;
        }
        writeln!(f, "\n{}", self.reading)
    }
}

/// The tables of one run of the benchmark.
pub(crate) struct Report {
    machine: String,
    tables: Vec<Table>,
}

impl Report {
    pub(crate) fn new(settings: &Settings) -> Result<Report> {
        Ok(Report { machine: machine(settings)?, tables: Vec::new() })
    }

    pub(crate) fn add(&mut self, table: Table) {
        self.tables.push(table);
    }

    /// Prints the machine line, and saves everything if an output file is set.
    pub(crate) fn finish(self, settings: &Settings) -> Result<()> {
        println!("\n{}", self.machine);
        settings.output().map_or(Ok(()), |path| self.save(&path))
    }

    fn save(&self, path: &Path) -> Result<()> {
        let tables: Vec<String> = self.tables.iter().map(Table::to_string).collect();
        let text = format!("# Results\n\n{}\n{}\n\n{HOW}\n", tables.join("\n"), self.machine);
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("Saved to {}", path.display());
        Ok(())
    }
}

fn machine(settings: &Settings) -> Result<String> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let facts = [
        format!("{} cores of {}", available_parallelism()?, cpu_model()?),
        format!("Linux {}", kernel.trim()),
        version("redis-server", "--version", "v=")?,
        version("nutcracker", "--version", "nutcracker-")?,
        format!("redlock-proxy {}", env!("CARGO_PKG_VERSION")),
        format!("redis crate {}", locked_version("redis")),
        format!("rslock {}", locked_version("rslock")),
        format!("{} rounds", settings.rounds),
    ];
    let date = settings.date.as_ref().map(|date| format!("{date}: ")).unwrap_or_default();
    Ok(format!("{date}{}; everything on this one machine.", facts.join(", ")))
}

fn cpu_model() -> Result<String> {
    let info = fs::read_to_string("/proc/cpuinfo")?;
    let model = info.lines().find(|line| line.starts_with("model name"));
    let name =
        model.and_then(|line| line.split_once(": ")).map_or("unknown model", |(_, name)| name);
    Ok(name.to_owned())
}

/// Runs a program to get its version, the word behind `marker`. nutcracker prints it on stderr.
fn version(program: &str, flag: &str, marker: &str) -> Result<String> {
    let output = Command::new(program).arg(flag).output().with_context(|| {
        format!("cannot start {program}; Debian has redis-server, redis-tools and nutcracker")
    })?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let word = text.split_once(marker).and_then(|(_, rest)| rest.split_whitespace().next());
    Ok(format!("{program} {}", word.unwrap_or("of unknown version")))
}

/// Returns a crate's version in the lock file this benchmark was built with.
fn locked_version(name: &str) -> &'static str {
    let entry = format!("name = \"{name}\"\nversion = \"");
    let rest = LOCK_FILE.split_once(&entry).map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split('"').next()).unwrap_or("of unknown version")
}

const LOCK_FILE: &str = include_str!("../../Cargo.lock");

const HOW: &str = "Written by `make bench`; [README.md](README.md) says how each figure is measured. \
Figures are medians over the rounds; a ratio is the median of the ratios within a round, with the \
least and the most in brackets.";
