//! Cost to a master of a change to a large key, compared with the same change to a small one.

use anyhow::Result;

use crate::deployment::Deployment;
use crate::load::Run;
use crate::report::Table;
use crate::settings::Settings;
use crate::stats::{median_of, ratio};
use crate::sweep::{KEY, Sweep, key, with_key};

pub(crate) fn measure(settings: &Settings) -> Result<Table> {
    let deployments = [Deployment::direct()?, Deployment::proxy(&settings.proxy, 3)?];
    let mut table = Table::new("Changes of large keys", READING, &COLUMNS);
    for change in [Change::RPUSH, Change::HSET] {
        let mut small = [const { Vec::new() }; 2];
        let mut large = [const { Vec::new() }; 2];
        for _ in 0..settings.rounds {
            for (deployment, (small, large)) in
                deployments.iter().zip(small.iter_mut().zip(&mut large))
            {
                small.push(change.run(deployment, &SMALL, settings)?);
                large.push(change.run(deployment, &LARGE, settings)?);
            }
        }
        for (index, goal) in ["-", GOAL].into_iter().enumerate() {
            let name = &deployments[index].name;
            table.row(row(change.command, name, &small[index], &large[index], goal));
        }
    }
    Ok(table)
}

/// Keys of one size.
struct Keys {
    count: u32,
    /// Elements of each before the run.
    elements: u32,
}

/// A command that changes one element, or adds one.
struct Change {
    command: &'static str,
    /// Whether elements have a field and a value.
    has_fields: bool,
}

impl Change {
    const RPUSH: Self = Self { command: "RPUSH", has_fields: false };
    const HSET: Self = Self { command: "HSET", has_fields: true };

    fn run(&self, deployment: &Deployment, keys: &Keys, settings: &Settings) -> Result<Run> {
        deployment.flush()?;
        self.fill(deployment, keys)?;
        let request = |number: u32| {
            let element = (number / keys.count) % keys.elements;
            self.of(number % keys.count, element..element + 1)
        };
        let requests = settings.requests.div_ceil(10);
        let run =
            Sweep { connections: CONNECTIONS, pipeline: 1, requests, request }.run(deployment)?;
        empty(deployment, keys)?;
        eprint!("{} on {:<8} ", self.command, keys.elements);
        run.show(deployment);
        Ok(run)
    }

    /// Gives every key its elements, some at a time.
    fn fill(&self, deployment: &Deployment, keys: &Keys) -> Result<()> {
        let at_once = keys.elements.min(1_000);
        let request = |number: u32| {
            let first = number / keys.count * at_once;
            self.of(number % keys.count, first..first + at_once)
        };
        let requests = keys.count * (keys.elements / at_once);
        Sweep { connections: CONNECTIONS, pipeline: 1, requests, request }
            .send_to(deployment.port)?;
        Ok(())
    }

    /// Returns the command that sets these elements of the key with this number.
    fn of(&self, number: u32, elements: std::ops::Range<u32>) -> redis::Cmd {
        let mut command = redis::cmd(self.command);
        command.arg(key(number));
        for element in elements {
            if self.has_fields {
                command.arg(format!("field:{element}"));
            }
            command.arg(element);
        }
        command
    }
}

/// Deletes the keys one after the other: flushing a million elements at once would stop all masters for too long.
fn empty(deployment: &Deployment, keys: &Keys) -> Result<()> {
    let request = |number| with_key(&["DEL", KEY], number);
    Sweep { connections: 1, pipeline: 1, requests: keys.count, request }
        .send_to(deployment.port)?;
    Ok(())
}

fn row(command: &str, name: &str, small: &[Run], large: &[Run], goal: &str) -> Vec<String> {
    vec![
        command.to_owned(),
        name.to_owned(),
        format!("{:.2}", median_of(small, |run| run.cost.master_cpu_us)),
        format!("{:.2}", median_of(large, |run| run.cost.master_cpu_us)),
        ratio(large, small, |run| run.cost.master_cpu_us),
        goal.to_owned(),
    ]
}

const COLUMNS: [&str; 6] = [
    "command",
    "clients talk to",
    "CPU µs of a master, 10 elements",
    "CPU µs of a master, 100,000 elements",
    "of 10 elements",
    "goal",
];

const READING: &str = "Ten clients, each of which waits for every reply. Each has one key of 100,000 elements to \
itself, or 100 keys of ten, of which it takes one after the other. `RPUSH` adds an element, `HSET` replaces one. CPU is \
per call and master, user and system.";

const GOAL: &str = "≤ 1.5";

/// One request per connection at a time, so that two requests for one key never meet.
const CONNECTIONS: u32 = 10;

/// Enough keys that each grows by only 20 elements in 20,000 calls.
const SMALL: Keys = Keys { count: 1_000, elements: 10 };

const LARGE: Keys = Keys { count: CONNECTIONS, elements: 100_000 };
