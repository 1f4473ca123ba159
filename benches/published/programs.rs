//! Cost of scripts that the proxy does not recognise, compared with one that it does.
//!
//! The proxy runs a recognised script as the operation it stands for. Any other script is a program: every master runs
//! it inside a wrapper that tells the proxy what has changed.

use anyhow::Result;

use crate::deployment::Deployment;
use crate::load::{self, Cost, Load, Run};
use crate::report::Table;
use crate::settings::Settings;
use crate::stats::{median_of, ratio};
use crate::sweep::{KEY, Sweep, Words, with_key};
use crate::wire;

pub(crate) fn measure(settings: &Settings) -> Result<Table> {
    let one = Deployment::direct()?;
    let three = [Deployment::direct()?, Deployment::direct()?, Deployment::direct()?];
    let proxy = Deployment::proxy(&settings.proxy, 3)?;
    let mut table = Table::new("Scripts by EVALSHA", READING, &COLUMNS);
    for case in &CASES {
        for &pipeline in &settings.pipelines {
            let (mut direct, mut beside, mut through) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..settings.rounds {
                direct.push(case.run(&one, pipeline, settings)?);
                beside.push(case.run_on_all(&three, pipeline, settings)?);
                through.push(case.run(&proxy, pipeline, settings)?);
            }
            table.row(row(case, pipeline, [&direct, &beside, &through]));
        }
    }
    Ok(table)
}

/// A script in a state in which it always does the same.
struct Case {
    name: &'static str,
    script: &'static str,
    /// Arguments that follow its one key.
    arguments: &'static [&'static str],
    keys: Keys,
    /// Maximum CPU time of a master at `-P 16`, as a multiple of that of one `redis-server`.
    goal: Option<&'static str>,
}

/// State of the script's key before the call.
enum Keys {
    /// Absent and never written: almost every call uses another key.
    New,
    /// Set by this command, and hardly changed by the script.
    Held(Words),
    /// Absent, because this command has removed what the script's last call left.
    GivenBack(Words),
}

impl Case {
    fn run(&self, deployment: &Deployment, pipeline: u32, settings: &Settings) -> Result<Calls> {
        eprint!("{:<42} ", self.name);
        deployment.flush()?;
        let mut connection = deployment.connection()?;
        let sha: String =
            redis::cmd("SCRIPT").arg("LOAD").arg(self.script).query(&mut connection)?;
        let mut call = vec!["EVALSHA", &sha, "1", KEY];
        call.extend(self.arguments);
        // Three masters with a program each take several times as long as with a claim.
        let requests = settings.requests.div_ceil(4);
        let keys = match self.keys {
            Keys::New => 10_000_000,
            Keys::Held(by) => {
                each_key(by, PREPARING).send_to(deployment.port)?;
                HELD_KEYS
            }
            Keys::GivenBack(by) => {
                let times = load::at_depth(requests, pipeline).div_ceil(HELD_KEYS);
                return in_turn(
                    deployment,
                    &each_key(&call, pipeline),
                    &each_key(by, PREPARING),
                    times,
                );
            }
        };
        let drawn = |word: &&str| if *word == KEY { DRAWN } else { word }.to_owned();
        let words = call.iter().map(drawn).collect();
        Calls::of(deployment, || load::run(deployment, &Load { keys, words, requests }, pipeline))
    }

    /// Runs it on all deployments at once, which share the machine like the masters behind a proxy.
    fn run_on_all(
        &self,
        deployments: &[Deployment],
        pipeline: u32,
        settings: &Settings,
    ) -> Result<Calls> {
        let calls: Result<Vec<_>> = std::thread::scope(|threads| {
            let run = |deployment| threads.spawn(move || self.run(deployment, pipeline, settings));
            let runs: Vec<_> = deployments.iter().map(run).collect();
            runs.into_iter().map(|run| run.join().expect("a load does not panic")).collect()
        });
        Ok(Calls::mean(&calls?))
    }
}

/// Returns a sweep that sends the command for each of the keys.
fn each_key<'a>(
    words: &'a [&'a str],
    pipeline: u32,
) -> Sweep<impl Fn(u32) -> redis::Cmd + Sync + 'a> {
    let request = |number| with_key(words, number);
    Sweep { connections: 50, pipeline, requests: HELD_KEYS, request }
}

/// Alternately releases and takes all keys, and measures only the taking.
fn in_turn(
    deployment: &Deployment,
    take: &Sweep<impl Fn(u32) -> redis::Cmd + Sync>,
    give_back: &Sweep<impl Fn(u32) -> redis::Cmd + Sync>,
    times: u32,
) -> Result<Calls> {
    take.send_to(deployment.port)?;
    let mut calls = Vec::new();
    for _ in 0..times {
        give_back.send_to(deployment.port)?;
        calls.push(Calls::of(deployment, || take.run(deployment))?);
    }
    let calls = Calls::mean(&calls);
    eprint!("-P {:<2} ", take.pipeline);
    calls.run.show(deployment);
    Ok(calls)
}

/// Results of calls of a script.
struct Calls {
    run: Run,
    /// Scripts sent to each master per call.
    round_trips: f64,
}

impl Calls {
    fn of(deployment: &Deployment, work: impl FnOnce() -> Result<Run>) -> Result<Calls> {
        let before = deployment.scripts()?;
        let run = work()?;
        let round_trips = (deployment.scripts()? - before) / f64::from(run.requests);
        Ok(Calls { run, round_trips })
    }

    /// Returns the average of each figure, for runs with the same number of requests.
    fn mean(all: &[Calls]) -> Calls {
        let mean =
            |figure: fn(&Calls) -> f64| all.iter().map(figure).sum::<f64>() / all.len() as f64;
        Calls {
            run: Run {
                requests: all.iter().map(|calls| calls.run.requests).sum(),
                per_second: mean(|calls| calls.run.per_second),
                p50_ms: mean(|calls| calls.run.p50_ms),
                p99_ms: mean(|calls| calls.run.p99_ms),
                cost: Cost {
                    cpu_us: mean(|calls| calls.run.cost.cpu_us),
                    master_cpu_us: mean(|calls| calls.run.cost.master_cpu_us),
                },
            },
            round_trips: mean(|calls| calls.round_trips),
        }
    }
}

fn row(case: &Case, pipeline: u32, [direct, beside, through]: [&[Calls]; 3]) -> Vec<String> {
    let cpu_us = |calls: &Calls| calls.run.cost.master_cpu_us;
    vec![
        case.name.to_owned(),
        pipeline.to_string(),
        format!("{:.0}", median_of(direct, |calls| calls.run.per_second)),
        format!("{:.0}", median_of(through, |calls| calls.run.per_second)),
        ratio(through, direct, |calls| calls.run.per_second),
        format!("{:.2}", median_of(direct, cpu_us)),
        format!("{:.2}", median_of(beside, cpu_us)),
        format!("{:.2}", median_of(through, cpu_us)),
        ratio(through, direct, cpu_us),
        ratio(through, beside, cpu_us),
        case.goal.filter(|_| pipeline == GOAL_PIPELINE).unwrap_or("-").to_owned(),
        format!("{:.2}", median_of(through, |calls| calls.round_trips)),
        format!("{:.2}", median_of(through, |calls| calls.run.cost.cpu_us)),
    ]
}

const CASES: [Case; 6] = [
    Case {
        name: "release, held by another (recognised)",
        script: wire::RELEASE,
        arguments: &["mine"],
        keys: Keys::Held(&["SET", KEY, "another's", "NX", "PX", "3600000"]),
        goal: None,
    },
    Case {
        name: "redis-py extend, own lock (program)",
        script: EXTEND,
        arguments: &["mine", "1", "0"],
        keys: Keys::Held(&["SET", KEY, "mine", "NX", "PX", "3600000"]),
        goal: None,
    },
    Case {
        name: "Redisson lock, new key (program)",
        script: REDISSON_LOCK,
        arguments: &["30000", "mine"],
        keys: Keys::New,
        goal: None,
    },
    Case {
        name: "Redisson lock, free again (program)",
        script: REDISSON_LOCK,
        arguments: &["30000", "mine"],
        keys: Keys::GivenBack(&["DEL", KEY]),
        goal: Some(GOAL),
    },
    Case {
        name: "Redisson lock, once more (program)",
        script: REDISSON_LOCK,
        arguments: &["30000", "mine"],
        keys: Keys::Held(&["EVAL", REDISSON_LOCK, "1", KEY, "3600000", "mine"]),
        goal: Some(GOAL),
    },
    Case {
        name: "Redisson lock, held by another (program)",
        script: REDISSON_LOCK,
        arguments: &["30000", "mine"],
        keys: Keys::Held(&["EVAL", REDISSON_LOCK, "1", KEY, "3600000", "another's"]),
        goal: Some(GOAL),
    },
];

const GOAL: &str = "≤ 2.0";

/// Pipeline depth that the goal applies to. With a shallower one, socket reads and writes hide the cost of the script.
const GOAL_PIPELINE: u32 = 16;

const COLUMNS: [&str; 13] = [
    "script",
    "-P",
    "redis-server/s",
    "redlock-proxy/s",
    "of redis-server",
    "CPU µs of redis-server",
    "CPU µs of each of three at once",
    "CPU µs of each master",
    "of redis-server",
    "of each of three",
    "goal",
    "scripts sent per call",
    "CPU µs of the proxy",
];

const READING: &str = "`redis-benchmark -c 50`, `EVALSHA` with a random key each time, to one `redis-server` \
and through the proxy to three masters. The release answers 0 and writes nothing; the extension adds a \
millisecond; the lock is taken on a key that nobody has written, or that was just given back (each key in its turn, \
by 50 connections), taken once more (a count and its end are written), or refused with the time \
that it is still held. CPU is per call, user and system. Three `redis-server`s that are each sent the same at once share \
the cores and caches as the masters of a proxy do; the goal is for that ratio. A call takes one script per master on a key that this \
proxy wrote last, and two on any other.";

/// Enough keys that `redis-benchmark` only rarely uses the same key twice at once.
const HELD_KEYS: u32 = 10_000;

/// Pipeline depth for preparing keys: fast enough that the first of them is still fresh at the end.
const PREPARING: u32 = 4;

/// Placeholder that `redis-benchmark` replaces to name one of the keys.
const DRAWN: &str = "key:__rand_int__";

/// redis-py's `Lock.extend`: adds to the remaining time, or replaces it.
const EXTEND: &str = "local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        local expiration = redis.call('pttl', KEYS[1])
        if not expiration then
            expiration = 0
        end
        if expiration < 0 then
            return 0
        end

        local newttl = ARGV[2]
        if ARGV[3] == \"0\" then
            newttl = ARGV[2] + expiration
        end
        redis.call('pexpire', KEYS[1], newttl)
        return 1
";

/// Redisson's `RLock.tryLock`: takes the lock, or takes it once more, and answers nil. Otherwise it answers how long
/// the lock is still held.
pub(crate) const REDISSON_LOCK: &str = "if ((redis.call('exists', KEYS[1]) == 0) \
or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then \
redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; \
return redis.call('pttl', KEYS[1]);";
