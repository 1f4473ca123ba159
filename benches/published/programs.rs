//! What a script costs that the proxy does not recognise, beside one that it does.
//!
//! A recognised script is run as the operation it stands for. Any other is a program: every master runs
//! it inside a wrapper that tells the proxy what has changed.

use anyhow::Result;

use crate::deployment::Deployment;
use crate::load::{self, Load, Run};
use crate::report::Table;
use crate::settings::Settings;
use crate::stats::{median_of, ratio};
use crate::wire;

pub(crate) fn measure(settings: &Settings) -> Result<Table> {
    let one = Deployment::direct()?;
    let proxy = Deployment::proxy(&settings.proxy, 3)?;
    let mut table = Table::new("Scripts by EVALSHA", READING, &COLUMNS);
    for case in &CASES {
        for &pipeline in &settings.pipelines {
            let (mut direct, mut through) = (Vec::new(), Vec::new());
            for _ in 0..settings.rounds {
                direct.push(case.run(&one, pipeline, settings)?);
                through.push(case.run(&proxy, pipeline, settings)?);
            }
            table.row(row(case, pipeline, &direct, &through));
        }
    }
    Ok(table)
}

/// A script in a state in which it always does the same.
struct Case {
    name: &'static str,
    script: &'static str,
    /// Its arguments, behind one key.
    arguments: &'static [&'static str],
    /// What every key is given first.
    held: Option<Held>,
}

/// How a key is taken before the run: by a command, with the key where `KEY` is.
type Held = &'static [&'static str];

impl Case {
    fn run(&self, deployment: &Deployment, pipeline: u32, settings: &Settings) -> Result<Run> {
        eprint!("{:<42} ", self.name);
        deployment.flush()?;
        let mut connection = deployment.connection()?;
        let sha: String =
            redis::cmd("SCRIPT").arg("LOAD").arg(self.script).query(&mut connection)?;
        if let Some(held) = self.held {
            hold(held, &mut connection)?;
        }
        // Almost every claim of a free key finds another one.
        let keys = if self.held.is_some() { HELD_KEYS } else { 10_000_000 };
        let call = ["EVALSHA", &sha, "1", "key:__rand_int__"];
        let words = call.iter().chain(self.arguments).map(ToString::to_string).collect();
        // Three masters with a program each take several times as long as with a claim.
        let requests = settings.requests.div_ceil(4);
        load::run(deployment, &Load { keys, words, requests }, pipeline)
    }
}

/// Takes all keys that `redis-benchmark` may name: it writes twelve digits.
fn hold(held: Held, connection: &mut redis::Connection) -> Result<()> {
    for key in 0..HELD_KEYS {
        let key = format!("key:{key:012}");
        let mut command = redis::Cmd::new();
        for word in held {
            command.arg(if *word == KEY { &key } else { *word });
        }
        command.exec(connection)?;
    }
    Ok(())
}

fn row(case: &Case, pipeline: u32, direct: &[Run], through: &[Run]) -> Vec<String> {
    vec![
        case.name.to_owned(),
        pipeline.to_string(),
        format!("{:.0}", median_of(direct, |run| run.per_second)),
        format!("{:.0}", median_of(through, |run| run.per_second)),
        ratio(through, direct, |run| run.per_second),
        format!("{:.2}", median_of(direct, |run| run.master_cpu_us)),
        format!("{:.2}", median_of(through, |run| run.master_cpu_us)),
        ratio(through, direct, |run| run.master_cpu_us),
        format!("{:.2}", median_of(through, |run| run.cpu_us)),
    ]
}

const CASES: [Case; 5] = [
    Case {
        name: "release, held by another (recognised)",
        script: wire::RELEASE,
        arguments: &["mine"],
        held: Some(&["SET", KEY, "another's", "PX", "3600000"]),
    },
    Case {
        name: "redis-py extend, own lock (program)",
        script: EXTEND,
        arguments: &["mine", "1", "0"],
        held: Some(&["SET", KEY, "mine", "PX", "3600000"]),
    },
    Case {
        name: "Redisson lock, free (program)",
        script: REDISSON_LOCK,
        arguments: &["30000", "mine"],
        held: None,
    },
    Case {
        name: "Redisson lock, once more (program)",
        script: REDISSON_LOCK,
        arguments: &["30000", "mine"],
        held: Some(&["EVAL", REDISSON_LOCK, "1", KEY, "3600000", "mine"]),
    },
    Case {
        name: "Redisson lock, held by another (program)",
        script: REDISSON_LOCK,
        arguments: &["30000", "mine"],
        held: Some(&["EVAL", REDISSON_LOCK, "1", KEY, "3600000", "another's"]),
    },
];

const COLUMNS: [&str; 9] = [
    "script",
    "-P",
    "redis-server/s",
    "redlock-proxy/s",
    "of redis-server",
    "CPU µs of redis-server",
    "CPU µs of each master",
    "of redis-server",
    "CPU µs of the proxy",
];

const READING: &str = "`redis-benchmark -c 50`, `EVALSHA` with a random key each time, to one `redis-server` \
and through the proxy to three masters. The release answers 0 and writes nothing; the extension adds a \
millisecond; the lock is taken, taken once more (a count and its end are written), or refused with the time \
that it is still held. CPU is per call, user and system.";

/// Lets `redis-benchmark` hit the same key twice at once only now and then.
const HELD_KEYS: u32 = 10_000;

const KEY: &str = "KEY";

/// redis-py's `Lock.extend`: adds to the time that is left, or replaces it.
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

/// Redisson's `RLock.tryLock`: takes it, or takes it once more; answers nil then, and otherwise how long
/// it is still held.
const REDISSON_LOCK: &str = "if ((redis.call('exists', KEYS[1]) == 0) \
or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then \
redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; \
return redis.call('pttl', KEYS[1]);";
