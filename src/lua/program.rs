//! Any script, wrapped so that the masters can vote on what it does.
//!
//! The client's text becomes a function of its own, followed by ours, which gives it another `redis`
//! table and calls it. It keeps its line numbers because nothing but the head of that function comes
//! before it, on the same line; it cannot see our names because they are declared after it.
//!
//! * `shim.lua` keeps images of what is about to change and holds messages back;
//! * `ttl.lua` pads times to live, `rare.lua` knows unusual commands, `globals.lua` looks after `_G` and
//!   `loadstring`: each is there only where it is needed;
//! * `run.lua` calls the script and gathers what it did, `explain.lua` says why it failed;
//! * `transaction.lua` is the script of a `MULTI`, and `digest.lua` what its `WATCH` compares.

mod handlers;
mod scan;
mod shebang;

use std::sync::LazyLock;

use sha1_smol::Sha1;

use crate::quorum::validity::Pad;
use handlers::{Part, RARE};
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

impl Program {
    /// The client's script `text`, whose SHA1 is `sha`, with TTLs padded by `pad`.
    pub fn wrap(text: &[u8], sha: &str, pad: Pad) -> Self {
        // A wrong shebang has been refused when the script was loaded.
        let (shebang, script) = split_shebang(text).unwrap_or((b"", text));
        let scan = Scan::of(script);
        let lines = text.iter().filter(|byte| **byte == b'\n').count() + 1;
        let mut wrapped = shebang.to_vec();
        if script.starts_with(b"\n") {
            wrapped.push(b'\n');
        }
        wrapped.extend_from_slice(b"local redis=redis ");
        if scan.sees_globals {
            wrapped.extend_from_slice(b"local _G,load,loadstring,server=_G,load,loadstring ");
        }
        wrapped.extend_from_slice(b"local program=function(...) ");
        let first_line = usize::from(script.starts_with(b"\n"));
        wrapped.extend_from_slice(&scan.without_tail_calls(script)[first_line..]);
        wrapped.extend_from_slice(b"\nend\n");
        let draws = scan.draws;
        let constants = format!(
            "local DRIFT,PAD_MS,LINES,SHA,DRAWS={},{},{lines},'{sha}',{draws}\n",
            pad.drift(),
            pad.fixed_ms()
        );
        wrapped.extend_from_slice(constants.as_bytes());
        wrapped.extend_from_slice(around(&scan).as_bytes());
        Self::of(wrapped)
    }

    /// The script of a `MULTI` in which `scripts` are run, wrapped like any other, and the first and
    /// last line of each of them in it.
    pub fn transaction(scripts: &[&[u8]], pad: Pad) -> (Self, Vec<(usize, usize)>) {
        let mut text = compact(include_str!("program/digest.lua")).into_bytes();
        text.extend_from_slice(EXPLAIN.as_bytes());
        text.extend_from_slice(b"local queue,KEYS,ARGV=ARGV\nlocal scripts={\n");
        let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
        let mut places = Vec::new();
        for script in scripts {
            let first = lines(&text) + 1;
            text.extend_from_slice(b"function(...) ");
            text.extend_from_slice(script);
            places.push((first, lines(&text) + 1));
            text.extend_from_slice(b"\nend,\n");
        }
        text.extend_from_slice(b"}\n");
        text.extend_from_slice(compact(include_str!("program/transaction.lua")).as_bytes());
        (Self::wrap(&text, "of a transaction", pad), places)
    }

    fn of(text: Vec<u8>) -> Self {
        let sha = Sha1::from(&text).hexdigest();
        Self { text, sha }
    }
}

/// What comes after the client's text, with no more in it than the script can need.
fn around(scan: &Scan<'_>) -> String {
    let needs =
        |part| scan.is_dynamic || scan.handlers.iter().any(|(_, handler)| handler.1 == part);
    let rare = needs(Part::Rare);
    let mut text = SHIM.clone();
    if rare || needs(Part::Ttl) {
        text.push_str(&TTL);
    }
    text.push_str("local how\n");
    text.push_str(if rare { &RARE } else { "local other=write\n" });
    text.push_str("how={");
    for (literal, handler) in &scan.handlers {
        text.push_str(&format!("[\"{literal}\"]={},", handler.0));
    }
    text.push_str("}\n");
    text.push_str(&RUN_HEAD);
    if scan.sees_globals {
        text.push_str(&GLOBALS);
    }
    text.push_str(&EXPLAIN);
    text.push_str(&RUN);
    text
}

/// Without comments and indentation: a master keeps this once for every script.
fn compact(lua: &str) -> String {
    let lines = lua.lines().map(str::trim);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("--"));
    code.fold(String::new(), |text, line| text + line + "\n")
}

static SHIM: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/shim.lua")));
static TTL: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/ttl.lua")));
static GLOBALS: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/globals.lua")));
static RUN_HEAD: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/redis.lua")));
static EXPLAIN: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/explain.lua")));
static RUN: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/run.lua")));
