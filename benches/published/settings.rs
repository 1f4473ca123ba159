//! Flags for the selection and duration of measurements, each with an environment variable for `make bench`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Measure redlock-proxy and its references.
#[derive(Parser)]
pub(crate) struct Settings {
    /// Measure only these groups, by name or number; the tables are then printed but not saved
    #[arg(long, env = "BENCH_ONLY", value_enum, value_delimiter = ',')]
    only: Vec<Group>,

    /// Interleaved rounds of every candidate; the medians are published
    #[arg(long, env = "BENCH_ROUNDS", default_value = "5", value_parser = positive())]
    pub(crate) rounds: u32,

    /// Requests of one redis-benchmark run at -P 1; deeper pipelines send four times as many
    #[arg(long, env = "BENCH_REQUESTS", default_value = "200000", value_parser = positive())]
    pub(crate) requests: u32,

    /// Numbers of masters behind the proxy for uncontended claims
    #[arg(long, env = "BENCH_MASTERS", default_value = "3,5", value_delimiter = ',')]
    pub(crate) masters: Vec<usize>,

    /// Pipeline depths of redis-benchmark
    #[arg(long, env = "BENCH_PIPELINES", default_value = "1,16", value_delimiter = ',')]
    pub(crate) pipelines: Vec<u32>,

    /// Seconds of one run of the groups that are bounded by time (contention, cycles, restarted, bystander, hiccups,
    /// waiting)
    #[arg(long, env = "BENCH_SECONDS", default_value = "3", value_parser = positive())]
    seconds: u32,

    /// Idle connections, as far as the limit of open files allows
    #[arg(long, env = "BENCH_CONNECTIONS", default_value = "10000", value_parser = positive())]
    pub(crate) connections: u32,

    /// Measure this proxy binary instead of the one just built, to compare with an older build
    #[arg(long, env = "BENCH_PROXY", default_value = env!("CARGO_BIN_EXE_redlock-proxy"))]
    pub(crate) proxy: PathBuf,

    /// Save the tables here (a full run saves to benches/RESULTS.md by itself)
    #[arg(long, env = "BENCH_OUTPUT")]
    output: Option<PathBuf>,

    /// The date to write into the results
    #[arg(long, env = "BENCH_DATE")]
    pub(crate) date: Option<String>,

    /// Passed by `cargo bench`, and not by `cargo test --all-targets`
    #[arg(long, hide = true)]
    pub(crate) bench: bool,
}

/// One table of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    #[value(alias = "1")]
    Throughput,
    #[value(alias = "2")]
    Paused,
    #[value(alias = "3")]
    Contention,
    #[value(alias = "4")]
    Idle,
    #[value(alias = "5")]
    Cycles,
    #[value(alias = "6")]
    Programs,
    #[value(alias = "7")]
    Restarted,
    #[value(alias = "8")]
    Bystander,
    #[value(alias = "9")]
    Copying,
    #[value(alias = "10")]
    Hiccups,
    #[value(alias = "11")]
    Data,
    #[value(alias = "12")]
    LargeData,
    #[value(alias = "13")]
    IdleData,
    #[value(alias = "14")]
    LargeKeys,
    #[value(alias = "15")]
    RoundTrips,
    #[value(alias = "16")]
    Queue,
    #[value(alias = "17")]
    Waiting,
}

impl Settings {
    pub(crate) fn groups(&self) -> Vec<Group> {
        match self.only.as_slice() {
            [] => Group::value_variants().to_vec(),
            only => only.to_vec(),
        }
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    /// Returns the file for the results. A partial run must not overwrite the published ones unless asked to.
    pub(crate) fn output(&self) -> Option<PathBuf> {
        let published = || Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/RESULTS.md");
        self.output.clone().or_else(|| self.only.is_empty().then(published))
    }
}

fn positive() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}
