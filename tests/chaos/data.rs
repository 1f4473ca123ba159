//! Chaos for data instead of locks: clients count, exchange values, queue, hold permits and change
//! two keys at once while the same faults strike. The answers they get must be possible for one
//! server.

pub(crate) mod client;
pub(crate) mod desk;
pub(crate) mod findings;
pub(crate) mod judges;
pub(crate) mod ledger;
pub(crate) mod object;
pub(crate) mod redisson;
pub(crate) mod server;

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::bed::Bed;
use crate::clients::{self, Program};
use crate::fault::Fault;
use crate::strike::{Struck, strikes};
use crate::support::state::all_hold_the_same;
use crate::system::System;
use client::Client;
use findings::{Findings, find};
use ledger::Ledger;
use object::{Answer, Call, Kind};

/// System that holds the data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Front {
    TwoProxies,
    ThreeProxies,
    /// One plain Redis.
    Redis,
}

impl Front {
    pub(crate) const ALL: [Front; 3] = [Front::TwoProxies, Front::ThreeProxies, Front::Redis];

    /// Name for readers of the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Front::TwoProxies => "two proxies",
            Front::ThreeProxies => "three proxies",
            Front::Redis => "one Redis",
        }
    }

    pub(crate) fn system(self) -> System {
        if self == Front::Redis { System::Redis } else { System::Proxies }
    }

    fn proxies(self) -> usize {
        match self {
            Front::TwoProxies => 2,
            Front::ThreeProxies => 3,
            Front::Redis => 0,
        }
    }
}

/// A set of clients and the objects they use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cast {
    /// Seven clients in Rust and two with redis-py, on objects that any client can use.
    Plain,
    /// Six threads of one process, on Redisson's own objects.
    Redisson,
}

impl Cast {
    /// Name for readers of the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Cast::Plain => "data",
            Cast::Redisson => "Redisson",
        }
    }

    fn kinds(self) -> &'static [Kind] {
        match self {
            Cast::Plain => &Kind::PLAIN,
            Cast::Redisson => &Kind::REDISSON,
        }
    }

    /// Number of clients: enough that each object mostly has one at work, and often two.
    fn clients(self) -> usize {
        match self {
            Cast::Plain => 9,
            Cast::Redisson => REDISSON_THREADS,
        }
    }

    /// Clients that are not tasks in this process.
    fn programs(self) -> &'static [Program] {
        match self {
            Cast::Plain => &[Program::RedisPyForData; 2],
            Cast::Redisson => &[Program::RedissonForData],
        }
    }

    fn in_rust(self) -> usize {
        match self {
            Cast::Plain => self.clients() - self.programs().len(),
            Cast::Redisson => 0,
        }
    }
}

/// One way of holding data under one kind of fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    pub(crate) cast: Cast,
    pub(crate) front: Front,
    pub(crate) fault: Fault,
    /// Minimum duration. Faults strike in turn for this long, and until each has happened once.
    pub(crate) lasting: Duration,
    pub(crate) seed: u64,
}

/// Result of a phase.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) findings: Findings,
    pub(crate) strikes: Vec<Struck>,
    ledger: Ledger,
    logs: Vec<Vec<String>>,
}

impl Phase {
    /// Runs the phase, prints the outcome and returns it.
    pub(crate) async fn seen(&self) -> Outcome {
        let outcome = self.run().await;
        let Phase { cast, front, fault, seed, .. } = self;
        let (cast, front, fault) = (cast.name(), front.name(), fault.name());
        let Outcome { strikes, findings, .. } = &outcome;
        let strikes = strikes.len();
        println!("{cast}, {front}: {fault}, seed {seed}: {strikes} strikes, {findings:#?}");
        if let Some(directory) = std::env::var_os("CHAOS_HISTORIES") {
            let file = format!("{cast}-{front}-{fault}").replace(['/', '`', ' '], "_");
            let file = Path::new(&directory).join(file);
            std::fs::write(file, outcome.history()).expect("a directory for histories");
        }
        outcome
    }

    async fn run(&self) -> Outcome {
        let Phase { cast, front, fault, lasting, seed } = *self;
        let mut bed = Bed::start(front.system().masters(), front.proxies(), fault.master_flags());
        let ledger = Ledger::new(seed, bed.routes(), cast.clients(), cast.kinds());
        let in_rust = cast.in_rust();
        let (address, mut desks) = desk::open(&ledger, in_rust..cast.clients()).await;
        let mut programs = clients::start(cast.programs(), address);
        for number in 0..in_rust {
            desks.spawn(client::run(ledger.clone(), number));
        }
        let are_all_present = |_| ledger.books().is_everybody_present();
        clients::all_present(&mut programs, are_all_present).await;
        let deck = fault.deck(|fault| fault.concerns_data(front.system()));
        let strikes = strikes(deck, lasting, seed, &mut bed, &ledger).await;
        ledger.books().ended = true;
        timeout(FAREWELL, desks.join_all()).await.expect("clients end");
        clients::all_gone(&mut programs).await;
        let mute = look_at_all(&ledger).await;
        let differing = keys_that_differ(&ledger, &bed).await;
        let mut findings = find(&ledger.books(), front.system().rules());
        (findings.mute, findings.differing) = (mute, differing);
        Outcome { findings, strikes, ledger, logs: bed.logs() }
    }
}

impl Outcome {
    /// Everything that was asked and answered, for finding the cause of a failure.
    pub(crate) fn history(&self) -> String {
        let books = self.ledger.books();
        let mut text = format!("{:#?}\n{:#?}\n{:#?}\n", self.findings, books.outages, self.logs);
        for struck in &self.strikes {
            text += &format!("{struck:?}\n");
        }
        for object in &books.objects {
            text += &format!("{}\n", object.keys[0]);
            for Call { client, server, operation, asked, answered, answer } in &object.calls {
                text += &format!(
                    "    {asked} {answered} client {client} at {server} {operation:?}: {answer:?}\n"
                );
            }
        }
        text
    }
}

/// Reads every object after all faults, and returns those that give no answer.
async fn look_at_all(ledger: &Ledger) -> Vec<String> {
    let objects = ledger.books().objects.len();
    let mut client = Client::default();
    let limit = Instant::now() + RECOVERY;
    let mut mute = Vec::new();
    for object in 0..objects {
        while let Some(why) = look_at(ledger, &mut client, object).await {
            if Instant::now() > limit {
                mute.push(why);
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
    mute
}

/// Reads one object. Returns the reason if there is no answer.
async fn look_at(ledger: &Ledger, client: &mut Client, object: usize) -> Option<String> {
    let order = ledger.look_at(0, object);
    let answer = client.ask(&order).await;
    ledger.answer(0, &order, answer.clone());
    if matches!(answer, Answer::Told(_)) {
        return None;
    }
    Some(format!("{} is read after all faults, and: {answer:?}", order.commands[0].join(" ")))
}

/// Returns the keys on which the masters do not converge.
async fn keys_that_differ(ledger: &Ledger, bed: &Bed) -> Vec<String> {
    let mut keys: Vec<String> =
        ledger.books().objects.iter().flat_map(|object| object.keys.clone()).collect();
    let limit = Instant::now() + RECOVERY;
    while !keys.is_empty() {
        let mut differing = Vec::new();
        for key in keys {
            if !all_hold_the_same(&bed.masters, &[&key]).await {
                differing.push(key);
            }
        }
        if Instant::now() > limit {
            return differing;
        }
        keys = differing;
        sleep(Duration::from_millis(100)).await;
    }
    Vec::new()
}

/// Number of Redisson clients. Those that ask the same proxy share one Redisson instance.
pub(crate) const REDISSON_THREADS: usize = 6;

/// Longer than a client waits for a connection and a reply.
const FAREWELL: Duration = Duration::from_secs(60);

/// Missed writes are made up for within seconds; a busy machine needs longer.
const RECOVERY: Duration = Duration::from_secs(30);
