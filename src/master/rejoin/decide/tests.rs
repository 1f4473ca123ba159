use super::*;

const SLACK_MS: i64 = 50;
const REACH_MS: i64 = 500;

/// `token`, `token@ttl` (10,000 by default, `@-1` for ever), `{hash}`, or nothing. The end is reckoned from a clock
/// that says 0 at the first look and 100 at the second.
fn state(text: &str, at_ms: i64) -> State {
    if text.is_empty() {
        return State { ttl_ms: -2, ends_at_ms: -2, ..State::default() };
    }
    let (token, ttl_ms) = text.split_once('@').unwrap_or((text, "10000"));
    let ttl_ms: i64 = ttl_ms.parse().expect("a TTL");
    let ends_at_ms = if ttl_ms < 0 { -1 } else { at_ms + ttl_ms };
    State { digest: token.into(), ttl_ms, ends_at_ms, is_string: !token.starts_with('{') }
}

fn terms(others: usize) -> Terms {
    // Of three masters one holds a lock that had counted the lost vote; of five, two.
    let (least_holders, quorum) = (others / 2, others / 2 + 1);
    let (slack_ms, reach_ms) = (SLACK_MS, REACH_MS);
    Terms { least_holders, quorum, slack_ms, reach_ms, is_restless: false, is_alone: false }
}

fn decided(before: &[&str], now: &[&str], terms: Terms, copied: Option<&str>) -> Move {
    let (before, now) = looks(before, now);
    decide(&before, &now, terms, copied.map(str::as_bytes))
}

/// The master that has forgotten comes first, then the others.
fn after(before: &[&str], now: &[&str]) -> Move {
    decided(before, now, terms(now.len() - 1), None)
}

fn looks(before: &[&str], now: &[&str]) -> (Look, Look) {
    let look = |texts: &[&str], at_ms| Look {
        ours: state(texts[0], at_ms),
        theirs: texts[1..].iter().map(|text| state(text, at_ms)).collect(),
    };
    (look(before, 0), look(now, 100))
}

fn copy(source: usize, ttl_ms: i64) -> Move {
    Move::Copy { source, ttl_ms }
}

#[test]
fn a_lock_that_stays_is_copied_with_the_longest_time_that_anybody_keeps_it() {
    assert_eq!(after(&["", "a@900", "a@500"], &["", "a@800", "a@400"]), copy(0, 800));
    assert_eq!(after(&["", "", "a"], &["", "", "a@9900"]), copy(1, 9900));
    assert_eq!(after(&["", "a@900", "a@-1"], &["", "a@800", "a@-1"]), copy(0, -1));
    assert_eq!(after(&["", "{a}", "{a}"], &["", "{a}", "{a}"]), copy(0, 10_000));
    assert_eq!(after(&["", "{a}@900", ""], &["", "{a}@800", ""]), copy(0, 800));
}

#[test]
fn a_claim_on_its_way_is_not_copied_in_the_place_of_the_lock() {
    assert_eq!(after(&["", "a@900", ""], &["", "a@800", "b@10000"]), copy(0, 800));
    assert_eq!(after(&["", "a@900", "b@9000"], &["", "a@800", "c@10000"]), copy(0, 800));
}

#[test]
fn a_claim_that_is_tried_again_and_again_is_no_lock() {
    assert_eq!(after(&["", "a@900", "b@10000"], &["", "a@800", "b@10000"]), copy(0, 800));
    let taken_back = after(&["", "a@900", "b@10000"], &["", "a@820", "b@10000"]);
    assert_eq!(taken_back, copy(0, 820));
    let prolonged = after(&["", "a@900", ""], &["", "a@10000", ""]);
    assert_eq!(prolonged, Move::LookAgain);
}

#[test]
fn what_a_quorum_of_the_others_holds_keeps_nobody_waiting() {
    assert_eq!(after(&["", "a@990", "a@990"], &["", "a@1000", "a@1000"]), copy(0, 1000));
    let (before, now) = (["", "a", "a"], ["b@9800", "b", "b"]);
    assert_eq!(after(&before, &now), Move::LookAgain);
    let restless = Terms { is_restless: true, ..terms(2) };
    assert_eq!(decided(&before, &now, restless, None), Move::Settled);
}

#[test]
fn what_the_master_holds_counts_only_if_it_stays() {
    let steady = after(&["a@900", "a@900", ""], &["a@800", "a@800", ""]);
    assert_eq!(steady, Move::Settled);
    let claim_with_an_equal_token = after(&["", "a@900", ""], &["a@1000", "a@800", "a@1000"]);
    assert_eq!(claim_with_an_equal_token, Move::LookAgain);
    let another = after(&["a@990", "a@900", ""], &["a@1000", "a@800", ""]);
    assert_eq!(another, Move::LookAgain);
    let both = after(&["a@1000", "a@900", "a@1000"], &["a@1000", "a@800", "a@1000"]);
    assert_eq!(both, Move::LookAgain);
    let much_older = after(&["", "a@900", ""], &["a@10000", "a@800", "a@10000"]);
    assert_eq!(much_older, Move::LookAgain, "another proxy may have prolonged it a moment ago");
    let looks = (["", "a@900", ""], ["a@10000", "a@800", "a@10000"]);
    let alone = Terms { is_alone: true, ..terms(2) };
    assert_eq!(decided(&looks.0, &looks.1, alone, None), copy(0, 800), "the rollback spares it");
    let short = after(&["", "a@900", "a@10000"], &["", "a@800", "a@10000"]);
    assert_eq!(short, copy(0, 800), "or the rollback of the claim would hit it");
    let shorter = after(&["a@300", "a@900", ""], &["a@200", "a@800", ""]);
    assert_eq!(shorter, copy(0, 800));
}

#[test]
fn a_lock_that_is_prolonged_everywhere_is_settled() {
    assert_eq!(after(&["a@990", "a@1000", ""], &["a@995", "a@1000", ""]), Move::Settled);
}

#[test]
fn what_is_left_on_the_master_gives_way() {
    assert_eq!(after(&["b@900", "a@900", ""], &["b@800", "a@800", ""]), copy(0, 800));
    assert_eq!(after(&["b@900", "a@900", ""], &["c@10000", "a@800", ""]), copy(0, 800));
}

#[test]
fn nobody_finds_the_rest_of_a_claim_in_the_place_of_a_lock() {
    assert_eq!(after(&["", "a", "b"], &["", "a@9900", "b@9900"]), Move::LookAgain);
    let stay = |states: &[&str]| after(states, states);
    assert_eq!(stay(&["", "a@-1", "b@-1", "b@-1", "a@-1"]), Move::LookAgain);
    assert_eq!(stay(&["", "a@-1", "b@-1", "b@-1", ""]), copy(1, -1));
    assert_eq!(stay(&["", "a@-1", "b@-1", "", ""]), Move::Settled);
}

#[test]
fn masters_have_to_agree_on_a_hash() {
    assert_eq!(after(&["", "{a}", "{b}"], &["", "{a}", "{b}"]), Move::LookAgain);
    assert_eq!(after(&["", "{a}", "b"], &["", "{a}", "b"]), Move::LookAgain);
    assert_eq!(after(&["", "{a}", ""], &["", "{b}", ""]), Move::LookAgain);
    assert_eq!(after(&["{a}", "{a}", "{a}"], &["{b}", "{b}", "{b}"]), Move::Settled);
}

#[test]
fn a_key_that_changes_hands_all_the_time_has_no_old_lock() {
    assert_eq!(after(&["a", "a", "a"], &["b", "b", "b"]), Move::Settled);
    let (before, now) = (["", "1", ""], ["", "2", ""]);
    assert_eq!(after(&before, &now), Move::LookAgain);
    let restless = Terms { is_restless: true, ..terms(2) };
    assert_eq!(decided(&before, &now, restless, None), Move::Settled);
}

#[test]
fn a_ghost_is_forgotten_once_nobody_else_has_held_it_for_a_while() {
    let gone = |before, now| decided(before, now, terms(2), Some("a"));
    assert_eq!(gone(&["a", "", ""], &["a", "", ""]), Move::Forget);
    assert_eq!(gone(&["a", "a", ""], &["a", "", ""]), Move::LookAgain);
    assert_eq!(gone(&["b", "", ""], &["b", "", ""]), Move::Settled);
    assert_eq!(after(&["a", "", ""], &["a", "", ""]), Move::Settled, "it was not copied");
}

#[test]
fn only_what_everybody_holds_all_the_time_needs_no_other_look() {
    let is_done = |before: &[&str], now: &[&str]| {
        let (before, now) = looks(before, now);
        is_everywhere(&before, &now, terms(now.theirs.len()))
    };
    assert!(is_done(&["a@900", "a@900", "a@500"], &["a@800", "a@800", "a@400"]));
    assert!(is_done(&["{a}@-1", "{a}@-1", "{a}@-1"], &["{a}@-1", "{a}@-1", "{a}@-1"]));
    for (before, now) in [
        (["a", "a", ""], ["a@9900", "a@9900", ""]),
        (["", "", ""], ["", "", ""]),
        (["", "a@900", "a@900"], ["a@800", "a@800", "a@800"]),
        (["a@900", "a@900", "a@900"], ["a@1000", "a@800", "a@1000"]),
        (["a@900", "a@900", "b@900"], ["a@800", "a@800", "b@800"]),
    ] {
        assert!(!is_done(&before, &now), "{before:?} {now:?}");
    }
}

/// Whether `a` may take the place of what is here, with 800 ms to live.
fn may_replace_by_a(before: &[&str], now: &[&str], here: &str) -> bool {
    let (before, now) = looks(before, now);
    may_replace(&before, &now, &state(here, 100), WISHED, terms(now.theirs.len()))
}

const WISHED: Wished<'_> = Wished { digest: b"a", ttl_ms: 800 };

#[test]
fn what_was_granted_with_the_vote_of_the_master_a_moment_ago_is_not_replaced() {
    let (before, now) = (["", "a@900", "a@900"], ["b", "a@800", "b"]);
    assert!(!may_replace_by_a(&before, &now, "b"), "b stands on two of three");
    assert!(
        !may_replace_by_a(&before, &["b", "a@800", ""], "b"),
        "its other yes may be on its way"
    );
    assert!(!may_replace_by_a(&before, &["", "a@800", ""], "b"), "it has come after the looks");
    assert!(may_replace_by_a(&before, &now, ""), "it is not here any more");
}

#[test]
fn what_stays_and_stands_on_too_few_is_replaced() {
    let rest = (["b@900", "a@900", ""], ["b@800", "a@800", ""]);
    assert!(may_replace_by_a(&rest.0, &rest.1, "b@800"));
    assert!(!may_replace_by_a(&rest.0, &rest.1, "b@10000"), "it is another one by now");
    assert!(!may_replace_by_a(&["b@900", "a@900", "b@900"], &["b@800", "a@800", "b@800"], "b@800"));
    let of_five = ["b@800", "a@800", "a@800", "b@800", ""];
    let before = ["b@900", "a@900", "a@900", "b@900", ""];
    assert!(may_replace_by_a(&before, &of_five, "b@800"), "two of five");
    let of_five = ["b@800", "a@800", "a@800", "b@800", "b@800"];
    let before = ["b@900", "a@900", "a@900", "b@900", "b@900"];
    assert!(!may_replace_by_a(&before, &of_five, "b@800"), "three of five");
}

#[test]
fn an_equal_value_is_prolonged_and_never_shortened() {
    let looks = (["a@300", "a@900", ""], ["a@200", "a@800", ""]);
    assert!(may_replace_by_a(&looks.0, &looks.1, "a@200"));
    assert!(!may_replace_by_a(&looks.0, &looks.1, "a@10000"));
    assert!(!may_replace_by_a(&looks.0, &looks.1, "a@-1"));
}

#[test]
fn a_proxy_that_is_alone_replaces_what_nobody_has_counted() {
    let alone = Terms { is_alone: true, ..terms(2) };
    let (before, now) = looks(&["", "a@900", ""], &["b", "a@800", "b"]);
    for here in ["b", "c", "a@10000", ""] {
        assert!(may_replace(&before, &now, &state(here, 100), WISHED, alone), "{here}");
    }
    let not_told_apart = state("a@900", 100);
    assert!(
        !may_replace(&before, &now, &not_told_apart, WISHED, alone),
        "its rollback would hit it"
    );
}
