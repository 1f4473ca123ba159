//! Operations on leases: those that continue as programs, and those that are still decided as leases.

use std::time::Duration;

use crate::decision::lease::attempt::{self, Attempt, Tag, WorkerId};
use crate::decision::quorum::{MasterId, MasterSet};
use crate::operation::claim::{self, Claim, How};
use crate::operation::release::{self, Release};
use crate::operation::{Answers, Asked, Behaviour, Kind, Operation, Received, Rules, Then};
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;
use crate::time::clock::{self, Instant};

const STAMPED: Answer<'_> = Answer::Simple(b"stamped");
const GONE: Answer<'_> = Answer::Int(1000);

fn tag() -> Tag {
    Attempt::new(WorkerId::new(1), 7).fresh()
}

/// An operation that was sent to all masters, all answered at that moment.
struct Sent {
    rules: Rules,
    operation: Operation,
    now: Instant,
}

impl Sent {
    fn of(kind: Kind) -> Self {
        Self::with(Rules::for_tests(), kind)
    }

    fn with(rules: Rules, kind: Kind) -> Self {
        let mut operation = Operation { db: 0, key: (*b"key").into(), kind };
        let now = clock::now();
        operation.ask(&rules, everybody(), now);
        Self { rules, operation, now }
    }

    fn answer(&mut self, master: usize, answer: Option<&Answer<'_>>) -> Then {
        let round = self.operation.kind.round();
        let received =
            Received { master: MasterId::new(master), round, answer, raw: b"", now: self.now };
        self.operation.received(&self.rules, received).then
    }

    /// Returns the step after the last of these answers, from the first masters of the list.
    fn answers(&mut self, answers: &[Answer<'_>]) -> Then {
        let answer = |(master, answer)| self.answer(master, Some(answer));
        answers.iter().enumerate().map(answer).last().expect("an answer")
    }

    fn deadline(&mut self) -> Then {
        self.operation.deadline(&self.rules, self.now, false).then
    }
}

fn everybody() -> Asked {
    let all = MasterSet::first(3);
    Asked { all, voters: all, patience: Duration::from_secs(2) }
}

fn deletion() -> Sent {
    Sent::of(Kind::Delete(Box::default()))
}

/// Gives back a lease that another worker granted.
fn giving_back() -> Sent {
    let replies = Answers::Usual(release::Replies::COUNTING);
    Sent::of(Kind::Release(Release::new((*b"mine").into(), replies)))
}

/// Gives back a lease that this worker granted: masters receive the delete at once.
fn giving_back_its_own() -> Sent {
    let rules = Rules::for_tests();
    let tag = rules.leases.next_attempt().fresh();
    rules.leases.remember(0, b"key", b"mine", tag);
    let replies = Answers::Usual(release::Replies::COUNTING);
    Sent::with(rules, Kind::Release(Release::new((*b"mine").into(), replies)))
}

fn claim() -> Sent {
    let replies = Answers::Usual(claim::Replies::SET);
    Sent::of(Kind::Claim(Claim::new((*b"mine").into(), 1000, How::IfFree, replies)))
}

#[track_caller]
fn assert_reply(then: Then, expected: &Reply) {
    assert!(matches!(&then, Then::Reply(reply, _) if reply == expected), "{then:?}");
}

#[track_caller]
fn assert_otherwise(then: Then) {
    assert!(matches!(then, Then::Otherwise), "{then:?}");
}

#[test]
fn what_a_quorum_has_stamped_is_no_lease() {
    for mut sent in [deletion(), giving_back(), giving_back_its_own()] {
        assert_otherwise(sent.answers(&[STAMPED, STAMPED]));
    }
}

#[test]
fn what_one_has_stamped_and_others_delete_is_one() {
    let header = attempt::header(tag());
    let held = Answer::Bulk(&header);
    for mut sent in [deletion(), giving_back()] {
        assert!(matches!(sent.answers(&[STAMPED, held, held]), Then::Tell(_)));
        sent.answer(1, Some(&GONE));
        assert_reply(sent.answer(2, Some(&GONE)), &Reply::Int(1));
    }
    for mut sent in [deletion(), giving_back()] {
        sent.answers(&[held, held, held]);
        sent.answers(&[GONE, STAMPED]);
        assert_reply(sent.answer(2, Some(&GONE)), &Reply::Int(1));
    }
    let mut own = giving_back_its_own();
    assert_reply(own.answers(&[STAMPED, GONE, GONE]), &Reply::Int(1));
}

#[test]
fn a_lease_that_one_master_shows_beside_a_stamp_is_left_alone() {
    let header = attempt::header(tag());
    for mut sent in [deletion(), giving_back()] {
        sent.answers(&[STAMPED, Answer::Bulk(&header)]);
        assert_otherwise(sent.answer(2, None));
    }
}

/// Others have meanwhile made it a register: one deleted copy does not prove that it is gone.
#[test]
fn what_was_deleted_on_one_master_alone_may_live_on_as_a_register() {
    let header = attempt::header(tag());
    let held = Answer::Bulk(&header);
    for mut sent in [deletion(), giving_back()] {
        assert!(matches!(sent.answers(&[held, held]), Then::Tell(_)));
        sent.answer(2, Some(&held));
        for (master, answer) in [(0, GONE), (1, STAMPED)] {
            assert!(matches!(sent.answer(master, Some(&answer)), Then::Wait));
        }
        assert_otherwise(sent.answer(2, Some(&STAMPED)));
    }
    let mut own = giving_back_its_own();
    assert!(matches!(own.answers(&[GONE, STAMPED]), Then::Wait));
    assert_otherwise(own.answer(2, Some(&STAMPED)));
}

#[test]
fn who_is_silent_is_not_waited_for_to_decide_about_a_lease() {
    for mut sent in [deletion(), giving_back(), giving_back_its_own()] {
        assert!(matches!(sent.answers(&[STAMPED]), Then::Wait));
        assert_otherwise(sent.deadline());
        assert!(matches!(deletion().deadline(), Then::Wait), "nobody has said anything");
    }
}

#[test]
fn a_claim_is_refused_by_leases_and_goes_on_beside_anything_else() {
    let tagged = attempt::encode(tag(), b"yours");
    let (lease, value) = (Answer::Bulk(&tagged), Answer::Bulk(b"value"));
    let other = Answer::Error(b"WRONGTYPE Operation against a key");
    assert_reply(claim().answers(&[lease, lease]), &Reply::Nil);
    for refused in [[value, value], [lease, value], [other, lease]] {
        assert_otherwise(claim().answers(&refused));
    }
    assert_reply(claim().answers(&[value, Answer::Nil, Answer::Nil]), &Reply::OK);
    let mut split = claim();
    assert!(matches!(split.answers(&[value, Answer::Nil]), Then::Wait));
    assert_otherwise(split.answer(2, Some(&lease)));
}

/// Late answers to the previous operation must not count for the program, which sends its own requests.
#[test]
fn a_program_has_other_rounds_than_what_it_is_run_instead_of() {
    for mut sent in [deletion(), giving_back(), claim()] {
        let before = sent.operation.kind.round();
        sent.operation.go_on_as_program(&sent.rules, 7);
        assert_eq!(sent.operation.kind.turns(), [7]);
        let unsent = sent.operation.kind.round();
        sent.operation.ask(&sent.rules, everybody(), sent.now);
        let rounds = [before, unsent, sent.operation.kind.round()];
        assert!(rounds.is_sorted_by(|one, next| one < next), "{rounds:?}");
    }
}
