//! Single steps of what the model in `tests/keyspace` explores.

mod ends;

use super::Program;
use super::copying::Given;
use super::proposer::{MasterAnswer, Outcome, Proposer, Request, Step, Wish};
use super::remains::Over;
use super::remembered::{Keep, Remembered};
use super::settle::{Contested, Copied, Finding, copy, settle};
use super::slot::{Open, Refusal, Sight, State};
use super::tombstone::droppable;
use crate::decision::quorum::{MasterId, Quorum};
use crate::decision::register::acceptor::Fate;
use crate::decision::register::ballot::Ballot;
use crate::specification::slots::{self, Runs, Seen, Slots};

/// Program that adds one to each of its keys, deletes them, or only reads them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Count {
    keys: Vec<char>,
    writes: bool,
    deletes: bool,
}

impl Program for Count {
    type Key = char;
    type Value = u8;
    type Lease = &'static str;
    type Reply = u8;

    fn keys(&self) -> Vec<char> {
        self.keys.clone()
    }

    fn is_present(value: &u8) -> bool {
        *value > 0
    }

    fn end_us(value: &u8) -> Option<u64> {
        let end_us = if *value == EXTENDED { LATER_US } else { END_US };
        (SHORT..LASTING).contains(value).then_some(end_us)
    }
}

impl Runs for Count {
    fn run(&self, seen: &[Seen<'_, Self>], _: u64) -> (Vec<Option<u8>>, u8) {
        let after = seen.iter().map(|seen| match seen {
            _ if self.deletes => 0,
            Seen::Register(value) => **value + 1,
            Seen::Lease(_) => 1,
        });
        let sum = after.clone().sum();
        (after.map(|value| self.writes.then_some(value)).collect(), sum)
    }
}

/// Values from here up to `LASTING` have an end; that of `EXTENDED` is later.
const SHORT: u8 = 100;
const EXTENDED: u8 = 105;
const LASTING: u8 = 110;
const END_US: u64 = 250;
const LATER_US: u64 = 500;

const KEEP: Keep = Keep { last: 4, workers: 4, age_us: u64::MAX };

/// Beyond all ends: by such a clock, nothing stays.
const OWN_US: u64 = u64::MAX;

type Masters = [Slots<Count>; 3];

fn count(keys: &str) -> Wish<Count> {
    Wish::Run(Count { keys: keys.chars().collect(), writes: true, deletes: false })
}

fn read(keys: &str) -> Wish<Count> {
    Wish::Read(keys.chars().collect())
}

fn start(worker: u64, wish: Wish<Count>, now_us: u64) -> (Proposer<Count>, Request<Count>) {
    Proposer::new(Quorum::of(3), worker, 1, wish, now_us)
}

fn execute(slots: &mut Slots<Count>, request: &Request<Count>) -> MasterAnswer<Count> {
    slots::execute(request, slots, KEEP, OWN_US)
}

/// Sends a request to some masters, and returns the last step other than waiting. The others are silent.
fn ask(
    proposer: &mut Proposer<Count>,
    masters: &mut Masters,
    asked: &[usize],
    request: &Request<Count>,
) -> Step<Count> {
    ask_at(OWN_US, proposer, masters, asked, request)
}

/// Asks like [`ask`], at `own_us` by the masters' clocks.
fn ask_at(
    own_us: u64,
    proposer: &mut Proposer<Count>,
    masters: &mut Masters,
    asked: &[usize],
    request: &Request<Count>,
) -> Step<Count> {
    match hear(own_us, proposer, masters, asked, request) {
        Step::Wait => proposer.without_the_silent().unwrap_or(Step::Wait),
        step => step,
    }
}

/// Asks like [`ask_at`], but the others may still answer.
fn hear(
    own_us: u64,
    proposer: &mut Proposer<Count>,
    masters: &mut Masters,
    asked: &[usize],
    request: &Request<Count>,
) -> Step<Count> {
    let ballot = proposer.ballot().unwrap_or_default();
    let mut last = Step::Wait;
    for at in asked {
        let answer = slots::execute(request, &mut masters[*at], KEEP, own_us);
        let step = proposer.answer(ballot, MasterId::new(*at), 1, answer);
        last = if step == Step::Wait { last } else { step };
    }
    last
}

/// Sends all requests to some masters, until the operation waits or ends.
fn run(
    operation: (Proposer<Count>, Request<Count>),
    masters: &mut Masters,
    asked: &[usize],
) -> (Proposer<Count>, Step<Count>) {
    run_at(OWN_US, operation, masters, asked)
}

/// Runs like [`run`], at `own_us` by the masters' clocks.
fn run_at(
    own_us: u64,
    (mut proposer, mut request): (Proposer<Count>, Request<Count>),
    masters: &mut Masters,
    asked: &[usize],
) -> (Proposer<Count>, Step<Count>) {
    loop {
        match ask_at(own_us, &mut proposer, masters, asked, &request) {
            Step::Send(next) => request = next,
            step => return (proposer, step),
        }
    }
}

fn done(reply: u8) -> Step<Count> {
    Step::Done(Outcome::Ran(reply))
}

fn values(step: &Step<Count>) -> Vec<u8> {
    match step {
        Step::Done(Outcome::Read(holdings)) => holdings.iter().map(|it| it.state.value).collect(),
        step => panic!("no values: {step:?}"),
    }
}

#[test]
fn the_next_program_of_a_worker_takes_one_round_trip() {
    let mut masters = Masters::default();
    let (proposer, step) = run(start(7, count("ab"), 100), &mut masters, &[0, 1, 2]);
    assert_eq!(step, done(2));
    let held = proposer.held().expect("promises").to_vec();
    let program = Count { keys: vec!['a', 'b'], writes: true, deletes: false };
    let (mut next, request) = Proposer::with_promises(Quorum::of(3), 7, 1, program, held, 0);
    assert_eq!(ask(&mut next, &mut masters, &[1, 2], &request), done(4));
}

/// Out of memory, the master has refused what the others have run, and its client has moved on.
#[test]
fn who_has_written_nothing_where_others_have_is_not_counted() {
    for order in [[0, 1, 2], [1, 0, 2], [1, 2, 0]] {
        let mut masters = Masters::default();
        let (mut proposer, request) = start(7, count("a"), 100);
        let Step::Send(apply) = ask(&mut proposer, &mut masters, &[0, 1, 2], &request) else {
            panic!("all show the same");
        };
        let ballot = proposer.ballot().expect("a round");
        let mut steps = order.map(|at| {
            let mut answer = execute(&mut masters[at], &apply);
            if let (0, MasterAnswer::Applied(ran)) = (at, &mut answer) {
                (ran.wrote, ran.is_promised) = (false, false);
            }
            proposer.answer(ballot, MasterId::new(at), 1, answer)
        });
        steps.sort_by_key(|step| *step == Step::Wait);
        let expected = if order[0] == 0 { Step::Pause } else { done(1) };
        assert_eq!(steps[0], expected, "{order:?}");
        let written = proposer.held().is_none_or(|held| held[0].accepted == ballot);
        assert!(written, "the next one would run under the same ballot");
    }
}

#[test]
fn what_was_lost_with_connections_is_asked_for_again() {
    let mut masters = Masters::default();
    let (mut proposer, request) = start(7, count("a"), 100);
    assert_eq!(ask(&mut proposer, &mut masters, &[0], &request), Step::Wait);
    assert_eq!(proposer.no_more_answers(), Step::Wait, "others are silent");
    assert_eq!(proposer.all_others_are_lost(), Step::Pause);
    let again = proposer.again(200);
    assert_eq!(run((proposer, again), &mut masters, &[0, 1]).1, done(1));
}

#[test]
fn a_program_whose_answer_was_lost_is_answered_from_the_list() {
    let mut masters = Masters::default();
    let (mut proposer, request) = start(7, count("ab"), 100);
    let Step::Send(apply) = ask(&mut proposer, &mut masters, &[0, 1], &request) else {
        panic!("both show the same");
    };
    masters.iter_mut().for_each(|slots| drop(execute(slots, &apply)));
    let again = proposer.again(200);
    let (_, step) = run((proposer, again), &mut masters, &[1, 2]);
    assert_eq!(step, done(2));
}

/// The attempt may still arrive where it has not been yet. A program that has nothing to write now leaves no later
/// state there.
#[test]
fn what_may_still_arrive_is_outbid_before_a_program_runs_again() {
    let mut masters = Masters::default();
    let (mut proposer, request) = start(7, count("a"), 100);
    let Step::Send(late) = ask(&mut proposer, &mut masters, &[0, 1], &request) else {
        panic!("both show the same");
    };
    let again = proposer.again(200);
    let step = ask(&mut proposer, &mut masters, &[0, 1], &again);
    assert!(matches!(step, Step::Send(Request::Adopt(_))), "{step:?}");
    let Step::Send(adopt) = step else { return };
    assert!(matches!(ask(&mut proposer, &mut masters, &[0, 1], &adopt), Step::Send(_)));
    execute(&mut masters[2], &late);
    let (_, step) = run(start(8, read("a"), 300), &mut masters, &[1, 2]);
    assert_eq!(values(&step), [0], "the late one is older than what was adopted");
}

#[test]
fn the_key_that_was_written_along_is_looked_at_as_well() {
    let mut masters = Masters::default();
    let (mut proposer, request) = start(7, count("ab"), 100);
    let Step::Send(apply) = ask(&mut proposer, &mut masters, &[0, 1], &request) else {
        panic!("both show the same");
    };
    execute(&mut masters[0], &apply);
    let (mut reader, request) = start(8, read("b"), 200);
    let step = ask(&mut reader, &mut masters, &[0, 1], &request);
    assert!(
        matches!(&step, Step::Send(Request::Prepare(keys, _)) if keys == &[('b', 0), ('a', 0)])
    );
    let Step::Send(both) = step else { return };
    let (_, step) = run((reader, both), &mut masters, &[0, 1]);
    assert_eq!(values(&step), [1]);
    for slots in &mut masters[..2] {
        assert_eq!([slots.of(&'a').state.value, slots.of(&'b').state.value], [1, 1]);
    }
}

/// One of its keys has moved on without the group on two masters, so the group can never be decided.
#[test]
fn a_group_that_one_of_its_keys_has_left_behind_is_no_part_of_the_others() {
    let mut masters = Masters::default();
    let (mut proposer, request) = start(7, count("ab"), 100);
    let Step::Send(apply) = ask(&mut proposer, &mut masters, &[0, 1], &request) else {
        panic!("both show the same");
    };
    execute(&mut masters[0], &apply);
    let (_, step) = run(start(8, count("a"), 200), &mut masters, &[1, 2]);
    assert_eq!(step, done(1));
    let (_, step) = run(start(9, read("b"), 300), &mut masters, &[0, 1]);
    assert_eq!(values(&step), [0]);
}

/// Returns a master's view of a key whose last two programs ran under these ballots, on the state of `basis`.
fn shown(ran: [u64; 2], basis: u64, group: &str) -> Sight<Count> {
    let ballot = |counter| Ballot { epoch: 0, counter, worker: 7 };
    let last = ballot(ran[1]);
    let open = (!group.is_empty()).then(|| Open {
        group: group.chars().map(|key| (key, last)).collect(),
        found: None,
        until_us: None,
        is_kept: false,
    });
    let entries = ran.map(|counter| (ballot(counter), 1)).to_vec();
    let forgotten = ballot(ran[0] - 1);
    let recent = Remembered::of(entries, forgotten, Ballot::NONE);
    let (accepted, basis) = (last, ballot(basis));
    let state = State { accepted, basis, value: 1, recent, open, stays_us: 0 };
    Sight { state, floor: Ballot::NONE, is_gone: false, lease: None, flush: 0 }
}

/// One of five still shows the group, and a program that ran on it elsewhere came to nothing. The other key has
/// forgotten both.
#[test]
fn a_group_that_another_program_has_run_on_was_decided() {
    let b = || shown([80, 90], 80, "");
    let group = [shown([20, 30], 20, "ab"), b()];
    let dead = [shown([30, 40], 30, "ab"), b()];
    let behind = [shown([10, 20], 10, "a"), b()];
    let sights: [&[Sight<Count>]; 4] = [&group, &dead, &behind, &behind];
    let ballot = Ballot { epoch: 0, counter: 100, worker: 9 };
    let finding = settle(Quorum::of(5), ballot, &['a', 'b'], 1, &sights);
    let Finding::Adopt(states, _) = finding else { panic!("{finding:?}") };
    assert_eq!(states[0].state.ran().map(|ran| ran.counter), Some(30));
    assert_eq!(states[0].state.open, None);
}

/// A worker may have had the silent master adopt the group, over the last copy of what the other key held before.
#[test]
fn a_group_is_given_up_only_where_what_was_before_is_in_view() {
    let group = [shown([50, 61], 50, "ab"), shown([45, 61], 45, "ab")];
    let mut without = [shown([40, 50], 40, ""), shown([20, 30], 20, "")];
    without[0].state.accepted.counter = 70;
    let before = [shown([40, 50], 40, ""), shown([30, 45], 30, "")];
    let ballot = Ballot { epoch: 0, counter: 100, worker: 9 };
    let settled =
        |sights: &[&[Sight<Count>]]| settle(Quorum::of(3), ballot, &['a', 'b'], 1, sights);
    assert_eq!(settled(&[&group, &without]), Finding::Undecided);
    let Finding::Adopt(states, _) = settled(&[&group, &without, &before]) else { panic!("it is") };
    let ran: Vec<_> = states.iter().map(|one| one.state.ran().map(|ran| ran.counter)).collect();
    assert_eq!(ran, [Some(50), Some(45)], "both keys are accepted without it");
}

/// The stamp of a group is under a key that is not part of that group.
#[test]
fn a_group_that_does_not_have_the_key_under_which_it_is_shown_is_not_looked_at_for_ever() {
    let of_group = || shown([50, 61], 50, "bc");
    let others = [shown([50, 90], 50, ""), of_group(), of_group()];
    let with_it = [of_group(), of_group(), of_group()];
    let ballot = Ballot { epoch: 0, counter: 100, worker: 9 };
    let sights: [&[Sight<Count>]; 3] = [&others, &with_it, &others];
    let finding = settle(Quorum::of(3), ballot, &['a', 'b', 'c'], 1, &sights);
    assert_eq!(finding, Finding::Undecided);
}

#[test]
fn what_a_dead_group_ran_on_is_found_where_it_was_accepted_before() {
    let b = || shown([55, 90], 55, "");
    let mut dead = [shown([50, 61], 50, "ab"), b()];
    dead[0].state.basis.counter = 60;
    let before = [shown([40, 50], 40, ""), b()];
    let behind = [shown([20, 30], 20, ""), b()];
    let ballot = Ballot { epoch: 0, counter: 100, worker: 9 };
    let sights: [&[Sight<Count>]; 3] = [&dead, &before, &behind];
    let finding = settle(Quorum::of(3), ballot, &['a', 'b'], 1, &sights);
    let Finding::Adopt(states, _) = finding else { panic!("{finding:?}") };
    assert_eq!(states[0].state.ran().map(|ran| ran.counter), Some(50));
}

/// Two masters have a group, and one has accepted both keys without it, with something else on one of them. No master
/// shows the state from before: if that were given up as well, nothing would be left.
#[test]
fn the_newest_is_not_given_up_where_it_can_go_on() {
    let group = [shown([5, 10], 5, "ab"), shown([5, 10], 5, "ab")];
    let mut without = [shown([4, 5], 4, ""), shown([5, 19], 5, "b")];
    for sight in &mut without {
        sight.state.accepted.counter = 50;
    }
    let ballot = Ballot { epoch: 0, counter: 100, worker: 9 };
    let sights: [&[Sight<Count>]; 3] = [&group, &group, &without];
    let finding = settle(Quorum::of(3), ballot, &['a', 'b'], 2, &sights);
    let Finding::Adopt(states, _) = finding else { panic!("{finding:?}") };
    let ran: Vec<_> = states.iter().map(|one| one.state.ran().map(|ran| ran.counter)).collect();
    assert_eq!(ran, [Some(5), Some(19)]);
}

#[test]
fn a_minority_that_lacks_the_lease_holds_nothing_up() {
    let mut masters = Masters::default();
    assert!(masters[..2].iter_mut().all(|slots| slots.claim(&'a', "mine")));
    let (_, step) = run(start(7, count("a"), 100), &mut masters, &[0, 1, 2]);
    assert_eq!(step, done(1));
    assert!(masters[..2].iter_mut().all(|slots| slots.of(&'a').lease.is_none()));
}

/// With the silent master, it may be the lease of a quorum.
#[test]
fn a_lease_that_one_of_two_shows_is_waited_for() {
    let mut masters = Masters::default();
    assert!(masters[0].claim(&'a', "mine"));
    let (mut proposer, step) = run(start(7, count("a"), 100), &mut masters, &[0, 1]);
    assert_eq!(step, Step::Wait);
    assert_eq!(proposer.no_more_answers(), Step::Pause);
    let again = proposer.again(200);
    let (_, step) = run((proposer, again), &mut masters, &[0, 1, 2]);
    assert_eq!(step, done(1), "nobody else has it");
}

/// The overwritten copy may have been one of the quorum's.
#[test]
fn a_program_that_took_a_lease_over_in_vain_gives_it_back() {
    let mut masters = Masters::default();
    assert!(masters[..2].iter_mut().all(|slots| slots.claim(&'a', "mine")));
    let (mut proposer, request) = start(7, count("a"), 100);
    let Step::Send(apply) = ask(&mut proposer, &mut masters, &[0, 1], &request) else {
        panic!("both show the same");
    };
    execute(&mut masters[0], &apply);
    assert_eq!(masters[0].of(&'a').lease, None);
    let (_, step) = run(start(8, read("a"), 200), &mut masters, &[0, 2, 1]);
    let Step::Done(Outcome::Read(holdings)) = step else { panic!("{step:?}") };
    assert_eq!(holdings[0].lease, Some("mine"));
    assert_eq!(masters[0].of(&'a').lease, Some("mine"));
}

/// Returns what to copy to a third master that is admitted, from the sights of two.
fn copied(masters: &Masters) -> Copied<Count> {
    let sights = sights(masters, &['a']);
    let others: Vec<_> = sights[..2].iter().map(|sights| &sights[..]).collect();
    copy(Quorum::of(3), Ballot { epoch: 0, counter: 900, worker: 9 }, &['a'], &others)
}

/// The overwritten copy may have been counted with that of the master that forgot.
#[test]
fn a_lease_that_was_taken_over_in_vain_is_copied_to_who_is_admitted() {
    let mut masters = Masters::default();
    assert!([0, 2].iter().all(|at| masters[*at].claim(&'a', "mine")));
    let (mut proposer, request) = start(7, count("a"), 100);
    let Step::Send(apply) = ask(&mut proposer, &mut masters, &[0, 2], &request) else {
        panic!("both show the same");
    };
    execute(&mut masters[0], &apply);
    let (mut reader, request) = start(8, read("a"), 200);
    let Step::Send(adopt) = ask(&mut reader, &mut masters, &[0, 1, 2], &request) else {
        panic!("two masters lack it");
    };
    execute(&mut masters[1], &adopt);
    let Copied::Settled(states, lease) = copied(&masters) else { panic!("a quorum lacks it") };
    assert_eq!((states[0].state.value, lease), (0, Some("mine")));
}

/// The program has taken the lease over on two masters, one of which has forgotten. The third has seen neither.
#[test]
fn who_was_admitted_to_a_contested_key_does_not_say_that_nothing_ran() {
    let mut masters = Masters::default();
    assert!([0, 2].iter().all(|at| masters[*at].claim(&'a', "mine")));
    let (_, step) = run(start(7, count("a"), 100), &mut masters, &[0, 2]);
    assert_eq!(step, done(1));
    let Copied::Contested(contested) = copied(&masters) else { panic!("it was not seen") };
    let Contested { state, lease, .. } = *contested;
    assert_eq!((state.value, lease), (1, None), "nobody else may take the key");
    masters[2] = Slots::default();
    (masters[2].of(&'a').state, masters[2].of(&'a').lease) = (state, lease);
    assert!(masters[1].claim(&'a', "mine"), "the claim was late");

    let shown = sights(&masters, &['a']);
    let both: Vec<_> = shown[1..].iter().map(|sights| &sights[..]).collect();
    let ballot = Ballot { epoch: 0, counter: 950, worker: 8 };
    assert_eq!(settle(Quorum::of(3), ballot, &['a'], 1, &both), Finding::Undecided);
    let (_, step) = run(start(8, read("a"), 1_000), &mut masters, &[0, 1, 2]);
    assert_eq!(values(&step), [1]);
}

#[test]
fn who_is_refused_by_too_many_comes_back_with_a_higher_ballot() {
    let mut masters = Masters::default();
    let high = Ballot { epoch: 0, counter: 900, worker: 8 };
    assert!(masters[..2].iter_mut().all(|slots| slots.prepare(&['a'], high, 0, OWN_US).is_ok()));
    let (mut proposer, step) = run(start(7, read("a"), 100), &mut masters, &[0, 1]);
    assert_eq!(step, Step::Pause);
    let Request::Prepare(_, ballot) = proposer.again(200) else { panic!("a prepare") };
    assert!(ballot > high);
}

#[test]
fn answers_of_another_version_do_not_count() {
    let mut masters = Masters::default();
    let (mut proposer, request) = start(7, read("a"), 100);
    for (at, slots) in masters.iter_mut().enumerate() {
        let (ballot, answer) = (proposer.ballot().expect("a round"), execute(slots, &request));
        assert_eq!(proposer.answer(ballot, MasterId::new(at), 2, answer), Step::Wait);
    }
}

/// Returns the sights of all masters for some keys, closed or not.
fn sights(masters: &Masters, keys: &[char]) -> Vec<Vec<Sight<Count>>> {
    let sight =
        |slots: &Slots<Count>| keys.iter().map(|key| slots.get(key).sight(OWN_US)).collect();
    masters.iter().map(sight).collect()
}

fn dropped(masters: &Masters, keys: &[char]) -> String {
    let sights = sights(masters, keys);
    let sights: Vec<_> = sights.iter().map(|sights| &sights[..]).collect();
    droppable(Quorum::of(3), keys, &sights, 1_000).into_iter().map(|(key, _)| key).collect()
}

fn close(masters: &mut Masters, key: char) -> Ballot {
    let accepted = masters[0].get(&key).state.accepted;
    assert!(masters.iter_mut().all(|slots| slots.close(&key, accepted)));
    accepted
}

/// Returns masters that all counted these keys and then deleted them.
fn deleted(keys: &str) -> Masters {
    let mut masters = Masters::default();
    let sum = keys.len() as u8;
    assert_eq!(run(start(7, count(keys), 100), &mut masters, &[0, 1, 2]).1, done(sum));
    let delete = Wish::Run(Count { keys: keys.chars().collect(), writes: true, deletes: true });
    assert_eq!(run(start(7, delete, 200), &mut masters, &[0, 1, 2]).1, done(0));
    masters
}

#[test]
fn a_stamp_is_dropped_once_every_master_has_it() {
    let mut masters = deleted("a");
    assert_eq!(dropped(&masters, &['a']), "", "a quorum may not know that it has it");
    let accepted = close(&mut masters, 'a');
    assert_eq!(dropped(&masters, &['a']), "a");
    assert!(
        masters[2].forget(&'a', accepted, OWN_US) && !masters[2].forget(&'a', accepted, OWN_US)
    );
    assert_eq!(dropped(&masters, &['a']), "", "two have it");
    let (_, step) = run(start(8, read("a"), 900), &mut masters, &[1, 2]);
    assert_eq!(values(&step), [0]);
}

#[test]
fn what_was_not_deleted_everywhere_is_not_dropped() {
    let mut masters = deleted("a");
    assert_eq!(run(start(8, count("a"), 300), &mut masters, &[0, 1]).1, done(1));
    assert_eq!(dropped(&masters, &['a']), "");
}

#[test]
fn a_dropped_stamp_keeps_out_what_is_late() {
    let mut masters = deleted("a");
    let (_, late) = start(9, count("a"), 200);
    let accepted = close(&mut masters, 'a');
    let promised = masters[0].get(&'a').promised;
    assert!(masters[0].forget(&'a', accepted, OWN_US));
    assert_eq!(masters[0].floor().counter, promised.counter);
    assert!(matches!(execute(&mut masters[0], &late), MasterAnswer::Refused(_)));
    let other = Request::Prepare(vec![('b', 0)], Ballot { counter: 150, ..promised });
    assert!(matches!(execute(&mut masters[0], &other), MasterAnswer::Refused(_)), "any key");
}

/// Returns the result that a worker gets when it asks again after many programs of others, and the final value. Its own
/// program has reached the first `reached` of three masters.
fn told_after_many_others(reached: usize, others: &[u64]) -> (Step<Count>, u8) {
    let mut masters = Masters::default();
    let (mut proposer, request) = start(7, count("a"), 100);
    let Step::Send(apply) = ask(&mut proposer, &mut masters, &[0, 1], &request) else {
        panic!("all are empty");
    };
    masters[..reached].iter_mut().for_each(|slots| drop(execute(slots, &apply)));
    for (round, worker) in (2..).zip(others) {
        let (_, step) = run(start(*worker, count("a"), 100 * round), &mut masters, &[1, 2]);
        assert!(matches!(step, Step::Done(Outcome::Ran(_))));
    }
    let again = proposer.again(100_000);
    let (_, step) = run((proposer, again), &mut masters, &[1, 2, 0]);
    let value = values(&run(start(9, read("a"), 200_000), &mut masters, &[1, 2, 0]).1)[0];
    (step, value)
}

#[test]
fn a_worker_that_pauses_is_told_however_many_programs_of_others_follow() {
    let others: Vec<u64> = (0..40).map(|round| 8 + round % 3).collect();
    assert_eq!(told_after_many_others(2, &others), (done(1), 41), "it ran before the others");
    assert_eq!(told_after_many_others(1, &others), (done(41), 41), "it came to nothing");
}

#[test]
fn a_worker_that_pauses_while_too_many_others_are_at_work_is_not_told() {
    let others: Vec<u64> = (20..40).collect();
    for reached in [1, 2] {
        let (step, value) = told_after_many_others(reached, &others);
        assert_eq!((step, value), (Step::Done(Outcome::NotKnown), 19 + reached as u8));
    }
}

/// The masters have run a program on two keys, and its worker has written one of them since.
#[test]
fn a_group_that_its_worker_has_followed_up_is_not_denied() {
    let mut masters = Masters::default();
    assert_eq!(run(start(7, count("ab"), 100), &mut masters, &[0, 1]).1, done(2));
    let others = [8, 9, 10, 11, 8, 9, 10, 11, 7, 8, 9, 10, 11, 8];
    for (round, worker) in (2..).zip(others) {
        run(start(worker, count("b"), 100 * round), &mut masters, &[0, 1]);
    }
    let (_, step) = run(start(12, read("a"), 10_000), &mut masters, &[1, 2]);
    assert_eq!(step, Step::Wait, "the first one knows more");
    assert_eq!(values(&run(start(12, read("a"), 20_000), &mut masters, &[1, 2, 0]).1), [1]);
}

#[test]
fn a_program_whose_stamp_was_dropped_is_not_denied() {
    let mut masters = deleted("a");
    let (mut proposer, request) = start(8, count("a"), 300);
    let Step::Send(apply) = ask(&mut proposer, &mut masters, &[0, 1], &request) else {
        panic!("both show the same");
    };
    masters.iter_mut().for_each(|slots| drop(execute(slots, &apply)));
    let delete = Wish::Run(Count { keys: vec!['a'], writes: true, deletes: true });
    assert_eq!(run(start(9, delete, 400), &mut masters, &[0, 1, 2]).1, done(0));
    let accepted = close(&mut masters, 'a');
    assert!(masters.iter_mut().all(|slots| slots.forget(&'a', accepted, OWN_US)));
    let again = proposer.again(500);
    let (_, step) = run((proposer, again), &mut masters, &[1, 2]);
    assert_eq!(step, Step::Done(Outcome::NotKnown));
}

#[test]
fn a_stamp_that_an_open_group_names_is_not_dropped() {
    let mut masters = Masters::default();
    assert_eq!(run(start(7, count("ab"), 100), &mut masters, &[0, 1]).1, done(2));
    let delete = Wish::Run(Count { keys: vec!['b'], writes: true, deletes: true });
    assert_eq!(run(start(7, delete, 200), &mut masters, &[0, 1]).1, done(0));
    assert_eq!(values(&run(start(8, read("b"), 300), &mut masters, &[1, 2, 0]).1), [0]);
    close(&mut masters, 'b');
    assert_eq!(dropped(&masters, &['a', 'b']), "", "two masters have what it was written with");
    assert_eq!(values(&run(start(8, read("a"), 400), &mut masters, &[1, 2, 0]).1), [1]);
    assert_eq!(dropped(&masters, &['a', 'b']), "b");
}

/// The key is absent although a later program, which came to nothing, has overwritten it where it was not dropped.
#[test]
fn what_a_quorum_has_dropped_is_absent() {
    let mut masters = deleted("ab");
    let accepted = [close(&mut masters, 'a'), close(&mut masters, 'b')];
    let (mut proposer, request) = start(8, count("ab"), 300);
    let Step::Send(apply) = ask(&mut proposer, &mut masters, &[0, 1], &request) else {
        panic!("both show the same");
    };
    execute(&mut masters[0], &apply);
    assert_eq!(run(start(9, count("b"), 400), &mut masters, &[1, 2]).1, done(1));
    assert!(masters[1..].iter_mut().all(|slots| slots.forget(&'a', accepted[0], OWN_US)));
    let (_, step) = run(start(9, read("a"), 500), &mut masters, &[0, 1, 2]);
    assert_eq!(values(&step), [0]);
}

/// Returns masters that all hold a value with an end.
fn short() -> Masters {
    all_with(SHORT)
}

fn all_with(value: u8) -> Masters {
    let mut masters = Masters::default();
    for slots in &mut masters {
        let slot = slots.of(&'a');
        slot.state.accepted = Ballot { epoch: 0, counter: 50, worker: 7 };
        (slot.promised, slot.state.value) = (slot.state.accepted, value);
    }
    masters
}

/// Otherwise a program that removed the end on the third master would count.
#[test]
fn an_end_is_accepted_before_anybody_is_told_of_it() {
    let mut masters = short();
    let (mut reader, request) = start(8, read("a"), 200);
    assert_eq!(values(&ask(&mut reader, &mut masters, &[0, 1], &request)), [SHORT]);
    let (mut reader, request) = start(8, read("a"), 300);
    let step = ask(&mut reader, &mut masters, &[0, 1], &request);
    let Step::Send(adopt @ Request::Adopt(_)) = step else { panic!("{step:?}") };
    assert_eq!(values(&run((reader, adopt), &mut masters, &[0, 1]).1), [SHORT]);
    let (mut reader, request) = start(8, read("a"), 400);
    assert_eq!(values(&ask(&mut reader, &mut masters, &[0, 1], &request)), [SHORT], "once");
}

#[test]
fn what_was_cleaned_up_is_promised_at_its_end() {
    let mut masters = short();
    masters[0].clean_up(&'a');
    let ballot = |counter| Ballot { epoch: 0, counter, worker: 7 };
    assert!(masters[0].prepare(&['a'], ballot(END_US - 1), 0, OWN_US).is_err());
    assert!(masters[0].prepare(&['a'], ballot(END_US), 0, OWN_US).is_ok());
    masters[1].lose(&'a');
    assert!(masters[1].prepare(&['a'], ballot(END_US - 1), 0, OWN_US).is_ok(), "lost, not ended");
}

/// Counts on the first master only, after which the end passes on the others.
fn counted_alone(masters: &mut Masters) {
    let (mut proposer, request) = start(7, count("a"), 200);
    let Step::Send(apply) = ask(&mut proposer, masters, &[0, 1], &request) else {
        panic!("both show the same");
    };
    execute(&mut masters[0], &apply);
    masters[1..].iter_mut().for_each(|slots| slots.clean_up(&'a'));
}

/// A claim may have found nothing on two masters, and have been given back.
#[test]
fn what_ran_before_an_end_is_not_adopted_where_nothing_is_left() {
    let mut masters = all_with(LASTING - 1);
    counted_alone(&mut masters);
    assert_eq!(run(start(8, read("a"), 300), &mut masters, &[0, 1]).1, Step::Wait);
    let (_, step) = run(start(9, read("a"), 400), &mut masters, &[0, 1, 2]);
    assert_eq!(values(&step), [LASTING - 1], "the third has not run it");
}

#[test]
fn what_ran_before_an_end_is_over_with_what_it_left() {
    let mut masters = all_with(EXTENDED - 1);
    counted_alone(&mut masters);
    assert_eq!(run(start(8, read("a"), 300), &mut masters, &[0, 1]).1, Step::Wait);
    let (_, step) = run(start(8, read("a"), 600), &mut masters, &[0, 1]);
    assert_eq!(values(&step), [EXTENDED], "it is past its end");
    let kept = masters[1].get(&'a').state;
    assert_eq!((kept.ran(), kept.open), (None, None));
    let ran = Ballot { epoch: 0, counter: 200, worker: 7 };
    assert_eq!(kept.recent.fate(ran), Fate::NotKnown);
}

/// The second key holds the same value whether the program counts or not.
#[test]
fn what_ran_before_an_end_is_over_with_what_it_has_only_read() {
    let mut masters = all_with(SHORT);
    masters[1..].iter_mut().for_each(|slots| slots.clean_up(&'a'));
    let (before, ran) = (masters[0].get(&'a').promised, Ballot { counter: 200, ..Ballot::NONE });
    masters.iter_mut().for_each(|slots| {
        (slots.of(&'b').state.accepted, slots.of(&'b').state.value) = (before, 5);
    });
    let group = vec![('a', ran), ('b', ran)];
    for (key, value, until_us) in [('a', EXTENDED, Some(END_US)), ('b', 5, None)] {
        let is_kept = until_us.is_none();
        let recent = Remembered::default().with(ran, 1, !is_kept, KEEP);
        let open = Some(Open { group: group.clone(), found: None, until_us, is_kept });
        let slot = masters[0].of(&key);
        slot.promised = ran;
        slot.state = State { accepted: ran, basis: before, value, recent, open, stays_us: 0 };
    }
    assert_eq!(run(start(8, read("b"), 300), &mut masters, &[0, 1]).1, Step::Wait);
    let (_, step) = run(start(8, read("b"), 600), &mut masters, &[0, 1]);
    assert_eq!(values(&step), [5]);
}

/// Any lease that has come and gone since then came after it.
#[test]
fn what_ran_before_an_end_that_it_kept_is_adopted_where_nothing_is_left() {
    let mut masters = short();
    counted_alone(&mut masters);
    let (_, step) = run(start(8, read("a"), 300), &mut masters, &[0, 1]);
    assert_eq!(values(&step), [SHORT + 1], "it is past its end");
    assert_eq!(masters[1].get(&'a').state.ran().map(|ran| ran.counter), Some(200));
}

/// It is unknown which of two masters the program was counted by.
#[test]
fn who_was_admitted_after_an_end_lets_no_claim_pass_beside_what_took_it_away() {
    let mut masters = all_with(LASTING - 1);
    counted_alone(&mut masters);
    let Copied::Contested(contested) = copied(&masters) else {
        panic!("it may have run on the third one");
    };
    let Contested { from, state, lease } = *contested;
    assert_eq!(from, masters[0].get(&'a').state.accepted);
    masters[2] = Slots::default();
    let given = Given { state, promised: Ballot::NONE, lease };
    masters[2].give(&'a', &given, 300, OWN_US);
    assert!(!masters[2].claim(&'a', "mine"));
    let (_, step) = run(start(9, read("a"), 1_000), &mut masters, &[0, 1, 2]);
    assert_eq!(step, Step::Pause, "nobody can tell");

    let (mut settling, request) = settle_key(9, "a", 2_000);
    settling.take_for_remains(Over::All);
    let (_, step) = run((settling, request), &mut masters, &[0, 1, 2]);
    assert_eq!(values(&step), [LASTING], "somebody has said that no claim counts");
    assert!(masters.iter().all(|slots| slots.get(&'a').state.value == LASTING));
}

/// Two masters have run the program, cleaned up what it left, and granted a claim. The third has missed all of that.
#[test]
fn a_claim_after_an_end_is_told_beside_what_ran_before_it() {
    let mut masters = short();
    let (mut proposer, request) = start(7, count("a"), 200);
    let Step::Send(apply) = ask(&mut proposer, &mut masters, &[0, 1], &request) else {
        panic!("both show the same");
    };
    masters[..2].iter_mut().for_each(|slots| _ = execute(slots, &apply));
    masters.iter_mut().for_each(|slots| slots.clean_up(&'a'));
    assert!(masters[..2].iter_mut().all(|slots| slots.claim(&'a', "mine")));
    assert_eq!(run(start(8, read("a"), 300), &mut masters, &[1, 2]).1, Step::Wait);
    let (_, step) = run(start(8, read("a"), 400), &mut masters, &[1, 2, 0]);
    let Step::Done(Outcome::Read(holdings)) = step else { panic!("{step:?}") };
    assert_eq!(holdings[0].lease, Some("mine"));
}

fn settle_key(worker: u64, keys: &str, now_us: u64) -> (Proposer<Count>, Request<Count>) {
    start(worker, Wish::Settle(keys.chars().collect()), now_us)
}

fn accepted(masters: &Masters, key: char) -> Vec<Ballot> {
    masters.iter().map(|slots| slots.get(&key).state.accepted).collect()
}

#[test]
fn who_settles_lets_a_minority_adopt_what_a_quorum_holds() {
    let mut masters = Masters::default();
    run(start(1, count("a"), 10), &mut masters, &[0, 1]);
    assert_eq!(masters[2].get(&'a').state.value, 0);
    let (_, step) = run(settle_key(2, "a", 20), &mut masters, &[0, 1, 2]);
    assert_eq!(values(&step), [1]);
    assert!(masters.iter().all(|slots| slots.get(&'a').state.value == 1));
    let after = accepted(&masters, 'a');
    assert!(after.iter().all(|ballot| *ballot == after[0]));
}

#[test]
fn who_settles_leaves_alone_what_all_hold() {
    let mut masters = Masters::default();
    run(start(1, count("a"), 10), &mut masters, &[0, 1, 2]);
    let before = accepted(&masters, 'a');
    let (_, step) = run(settle_key(2, "a", 20), &mut masters, &[0, 1, 2]);
    assert_eq!((values(&step), accepted(&masters, 'a')), (vec![1], before));
}

#[test]
fn who_settles_ends_without_the_silent_and_waits_for_all_others() {
    let mut masters = Masters::default();
    run(start(1, count("a"), 10), &mut masters, &[0, 1]);
    let (mut settling, prepare) = settle_key(2, "a", 20);
    assert_eq!(hear(OWN_US, &mut settling, &mut masters, &[0, 1], &prepare), Step::Wait);
    let Step::Send(adopt) = settling.no_more_answers() else { panic!("two are a quorum") };
    assert_eq!(hear(OWN_US, &mut settling, &mut masters, &[0, 1], &adopt), Step::Wait);
    assert_eq!(values(&settling.no_more_answers()), [1]);
}

/// On one master the program may come to nothing because another key moves on, after it has overwritten one of two
/// copies there.
#[test]
fn a_program_on_several_keys_is_sent_where_all_hold_what_it_runs_on() {
    let mut masters = Masters::default();
    run(start(1, count("b"), 10), &mut masters, &[0, 1]);
    let (mut proposer, prepare) = start(2, count("ab"), 20);
    assert_eq!(hear(OWN_US, &mut proposer, &mut masters, &[0, 1], &prepare), Step::Wait);
    let Step::Send(adopt) = hear(OWN_US, &mut proposer, &mut masters, &[2], &prepare) else {
        panic!("all have answered");
    };
    assert_eq!(hear(OWN_US, &mut proposer, &mut masters, &[0, 1], &adopt), Step::Wait);
    let step = hear(OWN_US, &mut proposer, &mut masters, &[2], &adopt);
    assert!(matches!(step, Step::Send(Request::Apply(_))), "{step:?}");
    assert_eq!(masters[2].get(&'b').state.value, 1);
}

#[test]
fn a_program_on_several_keys_is_not_sent_around_who_was_promised_to_another() {
    let mut masters = Masters::default();
    run(start(1, count("b"), 10), &mut masters, &[0, 1]);
    let (mut proposer, prepare) = start(2, count("ab"), 20);
    let step = ask(&mut proposer, &mut masters, &[0, 1, 2], &prepare);
    let Step::Send(adopt) = step else { panic!("all have answered") };
    let (mut other, promise) = start(3, read("b"), 30);
    ask(&mut other, &mut masters, &[2], &promise);
    for order in [[0, 1, 2], [2, 1, 0]] {
        let mut proposer = proposer.clone();
        assert_eq!(ask(&mut proposer, &mut masters, &order, &adopt), Step::Pause, "{order:?}");
    }
}

/// A master out of memory, or without a mark, counts as one that is away.
#[test]
fn a_program_on_several_keys_is_sent_around_who_can_do_nothing() {
    let mut masters = Masters::default();
    run(start(1, count("b"), 10), &mut masters, &[0, 1]);
    let (mut proposer, prepare) = start(2, count("ab"), 20);
    let ballot = proposer.ballot().expect("a round");
    assert_eq!(hear(OWN_US, &mut proposer, &mut masters, &[0, 1], &prepare), Step::Wait);
    let unable = MasterAnswer::Refused(Refusal::UNTOLD);
    let step = proposer.answer(ballot, MasterId::new(2), 1, unable);
    assert!(matches!(step, Step::Send(Request::Apply(_))), "the others hold the same: {step:?}");
}

#[test]
fn a_program_on_several_keys_is_not_sent_around_who_could_do_nothing_and_promised_to_another() {
    let mut masters = Masters::default();
    run(start(1, count("b"), 10), &mut masters, &[0, 2]);
    let (mut proposer, prepare) = start(2, count("ab"), 20);
    let ballot = proposer.ballot().expect("a round");
    proposer.answer(ballot, MasterId::new(2), 1, MasterAnswer::Refused(Refusal::UNTOLD));
    let step = hear(OWN_US, &mut proposer, &mut masters, &[0, 1], &prepare);
    let Step::Send(adopt) = step else { panic!("one of two holds what was decided: {step:?}") };
    let (mut other, promise) = start(3, read("b"), 30);
    ask(&mut other, &mut masters, &[2], &promise);
    for order in [[0, 1, 2], [2, 1, 0]] {
        let mut proposer = proposer.clone();
        assert_eq!(ask(&mut proposer, &mut masters, &order, &adopt), Step::Pause, "{order:?}");
    }
}

/// A master that has promised more to another worker may hold something else, which is exactly what settling must find.
#[test]
fn who_settles_begins_again_after_any_refusal() {
    let mut masters = Masters::default();
    run(start(1, count("a"), 10), &mut masters, &[0, 1]);
    let (mut other, promise) = start(3, read("a"), 90);
    ask(&mut other, &mut masters, &[2], &promise);
    let (mut settling, prepare) = settle_key(2, "a", 20);
    assert_eq!(ask(&mut settling, &mut masters, &[0, 1, 2], &prepare), Step::Pause);
    let again = settling.again(30);
    let (_, step) = run((settling, again), &mut masters, &[2, 1, 0]);
    assert_eq!(values(&step), [1]);
    assert_eq!(masters[2].get(&'a').state.value, 1);
}

/// Settles the key with the leases of `over` taken for remains.
fn settle_without(
    over: &[&'static str],
    masters: &mut Masters,
    asked: &[usize],
) -> (Proposer<Count>, Step<Count>) {
    let highest = masters.iter().map(|slots| slots.get(&'a').promised.counter).max();
    let now_us = highest.unwrap_or_default() + 200;
    let (mut proposer, _) = start(8, Wish::Settle(vec!['a']), now_us);
    proposer.take_for_remains(Over::These(over.iter().map(|lease| ('a', *lease)).collect()));
    let again = proposer.again(now_us);
    let (mut proposer, step) = run((proposer, again), masters, asked);
    let step = if step == Step::Wait { proposer.no_more_answers() } else { step };
    match step {
        Step::Send(request) => run((proposer, request), masters, asked),
        step => (proposer, step),
    }
}

#[test]
fn what_all_masters_have_lost_is_absent() {
    let mut masters = Masters::default();
    run(start(7, count("a"), 100), &mut masters, &[0, 1, 2]);
    masters.iter_mut().for_each(|slots| slots.lose(&'a'));
    let (mut proposer, step) = run(start(8, read("a"), 200), &mut masters, &[0, 1]);
    assert_eq!(step, Step::Wait, "the third may have it");
    assert_eq!(proposer.no_more_answers(), Step::Pause);
    let again = proposer.again(300);
    assert_eq!(values(&run((proposer, again), &mut masters, &[0, 1, 2]).1), [0]);
    assert!(masters.iter().all(|slots| slots.get(&'a').state.ran().is_some()), "what ran is told");
    assert_eq!(run(start(7, count("a"), 400), &mut masters, &[0, 1, 2]).1, done(1));
}

#[test]
fn what_a_minority_ran_and_lost_does_not_keep_others_from_what_was_before() {
    for before in [0, 1] {
        let mut masters = Masters::default();
        if before == 1 {
            run(start(7, count("a"), 100), &mut masters, &[0, 1, 2]);
        }
        let (mut proposer, promise) = start(8, count("a"), 200);
        let Step::Send(apply) = ask(&mut proposer, &mut masters, &[0, 1, 2], &promise) else {
            panic!("all show the same");
        };
        execute(&mut masters[0], &apply);
        masters[0].lose(&'a');
        let (mut reader, step) = run(start(9, read("a"), 300), &mut masters, &[0, 1, 2]);
        let step = if step == Step::Wait { reader.no_more_answers() } else { step };
        assert_eq!(values(&step), [before]);
    }
}

#[test]
fn leases_that_no_quorum_has_are_removed_once_they_are_over() {
    let mut masters = Masters::default();
    for (slots, lease) in masters.iter_mut().zip(["one", "two", "three"]) {
        assert!(slots.claim(&'a', lease));
    }
    let (mut proposer, step) = settle_without(&[], &mut masters, &[0, 1, 2]);
    let minor = vec![('a', "one"), ('a', "two"), ('a', "three")];
    assert_eq!((step, proposer.minor()), (Step::Pause, Some(minor)));
    let (_, step) = settle_without(&["one", "two"], &mut masters, &[0, 1, 2]);
    assert_eq!(values(&step), [0]);
    assert_eq!([0, 1, 2].map(|at| masters[at].get(&'a').lease), [None, None, Some("three")]);
}

#[test]
fn a_lease_that_a_quorum_has_or_may_have_is_not_removed() {
    let mut masters = Masters::default();
    assert!(masters[..2].iter_mut().all(|slots| slots.claim(&'a', "mine")));
    settle_without(&["mine"], &mut masters, &[0, 1, 2]);
    assert!(masters[..2].iter().all(|slots| slots.get(&'a').lease.is_some()));
    settle_without(&["mine"], &mut masters, &[0, 2]);
    assert!(masters[0].get(&'a').lease.is_some(), "who is silent may have it, too");
}

#[test]
fn a_register_that_lives_takes_the_place_of_a_lease_that_is_over() {
    let mut masters = Masters::default();
    assert!(masters[0].claim(&'a', "left"));
    assert_eq!(run(start(7, count("a"), 100), &mut masters, &[1, 2]).1, done(1));
    let (_, step) = settle_without(&[], &mut masters, &[0, 1, 2]);
    assert_eq!((values(&step), masters[0].get(&'a').state.value), (vec![1], 0));
    let (_, step) = settle_without(&["left"], &mut masters, &[0, 1, 2]);
    let slot = masters[0].get(&'a');
    assert_eq!((values(&step), slot.state.value, slot.lease), (vec![1], 1, None));
}

/// One master adopted the value from another that has it, and then lost it.
#[test]
fn what_is_lost_as_it_was_adopted_is_brought_back_from_before() {
    let mut masters = Masters::default();
    run(start(7, count("a"), 100), &mut masters, &[0, 1, 2]);
    masters[0].lose(&'a');
    let (mut proposer, request) = start(8, read("a"), 200);
    let Step::Send(adopt) = ask(&mut proposer, &mut masters, &[0, 2], &request) else {
        panic!("one has lost it");
    };
    execute(&mut masters[1], &adopt);
    masters[1].lose(&'a');
    assert_eq!(values(&run(start(9, read("a"), 300), &mut masters, &[0, 1, 2]).1), [1]);
}

#[test]
fn what_a_master_shows_that_has_missed_a_flush_is_void_whatever_its_ballots() {
    let mut masters = Masters::default();
    assert_eq!(run(start(7, count("a"), 900), &mut masters, &[0, 1, 2]).1, done(1));
    masters[0].flush(100);
    masters[1].flush(100);
    assert_eq!(values(&run(start(8, read("a"), 950), &mut masters, &[1, 2]).1), [0]);
    assert_eq!(masters[2].last_flush(), 100, "it does the flush before it counts");
}

#[test]
fn who_settles_lets_all_do_a_flush_that_one_has_missed() {
    let mut masters = Masters::default();
    assert_eq!(run(start(7, count("a"), 900), &mut masters, &[0, 1, 2]).1, done(1));
    masters[0].flush(100);
    masters[1].flush(100);
    let settle = Wish::Settle(vec!['a']);
    assert_eq!(values(&run(start(8, settle, 950), &mut masters, &[0, 1, 2]).1), [0]);
    assert!(
        masters.iter().all(|slots| slots.last_flush() == 100 && slots.get(&'a').state.value == 0)
    );
}

#[test]
fn nobody_tells_what_became_of_a_program_from_before_a_flush() {
    for reached in 0..3 {
        let mut masters = Masters::default();
        let (mut proposer, request) = start(7, count("a"), 100);
        let Step::Send(apply) = ask(&mut proposer, &mut masters, &[0, 1], &request) else {
            panic!("both show the same");
        };
        masters[..reached].iter_mut().for_each(|slots| drop(execute(slots, &apply)));
        masters[..2].iter_mut().for_each(|slots| _ = slots.flush(50));
        let again = proposer.again(200);
        let (_, step) = run((proposer, again), &mut masters, &[0, 1]);
        assert_eq!(step, Step::Done(Outcome::NotKnown), "{reached}");
    }
}

#[test]
fn a_program_that_all_have_refused_or_never_got_runs_after_the_flush() {
    let mut masters = Masters::default();
    let (mut proposer, request) = start(7, count("a"), 100);
    let Step::Send(apply) = ask(&mut proposer, &mut masters, &[0, 1], &request) else {
        panic!("both show the same");
    };
    masters[..2].iter_mut().for_each(|slots| _ = slots.flush(50));
    let ballot = proposer.ballot().expect("a round");
    proposer.never_runs(ballot, MasterId::new(2));
    assert_eq!(ask(&mut proposer, &mut masters, &[0, 1], &apply), Step::Pause);
    let again = proposer.again(200);
    assert_eq!(run((proposer, again), &mut masters, &[0, 1]).1, done(1));
}

#[test]
fn a_promise_that_was_given_before_a_flush_is_worth_nothing_after_it() {
    let mut masters = Masters::default();
    let (mut proposer, request) = start(7, count("a"), 900);
    let Step::Send(apply) = ask(&mut proposer, &mut masters, &[0, 1], &request) else {
        panic!("both show the same");
    };
    masters[0].flush(100);
    assert!(matches!(execute(&mut masters[0], &apply), MasterAnswer::Refused(_)));
    assert!(matches!(execute(&mut masters[1], &apply), MasterAnswer::Applied(_)));
}
