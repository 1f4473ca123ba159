//! Requests to masters per change of a register.

use anyhow::Result;

use crate::deployment::Deployment;
use crate::programs::REDISSON_LOCK;
use crate::report::Table;
use crate::settings::Settings;
use crate::stats::median_of;
use crate::sweep::{KEY, Sweep, Words, with_key};

pub(crate) fn measure(settings: &Settings) -> Result<Table> {
    let one = Deployment::proxy(&settings.proxy, 3)?;
    let another = one.another_proxy(&settings.proxy)?;
    let mut table = Table::new("Round trips of a change", READING, &COLUMNS);
    for (name, words) in CHANGES {
        let mut trips = Vec::new();
        for _ in 0..settings.rounds {
            one.flush()?;
            trips.push(Trips {
                first: per_change(&one, one.port, words)?,
                again: per_change(&one, one.port, words)?,
                another: per_change(&one, another.port, words)?,
            });
        }
        table.row(row(name, &trips));
    }
    table.row(GOALS.map(str::to_owned).to_vec());
    Ok(table)
}

/// Scripts sent to each master, per change.
struct Trips {
    /// On a key that has never been written.
    first: f64,
    /// Through the proxy that wrote it last.
    again: f64,
    /// Through another proxy.
    another: f64,
}

/// Changes each key once through the proxy on this port.
fn per_change(deployment: &Deployment, port: u16, words: Words) -> Result<f64> {
    let before = deployment.scripts()?;
    let request = |number| with_key(words, number);
    Sweep { connections: 10, pipeline: 1, requests: KEYS, request }.send_to(port)?;
    Ok((deployment.scripts()? - before) / f64::from(KEYS))
}

fn row(name: &str, trips: &[Trips]) -> Vec<String> {
    let median = |of: fn(&Trips) -> f64| format!("{:.2}", median_of(trips, of));
    let (first, again, another) =
        (|it: &Trips| it.first, |it: &Trips| it.again, |it: &Trips| it.another);
    eprintln!(
        "{name:<28} first {}  again {}  another {}",
        median(first),
        median(again),
        median(another)
    );
    vec![name.to_owned(), median(first), median(again), median(another)]
}

const CHANGES: [(&str, Words); 4] = [
    ("INCR", &["INCR", KEY]),
    ("RPUSH", &["RPUSH", KEY, "element"]),
    ("HSET", &["HSET", KEY, "field", "value"]),
    ("Redisson lock", &["EVAL", REDISSON_LOCK, "1", KEY, "3600000", "mine"]),
];

const COLUMNS: [&str; 4] =
    ["change", "first of a key", "the same proxy again", "another proxy wrote last"];

const GOALS: [&str; 4] = ["goal", "2.0", "1.0", "2.0"];

const READING: &str = "Two proxies in front of three masters. 5,000 keys are changed once each: first when nobody has \
written them, then again through the same proxy, then through the other. Figures are the scripts that each master was sent \
(`EVALSHA` and `EVAL` of `INFO commandstats`) per change.";

/// Few enough that each key is changed again less than 5 seconds after its last change.
const KEYS: u32 = 5_000;
