//! Meaning of the scripts that clients send.

use foldhash::HashMap;
use sha1_smol::Sha1;

use crate::command::outlook;
use crate::data::advice::meaning::{goes_through_all_keys, kind_of};
use crate::lua::program::ProgramText;
use crate::lua::{library_of, text_of};
use crate::names::kind::LockSign;

/// Maximum scripts whose meaning is remembered.
pub const MOST_SCRIPTS: usize = 4096;

/// Knowledge about a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// Its use of its first key, if it is one that locks need.
    pub kind: Option<LockSign>,
    /// Whether it does the same with all its keys.
    pub is_of_all_keys: bool,
    /// Whether it calls commands; also true if its text is unknown.
    pub calls_something: bool,
    /// Whether it may leave something in its keys that is not a lock.
    pub stores: bool,
    /// Library that it comes from, or the beginning of its SHA1.
    pub title: String,
}

impl Meaning {
    fn of(text: Option<&[u8]>, sha: &str) -> Self {
        let kind = text.and_then(kind_of);
        let may_store = |text| {
            let commands = ProgramText::commands_of(text);
            commands.is_none_or(|all| all.iter().any(|name| outlook::stores(name.as_bytes())))
        };
        let calls = |text| ProgramText::commands_of(text).is_none_or(|all| !all.is_empty());
        Self {
            kind,
            calls_something: text.is_none_or(calls),
            is_of_all_keys: text.is_some_and(goes_through_all_keys),
            stores: text.is_none_or(may_store),
            title: title_of(sha),
        }
    }
}

/// Scripts that were seen, by SHA1 in lower case.
#[derive(Clone, Debug, Default)]
pub struct Scripts {
    known: HashMap<String, Meaning>,
    /// Whether there were more than can be remembered.
    pub is_full: bool,
}

impl Scripts {
    /// Returns the meaning of the script with this text, from `EVAL` or `SCRIPT LOAD`.
    pub fn text(&mut self, text: &[u8]) -> Meaning {
        let sha = Sha1::from(text).hexdigest();
        if let Some(meaning) = self.known.get(&sha) {
            return meaning.clone();
        }
        let meaning = Meaning::of(Some(text), &sha);
        self.is_full |= self.known.len() >= MOST_SCRIPTS;
        if !self.is_full {
            self.known.insert(sha, meaning.clone());
        }
        meaning
    }

    /// Returns the meaning of the script with this SHA1, from `EVALSHA`. If its text was loaded before the watch began,
    /// it is only known if it is a library's.
    pub fn sha(&self, sha: &[u8]) -> Meaning {
        let sha = String::from_utf8_lossy(sha).to_ascii_lowercase();
        let known = self.known.get(&sha).cloned();
        known.unwrap_or_else(|| Meaning::of(text_of(&sha).map(str::as_bytes), &sha))
    }
}

fn title_of(sha: &str) -> String {
    let first: String = sha.chars().take(8).collect();
    library_of(sha).map_or_else(|| format!("script {first}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REDISSON: &str = "if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) \
        then redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; \
        return redis.call('pttl', KEYS[1]);";
    const NODE_REDLOCK_5: &str = r#"
        for i, key in ipairs(KEYS) do if redis.call("exists", key) == 1 then return 0 end end
        for i, key in ipairs(KEYS) do redis.call("set", key, ARGV[1], "PX", ARGV[2]) end
        return #KEYS"#;

    #[test]
    fn scripts_of_locks_are_known_by_what_they_do() {
        let release = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
        for (text, kind) in [
            (release, Some(LockSign::ReleaseScript)),
            (REDISSON, Some(LockSign::LockScript)),
            (NODE_REDLOCK_5, Some(LockSign::LockScript)),
            ("return redis.call('incr', KEYS[1])", None),
            (
                "local n = redis.call('incr',KEYS[1]) redis.call('expire',KEYS[1],ARGV[1]) return n",
                None,
            ),
            ("redis.call('setex', KEYS[1], 10, redis.call('get', KEYS[2]))", None),
            ("return redis.call(ARGV[1], KEYS[1])", None),
            ("local v = redis.call('get',KEYS[1]) redis.call('del',KEYS[1]) return v", None),
            (
                "for i, key in ipairs(KEYS) do if redis.call('get', key) == ARGV[1] then \
                 redis.pcall('del', key) end end",
                Some(LockSign::LockScript),
            ),
        ] {
            assert_eq!(Scripts::default().text(text.as_bytes()).kind, kind, "{text}");
        }
    }

    #[test]
    fn a_library_is_known_by_its_sha1_before_it_sends_the_text() {
        let meaning = Scripts::default().sha(b"C3F8721CBB97F72BC19E972846BD7AAF91901658");
        assert_eq!(meaning.kind, Some(LockSign::ReleaseScript));
        assert_eq!(meaning.title, "redis-py 3 to 8, lock");
        let other = Scripts::default().sha(b"0123456789abcdef");
        assert_eq!((other.kind, other.title.as_str()), (None, "script 01234567"));
        assert!(other.stores, "it may do anything");
    }

    #[test]
    fn the_number_of_scripts_is_bounded() {
        let mut scripts = Scripts::default();
        for number in 0..MOST_SCRIPTS + 10 {
            scripts.text(format!("return {number}").as_bytes());
        }
        assert!(scripts.is_full && scripts.known.len() == MOST_SCRIPTS);
    }
}
