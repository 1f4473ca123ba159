//! The roster's scripts on a real master, compared with the explored functions.

#[path = "specification/mod.rs"]
mod specification;
mod support;

use crate::specification::stamp::{self, StampOf};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redis::aio::MultiplexedConnection;
use redlock_proxy::decision::quorum::MasterId;
use redlock_proxy::decision::register::acceptor::{Adopt, Apply};
use redlock_proxy::decision::register::ballot::Ballot;
use redlock_proxy::decision::register::proposer::{MasterAnswer, Request};
use redlock_proxy::decision::roster::mark::MarkKind;
use redlock_proxy::decision::roster::roster::{Accepted, Change, Member, Roster, Stage};
use redlock_proxy::masters::roster::acceptor::{catch_up, command, said};
use redlock_proxy::masters::roster::marks::{self, Keys};
use support::{Master, target_is_plain_redis};

const KEEP: usize = 8;

/// A proxy's requests, in small.
#[derive(Clone, Debug)]
enum Ask {
    Prepare(u64, u64),
    /// With the state that was accepted last, or another one.
    Apply(u64, bool, u64),
    Adopt(u64),
    CatchUp(u64),
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let counter = || 1u64..12;
    let ask = prop_oneof![
        (counter(), 1u64..3).prop_map(|(counter, worker)| Ask::Prepare(counter, worker)),
        (counter(), any::<bool>(), 0u64..3)
            .prop_map(|(counter, is_right, member)| Ask::Apply(counter, is_right, member)),
        counter().prop_map(Ask::Adopt),
        counter().prop_map(Ask::CatchUp),
    ];
    proptest::collection::vec(ask, 1..20)
}

fn founded() -> Roster {
    let member =
        |id: u64| Member::founder(id, format!("run {id}"), vec!["some where;1".to_owned()]);
    let members = (0..3).map(member).collect();
    Roster {
        cluster: "c".to_owned(),
        version: 1,
        stage: Stage::Founded,
        members,
        ..Roster::default()
    }
}

fn ballot(counter: u64) -> Ballot {
    Ballot { epoch: counter % 2, counter, worker: 2 }
}

fn next(ballot: Ballot) -> Ballot {
    Ballot::above(ballot, 0, ballot.worker)
}

#[test]
fn the_scripts_of_the_roster_do_what_was_explored() {
    if target_is_plain_redis() {
        return;
    }
    let master = Master::start();
    let client = redis::Client::open(format!("redis://{}/", master.address())).expect("an address");
    let connection = client.get_connection().expect("a connection");
    let connection = std::cell::RefCell::new(connection);
    let mut runner = TestRunner::new(Config { cases: 300, ..Config::default() });
    let ran = runner.run(&asks(), |asks| {
        let connection = &mut *connection.borrow_mut();
        redis::cmd("FLUSHALL").exec(connection).expect("FLUSHALL");
        let mut stamp = StampOf::<Change>::default();
        for ask in asks {
            compare(connection, &mut stamp, &ask)?;
        }
        Ok(())
    });
    ran.expect("the same");
}

/// Returns the master's answer to a request for its vote on the roster of a founded cluster.
async fn vote(connection: &mut MultiplexedConnection) -> Option<MasterAnswer<Change>> {
    let prepare = Request::Prepare(ballot(5));
    let answer = command(&prepare, None, false).query_async(connection).await.expect("an answer");
    said(&prepare, "run", None, &answer).expect("an answer about the roster").answer
}

async fn remark(connection: &mut MultiplexedConnection, kind: &MarkKind, keys: Keys) {
    let marks = marks::look(connection, 16).await.expect("marks");
    let is_done = marks.replace(Some(kind), keys).query_async::<i64>(connection).await;
    assert_eq!(is_done.expect("an answer"), 1);
}

/// Otherwise nothing could be decided if one of the masters that admitted it loses its memory before it receives the
/// roster.
#[tokio::test]
async fn a_master_that_was_copied_to_votes_on_the_roster_before_it_is_told_of_it() {
    if target_is_plain_redis() {
        return;
    }
    let master = Master::start();
    let connection = &mut master.connection().await;
    let member =
        |version| MarkKind::Member { cluster: "c".to_owned(), version, member: 1, incarnation: 2 };

    assert_eq!(vote(connection).await, None, "it has no mark");
    remark(connection, &MarkKind::Provisional { nonce: 7 }, Keys::Remove).await;
    assert_eq!(vote(connection).await, None, "it is being copied to");
    remark(connection, &member(3), Keys::Keep).await;
    assert_eq!(vote(connection).await, Some(MasterAnswer::Promised(Accepted::default())));

    redis::cmd("DEL").arg("redlock-proxy:roster").exec_async(connection).await.expect("DEL");
    assert_eq!(vote(connection).await, None, "somebody has deleted what it promised");
    remark(connection, &member(4), Keys::Keep).await;
    assert_eq!(vote(connection).await, None, "a raised mark does not bring that back");
}

/// A paused proxy may set a mark late: when the cluster is already served, and the master has lost its memory.
#[tokio::test]
async fn a_founder_that_has_forgotten_the_roster_gets_no_mark() {
    if target_is_plain_redis() {
        return;
    }
    let master = Master::start();
    let connection = &mut master.connection().await;
    let kind = MarkKind::Member { cluster: "c".to_owned(), version: 1, member: 1, incarnation: 1 };
    let state = Accepted { accepted: ballot(3), value: founded(), ..Accepted::default() };
    catch_up(&state).exec_async(connection).await.expect("an answer");
    let seen = marks::look(connection, 16).await.expect("marks");
    let found = seen.found(&kind);
    master.ask(&["FLUSHALL"]).await;
    assert_eq!(found.query_async::<i64>(connection).await, Ok(0));
    assert!(!master.has("redlock-proxy:mark").await);
    catch_up(&state).exec_async(connection).await.expect("an answer");
    assert_eq!(found.query_async::<i64>(connection).await, Ok(1));
    let shown = marks::look(connection, 16).await.expect("marks");
    assert_eq!(shown.mark().map(|mark| &mark.kind), Some(&kind));
}

/// Proxies with a wrong list may try to write anything.
#[tokio::test]
async fn a_member_keeps_the_roster_of_its_cluster_whatever_those_of_another_one_write() {
    if target_is_plain_redis() {
        return;
    }
    let master = Master::start();
    let connection = &mut master.connection().await;
    let state = |cluster: &str, counter| {
        let value = Roster { cluster: cluster.to_owned(), ..founded() };
        Accepted { accepted: ballot(counter), value, ..Accepted::default() }
    };
    let kind = MarkKind::Member { cluster: "c".to_owned(), version: 1, member: 1, incarnation: 1 };
    remark(connection, &kind, Keys::Keep).await;
    let ours = catch_up(&state("c", 3));
    ours.exec_async(connection).await.expect("an answer");
    let before = master.get("redlock-proxy:roster").await;
    assert!(before.is_some());
    let (other, next) = (state("other", 9), ballot(9));
    let adopt = Request::Adopt(Adopt { state: other.clone(), next });
    let program = Change::Found(Box::new(founded()));
    let apply = Request::Apply(Apply { program, expected: ballot(3), ballot: next, next });
    for request in [&adopt, &apply] {
        let write = command(request, Some(&other), true);
        let answer = write.query_async(connection).await.expect("an answer");
        assert_eq!(said(request, "run", None, &answer).expect("an answer").answer, None);
    }
    catch_up(&other).exec_async(connection).await.expect("an answer");
    assert_eq!(master.get("redlock-proxy:roster").await, before);
}

fn compare(
    connection: &mut redis::Connection,
    stamp: &mut StampOf<Change>,
    ask: &Ask,
) -> Result<(), TestCaseError> {
    let before = stamp.state.clone();
    let value = if before.value.version == 0 { founded() } else { before.value.clone() };
    let (request, mut after, mut reply) = match ask {
        Ask::CatchUp(counter) => {
            let state = Accepted { accepted: ballot(*counter), value, ..before.clone() };
            let newer = stamp.catch_up(&state);
            let words: Vec<String> = catch_up(&state).query(connection).expect("an answer");
            prop_assert_eq!(words[0] == "done", newer);
            return compare_state(connection, stamp);
        }
        Ask::Prepare(counter, worker) => {
            (Request::Prepare(Ballot { worker: *worker, ..ballot(*counter) }), None, None)
        }
        Ask::Adopt(counter) => {
            let state = Accepted { value, ..before.clone().under(ballot(*counter)) };
            (Request::Adopt(Adopt { state, next: next(ballot(*counter)) }), None, None)
        }
        Ask::Apply(counter, is_right, member) => {
            let expected = if *is_right { before.accepted } else { ballot(99) };
            let program = match before.value.version {
                0 => Change::Found(Box::new(founded())),
                _ => Change::Out { member: MasterId::new(*member as usize), incarnation: 1 },
            };
            let ballot = ballot(*counter);
            (Request::Apply(Apply { program, expected, ballot, next: next(ballot) }), None, None)
        }
    };
    if let Request::Apply(apply) = &request {
        let ran = before.after(&apply.program, apply.ballot, KEEP);
        (after, reply) = (Some(ran.0), ran.1);
    }
    let answer = command(&request, after.as_ref(), true).query(connection).expect("an answer");
    let said = said(&request, "run", reply, &answer).expect("an answer about the roster");
    prop_assert_eq!(said.answer, Some(execute(stamp, &request)));
    compare_state(connection, stamp)
}

fn execute(stamp: &mut StampOf<Change>, request: &Request<Change>) -> MasterAnswer<Change> {
    let answer = match request {
        Request::Prepare(ballot) => stamp.prepare(*ballot).map(MasterAnswer::Promised),
        Request::Adopt(adopt) => stamp.adopt(adopt).map(|()| MasterAnswer::Adopted),
        Request::Apply(apply) => stamp::apply(stamp, apply, KEEP).map(MasterAnswer::Applied),
    };
    answer.unwrap_or_else(MasterAnswer::Refused)
}

/// Checks that the master has stored the stamp, ballots included.
fn compare_state(
    connection: &mut redis::Connection,
    stamp: &StampOf<Change>,
) -> Result<(), TestCaseError> {
    let get = redis::cmd("GET").arg("redlock-proxy:roster").query::<Option<String>>(connection);
    let stored = get.expect("GET").unwrap_or_default();
    if stored.is_empty() {
        prop_assert_eq!(stamp, &StampOf::<Change>::default());
        return Ok(());
    }
    let (promised, accepted) = (stamp.promised, stamp.state.accepted);
    let word = |it: Ballot| format!("{}:{}:{} ", it.epoch, it.counter, it.worker);
    let head = word(promised) + &word(accepted);
    prop_assert!(stored.starts_with(&head), "{} is not {:?}", stored, head);
    if accepted != Ballot::NONE {
        let state = redlock_proxy::masters::roster::acceptor::stored(&stored);
        prop_assert_eq!(state.as_ref(), Some(&stamp.state));
    }
    Ok(())
}

/// A master that was emptied knows no roster, but must not say that there is none.
#[test]
fn a_master_without_a_stamp_says_nothing_about_the_roster() {
    if target_is_plain_redis() {
        return;
    }
    let master = Master::start();
    let client = redis::Client::open(format!("redis://{}/", master.address())).expect("an address");
    let mut connection = client.get_connection().expect("a connection");
    let request = Request::Prepare(ballot(5));
    let mut ask = |all_speak| {
        let answer = command(&request, None, all_speak).query(&mut connection).expect("an answer");
        said(&request, "run", None, &answer).expect("an answer").answer
    };
    assert_eq!(ask(false), None);
    assert_eq!(ask(true), Some(MasterAnswer::Promised(Accepted::default())));
}
