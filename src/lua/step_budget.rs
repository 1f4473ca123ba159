//! Steps that a reader of scripts takes, counted in tests. No text may cost more than its length allows.
//!
//! A client's text is read before anything shows that it is Lua, on a thread that also serves other clients.

/// Counts bytes, tokens and variables that were read.
#[inline]
pub(super) fn steps(count: usize) {
    #[cfg(test)]
    counted::add(count);
    #[cfg(not(test))]
    let _ = count;
}

#[cfg(test)]
pub(super) use counted::of;

#[cfg(test)]
mod counted {
    use std::cell::Cell;

    thread_local! {
        static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn add(count: usize) {
        STEPS.set(STEPS.get() + count);
    }

    /// Returns the number of steps that `act` takes.
    pub(crate) fn of(act: impl FnOnce()) -> usize {
        let before = STEPS.get();
        act();
        STEPS.get() - before
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::of;
    use crate::acl::Users;
    use crate::decision::lease::pad::Pad;
    use crate::lua::program::{ScriptRules, Tells};
    use crate::lua::transactions::Transactions;
    use crate::lua::{Script, ScriptCache};

    /// Text that, when repeated, could make a reader of Lua read the same input several times.
    const PIECES: [&str; 41] = [
        "KEYS[",
        "KEYS[1] ",
        "local a = KEYS[1] ",
        "local a, b = KEYS[1], KEYS[",
        "redis.call('get', KEYS[1], ",
        "return redis.call(",
        "return redis.call('set', ",
        "redis.pcall('get'",
        "redis.call(",
        "(",
        ")",
        "{",
        "[",
        "[[",
        "[=",
        "[====[",
        "]====]",
        "]",
        "=",
        "--",
        "--[[",
        "--[==",
        "-",
        "'",
        "\"",
        "\\",
        "\n",
        "\r\n",
        " ",
        "local a = 1 ",
        "local b = b ",
        "a .. ",
        "not ",
        "1 - ",
        "a and b or ",
        "if a then ",
        " end ",
        "_G",
        "return function() ",
        "return load(",
        "select(",
    ];

    /// Steps for each byte. The lexer, the parser and the five scans read every byte a few times, and the scan of a
    /// transaction reads it again.
    const STEPS_PER_BYTE: usize = 100;

    /// Fixed cost of each text, however short: the proxy's own Lua around it.
    const STEPS_OF_OURS: usize = 200_000;

    fn everything_about(text: &[u8]) -> usize {
        let script_rules = ScriptRules {
            pad: Pad::new(Duration::ZERO, 0.0),
            longest: None,
            sees_all_keys: true,
            tells: Tells::NOTHING,
        };
        let users = Users::parse(["alice ~lock:* +@all"], None).unwrap();
        let guard = users.named(b"alice").unwrap().guard();
        let mut transactions = Transactions::new(script_rules);
        of(|| {
            let script: Arc<Script> = ScriptCache::new().load(Bytes::copy_from_slice(text));
            script.program(script_rules);
            script.guarded_program(script_rules, guard);
            let _ = script.commands();
            transactions.with(&[Arc::clone(&script)], None);
            transactions.with(&[script], Some(Arc::clone(guard)));
        })
    }

    fn assert_linear(text: &str) {
        let steps = everything_about(text.as_bytes());
        let most = STEPS_OF_OURS + STEPS_PER_BYTE * text.len();
        let start: String = text.chars().take(60).collect();
        assert!(steps <= most, "{steps} steps for {} bytes: {start} ...", text.len());
    }

    #[test]
    fn a_text_of_nothing_but_open_calls_is_read_again_for_each() {
        for piece in PIECES {
            for size in [4_000, 32_000] {
                assert_linear(&piece.repeat(size / piece.len()));
            }
        }
        assert_linear(&"return redis.call(".repeat(55_000));
    }

    #[test]
    fn calls_in_the_arguments_of_calls_are_read_again_for_each() {
        let calls = 2_000;
        for call in [
            "redis.call('get', KEYS[1], ",
            "redis.call('set', KEYS[1], ",
            "redis.call('mset', ",
            "redis.call('pttl', ",
        ] {
            assert_linear(&(call.repeat(calls) + &")".repeat(calls)));
        }
    }

    #[test]
    fn beyond_a_size_nothing_is_read() {
        let text = "return redis.call('get', KEYS[1]) ".repeat(30_000);
        let script = ScriptCache::new().load(Bytes::from(text.clone()));
        let steps = of(|| assert!(script.commands().is_none()));
        assert!(steps < 100, "{steps}");
        assert!(script.shape.is_none());
    }

    #[test]
    fn the_scripts_of_a_transaction_are_counted_again_for_each() {
        let script_rules = ScriptRules {
            pad: Pad::new(Duration::ZERO, 0.0),
            longest: None,
            sees_all_keys: true,
            tells: Tells::NOTHING,
        };
        let mut cache = ScriptCache::new();
        let steps = |count: usize, cache: &mut ScriptCache| {
            let scripts = (0..count).map(|at| cache.load(Bytes::from(format!("return {at}"))));
            let scripts: Vec<_> = scripts.collect();
            let mut transactions = Transactions::new(script_rules);
            of(|| _ = transactions.with(&scripts, None))
        };
        let [few, many] = [500, 8_000].map(|count| steps(count, &mut cache));
        assert!(many < 32 * few, "{few} steps for 500 scripts, {many} for 8000");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_text_costs_more_than_its_length(
            pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 1..6),
            times in 1..400_usize,
            end in proptest::sample::select(&PIECES[..]),
        ) {
            let text = pieces.concat().repeat(times) + end;
            assert_linear(&text);
        }
    }
}
