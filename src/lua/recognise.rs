//! Recognition of a script's shape from its effects in every state of the key.

use super::effects::{Effect, Holder, LockState, Outcome, Questions, World, run};
use super::meaning::{Arg, Create, LockMeaning, Own, Prolong};
use super::syntax::{Block, parse};

/// Returns the meaning of a lock script, if it has exactly one of the known shapes.
pub fn recognise(text: &[u8]) -> Option<LockMeaning> {
    if text.len() > MAX_TEXT_BYTES {
        return None;
    }
    let script = parse(text)?;
    Study::new(&script)?.shape()
}

/// Comparisons of a script, and its outcomes.
struct Study {
    questions: Questions,
    missing: Outcome,
    /// Outcome if the key is missing and the guard does not hold.
    missing_unguarded: Outcome,
    ours: Outcome,
    theirs: Outcome,
}

impl Study {
    fn new(script: &Block) -> Option<Study> {
        let mut questions = Questions::default();
        let mut outcome = |key, guard| run(script, World { key, guard }, &mut questions);
        let missing = outcome(LockState::Missing, true)?;
        let missing_unguarded = outcome(LockState::Missing, false)?;
        let ours = outcome(LockState::Ours, true)?;
        let theirs = outcome(LockState::Theirs, true)?;
        let indifferent = outcome(LockState::Ours, false)? == ours
            && outcome(LockState::Theirs, false)? == theirs;
        indifferent.then_some(Study { questions, missing, missing_unguarded, ours, theirs })
    }

    /// Returns the shape. No shape touches a key that another client holds.
    fn shape(self) -> Option<LockMeaning> {
        if self.theirs.effect != Effect::Nothing {
            return None;
        }
        match (self.missing.effect, self.ours.effect) {
            (Effect::Nothing, Effect::Deleted) => self.release(),
            (Effect::Nothing, Effect::Prolonged { .. } | Effect::Written { .. }) => self.extend(),
            (Effect::Written { token, ttl }, Effect::Nothing) => self.claim(token, ttl),
            (Effect::Written { token, ttl }, Effect::Prolonged { .. } | Effect::Written { .. }) => {
                self.acquire(token, ttl)
            }
            _ => None,
        }
    }

    fn release(self) -> Option<LockMeaning> {
        let token = self.sole_token()?;
        self.parts(token, None, None)?;
        Some(LockMeaning::Release {
            token,
            deleted: self.ours.answer,
            missing: self.missing.answer,
            other: self.theirs.answer,
        })
    }

    fn extend(self) -> Option<LockMeaning> {
        let token = self.sole_token()?;
        let (how, ttl) = prolongation(self.ours.effect, token)?;
        self.parts(token, Some(ttl), None)?;
        Some(LockMeaning::Extend {
            token,
            ttl,
            how,
            extended: self.ours.answer,
            missing: self.missing.answer,
            other: self.theirs.answer,
        })
    }

    fn claim(self, token: Arg, ttl: Arg) -> Option<LockMeaning> {
        self.parts(token, Some(ttl), None)?;
        let unconditional = self.questions.holder.is_none() && self.questions.guard.is_none();
        (unconditional && self.ours == self.theirs).then_some(LockMeaning::Claim {
            token,
            ttl,
            granted: self.missing.answer,
            refused: self.theirs.answer,
        })
    }

    fn acquire(self, token: Arg, ttl: Arg) -> Option<LockMeaning> {
        let own = self.own(token)?;
        let create = self.create()?;
        let (how, _) = prolongation(self.ours.effect, token)?;
        self.parts(token, Some(ttl), own.arg())?;
        // `PEXPIRE` would leave the old value, of which only the beginning is the caller's.
        let same_value_after = own == Own::SameToken || how == Prolong::SetPx;
        same_value_after.then_some(LockMeaning::Acquire {
            token,
            ttl,
            how,
            create,
            own,
            created: self.missing.answer,
            extended: self.ours.answer,
            refused: self.theirs.answer,
        })
    }

    /// Makes sure that the script uses its arguments for these roles and no others, and each for one only. So every
    /// argument whose absence or form could stop the script is in the shape.
    fn parts(&self, token: Arg, ttl: Option<Arg>, length: Option<Arg>) -> Option<()> {
        let Questions {
            token: used_as_token, ttl: used_as_ttl, length: used_as_length, guard, ..
        } = &self.questions;
        let no_others = used_as_token.is_none_or(|used| used == token)
            && *used_as_ttl == ttl
            && *used_as_length == length;
        let guard = guard.as_ref().map(|guard| guard.arg);
        let args: Vec<_> = [Some(token), ttl, length, guard].into_iter().flatten().collect();
        let repeated = args.iter().enumerate().any(|(at, arg)| args[..at].contains(arg));
        (no_others && !repeated).then_some(())
    }

    /// Returns the token of a script that compares nothing else.
    fn sole_token(&self) -> Option<Arg> {
        match (self.questions.holder?, &self.questions.guard) {
            (Holder::Token(token), None) => Some(token),
            _ => None,
        }
    }

    fn own(&self, written: Arg) -> Option<Own> {
        match self.questions.holder? {
            Holder::Token(token) => (token == written).then_some(Own::SameToken),
            Holder::Prefix { token, length } => {
                (token == written).then_some(Own::SamePrefix { length })
            }
        }
    }

    /// If there is a guard, it must decide between taking the key and refusing.
    fn create(&self) -> Option<Create> {
        match &self.questions.guard {
            None => Some(Create::Always),
            Some(guard) => (self.missing_unguarded == self.theirs)
                .then(|| Create::IfArg { arg: guard.arg, equals: guard.equals.clone() }),
        }
    }
}

/// Returns how the caller's own key is prolonged, if it still holds the caller's token afterwards.
fn prolongation(effect: Effect, token: Arg) -> Option<(Prolong, Arg)> {
    match effect {
        Effect::Prolonged { ttl } => Some((Prolong::Pexpire, ttl)),
        Effect::Written { token: written, ttl } => {
            (written == token).then_some((Prolong::SetPx, ttl))
        }
        Effect::Nothing | Effect::Deleted => None,
    }
}

/// Maximum length of a text to read. The longest script of a known shape has 294 bytes; this leaves room for comments.
const MAX_TEXT_BYTES: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lua::known_scripts::{self, Known};
    use crate::lua::meaning::ScriptValue;

    fn arg(index: i64) -> Arg {
        Arg::from_lua(index).unwrap()
    }

    fn release(deleted: ScriptValue, missing: ScriptValue, other: ScriptValue) -> LockMeaning {
        LockMeaning::Release { token: arg(1), deleted, missing, other }
    }

    fn extend(how: Prolong, extended: ScriptValue, refused: ScriptValue) -> LockMeaning {
        LockMeaning::Extend {
            token: arg(1),
            ttl: arg(2),
            how,
            extended,
            missing: refused.clone(),
            other: refused,
        }
    }

    fn acquire(
        how: Prolong,
        created: ScriptValue,
        extended: ScriptValue,
        refused: ScriptValue,
    ) -> LockMeaning {
        let (create, own) = (Create::Always, Own::SameToken);
        LockMeaning::Acquire {
            token: arg(1),
            ttl: arg(2),
            how,
            create,
            own,
            created,
            extended,
            refused,
        }
    }

    fn acquire_if_told() -> LockMeaning {
        let mut shape = acquire(Prolong::SetPx, ScriptValue::Ok, ScriptValue::Ok, ScriptValue::Nil);
        if let LockMeaning::Acquire { create, .. } = &mut shape {
            *create = Create::IfArg { arg: arg(3), equals: b"yes".to_vec() };
        }
        shape
    }

    fn acquire_by_prefix() -> LockMeaning {
        let mut shape = acquire(Prolong::SetPx, ScriptValue::Ok, ScriptValue::Ok, ScriptValue::Nil);
        if let LockMeaning::Acquire { own, ttl, .. } = &mut shape {
            *own = Own::SamePrefix { length: arg(2) };
            *ttl = arg(3);
        }
        shape
    }

    /// Returns every known script with its shape.
    fn expected() -> Vec<(&'static Known, LockMeaning)> {
        use Prolong::{Pexpire, SetPx};
        use ScriptValue::{Int, Nil, Ok};
        let error = || ScriptValue::Error("ERR ERROR".to_owned());
        let claim = LockMeaning::Claim { token: arg(1), ttl: arg(2), granted: Ok, refused: Nil };
        let groups = [
            (known_scripts::RELEASES, release(Int(1), Int(0), Int(0))),
            (known_scripts::RELEASES_THAT_TELL_MISSING, release(Int(1), Int(-1), Int(0))),
            (known_scripts::RELEASES_WITH_ERRORS, release(Int(1), Ok, error())),
            (known_scripts::RELEASES_IN_BOOLEANS, release(Int(1), Nil, Nil)),
            (known_scripts::EXTENDS, extend(Pexpire, Int(1), Int(0))),
            (known_scripts::EXTENDS_IN_BOOLEANS, extend(Pexpire, Int(1), Nil)),
            (known_scripts::EXTENDS_BY_SET, extend(SetPx, Int(1), Int(0))),
            (known_scripts::CLAIMS, claim),
            (known_scripts::ACQUIRES, acquire(Pexpire, Int(1), Int(1), Int(0))),
            (known_scripts::ACQUIRES_THAT_TELL_CONFLICT, acquire(Pexpire, Int(1), Int(1), Int(-1))),
            (known_scripts::ACQUIRES_IN_BOOLEANS, acquire(Pexpire, Int(1), Int(1), Nil)),
            (known_scripts::ACQUIRES_WITH_ERRORS, acquire(SetPx, Ok, Ok, error())),
            (known_scripts::ACQUIRES_IF_TOLD, acquire_if_told()),
            (known_scripts::ACQUIRES_BY_PREFIX, acquire_by_prefix()),
            (
                known_scripts::ACQUIRES_IN_BULKS,
                acquire(SetPx, Ok, ScriptValue::Bulk("OK".to_owned()), Nil),
            ),
        ];
        groups
            .into_iter()
            .flat_map(|(texts, shape)| texts.iter().map(move |known| (known, shape.clone())))
            .collect()
    }

    fn sha1(text: &str) -> String {
        sha1_smol::Sha1::from(text).hexdigest()
    }

    #[test]
    fn every_known_script_has_its_shape() {
        for (known, shape) in expected() {
            assert_eq!(sha1(known.text), known.sha1, "{}", known.library);
            assert_eq!(recognise(known.text.as_bytes()), Some(shape), "{}", known.library);
        }
    }

    #[test]
    fn builds_with_crlf_have_the_same_shape() {
        for (known, shape) in expected() {
            let text = known.text.replace('\n', "\r\n");
            if let Some(sha) = known.sha1_crlf {
                assert_eq!(sha1(&text), sha, "{}", known.library);
            }
            assert_eq!(recognise(text.as_bytes()), Some(shape), "{}", known.library);
        }
    }

    #[test]
    fn the_way_it_is_put_does_not_matter() {
        let same = [
            "return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1]) or 0",
            "if ARGV[1] == redis.call([[GET]], (KEYS[1])) then return (redis.call('unlink', KEYS[1])); end; return 0;",
            "local key = KEYS[1] local mine = ARGV[1]
             if redis.call('get', key) ~= mine then return 0 end return redis.call('del', key)",
            "if redis.call('exists', KEYS[1]) == 0 then return 0 end
             if not (redis.call('get', KEYS[1]) == ARGV[1]) then return 0 else redis.call('del', KEYS[1]) return 1 end",
            "local held = redis.call('get', KEYS[1])
             if held then if held == ARGV[1] then redis.call('del', KEYS[1]) local held = 1 return held end end return 0",
        ];
        for text in same {
            let expected = release(ScriptValue::Int(1), ScriptValue::Int(0), ScriptValue::Int(0));
            assert_eq!(recognise(text.as_bytes()), Some(expected), "{text}");
        }
    }

    #[test]
    fn arguments_are_told_apart() {
        let text = "if redis.call('get', KEYS[1]) == ARGV[3] then return redis.call('pexpire', KEYS[1], ARGV[2]) end";
        let Some(LockMeaning::Extend { token, ttl, .. }) = recognise(text.as_bytes()) else {
            panic!("not an extend")
        };
        assert_eq!((token.position(), ttl.position()), (2, 1));
        let counts = [
            known_scripts::RELEASES,
            known_scripts::EXTENDS,
            known_scripts::ACQUIRES_IF_TOLD,
            known_scripts::ACQUIRES_BY_PREFIX,
        ];
        let counts = counts.map(|group| recognise(group[0].text.as_bytes()).unwrap().arguments());
        assert_eq!(counts, [1, 2, 3, 3]);
    }

    /// Texts that would lose a lock, or reply wrongly, if they were taken for one of the shapes.
    const NEAR_MISSES: &[&str] = &[
        "",
        "return 1",
        "return redis.call('get', KEYS[1])",
        "return redis.call('del', KEYS[1])",
        "return redis.call('pexpire', KEYS[1], ARGV[2])",
        "return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])",
        "return redis.call('set', KEYS[1], ARGV[1], 'NX')",
        "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2])",
        "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2], 'GET')",
        "return redis.call('set', KEYS[1], ARGV[1], 'XX', 'PX', ARGV[2])",
        "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[1])",
        "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 30000)",
        "return redis.call('set', ARGV[1], KEYS[1], 'NX', 'PX', ARGV[2])",
        "if redis.call('get', KEYS[1]) ~= ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
        "if redis.call('get', KEYS[2]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[2]) else return 0 end",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', ARGV[2]) else return 0 end",
        "if redis.call('get', ARGV[1]) == ARGV[2] then return redis.call('del', ARGV[1]) end return 0",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1], KEYS[1]) else return 0 end",
        "if redis.call('get', KEYS[1]) == 'me' then return redis.call('del', KEYS[1]) else return 0 end",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return redis.call('del', KEYS[1]) end",
        "if redis.call('get', KEYS[1]) then return redis.call('del', KEYS[1]) else return 0 end",
        "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) return redis.call('del', KEYS[1]) end return 0",
        "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) return redis.call('get', KEYS[1]) end return 0",
        "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('publish', ARGV[2], '') return redis.call('del', KEYS[1]) end return 0",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else redis.call('incr', KEYS[1]) end",
        "if redis.call('get', KEYS[1]) == ARGV[1] or redis.call('get', KEYS[1]) == ARGV[2] then return redis.call('del', KEYS[1]) end",
        "if redis.call('get', KEYS[1]) == ARGV[1] and ARGV[2] then return redis.call('del', KEYS[1]) end",
        "if redis.call('get', KEYS[1]) == ARGV[1] and ARGV[2] == 'yes' then return redis.call('del', KEYS[1]) end",
        "if redis.pcall('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end end",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del, KEYS[1]) else return 0 end",
        "if redis.call('get\0', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
        "if redis.call('get\\0', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end --[[",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return KEYS[1] end",
        "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) return ARGV[1] end",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[1]) end",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2], 'NX') end",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('expire', KEYS[1], ARGV[2]) end",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('set', KEYS[1], ARGV[3], 'PX', ARGV[2]) end",
        "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end return redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[3], 'NX')",
        // If the caller already holds the key, this succeeds without prolonging it. No shape does that.
        "if redis.call('get', KEYS[1]) == ARGV[1] then return 1 elseif redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end return 0",
        "local v = redis.call('get', KEYS[1]) if v == nil or v == ARGV[1] then redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return v end",
        // `GET` of a missing key is false in Lua, and false is not nil: these never take a free key, and the last one
        // takes a held one.
        "if redis.call('get', KEYS[1]) == nil then redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1 end return 0",
        "if redis.call('get', KEYS[1]) ~= nil then redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1 end return 0",
        "local v = redis.call('get', KEYS[1]) if not v then return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) elseif v == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[3]) end",
        "local v = redis.call('get', KEYS[1]) if not v then return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) elseif v == ARGV[3] then return redis.call('pexpire', KEYS[1], ARGV[2]) end",
        "local v = redis.call('get', KEYS[1]) if not v then return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) elseif v == ARGV[1] then return redis.call('del', KEYS[1]) end",
        "local n = tonumber(ARGV[2]) if redis.call('getrange', KEYS[1], 0, n-1) == string.sub(ARGV[1], 1, n) then return redis.call('del', KEYS[1]) end",
        "local n = tonumber(ARGV[2]) if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[3]) then return 1 end
         if redis.call('getrange', KEYS[1], 0, n-1) == string.sub(ARGV[1], 1, n) then return redis.call('pexpire', KEYS[1], ARGV[3]) end",
        "local n = tonumber(ARGV[2]) if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[3]) then return 1 end
         if redis.call('getrange', KEYS[1], 0, n) == string.sub(ARGV[1], 1, n) then return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[3]) end",
        "if (redis.call('exists', KEYS[1]) == 0 and ARGV[3] ~= 'yes') or redis.call('get', KEYS[1]) == ARGV[1] and ARGV[4] == 'x' then return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) end",
        // A command without effect still fails on a bad TTL, or on a missing argument.
        "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) return redis.call('del', KEYS[1]) end return 0",
        "if redis.call('exists', KEYS[1]) == 0 then return redis.call('pexpire', KEYS[1], ARGV[2]) elseif redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
        "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[3], 'NX', 'PX', ARGV[2]) return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0",
        "local n = tonumber(ARGV[2]) - 1 if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
        // Lua 5.1 has no empty statement.
        "; if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end",
        "#!lua name=x\nif redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end",
    ];

    #[test]
    fn near_misses_have_no_shape() {
        for text in NEAR_MISSES {
            assert_eq!(recognise(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_not_looked_at() {
        let padded = |bytes: usize| {
            let text = known_scripts::RELEASES[0].text;
            format!("{text}{}", " ".repeat(bytes - text.len()))
        };
        assert!(recognise(padded(MAX_TEXT_BYTES).as_bytes()).is_some());
        assert!(recognise(padded(MAX_TEXT_BYTES + 1).as_bytes()).is_none());
    }

    /// Returns the words and signs of a text. None of the known ones has blanks or comments inside a string.
    fn pieces(text: &str) -> Vec<&str> {
        let mut pieces = Vec::new();
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = match first {
                '\'' | '"' => rest[1..].find(first).unwrap() + 2,
                'a'..='z' | 'A'..='Z' => rest
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .unwrap_or(rest.len()),
                '=' | '~' if rest[1..].starts_with('=') => 2,
                _ => 1,
            };
            pieces.push(&rest[..length]);
            rest = rest[length..].trim_start();
        }
        pieces
    }

    /// Returns the same script in another spelling, chosen by `dice`.
    fn dressed(text: &str, dice: &[u8]) -> String {
        let mut dice = dice.iter().copied().cycle();
        let mut dressed = String::new();
        for piece in pieces(text) {
            let die = dice.next().unwrap();
            dressed.push_str(BLANKS[usize::from(die) % BLANKS.len()]);
            match piece {
                "end" => dressed.push_str(if die < 128 { "end;" } else { "end" }),
                _ if piece.starts_with(['\'', '"']) => {
                    dressed.push_str(&requoted(&piece[1..piece.len() - 1], die))
                }
                "token" | "val" | "identifier" | "lockClientId" | "currentVal" | "offset" => {
                    dressed.push_str("renamed")
                }
                _ => dressed.push_str(piece),
            }
        }
        dressed
    }

    /// Changes the letter case of words for Redis. Words that the client reads or compares stay the same.
    fn requoted(text: &str, die: u8) -> String {
        let text = match text {
            "yes" | "OK" | "ERROR" => text.to_owned(),
            _ if die < 128 => text.to_uppercase(),
            _ => text.to_lowercase(),
        };
        match die % 4 {
            0 => format!("'{text}'"),
            1 => format!("\"{text}\""),
            2 => format!("[[{text}]]"),
            _ => format!("[==[\n{text}]==]"),
        }
    }

    const BLANKS: [&str; 7] =
        [" ", "\r\n", "\t \n", " -- end '\n", " --[[ return ]]", "\n--[=[\n]]\n]=] ", "\n--\n"];

    proptest! {
        #[test]
        fn the_dress_does_not_matter(dice in proptest::collection::vec(any::<u8>(), 1..60)) {
            for (known, shape) in expected() {
                let text = dressed(known.text, &dice);
                prop_assert_eq!(recognise(text.as_bytes()), Some(shape), "{}", text);
            }
        }

        #[test]
        fn arbitrary_bytes_have_no_shape(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(recognise(&text), None);
        }

        /// A piece that is lost, doubled or out of place never makes a lock script of another shape than it can have,
        /// and never panics.
        #[test]
        fn broken_scripts_do_not_panic(which in 0..1000_usize, from in 0..1000_usize, to in 0..1000_usize) {
            let all = expected();
            let mut pieces = pieces(all[which % all.len()].0.text);
            let moved = pieces.remove(from % pieces.len());
            pieces.insert(to % pieces.len(), moved);
            let _ = recognise(pieces.join(" ").as_bytes());
        }
    }
}
