//! Hand-made histories: a checker that finds nothing in them proves nothing elsewhere.

use super::*;

const MS: Nanos = MILLISECOND;
const PX: Nanos = 1000 * MS;

#[test]
fn who_comes_after_a_lease_has_ended_overlaps_nobody() {
    let calls = [claim("a", 0, 10), claim("b", 1000, 1015), claim("c", 2000, 2020)];
    let calls = calls.to_vec();
    assert!(found(&calls, Validity::FromRequest).overlaps.is_empty());
    // The proxy promises the whole time to live from the reply on, so the second claim came too
    // early.
    let overlaps = found(&[claim("a", 0, 30), claim("b", 1000, 1015)], PROMISE).overlaps;
    assert_eq!(overlaps.len(), 1, "{overlaps:?}");
}

#[test]
fn two_leases_at_a_time_are_one_overlap() {
    for validity in [PROMISE, Validity::FromRequest, Validity::Redlock] {
        let overlaps = found(&[claim("a", 0, 10), claim("b", 900, 910)], validity).overlaps;
        assert_eq!(overlaps.len(), 1, "{overlaps:?}");
    }
}

#[test]
fn an_overlap_with_a_long_lease_is_found_behind_shorter_ones() {
    let mut long = claim("a", 0, 10);
    long.px = 10 * PX;
    let calls = [long, claim("b", 500, 510), claim("c", 8000, 8010)];
    assert_eq!(found(&calls, PROMISE).overlaps.len(), 2);
}

#[test]
fn a_second_holder_that_extends_its_lock_is_counted_once() {
    let extend = call(Operation::Extend, "b", 600, 610, Answer::Yes);
    assert_eq!(
        found(&[claim("a", 0, 10), claim("b", 500, 510), extend], PROMISE).overlaps.len(),
        1
    );
}

#[test]
fn other_keys_and_refused_or_unknown_claims_overlap_nothing() {
    let mut elsewhere = claim("b", 500, 510);
    elsewhere.key = "other".to_owned();
    let calls = [claim("a", 0, 10), elsewhere, refused(20, 30), lost("d", 40, 50)];
    assert!(found(&calls, PROMISE).overlaps.is_empty());
}

#[test]
fn a_reply_that_took_longer_than_a_vote_is_not_counted_from() {
    // The reply was in flight while its proxy stood still. The masters keep the key from the
    // request on.
    let calls = [claim("a", 0, 5000), claim("b", 4000, 4010)];
    assert!(found(&calls, PROMISE).overlaps.is_empty());
    let calls = [claim("a", 0, 900), claim("b", 1100, 1110)];
    assert_eq!(found(&calls, PROMISE).overlaps.len(), 1);
    let calls = [claim("a", 0, 900), claim("b", 1210, 1220)];
    assert!(found(&calls, PROMISE).overlaps.is_empty());
}

#[test]
fn a_release_ends_a_lease_when_it_is_asked_for() {
    let release = call(Operation::Release, "a", 500, 520, Answer::Yes);
    let calls = [claim("a", 0, 10), release.clone(), claim("b", 500, 510)];
    assert!(found(&calls, PROMISE).overlaps.is_empty());
    let calls = [claim("a", 0, 10), release, claim("b", 480, 490)];
    assert_eq!(found(&calls, PROMISE).overlaps.len(), 1);
}

#[test]
fn an_extension_makes_a_lease_longer_and_only_if_it_was_granted() {
    for (answer, overlaps) in [
        (Answer::Yes, 1),
        (Answer::No, 0),
        (Answer::Error("CLUSTERDOWN".to_owned()), 0),
        (Answer::Lost("closed".to_owned()), 0),
    ] {
        let extend = call(Operation::Extend, "a", 500, 510, answer.clone());
        let calls = [claim("a", 0, 10), extend, claim("b", 1300, 1310)];
        assert_eq!(found(&calls, PROMISE).overlaps.len(), overlaps, "{answer:?}");
    }
}

#[test]
fn a_holder_that_is_told_it_holds_nothing_has_lost_its_lock() {
    for operation in [Operation::Extend, Operation::Release] {
        let denied = call(operation, "a", 500, 510, Answer::No);
        assert_eq!(found(&[claim("a", 0, 10), denied], PROMISE).losses.len(), 1);
        let late = call(operation, "a", 990, 1020, Answer::No);
        assert!(found(&[claim("a", 0, 10), late], PROMISE).losses.is_empty());
    }
}

#[test]
fn a_free_key_that_is_refused_for_long_has_a_ghost() {
    let claims = |times: &[u64]| times.iter().map(|at| refused(*at, at + 5)).collect::<Vec<_>>();
    assert_eq!(found(&claims(&[0, 700, 1400, 2100]), PROMISE).ghosts.len(), 1);
    assert!(found(&claims(&[0, 700, 1400]), PROMISE).ghosts.is_empty());
    let held = [vec![claim("a", 600, 610)], claims(&[0, 700, 1400, 2100])].concat();
    assert!(found(&held, PROMISE).ghosts.is_empty());
    let released = call(Operation::Release, "a", 620, 630, Answer::Yes);
    let calls = [held[..1].to_vec(), vec![released], claims(&[1700, 2400, 3100, 3800])].concat();
    assert_eq!(found(&calls, PROMISE).ghosts.len(), 1);
}

#[test]
fn a_claim_without_an_answer_may_hold_its_key_until_it_would_have_expired() {
    let claims: Vec<Call> = (0..20).map(|n| refused(100 + n * 100, 105 + n * 100)).collect();
    let calls = [vec![lost("a", 0, 90)], claims].concat();
    assert!(found(&calls, PROMISE).ghosts.is_empty());
    let claims: Vec<Call> = (0..25).map(|n| refused(2600 + n * 100, 2605 + n * 100)).collect();
    let calls = [vec![lost("a", 0, 90)], claims].concat();
    assert_eq!(found(&calls, PROMISE).ghosts.len(), 1);
}

#[test]
fn replies_of_an_unexpected_kind_are_wrong() {
    let answer = |answer| vec![call(Operation::Claim, "a", 0, 10, answer)];
    for wrong in [Answer::Odd("1".to_owned()), Answer::Error("ERR no idea".to_owned())] {
        assert_eq!(found(&answer(wrong.clone()), PROMISE).wrong.len(), 1, "{wrong:?}");
    }
    for right in [Answer::Yes, Answer::No, Answer::Error("CLUSTERDOWN 1 of 3".to_owned())] {
        assert!(found(&answer(right.clone()), PROMISE).wrong.is_empty(), "{right:?}");
    }
}

#[test]
fn no_reply_is_excused_only_by_the_outage_of_the_very_proxy() {
    let outage = |server: &str, from: u64, until: u64| Outage {
        server: server.to_owned(),
        from: from * MS,
        until: until * MS,
    };
    for (outage, missing) in
        [(outage("proxy", 50, 60), 0), (outage("proxy", 200, 300), 1), (outage("other", 0, 100), 1)]
    {
        let history = History { calls: vec![lost("a", 0, 100)], outages: vec![outage] };
        let found = check(&history, rules(PROMISE));
        assert_eq!((found.missing.len(), found.excused), (missing, 1 - missing));
    }
}

#[test]
fn a_pause_is_the_longest_time_without_a_grant() {
    let calls = [claim("a", 0, 10), refused(20, 30), claim("b", 700, 710), refused(900, 950)];
    assert_eq!(found(&calls, PROMISE).pause, 700 * MS);
}

fn found(calls: &[Call], validity: Validity) -> Findings {
    check(&History { calls: calls.to_vec(), outages: Vec::new() }, rules(validity))
}

fn rules(validity: Validity) -> Rules {
    Rules { validity, pad: 0, errors: &["CLUSTERDOWN"] }
}

fn claim(token: &str, asked_ms: u64, answered_ms: u64) -> Call {
    call(Operation::Claim, token, asked_ms, answered_ms, Answer::Yes)
}

fn refused(asked_ms: u64, answered_ms: u64) -> Call {
    call(Operation::Claim, "refused", asked_ms, answered_ms, Answer::No)
}

fn lost(token: &str, asked_ms: u64, answered_ms: u64) -> Call {
    call(Operation::Claim, token, asked_ms, answered_ms, Answer::Lost("closed".to_owned()))
}

fn call(operation: Operation, token: &str, asked: u64, answered: u64, answer: Answer) -> Call {
    Call {
        client: 0,
        server: "proxy".to_owned(),
        operation,
        key: "key".to_owned(),
        token: token.to_owned(),
        px: PX,
        asked: asked * MS,
        answered: answered * MS,
        answer,
    }
}

const PROMISE: Validity = Validity::FromReply(200 * MS);
