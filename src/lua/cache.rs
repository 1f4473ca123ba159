//! Scripts that clients have loaded, by SHA1.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use foldhash::HashMap;
use sha1_smol::Sha1;

use crate::acl::guard::Guard;

use super::meaning::LockMeaning;
use super::program::{
    OfLibrary, ProgramPart, ProgramText, ScriptRules, Tells, shebang, split_shebang,
};
use super::recognise::recognise;

/// Script and its meaning. It is shared with the operations that run it, which may outlive its place in the cache.
#[derive(Debug)]
pub struct Script {
    /// SHA1 of the text in lower-case hexadecimal, as `SCRIPT LOAD` replies it.
    pub sha: String,
    /// Text, as the client sent it.
    pub text: Bytes,
    /// Meaning, if it has one.
    pub shape: Option<LockMeaning>,
    /// Function to call, if the text is that of a library. No client can call it by its SHA1.
    function: Option<OfLibrary>,
    /// Whether masters have accepted it as Lua. A script with a meaning always is Lua.
    is_lua: AtomicBool,
    /// Whether clients may call it by its SHA1. They may not if it was only queued after `MULTI`.
    is_kept: AtomicBool,
    /// Reason why it is not Lua.
    refused: OnceLock<String>,
    program: OnceLock<Arc<ProgramText>>,
    /// See [`Script::reading_program`].
    reading: OnceLock<Arc<ProgramText>>,
    /// Commands that it calls, if it names them all. They are read from the text when a user's rules need them.
    commands: OnceLock<Option<Vec<String>>>,
    /// Programs for restricted users, or that tell what they do, least recently used first.
    variants: Mutex<Vec<(Variant, Arc<ProgramText>)>>,
}

/// What makes a program differ from that of most calls.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Variant {
    guard: Option<Arc<Guard>>,
    tells: Tells,
    is_reading: bool,
}

impl Script {
    fn new(sha: String, text: Bytes) -> Self {
        let shape = recognise(&text);
        let is_lua = AtomicBool::new(shape.is_some());
        let (refused, program, reading) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let is_kept = AtomicBool::new(false);
        let (commands, variants, function) = (OnceLock::new(), Mutex::default(), None);
        Self {
            sha,
            text,
            shape,
            function,
            is_lua,
            is_kept,
            refused,
            program,
            reading,
            commands,
            variants,
        }
    }

    /// Creates a script that is never called by its SHA1.
    pub fn unnamed(text: Bytes) -> Self {
        Self::new(String::new(), text)
    }

    /// Creates a function of the library with this `code`, which masters have accepted as Lua.
    pub(super) fn of_library(code: Bytes, function: OfLibrary) -> Self {
        let mut name = Sha1::from(&code);
        name.update(format!("\0{} {}", function.name, function.flags).as_bytes());
        let script = Self::new(name.hexdigest(), code);
        script.found_lua();
        Self { shape: None, function: Some(function), ..script }
    }

    /// Returns its name in errors: its SHA1, or `@` and the name of its function.
    pub fn label(&self) -> String {
        self.function.as_ref().map_or_else(|| self.sha.clone(), OfLibrary::label)
    }

    /// Returns the part of a transaction that the script becomes.
    pub fn part(&self) -> ProgramPart<'_> {
        ProgramPart { code: self.code(), function: self.function.as_ref() }
    }

    /// Returns whether a quorum of masters accepts it as Lua.
    pub fn is_lua(&self) -> bool {
        self.is_lua.load(Ordering::Relaxed)
    }

    /// Notes that a quorum of masters accepts it as Lua.
    pub fn found_lua(&self) {
        self.is_lua.store(true, Ordering::Relaxed);
    }

    /// Allows clients to call it by its SHA1 from now on.
    pub fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    /// Notes that a quorum of masters does not accept it as Lua.
    pub fn refuse(&self, why: String) {
        let _ = self.refused.set(why);
    }

    /// Returns why a quorum of masters does not accept it as Lua.
    pub fn refused(&self) -> Option<&str> {
        self.refused.get().map(String::as_str)
    }

    /// Takes over the verdict of masters on the same text.
    pub fn learn_from(&self, other: &Script) {
        if other.is_lua() {
            self.found_lua();
        }
        if let Some(why) = other.refused() {
            self.refuse(why.to_owned());
        }
    }

    /// Returns whether the script declares that it changes nothing.
    pub fn is_read_only(&self) -> bool {
        match &self.function {
            Some(function) => function.is_read_only(),
            None => shebang::is_read_only(self.shebang()),
        }
    }

    /// Returns whether its shebang allows writes, so that it is not run read-only (`evalGenericCommand` in `eval.c`).
    pub fn may_write_by_its_shebang(&self) -> bool {
        !self.shebang().is_empty() && !self.is_read_only()
    }

    /// Returns the shebang, which is empty for a function: that of its library has been removed.
    fn shebang(&self) -> &[u8] {
        split_shebang(&self.text).map_or(b"", |(shebang, _)| shebang)
    }

    /// Returns the text without its shebang, as Lua sees it.
    pub fn code(&self) -> &[u8] {
        split_shebang(&self.text).map_or(&self.text[..], |(_, code)| code)
    }

    /// Returns the text that masters run. It is generated on first use.
    pub fn program(&self, script_rules: ScriptRules) -> Arc<ProgramText> {
        if script_rules.tells.is_any() {
            return self.variant(script_rules, None, false);
        }
        let wrap = || Arc::new(self.wrap(script_rules, None));
        Arc::clone(self.program.get_or_init(wrap))
    }

    fn wrap(&self, script_rules: ScriptRules, guard: Option<&Guard>) -> ProgramText {
        match &self.function {
            Some(function) => ProgramText::function(&self.text, function, script_rules, guard),
            None => ProgramText::wrap_guarded(&self.text, &self.sha, script_rules, guard),
        }
    }

    /// Returns the text that masters run for `EVAL_RO`. Masters allow no writes that would take tags off before it
    /// runs, so the program takes them off as it reads.
    pub fn reading_program(&self, script_rules: ScriptRules) -> Arc<ProgramText> {
        if script_rules.tells.is_any() {
            return self.variant(script_rules, None, true);
        }
        Arc::clone(self.reading.get_or_init(|| Arc::new(self.wrap_reading(script_rules))))
    }

    fn wrap_reading(&self, script_rules: ScriptRules) -> ProgramText {
        ProgramText::wrap_reading(&self.text, &self.sha, script_rules)
    }

    /// Returns the text that masters run, restricted to the rules of a user.
    pub fn guarded_program(
        &self,
        script_rules: ScriptRules,
        guard: &Arc<Guard>,
    ) -> Arc<ProgramText> {
        self.variant(script_rules, Some(guard), false)
    }

    fn variant(
        &self,
        script_rules: ScriptRules,
        guard: Option<&Arc<Guard>>,
        is_reading: bool,
    ) -> Arc<ProgramText> {
        let variant = Variant { guard: guard.cloned(), tells: script_rules.tells, is_reading };
        let mut known = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        let program = match known.iter().position(|(other, _)| *other == variant) {
            Some(at) => known.remove(at).1,
            None if is_reading => Arc::new(self.wrap_reading(script_rules)),
            None => Arc::new(self.wrap(script_rules, guard.map(|guard| &**guard))),
        };
        if known.len() == MAX_VARIANTS {
            known.remove(0);
        }
        known.push((variant, Arc::clone(&program)));
        program
    }

    /// Returns the commands that it calls, if it names them all.
    pub fn commands(&self) -> Option<&[String]> {
        self.commands.get_or_init(|| ProgramText::commands_of(self.code())).as_deref()
    }
}

/// The script cache of one worker.
///
/// It is bounded in number and in bytes. When it is full, the least recently used scripts go first. Their next
/// `EVALSHA` gets `NOSCRIPT`, which makes clients send the text again.
pub struct ScriptCache {
    scripts: HashMap<Digest, Entry>,
    bytes: usize,
    /// Number of uses. The latest use has the greatest number.
    uses: u64,
}

impl ScriptCache {
    /// Returns the number of scripts, and their total size in bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.scripts.len(), self.bytes)
    }

    /// Creates an empty cache.
    pub fn new() -> ScriptCache {
        ScriptCache { scripts: HashMap::default(), bytes: 0, uses: 0 }
    }

    /// Returns the script with this text, for `EVAL` and `SCRIPT LOAD`. It is recognised on its first use.
    ///
    /// A text that is larger than the whole cache is not kept.
    pub fn load(&mut self, text: Bytes) -> Arc<Script> {
        let sha1 = Sha1::from(&text).digest();
        if let Some(script) = self.touch(&sha1.bytes()) {
            return script;
        }
        let script = Arc::new(Script::new(sha1.to_string(), text));
        self.insert(sha1.bytes(), Arc::clone(&script));
        script
    }

    /// Returns the script with this SHA1, for `EVALSHA`, in any letter case as in Redis.
    pub fn get(&mut self, sha: &[u8]) -> Option<Arc<Script>> {
        self.touch(&digest(sha)?).filter(|script| script.is_kept())
    }

    /// Returns whether the script with this SHA1 is here, for `SCRIPT EXISTS`. This does not count as a use.
    pub fn contains(&self, sha: &[u8]) -> bool {
        let entry = digest(sha).and_then(|digest| self.scripts.get(&digest));
        entry.is_some_and(|entry| entry.script.is_kept())
    }

    /// Returns the number and total size in bytes of the texts that clients may call by their SHA1.
    pub fn callable(&self) -> (usize, usize) {
        let kept = self.scripts.values().filter(|entry| entry.script.is_kept());
        kept.fold((0, 0), |(number, bytes), entry| (number + 1, bytes + entry.script.text.len()))
    }

    /// Returns the scripts that clients may call by their SHA1, least recently used first.
    pub fn kept(&self) -> Vec<Arc<Script>> {
        let mut kept: Vec<_> = self.scripts.values().filter(|it| it.script.is_kept()).collect();
        kept.sort_unstable_by_key(|entry| entry.last_use);
        kept.into_iter().map(|entry| Arc::clone(&entry.script)).collect()
    }

    /// Forgets every script, for `SCRIPT FLUSH`.
    pub fn flush(&mut self) {
        self.scripts.clear();
        self.bytes = 0;
    }

    fn touch(&mut self, digest: &Digest) -> Option<Arc<Script>> {
        let entry = self.scripts.get_mut(digest)?;
        self.uses += 1;
        entry.last_use = self.uses;
        Some(Arc::clone(&entry.script))
    }

    fn insert(&mut self, digest: Digest, script: Arc<Script>) {
        let bytes = script.text.len();
        if bytes > MAX_BYTES {
            return;
        }
        while self.scripts.len() >= MAX_SCRIPTS || self.bytes + bytes > MAX_BYTES {
            self.drop_oldest();
        }
        self.bytes += bytes;
        self.uses += 1;
        self.scripts.insert(digest, Entry { script, last_use: self.uses });
    }

    fn drop_oldest(&mut self) {
        let oldest = self.scripts.iter().min_by_key(|(_, entry)| entry.last_use);
        let Some(digest) = oldest.map(|(digest, _)| *digest) else { return };
        if let Some(entry) = self.scripts.remove(&digest) {
            self.bytes -= entry.script.text.len();
        }
    }
}

impl Default for ScriptCache {
    fn default() -> ScriptCache {
        ScriptCache::new()
    }
}

struct Entry {
    script: Arc<Script>,
    last_use: u64,
}

type Digest = [u8; DIGEST_BYTES];

/// Returns the SHA1 that `hex` spells.
fn digest(hex: &[u8]) -> Option<Digest> {
    let mut digest = Digest::default();
    if hex.len() != 2 * DIGEST_BYTES {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(hex.chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(digest)
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// Length of a SHA1 in bytes.
const DIGEST_BYTES: usize = 20;

/// Maximum scripts: as many as Redis 7.4 keeps of those loaded by `EVAL` (`LRU_LIST_LENGTH` in its `eval.c`).
const MAX_SCRIPTS: usize = 500;

/// Maximum programs of one script for different users and onlookers.
const MAX_VARIANTS: usize = 16;

/// Room for that many scripts of 8 KiB. The longest known lock script, bsm/redislock's for several keys, has 1 KiB.
const MAX_BYTES: usize = MAX_SCRIPTS * 8 * 1024;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;
    use crate::acl::Users;
    use crate::decision::lease::pad::Pad;

    const RELEASE: &[u8] =
        br#"if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end"#;
    const RELEASE_SHA: &str = "cf0e94b2e9ffc7e04395cf88f7583fc309985910";

    fn load(cache: &mut ScriptCache, text: Bytes) -> Arc<Script> {
        let script = cache.load(text);
        script.keep();
        script
    }

    #[test]
    fn what_is_not_kept_is_not_found() {
        let mut cache = ScriptCache::new();
        let script = cache.load(Bytes::from_static(b"return 1"));
        let sha = script.sha.as_bytes();
        assert!(cache.get(sha).is_none() && !cache.contains(sha));
        script.keep();
        assert!(cache.get(sha).is_some() && cache.contains(sha));
    }

    fn numbered(number: usize) -> Bytes {
        Bytes::from(format!("return {number}"))
    }

    fn bytes_kept(cache: &ScriptCache) -> usize {
        cache.scripts.values().map(|entry| entry.script.text.len()).sum()
    }

    #[test]
    fn a_loaded_script_is_found_in_any_letter_case() {
        let mut cache = ScriptCache::new();
        let loaded = load(&mut cache, Bytes::from_static(RELEASE));
        assert_eq!(loaded.sha, RELEASE_SHA);
        assert!(matches!(loaded.shape, Some(LockMeaning::Release { .. })));
        let found = cache.get(RELEASE_SHA.to_uppercase().as_bytes()).unwrap();
        assert!(Arc::ptr_eq(&loaded, &found));
        assert!(Arc::ptr_eq(&loaded, &cache.load(Bytes::from_static(RELEASE))));
        assert!(cache.contains(RELEASE_SHA.as_bytes()));
    }

    #[test]
    fn what_is_no_sha1_is_not_found() {
        let mut cache = ScriptCache::new();
        cache.load(Bytes::from_static(RELEASE));
        let wrong = [
            &RELEASE_SHA[..39],
            &format!("{RELEASE_SHA}0"),
            &RELEASE_SHA.replace('c', "g"),
            "",
            &"0".repeat(40),
        ];
        for sha in wrong {
            assert!(!cache.contains(sha.as_bytes()), "{sha}");
            assert!(cache.get(sha.as_bytes()).is_none(), "{sha}");
        }
    }

    #[test]
    fn flush_forgets_but_a_script_in_use_lives_on() {
        let mut cache = ScriptCache::new();
        let script = cache.load(Bytes::from_static(RELEASE));
        cache.flush();
        assert!(!cache.contains(RELEASE_SHA.as_bytes()));
        assert_eq!(cache.bytes, 0);
        assert_eq!(script.text, RELEASE);
    }

    #[test]
    fn each_user_has_a_program_of_its_own() {
        let users = (0..=MAX_VARIANTS).map(|number| format!("user{number} ~{number} +@all"));
        let users: Vec<_> = users.collect();
        let users = Users::parse(users.iter().map(String::as_str), None).unwrap();
        let script = ScriptCache::new().load(Bytes::from_static(RELEASE));
        let script_rules = ScriptRules {
            pad: Pad::new(Duration::ZERO, 0.0),
            longest: None,
            sees_all_keys: true,
            tells: Tells::NOTHING,
        };
        let free = script.program(script_rules);
        let restricted = users.all().filter(|user| !user.is_unrestricted());
        let guards: Vec<_> = restricted.map(|user| user.guard()).collect();
        let guarded = |guard: &&Arc<Guard>| script.guarded_program(script_rules, guard);
        let programs: Vec<_> = guards.iter().map(guarded).collect();
        let shas: HashSet<_> = programs.iter().chain([&free]).map(|program| &program.sha).collect();
        assert_eq!(shas.len(), MAX_VARIANTS + 2);
        assert!(!String::from_utf8_lossy(&free.text).contains("guarded"));
        // The last one is still there, the first one is not.
        let again = guards.last().map(guarded).unwrap();
        assert!(Arc::ptr_eq(&again, programs.last().unwrap()));
        assert_eq!(script.variants.lock().unwrap().len(), MAX_VARIANTS);
    }

    #[test]
    fn the_one_not_used_for_longest_goes_first() {
        let mut cache = ScriptCache::new();
        let shas: Vec<_> =
            (0..MAX_SCRIPTS).map(|number| load(&mut cache, numbered(number)).sha.clone()).collect();
        cache.get(shas[0].as_bytes());
        load(&mut cache, numbered(2));
        assert!(cache.contains(shas[1].as_bytes()));
        load(&mut cache, numbered(MAX_SCRIPTS));
        load(&mut cache, numbered(MAX_SCRIPTS + 1));
        let gone: Vec<_> =
            (0..MAX_SCRIPTS).filter(|number| !cache.contains(shas[*number].as_bytes())).collect();
        assert_eq!(gone, [1, 3]);
        assert_eq!(cache.scripts.len(), MAX_SCRIPTS);
        assert_eq!(cache.bytes, bytes_kept(&cache));
    }

    #[test]
    fn large_texts_push_others_out_and_too_large_ones_do_not() {
        let mut cache = ScriptCache::new();
        let small = load(&mut cache, numbered(1));
        let half = |byte| Bytes::from(vec![byte; MAX_BYTES / 2]);
        let first = load(&mut cache, half(b'1'));
        let too_large = load(&mut cache, Bytes::from(vec![b' '; MAX_BYTES + 1]));
        assert!(!cache.contains(too_large.sha.as_bytes()));
        assert!(cache.contains(small.sha.as_bytes()));
        let second = load(&mut cache, half(b'2'));
        let kept = [&small, &first, &second].map(|script| cache.contains(script.sha.as_bytes()));
        assert_eq!(kept, [false, true, true]);
        assert_eq!(cache.bytes, bytes_kept(&cache));
    }
}
