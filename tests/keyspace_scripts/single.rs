//! Programs on a single real master, one after another.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redlock_proxy::decision::keyspace::proposer::Request;
use redlock_proxy::decision::keyspace::slot::{Apply, Basis};
use redlock_proxy::decision::lease::pad::Pad;
use redlock_proxy::decision::register::ballot::Ballot;
use redlock_proxy::lua::program::{ProgramText, ScriptRules, Tells};
use redlock_proxy::operation::register::answer::{Said, said};
use redlock_proxy::operation::register::{Job, Place, ask};

use crate::support::{Master, Raw};

/// Starts a master and connects to it.
pub(crate) async fn start() -> (Master, Raw) {
    let master = Master::start();
    let raw = Raw::connect_resp3(&master.address()).await;
    (master, raw)
}

/// Wraps a script without padding its times to live.
pub(crate) fn wrap(text: &str) -> Arc<ProgramText> {
    let script_rules = ScriptRules {
        pad: Pad::new(Duration::ZERO, 0.0),
        longest: None,
        sees_all_keys: true,
        tells: Tells::NOTHING,
    };
    Arc::new(ProgramText::wrap(text.as_bytes(), "sha", script_rules))
}

pub(crate) fn place(key: &str) -> Place {
    Place { db: 0, key: Bytes::from(key.to_owned()) }
}

/// Builds a request for a program. The first place was accepted under a ballot with the counter
/// `accepted`, the others never.
pub(crate) fn apply(
    program: &Arc<ProgramText>,
    places: &[Place],
    accepted: u64,
    counter: u64,
) -> Request<Job> {
    let job = Job {
        program: Arc::clone(program),
        runner: None,
        db: 0,
        is_read_only: false,
        keys: vec![places[0].key.clone()],
        argv: Vec::new(),
        places: places.to_vec(),
        watched: Vec::new(),
    };
    let ballot = Ballot { epoch: 0, counter, worker: 1 };
    let basis = Basis { accepted: Ballot::NONE, lease: None, ballot, flush: 0 };
    let mut basis = vec![basis; places.len()];
    if accepted > 0 {
        basis[0].accepted = Ballot { epoch: 0, counter: accepted, worker: 1 };
    }
    Request::Apply(Apply {
        program: job,
        basis,
        now_us: counter,
        next: Ballot::above(ballot, 0, 1),
    })
}

pub(crate) async fn run(raw: &mut Raw, request: &Request<Job>) -> Said {
    let Request::Apply(apply) = request else { unreachable!("a program") };
    raw.send(&ask::apply(apply, None).eval()).await;
    let (reply, frame) = raw.frame().await;
    said(request, &frame).unwrap_or_else(|| panic!("{reply:?}"))
}
