//! Any script, wrapped so that the masters can vote on what it does.
//!
//! The client's text becomes a function of its own, followed by ours, which calls it. It keeps its line
//! numbers because nothing but the head of that function comes before it, on the same line; it cannot
//! see our names because all but one are declared after it.
//!
//! A script that names all its commands, as lock scripts do, reads as if we were not there, and its other
//! calls go to functions of ours. Any other script is given another `redis` table. A master makes every
//! function and table of a program anew each time it runs it, and that costs it more than the script
//! does: nothing is made before it is needed, and a program has only what its script can need.
//!
//! * `head.lua` takes what the proxy has added to the arguments;
//! * `shim.lua` keeps images of what is about to change and holds messages back, `ttl.lua` pads times to
//!   live, `rare.lua` knows unusual commands;
//! * `redis.lua` is the other `redis`, and `globals.lua` looks after `_G` and `loadstring`, where it could
//!   find the real one;
//! * `guard.lua` keeps the script to the rules of a user who may not do everything;
//! * `run.lua` calls the script and gathers what it did, `explain.lua` says why it failed;
//! * `transaction.lua` is the script of a `MULTI`, and `digest.lua` what its `WATCH` compares.

mod handlers;
mod parts;
mod scan;
mod shebang;

use std::sync::LazyLock;
use std::time::Duration;

use sha1_smol::Sha1;

use crate::acl::guard::Guard;
use crate::quorum::validity::Pad;
use handlers::{Handler, READ, rare};
use parts::{Statement, compact, statements};
use scan::Scan;
pub use shebang::split_shebang;

/// A text as masters get it.
#[derive(Debug)]
pub struct Program {
    /// The whole text.
    pub text: Vec<u8>,
    /// Its SHA1, in hex.
    pub sha: String,
}

/// What is done about times to live.
#[derive(Clone, Copy, Debug)]
pub struct Ttls {
    /// How much longer masters keep a key.
    pub pad: Pad,
    /// The longest that a script may ask for (`--max-ttl`).
    pub longest: Option<Duration>,
}

impl Program {
    /// The client's script `text`, whose SHA1 is `sha`.
    pub fn wrap(text: &[u8], sha: &str, ttls: Ttls) -> Self {
        Self::wrap_guarded(text, sha, ttls, None)
    }

    /// The same, kept to the rules of a user. What it calls is decided while it runs, by another `redis`.
    pub fn wrap_guarded(text: &[u8], sha: &str, ttls: Ttls, guard: Option<&Guard>) -> Self {
        // A wrong shebang has been refused when the script was loaded.
        let (shebang, script) = split_shebang(text).unwrap_or((b"", text));
        let mut scan = Scan::of(script);
        if guard.is_some() {
            scan.is_dynamic = true;
            scan.sees_globals |= may_see_globals(script);
        }
        let lines = text.iter().filter(|byte| **byte == b'\n').count() + 1;
        let mut wrapped = shebang.to_vec();
        if script.starts_with(b"\n") {
            wrapped.push(b'\n');
        }
        let redis = if scan.is_dynamic { "local redis=redis " } else { "local careful={} " };
        wrapped.extend_from_slice(redis.as_bytes());
        if scan.sees_globals {
            wrapped.extend_from_slice(b"local _G,load,loadstring,server=_G,load,loadstring ");
        }
        wrapped.extend_from_slice(b"local program=function(...) ");
        let first_line = usize::from(script.starts_with(b"\n"));
        wrapped.extend_from_slice(&scan.rewritten(script)[first_line..]);
        wrapped.extend_from_slice(b"\nend\n");
        // No command of the script has an underscore in its name.
        let after = ttls
            .fill_in(&around(&scan, guard))
            .replace("LAST_LINE", &lines.to_string())
            .replace("SCRIPT_SHA", &format!("'{sha}'"));
        wrapped.extend_from_slice(after.as_bytes());
        Self::of(wrapped)
    }

    /// The script of a `MULTI` in which `scripts` are run, wrapped like any other, and the first and
    /// last line of each of them in it. A guard keeps them to the rules of a user; it is not about the
    /// commands beside them.
    pub fn transaction(
        scripts: &[&[u8]],
        ttls: Ttls,
        guard: Option<&Guard>,
    ) -> (Self, Vec<(usize, usize)>) {
        let mut text = compact(include_str!("program/digest.lua")).into_bytes();
        text.extend_from_slice(EXPLAIN.as_bytes());
        text.extend_from_slice(b"local queue,KEYS,ARGV=ARGV\n");
        match guard {
            None => text.extend_from_slice(b"local scripts={\n"),
            Some(guard) => {
                text.extend_from_slice(compact(&guard.lua).as_bytes());
                text.extend_from_slice(GUARDED_SCRIPTS.as_bytes());
            }
        }
        let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
        let mut places = Vec::new();
        for script in scripts {
            let first = lines(&text) + 1;
            text.extend_from_slice(b"function(...) ");
            text.extend_from_slice(script);
            places.push((first, lines(&text) + 1));
            text.extend_from_slice(b"\nend,\n");
        }
        let end: &[u8] = if guard.is_some() { b"}\nend)(guarded(redis))\n" } else { b"}\n" };
        text.extend_from_slice(end);
        text.extend_from_slice(compact(include_str!("program/transaction.lua")).as_bytes());
        (Self::wrap(&text, "of a transaction", ttls), places)
    }

    /// Whether a script uses a name through which it could find the real `redis`.
    pub fn sees_globals(text: &[u8]) -> bool {
        Scan::of(text).sees_globals
    }

    /// The commands that a script names, in its own spelling; none if it makes some up as it runs.
    pub fn commands_of(text: &[u8]) -> Option<Vec<String>> {
        let scan = Scan::of(text);
        (!scan.is_dynamic).then(|| scan.handlers.into_keys().collect())
    }

    fn of(text: Vec<u8>) -> Self {
        let sha = Sha1::from(&text).hexdigest();
        Self { text, sha }
    }
}

/// Before the scripts of a transaction, which see nothing of ours but one `redis`.
const GUARDED_SCRIPTS: &str = "local scripts=(function(redis)\n\
     local _G,load,loadstring,server,digest,explain,queue,guarded\nreturn {\n";

/// Whether a text could name what leads to the real `redis`, whatever a reader of Lua makes of it: where rules
/// hang on it, it must not matter whether ours and Redis's agree on what is a comment.
fn may_see_globals(text: &[u8]) -> bool {
    let names: [&[u8]; 3] = [b"_G", b"load", b"server"];
    names.iter().any(|name| text.windows(name.len()).any(|part| part == *name))
}

impl Ttls {
    fn fill_in(self, lua: &str) -> String {
        let longest_ms = self.longest.map(|longest| longest.as_millis().to_string());
        let longest = self.longest.map(humantime::format_duration);
        lua.replace("CLOCK_DRIFT", &self.pad.drift().to_string())
            .replace("PAD_MS", &self.pad.fixed_ms().to_string())
            .replace("MAX_TTL_MS", longest_ms.as_deref().unwrap_or("math.huge"))
            .replace("LONGEST_TTL", &longest.map(|it| it.to_string()).unwrap_or_default())
    }
}

/// What comes after the client's text.
fn around(scan: &Scan<'_>, guard: Option<&Guard>) -> String {
    let mut text = HEAD.clone();
    if scan.draws {
        // Without this, masters of different ages would draw different numbers.
        text.push_str("math.randomseed(seconds + micros)\n");
    }
    text.push_str(&if scan.is_dynamic { any_call(scan) } else { careful_calls(scan) });
    if let Some(guard) = guard {
        text.push_str(&compact(&guard.lua));
        text.push_str("redis=guarded(redis)\n");
    }
    if scan.sees_globals {
        text.push_str(&GLOBALS);
    }
    text + &RUN
}

/// Another `redis`, which knows every command.
fn any_call(scan: &Scan<'_>) -> String {
    let entry = |(name, handler): (&String, &Handler)| format!("[\"{name}\"]={handler},");
    let how: String = scan.handlers.iter().map(entry).collect();
    parts::before(&LIBRARY, &format!("how={{{how}}}\n{}", *ANY))
}

/// What is called instead of `redis.call` where that needs care. Many a script that is refused something
/// has only read before: these functions are made when the first of them is called.
fn careful_calls(scan: &Scan<'_>) -> String {
    let handlers = scan.handlers.iter().filter(|(_, handler)| **handler != READ);
    let made: String = handlers.map(|(name, handler)| format!("made.{name}={handler}\n")).collect();
    if made.is_empty() {
        return made;
    }
    let body = parts::before(&LIBRARY, &format!("{made}return made[name]\n"));
    format!("setmetatable(careful,{{__index=function(made,name)\n{body}end}})\n")
}

static HEAD: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/head.lua")));
static ANY: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/redis.lua")));
static LIBRARY: LazyLock<Vec<Statement>> = LazyLock::new(|| {
    let [shim, ttl] = [include_str!("program/shim.lua"), include_str!("program/ttl.lua")];
    statements(&[shim, ttl, &rare()].concat())
});
static GLOBALS: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/globals.lua")));
static EXPLAIN: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/explain.lua")));
static RUN: LazyLock<String> = LazyLock::new(|| {
    let run = include_str!("program/run.lua");
    let run = run.replace("EXPLAIN", &EXPLAIN);
    compact(&run.replace("REORDERED", include_str!("program/reordered.lua")))
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::Users;

    fn wrapped(script: &str, rules: Option<&str>) -> String {
        let ttls = Ttls { pad: Pad::new(Duration::ZERO, 0.0), longest: None };
        let users = rules.map(|rules| Users::parse([rules], None).unwrap());
        let guard = users.as_ref().map(|users| users.named(b"alice").unwrap().guard());
        let program = Program::wrap_guarded(script.as_bytes(), "", ttls, guard.map(|it| &**it));
        String::from_utf8(program.text).unwrap()
    }

    const GET: &str = "return redis.call('get', KEYS[1])";

    #[test]
    fn a_guarded_script_calls_nothing_by_itself() {
        let free = wrapped(GET, None);
        assert!(!free.contains("guarded") && free.starts_with("local careful={} "));
        let guarded = wrapped(GET, Some("alice +get"));
        assert!(guarded.starts_with("local redis=redis local program=function(...) return "));
        assert!(guarded.contains("\nredis=guarded(redis)\n") && !guarded.contains("globals"));
    }

    /// Rules must not hang on our reader of Lua finding the same comments as Redis's.
    #[test]
    fn globals_are_looked_after_wherever_their_names_stand() {
        for script in ["-- _G", "--[==[ load ]==]", "return 'server'", "return [[loadstring]]"] {
            let guarded = wrapped(script, Some("alice +get"));
            assert!(guarded.contains("_G = setmetatable("), "{script}");
            let around = guarded.find("redis=guarded(redis)").zip(guarded.find("server = redis"));
            assert!(around.is_some_and(|(guard, globals)| guard < globals), "{script}");
        }
    }
}
