//! Programs during roster changes.

use std::time::Duration;

use super::*;
use crate::decision::keyspace::slot::State;
use crate::decision::lease::pad::Pad;
use crate::decision::quorum::MasterId;
use crate::lua::program::{ScriptRules, Tells};
use crate::operation::register::stamp;
use crate::time::clock;

fn script_rules() -> ScriptRules {
    ScriptRules {
        pad: Pad::new(Duration::from_millis(50), 0.01),
        longest: None,
        sees_all_keys: true,
        tells: Tells::NOTHING,
    }
}

fn program() -> Program {
    let text = Text::wrap(b"return redis.call('INCR', KEYS[1])", "sha", script_rules());
    let call = Call {
        text: Arc::new(text),
        runner: None,
        read_only: false,
        words: b"$1\r\n1\r\n$3\r\nkey\r\n".to_vec(),
        keys: vec![1],
        watched: Vec::new(),
        dbs: Vec::new(),
    };
    Program::new(call, ProgramShape::Script)
}

/// Returns the promise of a master without the key.
fn promise() -> Vec<u8> {
    let place = Place { db: 0, key: Bytes::from_static(b"key") };
    let stamp = stamp::write(&State::default(), &place);
    let mut frame = format!("*2\r\n$8\r\npromised\r\n*4\r\n${}\r\n", stamp.len()).into_bytes();
    frame.extend(stamp);
    frame.extend(b"\r\n:0\r\n_\r\n$1\r\n0\r\n");
    frame
}

/// Two masters promise; returns the program's next step.
fn promised(program: &mut Program, rules: &Rules) -> Then {
    answered_by_two(program, rules, &promise())
}

/// Two masters give this answer; returns the program's next step.
fn answered_by_two(program: &mut Program, rules: &Rules, raw: &[u8]) -> Then {
    let round = program.round();
    answered(program, rules, (0, round), raw);
    answered(program, rules, (1, round), raw)
}

/// A master gives this answer to the request of a round. The kind of answer matters only for errors.
fn answered(
    program: &mut Program,
    rules: &Rules,
    (master, round): (usize, u8),
    raw: &[u8],
) -> Then {
    let (master, now) = (MasterId::new(master), clock::now());
    let answer = Some(&Answer::Simple(b"an array"));
    program.received(On::for_tests(rules), Received { master, round, answer, raw, now }).then
}

/// Begins a round to three masters.
fn ask(program: &mut Program, rules: &Rules) {
    program.ask(On::for_tests(rules), Asked::for_tests(3), clock::now());
}

/// Whether the program itself is sent, rather than a request for promises.
fn is_sent(program: &Program) -> bool {
    program.text().is_some_and(|text| Arc::ptr_eq(&text, &program.call.text))
}

#[test]
fn a_program_is_sent_on_promises_of_the_same_edition() {
    let (rules, mut program) = (Rules::for_tests(), program());
    ask(&mut program, &rules);
    assert!(!is_sent(&program));
    assert!(matches!(promised(&mut program, &rules), Then::Ask));
    ask(&mut program, &rules);
    assert!(is_sent(&program));
}

#[test]
fn a_program_asks_again_for_promises_when_the_roster_has_changed() {
    let (rules, mut program) = (Rules::for_tests(), program());
    ask(&mut program, &rules);
    assert!(matches!(promised(&mut program, &rules), Then::Ask));
    rules.registers.see(rules.registers.edition() + 1);
    ask(&mut program, &rules);
    assert!(!is_sent(&program), "the promises were given under the edition before");
}

/// Regression: the worker's task ended here, and the key was stuck.
#[test]
fn a_master_that_owes_two_answers_is_one_that_is_silent() {
    let (rules, mut program) = (Rules::for_tests(), program());
    ask(&mut program, &rules);
    let token = program.awaited.answered(MasterId::new(0)).expect("it is asked");
    program.awaited.ask(MasterSet::first(3), token);
    let next = program.deadline(On::for_tests(&rules), clock::now(), true);
    let Then::Reply(reply, _) = next.then else { panic!("{next:?}") };
    assert!(format!("{reply:?}").contains("0 of 3 masters"), "{reply:?}");
}

const MISSING: &[u8] = b"*3\r\n$7\r\nmissing\r\n$1\r\n0\r\n$5\r\nother\r\n";

/// Masters that reach the same undeclared key report so one after the other, and the first report is enough to
/// continue.
#[test]
fn a_program_that_stops_everywhere_at_an_undeclared_key_is_known_not_to_have_run() {
    let (rules, mut program) = (Rules::for_tests(), program());
    ask(&mut program, &rules);
    assert!(matches!(promised(&mut program, &rules), Then::Ask));
    ask(&mut program, &rules);
    let round = program.round();
    assert!(matches!(answered(&mut program, &rules, (0, round), MISSING), Then::TakeOn));
    assert!(!program.may_be_done());
    answered(&mut program, &rules, (1, round), MISSING);
    answered(&mut program, &rules, (2, round), MISSING);
    assert!(!program.may_be_done());
}

/// Two masters refuse it because another worker was faster.
fn refused(program: &mut Program, rules: &Rules) -> Then {
    let raw = b"*2\r\n$7\r\nrefused\r\n$16\r\n\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\r\n";
    answered_by_two(program, rules, raw)
}

/// Two masters adopt the state it has found, as the fate of that state is still unknown.
fn adopted(program: &mut Program, rules: &Rules) -> Then {
    answered_by_two(program, rules, b"*1\r\n$7\r\nadopted\r\n")
}

/// The third master stops at an undeclared key.
fn stopped(program: &mut Program, rules: &Rules, round: u8) -> Then {
    answered(program, rules, (2, round), MISSING)
}

#[test]
fn a_master_that_stops_late_at_an_undeclared_key_tells_that_nobody_has_run_the_program() {
    let (rules, mut program) = (Rules::for_tests(), program());
    ask(&mut program, &rules);
    assert!(matches!(promised(&mut program, &rules), Then::Ask));
    ask(&mut program, &rules);
    let round = program.round();
    assert!(matches!(refused(&mut program, &rules), Then::Ask), "the first time at once");
    ask(&mut program, &rules);
    assert!(program.may_be_done());
    assert!(matches!(stopped(&mut program, &rules, round), Then::Wait));
    assert!(!program.may_be_done());
}

/// Regression: its turns were given back for the key, and after the pause it sent requests without them. The turns were
/// lost, and no other writer to the key got a reply.
#[test]
fn a_program_that_pauses_takes_on_no_key_from_who_answers_last() {
    let (rules, mut program) = (Rules::for_tests(), program());
    ask(&mut program, &rules);
    assert!(matches!(promised(&mut program, &rules), Then::Ask));
    ask(&mut program, &rules);
    assert!(matches!(refused(&mut program, &rules), Then::Ask), "the first time at once");
    ask(&mut program, &rules);
    assert!(matches!(promised(&mut program, &rules), Then::Ask));
    ask(&mut program, &rules);
    assert!(matches!(adopted(&mut program, &rules), Then::Ask));
    ask(&mut program, &rules);
    assert!(is_sent(&program));
    assert!(matches!(refused(&mut program, &rules), Then::Pause));
    let round = program.round();
    assert!(matches!(stopped(&mut program, &rules, round), Then::Wait));
}
