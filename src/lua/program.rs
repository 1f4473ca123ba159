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
//!   live, `chance.lua` and `streams.lua` do alike what each master would do by its own dice and clock,
//!   `hidden.lua` and `completes.lua` hide what only the proxy may use, `rare.lua` knows unusual commands;
//! * `redis.lua` is the other `redis`, and `globals.lua` the list of all other globals, for a script that could
//!   find the real one: both are parameters of a function around it, so that it shares no variable with us;
//! * `guard.lua` keeps the script to the rules of a user who may not do everything, and `known.lua` away from
//!   globals that nobody knows;
//! * `tags.lua` takes the tags off the leases among its keys, and `tags_back.lua` puts them back;
//! * `run.lua` calls the script and gathers what it did, `together.lua` and `each.lua` do so for several calls of one script,
//!   `explain.lua` says why it failed, and `harmless.lua`
//!   takes out of its reply what could end a master;
//! * `library.lua` is the `redis` of a library, and calls the function that is wanted of it;
//! * `transaction.lua` is the script of a `MULTI`.

mod assigned;
mod handlers;
mod names;
mod parts;
mod place;
mod scan;
pub(super) mod shebang;

use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use sha1_smol::Sha1;

use super::step_budget::steps;
use super::transactions::Databases;
use super::{keyspace, runner};
use crate::acl::guard::Guard;
use crate::catalogue::channel;
use crate::catalogue::keys::WITHOUT_KEYS;
use crate::catalogue::{reserved, zero};
use crate::config::Settings;
use crate::decision::lease::pad::Pad;
use handlers::{Handler, READ, rare};
pub use handlers::{adds, is_by_clock};
use parts::{Statement, compact, statements};
pub(super) use place::Place;
use scan::Scan;
pub use shebang::split_shebang;

/// A text as masters get it.
#[derive(Debug)]
pub struct ProgramText {
    /// The whole text.
    pub text: Vec<u8>,
    /// Its SHA1, in hex.
    pub sha: String,
    /// The SHA1 of the client's script, or what it is instead.
    name: Box<str>,
    /// How long the shebang at its beginning is.
    shebang: usize,
    /// Whether the client's script forbids to change anything by its shebang.
    is_read_only: bool,
    /// Whether masters keep it.
    pub(super) place: Place,
    /// What runs several calls of it at once.
    together: Together,
}

/// Several calls at once of one script, if they can be.
#[derive(Debug, Default)]
struct Together {
    /// What it is made of: the client's script.
    script: Option<(Box<[u8]>, Ttls)>,
    made: OnceLock<Arc<ProgramText>>,
}

/// What is done about times to live.
#[derive(Clone, Copy, Debug)]
pub struct Ttls {
    /// How much longer masters keep a key.
    pub pad: Pad,
    /// The longest that a script may ask for (`--max-ttl`).
    pub longest: Option<Duration>,
}

/// A function of a library, as it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfLibrary {
    /// Its name: letters, digits and underscores only.
    pub name: String,
    /// Its flags, as bits in the order in which Redis lists them.
    pub flags: usize,
}

impl OfLibrary {
    /// What `explain.lua` takes for the name of a function.
    pub fn label(&self) -> String {
        format!("@{}", self.name)
    }

    /// Whether it says that it changes nothing.
    pub fn is_read_only(&self) -> bool {
        self.flags & 1 == 1
    }
}

/// A text that is run in a transaction.
#[derive(Clone, Copy, Debug)]
pub struct ProgramPart<'a> {
    /// Without its shebang.
    pub code: &'a [u8],
    /// The function that is called, if it is a library.
    pub function: Option<&'a OfLibrary>,
}

impl ProgramText {
    /// The client's script `text`, whose SHA1 is `sha`.
    pub fn wrap(text: &[u8], sha: &str, ttls: Ttls) -> Self {
        Self::wrap_in(text, sha, ttls, None, false)
    }

    /// The same for a script that is run read-only: all its calls are looked at.
    pub fn wrap_reading(text: &[u8], sha: &str, ttls: Ttls) -> Self {
        Self::wrap_in(text, sha, ttls, None, true)
    }

    /// The same, kept to the rules of a user. What it calls is decided while it runs, by another `redis`.
    pub fn wrap_guarded(text: &[u8], sha: &str, ttls: Ttls, guard: Option<&Guard>) -> Self {
        Self::wrap_in(text, sha, ttls, guard, guard.is_some())
    }

    fn wrap_in(
        text: &[u8],
        sha: &str,
        ttls: Ttls,
        guard: Option<&Guard>,
        is_looked_at: bool,
    ) -> Self {
        // A wrong shebang has been refused when the script was loaded.
        let (shebang, script) = split_shebang(text).unwrap_or((b"", text));
        let script = &*assigned::refused(script);
        let mut scan = Scan::of(script);
        let is_read_only = shebang::is_read_only(shebang);
        scan.is_dynamic |= is_looked_at || is_read_only;
        scan.sees_globals |= scan.is_dynamic && names::lead_to_globals(script);
        let parameters = if scan.sees_globals { names::GIVEN } else { "redis" };
        let open = Open { guard, globals: scan.sees_globals };
        let before = if scan.is_dynamic { open.program() } else { String::new() };
        let wrapped = Wrapped {
            frame: Frame::of(scan.makes_up_keys),
            parameters,
            names: open.names(&[ProgramPart { code: script, function: None }]),
            before,
            disarms: names::set_metatables(script),
            lines: line_feeds(text) + 1,
        };
        // Masters note a promise where something has ended for the script: it is kept from writing by what is around it.
        let sent = if is_read_only { b"" } else { shebang };
        let can_be_together = shebang.is_empty()
            && !scan.cheap.is_empty()
            && !(scan.is_dynamic || scan.makes_up_keys || scan.has_other_arguments)
            && !(scan.draws || scan.uses_json || wrapped.disarms)
            && !names::change_what_follows(script);
        let together = Together {
            script: can_be_together.then(|| (script.into(), ttls)),
            made: OnceLock::new(),
        };
        Self { is_read_only, together, ..wrapped.program(sent, script, &scan, sha, ttls) }
    }

    /// Whether several calls can be sent as one.
    pub fn can_be_together(&self) -> bool {
        self.together.script.is_some()
    }

    /// What runs several calls of this at once, each with one key of its own: see `together.lua`. `None`: there is none.
    pub fn together(&self) -> Option<&Arc<Self>> {
        let (script, ttls) = self.together.script.as_ref()?;
        let make = || Arc::new(Self::wrap_together(script, &self.name, *ttls));
        Some(self.together.made.get_or_init(make))
    }

    fn wrap_together(script: &[u8], sha: &str, ttls: Ttls) -> Self {
        let scan = Scan::of(script);
        let wrapped = Wrapped {
            frame: &TOGETHER,
            parameters: "redis",
            names: String::new(),
            before: String::new(),
            disarms: false,
            lines: line_feeds(script) + 1,
        };
        wrapped.program(b"", script, &scan, sha, ttls)
    }

    /// A library's `code` that calls one of its functions. The function says what Redis asks of a script's shebang.
    pub fn function(code: &[u8], function: &OfLibrary, ttls: Ttls, guard: Option<&Guard>) -> Self {
        let is_read_only = function.is_read_only();
        let shebang = if is_read_only { String::new() } else { shebang::spelled(function.flags) };
        let part = ProgramPart { code, function: Some(function) };
        let program = Self::of_library(part, shebang.as_bytes(), ttls, guard);
        Self { is_read_only, ..program }
    }

    /// A library's `code` that tells which functions it registers, or why it does not. It changes nothing.
    pub fn registration(code: &[u8], ttls: Ttls, guard: Option<&Guard>) -> Self {
        Self::of_library(ProgramPart { code, function: None }, b"", ttls, guard)
    }

    /// All that a library calls is looked at: what `redis` is depends on whether it is loaded or called.
    fn of_library(
        part: ProgramPart<'_>,
        shebang: &[u8],
        ttls: Ttls,
        guard: Option<&Guard>,
    ) -> Self {
        let code = &*assigned::refused(part.code);
        let part = ProgramPart { code, ..part };
        let mut scan = Scan::of_library(part.code);
        scan.is_dynamic = true;
        scan.sees_globals |= names::lead_to_globals(part.code);
        let parameters = if scan.sees_globals { names::GIVEN } else { "redis,KEYS,ARGV" };
        let open = Open { guard, globals: scan.sees_globals };
        let wrapped = Wrapped {
            frame: Frame::of(scan.makes_up_keys),
            parameters,
            names: open.names(&[part]),
            before: open.library(part.function),
            disarms: names::set_metatables(part.code),
            lines: line_feeds(part.code) + 1,
        };
        let label = part.function.map_or_else(|| "@".to_owned(), OfLibrary::label);
        wrapped.program(shebang, part.code, &scan, &label, ttls)
    }

    /// The script of a `MULTI` in which `scripts` are run, wrapped like any other, and the first and
    /// last line of each of them in it. A guard keeps them to the rules of a user; it is not about the
    /// commands beside them.
    pub fn transaction(
        scripts: &[ProgramPart<'_>],
        ttls: Ttls,
        guard: Option<&Guard>,
        databases: Databases,
    ) -> (Self, Vec<(usize, usize)>) {
        let renamed: Vec<_> = scripts.iter().map(|part| assigned::refused(part.code)).collect();
        let parts = scripts.iter().zip(&renamed);
        let scripts =
            &parts.map(|(part, code)| ProgramPart { code, ..*part }).collect::<Vec<_>>()[..];
        let lead = |script: &ProgramPart<'_>| names::lead_to_globals(script.code);
        let open = Open { guard, globals: scripts.iter().any(lead) };
        let parameters = if open.globals { names::GIVEN } else { "redis,KEYS,ARGV" };
        // What comes before anything of ours cannot see it.
        let mut text = b"local scripts={\n".to_vec();
        let (mut places, mut line) = (Vec::new(), line_feeds(&text) + 1);
        for ProgramPart { code: script, .. } in scripts {
            let last = line + line_feeds(script);
            places.push((line, last));
            text.extend_from_slice(
                format!("function({parameters}) return {}", opening(script)).as_bytes(),
            );
            text.extend_from_slice(script);
            text.extend_from_slice(b"\nend end,\n");
            line = last + 2;
        }
        text.extend_from_slice(b"}\n");
        text.extend_from_slice(EXPLAIN.as_bytes());
        text.extend_from_slice(open.scripts(scripts).as_bytes());
        text.extend_from_slice(compact(include_str!("program/transaction.lua")).as_bytes());
        let makes_up = |part: &ProgramPart<'_>| match part.function {
            Some(_) => Scan::of_library(part.code).makes_up_keys,
            None => Scan::of(part.code).makes_up_keys,
        };
        let make_up_keys = databases == Databases::Several || scripts.iter().any(makes_up);
        let wrapped = Wrapped {
            frame: Frame::of(make_up_keys),
            parameters: "redis",
            names: String::new(),
            before: KEEPS_FROM_WRITING.to_owned(),
            disarms: scripts.iter().any(|script| names::set_metatables(script.code)),
            lines: line_feeds(&text) + 1,
        };
        let mut scan = Scan::of(&text);
        scan.is_dynamic = true;
        let is_plain = scripts.is_empty() && databases == Databases::One;
        let place = if is_plain { Place::Ours } else { Place::default() };
        let program = wrapped.program(b"", &text, &scan, "of a transaction", ttls);
        (Self { place, ..program }, places)
    }

    /// The SHA1 of the client's script, or that it is one of a transaction or command.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A text that every proxy with these settings uses.
    pub(super) fn ours(text: Vec<u8>) -> Self {
        Self::of(text, 0, Place::Ours)
    }

    /// Whether the client's script forbids to change anything by its shebang (`no-writes`).
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Masters are asked to run it: the next time it is known to come again.
    pub fn runs(&self) {
        self.place.runs();
    }

    /// The program that can run it, given its [code](Self::code).
    pub(super) fn runner(&self) -> Arc<Self> {
        runner::with(shebang::bits(&self.text[..self.shebang]))
    }

    /// The text as `loadstring` takes it: the flags of the shebang are those of whoever runs it.
    pub fn code(&self) -> &[u8] {
        &self.text[self.shebang..]
    }

    /// The commands that a script names, in its own spelling; none if it makes some up as it runs.
    pub fn commands_of(text: &[u8]) -> Option<Vec<String>> {
        let scan = Scan::of(text);
        (!scan.is_dynamic).then(|| scan.handlers.into_keys().collect())
    }

    fn of(text: Vec<u8>, shebang: usize, place: Place) -> Self {
        let sha = Sha1::from(&text).hexdigest();
        let (name, together) = (Box::default(), Together::default());
        Self { text, sha, name, shebang, is_read_only: false, place, together }
    }
}

fn line_feeds(text: &[u8]) -> usize {
    steps(text.len());
    text.iter().filter(|byte| **byte == b'\n').count()
}

/// Makes the program of a transaction, which is given what keeps a script in it from writing.
const KEEPS_FROM_WRITING: &str = "\
local transaction,outside=program(given),mode
program=function() return transaction(function(is_kept) mode=is_kept and 'ro' or outside end) end
";

/// How a script begins as a function. Nobody gives it arguments, so it takes some only if it asks for those: else it would find
/// a table `arg`, which Lua makes anew for every call, and Redis does not know.
fn opening(text: &[u8]) -> &'static str {
    steps(text.len());
    let names_arguments = text.windows(3).any(|bytes| bytes == b"...");
    if names_arguments { "function(...) " } else { "function() " }
}

/// A text that becomes a function of its own, and what is particular about it.
struct Wrapped {
    frame: &'static Frame,
    /// What a text that does not name all its commands sees in place of the real things.
    parameters: &'static str,
    /// Declares what `before` knows of it. Nothing is filled in there: it is made of the client's words.
    names: String,
    /// What makes a program of it, if it is such a text.
    before: String,
    /// Its reply may do something when it is read.
    disarms: bool,
    lines: usize,
}

impl Wrapped {
    fn program(
        self,
        shebang: &[u8],
        text: &[u8],
        scan: &Scan<'_>,
        sha: &str,
        ttls: Ttls,
    ) -> ProgramText {
        let mut wrapped = shebang.to_vec();
        if text.starts_with(b"\n") {
            wrapped.push(b'\n');
        }
        let (head, end) = match scan.is_dynamic {
            true => (
                format!("local program=function({}) return {}", self.parameters, opening(text)),
                " end",
            ),
            false => (format!("{} local program={}", self.frame.names(scan), opening(text)), ""),
        };
        wrapped.extend_from_slice(head.as_bytes());
        let first_line = usize::from(text.starts_with(b"\n"));
        wrapped.extend_from_slice(&scan.rewritten(text, self.frame.is_cheap)[first_line..]);
        wrapped.extend_from_slice(format!("\nend{end}\n{}", self.names).as_bytes());
        // No command of the script has an underscore in its name.
        let after = ttls
            .fill_in(&self.around(scan))
            .replace("LAST_LINE", &self.lines.to_string())
            .replace("SCRIPT_SHA", &format!("'{sha}'"));
        wrapped.extend_from_slice(after.as_bytes());
        let program = ProgramText::of(wrapped, shebang.len(), Place::default());
        ProgramText { name: sha.into(), ..program }
    }

    /// What comes after the client's text.
    fn around(&self, scan: &Scan<'_>) -> String {
        let mut text = self.frame.head.clone();
        if scan.draws {
            // Without this, masters of different ages would draw different numbers. A program that begins anew draws the same.
            text.push_str("math.randomseed((now - (whole and whole[5] or 0)) % 2147483647)\n");
        }
        if scan.uses_json {
            text.push_str(&JSON);
        }
        text.push_str(&if scan.is_dynamic {
            any_call(self.frame, scan)
        } else {
            careful_calls(self.frame, scan)
        });
        text.push_str(&self.before);
        let disarmed = if self.disarms { DISARM.as_str() } else { "" };
        let forget = if scan.careful.is_empty() { "" } else { "made=nil\n" };
        text + &self.frame.run.replace("DISARM\n", disarmed).replace("FORGET_HANDLERS\n", forget)
    }
}

/// What a script is opened with: its parameters get their values.
struct Open<'a> {
    guard: Option<&'a Guard>,
    globals: bool,
}

impl Open<'_> {
    /// Makes the program of a text that does not name all its commands.
    fn program(&self) -> String {
        let mut lua = self.functions();
        if self.guard.is_some() {
            lua.push_str("given=guarded(given)\n");
        }
        let given = if self.globals { "globals_of(given,KEYS,ARGV)" } else { "given" };
        lua.push_str(&format!("program=program({given})\n"));
        if self.guard.is_some() {
            lua.push_str("program=known_only(program,names[1])\n");
        }
        lua
    }

    /// Makes the program of a library, which calls this function, or tells what it registers. It has neither `KEYS` nor
    /// `ARGV`.
    fn library(&self, function: Option<&OfLibrary>) -> String {
        let mut lua = self.functions() + &LIBRARY;
        if self.guard.is_some() {
            lua.push_str("given=guarded(given)\n");
        }
        let wanted = function.map_or_else(String::new, |it| format!(",'{}'", it.name));
        lua.push_str(&format!("local run\ngiven,run=of_library(given{wanted})\n"));
        let given = if self.globals { "globals_of(given)" } else { "given" };
        lua.push_str(&format!("program=program({given})\n"));
        if self.guard.is_some() {
            lua.push_str("program=known_only(program,names[1])\n");
        }
        lua + "program=run(program,KEYS,ARGV)\n"
    }

    /// Declares the names to look for on the masters, one text for each script.
    fn names(&self, scripts: &[ProgramPart<'_>]) -> String {
        if self.guard.is_none() {
            return String::new();
        }
        let unknown: Vec<_> = scripts.iter().map(|part| names::unknown(part.code)).collect();
        format!("local names={{'{}'}}\n", unknown.join("','"))
    }

    /// Declares `opened`, which makes the program of the script with this number in a transaction.
    fn scripts(&self, scripts: &[ProgramPart<'_>]) -> String {
        let mut lua = self.functions();
        let given = if self.guard.is_some() { "guarded(redis)" } else { "redis" };
        let known = |opened: &str| match self.guard {
            Some(_) => format!("known_only({opened},names[number])"),
            None => opened.to_owned(),
        };
        if self.guard.is_some() {
            lua.push_str(&self.names(scripts));
        }
        let values = if self.globals { "globals_of(given,...)" } else { "given,..." };
        lua.push_str(&format!("local given={given}\n"));
        let mut of_libraries = String::new();
        if scripts.iter().any(|part| part.function.is_some()) {
            lua.push_str(&LIBRARY);
            let names = scripts.iter().map(|part| match part.function {
                Some(function) => format!("'{}'", function.name),
                None => "false".to_owned(),
            });
            let names: Vec<_> = names.collect();
            lua.push_str(&format!("local functions={{{}}}\n", names.join(",")));
            let values = if self.globals { "globals_of(given)" } else { "given" };
            of_libraries = format!(
                "if functions[number] then\nlocal given,run=of_library(given,functions[number])\n\
                 return run({},...)\nend\n",
                known(&format!("scripts[number]({values})"))
            );
        }
        let opened = known(&format!("scripts[number]({values})"));
        lua + &format!("local function opened(number,...)\n{of_libraries}return {opened}\nend\n")
    }

    fn functions(&self) -> String {
        let guard = self.guard.map(|guard| compact(&guard.lua) + &KNOWN).unwrap_or_default();
        if self.globals { guard + &CLOSED } else { guard }
    }
}

impl Ttls {
    /// As configured.
    pub fn of(settings: &Settings) -> Self {
        let pad = Pad::new(settings.vote_timeout, settings.drift);
        Self { pad, longest: settings.max_ttl }
    }

    fn fill_in(self, lua: &str) -> String {
        let longest_ms = self.longest.map(|longest| longest.as_millis().to_string());
        let longest = self.longest.map(humantime::format_duration);
        lua.replace("CLOCK_DRIFT", &self.pad.drift().to_string())
            .replace("VOTE_TIMEOUT_MS", &self.pad.vote_timeout().as_millis().to_string())
            .replace("MAX_TTL_MS", longest_ms.as_deref().unwrap_or("math.huge"))
            .replace("LONGEST_TTL", &longest.map(|it| it.to_string()).unwrap_or_default())
            .replace("SLACK_MS", &keyspace::SLACK_MS.to_string())
            .replace("LONGEST_REPLY", &keyspace::LONGEST_REPLY.to_string())
            .replace("LAST_PROGRAMS", &keyspace::KEEP.last.to_string())
            .replace("MOST_PROGRAMS", &(keyspace::KEEP.last + keyspace::KEEP.workers).to_string())
            .replace("OLD_US", &keyspace::KEEP.age_us.to_string())
            .replace("PREFIX_BYTES", &reserved::PREFIX.len().to_string())
            .replace("RESERVED_PREFIX", &format!("\"{}\"", reserved::PREFIX))
            .replace("LIBRARIES", &format!("\"{}\"", reserved::LIBRARIES))
            .replace("RESERVED_NAME", &format!("\"{}\"", reserved::REFUSAL))
            .replace("LONGEST_CHANNEL", &channel::LONGEST_NAME.to_string())
            .replace("CHANNEL_TOO_LONG", &format!("\"{}\"", channel::TOO_LONG))
    }
}

/// Another `redis`, which knows every command.
fn any_call(frame: &Frame, scan: &Scan<'_>) -> String {
    let entry = |(name, handler): (&String, &Handler)| {
        format!("[\"{name}\"]={},", (frame.handler)(name, handler))
    };
    let how: String = scan.handlers.iter().map(entry).collect();
    parts::before(&frame.library, &format!("how={{{how}}}\n{}", *ANY))
}

/// What is called instead of `redis.call` where that needs care. Many a script that is refused something
/// has only read before: these functions are made when the first of them is called.
fn careful_calls(frame: &Frame, scan: &Scan<'_>) -> String {
    let made = |(name, handler): (&String, &Handler)| {
        let handler = (frame.handler)(name, handler);
        let handler = if handler == READ { "" } else { handler };
        format!("made.{name}=closed({handler})\n")
    };
    let made: String = scan.careful.iter().map(made).collect();
    if made.is_empty() {
        return made;
    }
    if !frame.is_cheap {
        let body = parts::before(&frame.library, &format!("{made}return made[name]\n"));
        return format!("setmetatable(careful,{{__index=function(made,name)\n{body}end}})\n");
    }
    let body = parts::before(&frame.library, &made);
    let mut lua = format!(
        "local made\nlocal function handled(name)\nif not made then\nmade={{}}\n{body}end\nreturn made[name]\nend\n"
    );
    if scan.has_others {
        lua.push_str(
            "setmetatable(careful,{__index=function(_,name)\nreturn handled(name)\nend})\n",
        );
    }
    let cheap: String = scan.cheap.iter().map(|it| format!("careful_{it}={it}\n")).collect();
    lua + &parts::before(&CHEAP, &cheap)
}

/// As part of a function.
fn indented(lua: &str) -> String {
    lua.lines().map(|line| format!("  {line}\n")).collect()
}

/// How many calls of a script a master is sent at once.
#[derive(Clone, Copy)]
enum Calls {
    One,
    Several,
}

static JSON: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/json.lua")));
static ANY: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/redis.lua")));
/// What comes after the client's text.
struct Frame {
    /// What is done with a command of this name.
    handler: fn(&str, Handler) -> Handler,
    /// It has functions for what scripts do most often with one key.
    is_cheap: bool,
    /// Declares the tables that the script finds keys and arguments in, where they are not those of the master.
    tables: &'static str,
    head: String,
    library: Vec<Statement>,
    run: String,
}

impl Frame {
    /// `save` is what is done before a key changes, `keys` whose keys masters tell, and `ttl` what is made of times to live.
    fn new(
        handler: fn(&str, Handler) -> Handler,
        head: &str,
        [save, keys, ttl]: [&str; 3],
        run: &str,
    ) -> Self {
        let (shim, completes) =
            (include_str!("program/shim.lua"), include_str!("program/completes.lua"));
        let place = |(name, first): &(&str, usize)| format!("['{name}']={}", first + 1);
        let places: Vec<_> = zero::FIRST_OPTIONS.iter().map(place).collect();
        let shim = shim
            .replace("CUTTABLE", &places.join(","))
            .replace("CUT_OPTIONS", &zero::OPTIONS.join(" "))
            .replace("IS_REFUSAL", include_str!("keyspace/refusal.lua"))
            .replace("HUNGRY", &handlers::writing(true))
            .replace("FRUGAL", &handlers::writing(false));
        let hidden = include_str!("program/hidden.lua");
        let (chance, streams) =
            (include_str!("program/chance.lua"), include_str!("program/streams.lua"));
        let rare = rare(handler);
        let parts = [save, &shim, keys, chance, ttl, completes, hidden, streams, &rare];
        let library = statements(&parts.concat());
        let run = compact(&run.replace("EXPLAIN", &EXPLAIN));
        Self { handler, is_cheap: false, tables: "", head: compact(head), library, run }
    }

    /// The one for scripts that may use keys which they do not declare, or not.
    fn of(makes_up_keys: bool) -> &'static Self {
        if makes_up_keys { &MADE_UP } else { &DECLARED }
    }

    /// What is done about images of what keys held: where they are, and how one is made and all are given back.
    fn on_registers(calls: Calls, [images, keep, give_back]: [&str; 3]) -> Self {
        let finish = format!(
            "finish = function(reply, messages, db, remembered)\n{}end\n",
            include_str!("keyspace/stamps.lua")
        );
        let general =
            [keyspace::KIND, keyspace::STAMP, include_str!("keyspace/head.lua"), &finish].concat();
        let whole = |lua: &str| {
            lua.replace("EXPECTED\n", include_str!("keyspace/expected.lua"))
                .replace("KEPT\n", include_str!("keyspace/kept.lua"))
                .replace("RAN\n", include_str!("keyspace/ran.lua"))
                .replace("GENERAL", &general)
                .replace("REMEMBERED", keyspace::REMEMBERED)
                .replace("RECENT_OF", keyspace::RECENT)
                .replace("IS_BELOW", keyspace::BELOW)
                .replace("KIND_OF", keyspace::KIND)
                .replace("NIL_AS_NULL", include_str!("keyspace/null.lua"))
        };
        let save = include_str!("keyspace/save.lua")
            .replace("IMAGES\n", images)
            .replace("  KEEP_IMAGE\n", &indented(keep))
            .replace("  GIVE_BACK\n", &indented(give_back));
        let (head, run) = match calls {
            Calls::One => (
                whole(include_str!("keyspace/one.lua"))
                    .replace("THE_FLUSH", "#here_and_mode > 7 and sub(here_and_mode, 8)"),
                whole(include_str!("keyspace/run.lua"))
                    .replace("OWN_TIME", include_str!("keyspace/own_time.lua"))
                    .replace("SAME_STAYS", "nil")
                    .replace("KEEP_STAYS\n", "")
                    .replace("KEEP_STAMP", "call('SET', companion_key, stamp)"),
            ),
            Calls::Several => (
                include_str!("keyspace/together.lua").to_owned(),
                whole(include_str!("keyspace/each.lua"))
                    .replace("THE_FLUSH", "#word > 56 and sub(word, 57)")
                    .replace("OWN_TIME\n", "")
                    .replace("SAME_STAYS", SAME_STAYS)
                    .replace("KEEP_STAYS", "last_end, at_us, last_stays = the_end, now, stays")
                    .replace("KEEP_STAMP", KEEP_FOR_ALL),
            ),
        };
        let keys = include_str!("keyspace/keys.lua").replace("WITHOUT_KEYS", WITHOUT_KEYS);
        let ttl = include_str!("keyspace/ttl.lua");
        Self::new(handlers::on_registers, &head, [&save, &keys, ttl], &run)
    }

    /// Declares the names that a script that names all its commands calls instead of `redis.call`.
    fn names(&self, scan: &Scan<'_>) -> String {
        if !self.is_cheap {
            return "local careful={}".to_owned();
        }
        let tables = self.tables.to_owned();
        let careful = if scan.has_others { "local careful={}" } else { "" };
        let cheap = scan.cheap.iter().map(|it| format!(" local careful_{it}"));
        tables + careful + &cheap.collect::<String>()
    }
}

/// For scripts that use no key but those that they declare. Should one come to another all the same, it is not run again.
static DECLARED: LazyLock<Frame> = LazyLock::new(|| {
    let frame = Frame::on_registers(Calls::One, ["", "", include_str!("keyspace/too_late.lua")]);
    Frame { is_cheap: true, ..frame }
});

/// The same for several calls of one script at once.
static TOGETHER: LazyLock<Frame> = LazyLock::new(|| {
    let parts = ["", "", include_str!("keyspace/too_late.lua")];
    let tables = "local KEYS,ARGV={},{} ";
    Frame { is_cheap: true, tables, ..Frame::on_registers(Calls::Several, parts) }
});

/// Of the same end a moment later: it stays so long, and less than a millisecond more.
const SAME_STAYS: &str = "text ~= clean_text and the_end == last_end and now >= at_us and now - at_us < 1000 and last_stays";

/// All stamps are written at once.
const KEEP_FOR_ALL: &str =
    "stamps_kept[places + 1], stamps_kept[places + 2] = companion_key, stamp\nplaces = places + 2";

/// For scripts that may come to another key after they have written: then all that they have written is given back, in the
/// same run, and they run again with that key.
static MADE_UP: LazyLock<Frame> = LazyLock::new(|| {
    let (keep, give_back) =
        (include_str!("keyspace/keep_image.lua"), include_str!("keyspace/give_back.lua"));
    Frame::on_registers(Calls::One, ["local images = {}\n", keep, give_back])
});
static CHEAP: LazyLock<Vec<Statement>> = LazyLock::new(|| {
    let cheap = include_str!("keyspace/cheap.lua");
    statements(&cheap.replace("IS_REFUSAL\n", &indented(include_str!("keyspace/refusal.lua"))))
});
static CLOSED: LazyLock<String> = LazyLock::new(|| {
    let lua = compact(include_str!("program/globals.lua"));
    lua.replace("GIVEN_NAMES", names::GIVEN).replace("GLOBAL_NAMES", names::GLOBALS)
});
static LIBRARY: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/library.lua")));
static KNOWN: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/known.lua")));
static DISARM: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/harmless.lua")));
static EXPLAIN: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/explain.lua")));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::Users;

    fn wrapped(script: &str, rules: Option<&str>) -> String {
        let ttls = Ttls { pad: Pad::new(Duration::ZERO, 0.0), longest: None };
        let users = rules.map(|rules| Users::parse([rules], None).unwrap());
        let guard = users.as_ref().map(|users| users.named(b"alice").unwrap().guard());
        let program = ProgramText::wrap_guarded(script.as_bytes(), "", ttls, guard.map(|it| &**it));
        String::from_utf8(program.text).unwrap()
    }

    const GET: &str = "return redis.call('get', KEYS[1])";

    #[test]
    fn a_guarded_script_calls_nothing_by_itself() {
        let free = wrapped(GET, None);
        assert!(!free.contains("guarded") && free.starts_with(" local program="));
        let guarded = wrapped(GET, Some("alice +get"));
        assert!(guarded.starts_with("local program=function(redis) return function() return "));
        assert!(guarded.contains("\ngiven=guarded(given)\nprogram=program(given)\n"));
        assert!(!guarded.contains("globals_of"));
    }

    /// Rules must not hang on our reader of Lua finding the same comments as Redis's.
    #[test]
    fn globals_are_looked_after_wherever_their_names_stand() {
        for script in ["-- _G", "--[==[ load ]==]", "return 'server'", "return [[loadstring]]"] {
            let guarded = wrapped(script, Some("alice +get"));
            let given = guarded.split_once("given=guarded(given)\n").map(|(_, after)| after);
            let closed =
                given.is_some_and(|it| it.starts_with("program=program(globals_of(given,"));
            assert!(
                closed && guarded.contains(&format!("function({}) ", names::GIVEN)),
                "{script}"
            );
        }
    }

    #[test]
    fn a_script_that_names_no_globals_pays_nothing_for_them() {
        for script in [GET, "local payload, reload = 1, 2", "return {err='_G1'}"] {
            for rules in [None, Some("alice +get")] {
                let program = wrapped(script, rules);
                assert!(
                    !program.contains("globals_of") && !program.contains("harmless"),
                    "{script}"
                );
            }
        }
    }

    /// Runs the program of a script of alice, on a master that has a `redis` by another name.
    fn said_by_a_strange_master(script: &str) -> String {
        let lua = mlua::Lua::new();
        let master = "redis={call=function() return 'the secret' end, setresp=function() end} \
             redis.pcall=redis.call strange=redis KEYS={} ARGV={'000000000rw' .. ('0'):rep(16) .. ('\\0'):rep(16)} \
             cmsgpack={pack=tostring} struct={}";
        lua.load(master).exec().unwrap();
        let envelope: mlua::Table =
            lua.load(wrapped(script, Some("alice ~lock:* +get"))).eval().unwrap();
        match envelope.get(2).unwrap() {
            mlua::Value::Table(error) => error.get("err").unwrap(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_global_that_redis_has_not_leads_nowhere() {
        let refused =
            "ERR Script attempted to access nonexistent global variable 'strange' script: ";
        let said = said_by_a_strange_master("return strange.call('get', 'secret')");
        assert!(said.starts_with(refused), "{said}");
        let loaded = "return loadstring('return str' .. 'ange')().call('get', 'secret')";
        let said = said_by_a_strange_master(loaded);
        assert!(said.contains("nonexistent global variable 'strange'"), "{said}");
        let said = said_by_a_strange_master("return _G['str' .. 'ange'].call('get', 'secret')");
        assert!(said.contains("nonexistent global variable 'strange'"), "{said}");
        assert!(said_by_a_strange_master("return type(tostring)").contains("function"));
    }
}
