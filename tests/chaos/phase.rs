//! One system under one kind of fault, from the start of its processes to the verdict.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::bed::Bed;
use crate::checker::{Findings, check};
use crate::clients;
use crate::fault::Fault;
use crate::history::{Answer, Call, Nanos, Operation, now};
use crate::journal::Journal;
use crate::orders::{Orders, keys};
use crate::strike::strikes;
use crate::system::System;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    pub(crate) system: System,
    pub(crate) fault: Fault,
    /// Minimum duration. Faults strike in turn for this long, and until each has happened once.
    pub(crate) lasting: Duration,
    pub(crate) seed: u64,
}

/// Result of a phase.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) findings: Findings,
    pub(crate) strikes: usize,
    pub(crate) calls: Vec<Call>,
    /// Crowds seen by the witness.
    pub(crate) crowds: usize,
    pub(crate) trespasses: usize,
    pub(crate) nonsense: Vec<String>,
    pub(crate) logs: Vec<Vec<String>>,
}

impl Phase {
    pub(crate) async fn run(&self) -> Outcome {
        let Phase { system, fault, .. } = *self;
        let mut bed = Bed::start(system.masters(), system.proxies(), fault.master_flags());
        let orders = Orders::new(self.seed, bed.routes(), fault.habits(system));
        let journal = Journal::open(orders).await;
        let mut clients = clients::start(&system.programs(), journal.address);
        let are_all_present = |clients| journal.books().present >= clients;
        clients::all_present(&mut clients, are_all_present).await;
        let deck = fault.deck(|fault| fault.concerns(system));
        let strikes = strikes(deck, self.lasting, self.seed, &mut bed, &journal).await.len();
        let ghosts = keys_nobody_gets(&journal).await;
        journal.books().orders.ended = true;
        clients::all_gone(&mut clients).await;
        self.outcome(&bed, &journal, strikes, ghosts)
    }

    fn outcome(
        &self,
        bed: &Bed,
        journal: &Journal,
        strikes: usize,
        ghosts: Vec<String>,
    ) -> Outcome {
        let mut books = journal.books();
        let mut findings = check(&books.history, self.system.rules());
        findings.ghosts.extend(ghosts);
        Outcome {
            findings,
            strikes,
            calls: std::mem::take(&mut books.history.calls),
            crowds: books.witness.crowds,
            trespasses: books.witness.trespasses,
            nonsense: std::mem::take(&mut books.nonsense),
            logs: bed.logs(),
        }
    }
}

impl Outcome {
    /// Returns everything, in words, that happened although the proxy promises to prevent it.
    pub(crate) fn broken_promises(&self) -> Vec<String> {
        let Findings { overlaps, losses, ghosts, wrong, missing, .. } = &self.findings;
        let found = [overlaps, losses, ghosts, wrong, missing, &self.nonsense];
        let mut broken = found.map(Vec::as_slice).concat();
        broken.extend((self.crowds > 0).then(|| format!("a crowd {} times", self.crowds)));
        broken
    }
}

/// Returns the keys that nobody can lock once everything works again.
async fn keys_nobody_gets(journal: &Journal) -> Vec<String> {
    let healed = now();
    let limit = Instant::now() + GHOST;
    let mut missing: Vec<String> = keys().collect();
    while !missing.is_empty() && Instant::now() < limit {
        missing.retain(|key| !is_granted(journal, key, healed));
        sleep(Duration::from_millis(20)).await;
    }
    missing.into_iter().map(|key| format!("{key} is not granted after all faults")).collect()
}

fn is_granted(journal: &Journal, key: &str, after: Nanos) -> bool {
    journal.books().history.calls.iter().any(|call| {
        call.operation == Operation::Claim
            && call.answer == Answer::Yes
            && call.asked > after
            && call.key == key
    })
}

/// Far longer than any TTL.
const GHOST: Duration = Duration::from_secs(30);
