//! Programs that try to escape. A generator combines attacks on the globals of a script with uses of the real
//! `redis`. The secret never shows, and the masters stay as they are.
//!
//! `REDLOCK_ESCAPES_SEED` replays a failure's seed; `REDLOCK_ESCAPES` sets the number of programs, with about four
//! attempts each.

mod support;

use fastrand::Rng;
use support::users::Settings;
use support::{Masters, Proxy, Raw, Reply, encode, setting, target_is_plain_redis};

const SECRET: &str = "the-launch-code";
const CANARY: &str = "alive";

/// The attackers. The last one may read and write everything, but nobody may use `flushall` and its like.
const USERS: [&str; 3] = [
    "alice on >pw ~lock:* +@read +@scripting +@transaction",
    "bob on >pw ~lock:* +@all",
    "carol on >pw ~* &* +@all",
];

#[tokio::test]
async fn a_limited_user_s_script_escapes_its_rules() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(
        &masters,
        &[&Settings::with(&USERS, "").flags()[..], &["--vote-timeout", "5s"]].concat(),
    );
    let mut owner = proxy.raw().await;
    for (key, value) in [("secret", SECRET), ("canary", CANARY), ("lock:1", "mine")] {
        assert_eq!(owner.ask(&["SET", key, value]).await, Reply::ok());
    }
    owner.ask(&["RPUSH", "lock:list", "a", "b"]).await;
    let marked = masters.marks().await;
    let seed = setting("REDLOCK_ESCAPES_SEED").unwrap_or_else(|| fastrand::u64(..));
    let mut rng = Rng::with_seed(seed);
    let mut clients = Vec::new();
    for name in ["alice", "bob", "carol"] {
        let mut client = proxy.raw().await;
        assert_eq!(client.ask(&["AUTH", name, "pw"]).await, Reply::ok());
        clients.push((name, client));
    }
    for _ in 0..setting("REDLOCK_ESCAPES").unwrap_or(3000).div_ceil(BATCH * 3) {
        for (name, client) in &mut clients {
            let programs: Vec<_> =
                (0..BATCH).map(|_| program(&mut rng, *name == "carol")).collect();
            let requests: Vec<_> =
                programs.iter().flat_map(|text| requests(&mut rng, text)).collect();
            try_all(client, &requests)
                .await
                .unwrap_or_else(|why| panic!("{name}, seed {seed}: {why}"));
            for master in masters.iter() {
                let kept = master.ask(&["MGET", "secret", "canary"]).await;
                let as_before = Reply::Array(vec![Reply::bulk(SECRET), Reply::bulk(CANARY)]);
                assert_eq!(kept, as_before, "{name}, seed {seed}: one of {programs:#?}");
                assert_eq!(
                    master.key_count_in(1).await,
                    0,
                    "{name}, seed {seed}: one of {programs:#?}"
                );
            }
            let now = masters.marks().await;
            assert_eq!(now, marked, "{name}, seed {seed}: one of {programs:#?}");
        }
    }
}

/// Programs of a user that are sent at once.
const BATCH: u64 = 25;

/// Sends all requests. The error names the one that showed the secret, or says that hardly any ran to its end.
async fn try_all(client: &mut Raw, requests: &[Vec<String>]) -> Result<(), String> {
    let mut ended = 0;
    let bytes: Vec<u8> = requests.iter().flat_map(|request| encode(request)).collect();
    client.send(&bytes).await;
    for request in requests {
        let (_, bytes) = client.frame().await;
        let said = String::from_utf8_lossy(&bytes);
        if said.contains(SECRET) {
            return Err(format!("{request:?} answers {said}"));
        }
        ended += usize::from(!said.starts_with('-'));
    }
    if 2 * ended < requests.len() { Err(format!("only {ended} of {requests:#?}")) } else { Ok(()) }
}

/// Returns one of the ways to run the program.
fn requests(rng: &mut Rng, text: &str) -> Vec<Vec<String>> {
    let request = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let sha = sha1_smol::Sha1::from(text).hexdigest();
    // Requests for one key wait for each other.
    let key = &format!("lock:{}", rng.u8(10..99));
    let eval = request(&["EVAL", text, "1", key, "get", "secret"]);
    match rng.u8(0..6) {
        0 => vec![request(&["EVAL_RO", text, "1", key, "get", "secret"])],
        1 => vec![
            request(&["SCRIPT", "LOAD", text]),
            request(&["EVALSHA", &sha, "1", key, "get", "secret"]),
        ],
        2 => vec![request(&["MULTI"]), eval, request(&["EXEC"])],
        3 => vec![
            request(&["MULTI"]),
            eval.clone(),
            request(&["GET", "lock:1"]),
            eval,
            request(&["EXEC"]),
        ],
        _ => vec![eval],
    }
}

/// Returns a program of a few consecutive attempts, each of which keeps the changes of those before it. The answer
/// omits addresses, which differ on every master.
fn program(rng: &mut Rng, may_do_everything: bool) -> String {
    let mut text = "local out,redis0,gsub,tostring={},redis,string.gsub,tostring ".to_owned();
    for _ in 0..rng.u8(1..8) {
        let (sabotage, way) = match rng.u8(0..3) {
            0 => unset_and_used(rng),
            _ => (sabotage(rng), way(rng, 3)),
        };
        text += &format!("pcall(function() {sabotage} end) ");
        if rng.bool() {
            // Outside a function, where it reaches the program's own locals.
            text += &format!("{} ", assignment(rng));
        }
        let words = if may_do_everything { pick(rng, FOR_NOBODY) } else { pick(rng, NOT_FOR_THEM) };
        let call = pick(rng, &["call", "pcall"]);
        text += &format!(
            "pcall(function() local r=({way}) local x=r.{call}({words}) \
             if type(x)=='table' then x=x.err or x.ok or table.concat(x,' ') end out[#out+1]=gsub(tostring(x),'0x%x+','') end) "
        );
    }
    text + "return table.concat(out,' ')"
}

/// Returns a name that is assigned another value, or none, and a way that uses this name.
fn unset_and_used(rng: &mut Rng) -> (String, String) {
    let (name, way) = *rng.choice(&WAYS_BY_NAME).expect("there are some");
    let value = if rng.bool() { "nil".to_owned() } else { value(rng) };
    let sabotage = match rng.u8(0..4) {
        0 => format!("rawset(_G,'{name}',{value})"),
        1 => format!("_G['{name}']={value}"),
        2 => format!("local g=_G for k in pairs(g) do if k=='{name}' then g[k]={value} end end"),
        _ => format!("_G.{name}={value}"),
    };
    (sabotage, way.to_owned())
}

const WAYS_BY_NAME: [(&str, &str); 6] = [
    ("redis", "_G.redis"),
    ("_G", "_G._G.redis"),
    ("loadstring", "_G.loadstring('return redis')()"),
    ("load", "_G.load(coroutine.wrap(function() coroutine.yield('return redis') end))()"),
    ("rawget", "_G.rawget(_G,'redis')"),
    ("getmetatable", "_G.getmetatable(redis).__index"),
];

/// Returns an attack on the environment of a script.
fn sabotage(rng: &mut Rng) -> String {
    let (table, name, value) = (pick(rng, TABLES), pick(rng, NAMES), value(rng));
    match rng.u8(0..9) {
        0 => format!("{table}.{name}={value}"),
        1 => format!("rawset({table},'{name}',{value})"),
        2 => format!(
            "setmetatable({table},{{__index={value},__newindex={value},__metatable={value}}})"
        ),
        3 => format!(
            "getmetatable({table}).{}={value}",
            pick(rng, &["__index", "__metatable", "__newindex"])
        ),
        4 => format!("{}={value}", pick(rng, FUNCTIONS)),
        5 => format!(
            "local n=0 for k in pairs({table}) do n=n+1 if n>50 then break end {table}[k]={value} end"
        ),
        6 => format!("table.insert({table},{value}) table.sort({table})"),
        7 => format!("{name}={value}"),
        _ => format!("rawset({table},'__index',{}) rawset({table},'_G',nil)", way(rng, 1)),
    }
}

fn assignment(rng: &mut Rng) -> String {
    match rng.u8(0..4) {
        0 => format!("{}=nil", pick(rng, &["redis", "KEYS", "ARGV"])),
        1 => format!("redis={}", pick(rng, &["redis0", "nil", "{}"])),
        2 => format!("ARGV[{}]='flushall'", rng.u8(1..9)),
        _ => String::new(),
    }
}

fn value(rng: &mut Rng) -> String {
    match rng.u8(0..6) {
        0 | 1 => "nil".to_owned(),
        2 => "{}".to_owned(),
        3 => "function(...) return ... end".to_owned(),
        4 => "function() return true end".to_owned(),
        _ => way(rng, 1),
    }
}

/// Returns an expression that might be the real `redis`.
fn way(rng: &mut Rng, depth: u8) -> String {
    if depth == 0 {
        return pick(rng, ROOTS).to_owned();
    }
    let inner = way(rng, depth - 1);
    let text = format!("return {}", pick(rng, ROOTS));
    match rng.u8(0..14) {
        0 => format!("{}.redis", pick(rng, TABLES)),
        1 => format!("rawget({},'redis')", pick(rng, TABLES)),
        2 => format!("getmetatable({}).__index.redis", pick(rng, TABLES)),
        3 => format!("getmetatable({}).__index({},'redis')", pick(rng, TABLES), pick(rng, TABLES)),
        4 => format!(
            "({}('{text}'))()",
            pick(rng, &["loadstring", "_G.loadstring", "rawget(_G,'loadstring')"])
        ),
        5 => format!(
            "load(coroutine.wrap(function() coroutine.yield('return ') coroutine.yield('{}') end))()",
            pick(rng, ROOTS)
        ),
        6 => format!(
            "loadstring(setmetatable({{}},{{__concat=function() return '{text}' end,__tostring=function() return '{text}' end,__index=string}}))()"
        ),
        7 => format!("loadstring('{}')()", pick(rng, BREAKS)),
        8 => "loadstring(string.dump(function() return redis end))()".to_owned(),
        9 => format!("coroutine.wrap(function() return {inner} end)()"),
        10 => format!("select(2,pcall(function() error({inner}) end))"),
        11 => format!("select(2,xpcall(function() error({inner}) end,function(e) return e end))"),
        12 => format!(
            "(function() local n=0 for k,v in {}({}) do n=n+1 if n>50 then break end if k=='redis' or type(v)=='table' and rawget(v,'call') then return v end end end)()",
            pick(rng, &["pairs", "next,"]),
            pick(rng, TABLES)
        ),
        _ => inner,
    }
}

const ROOTS: &[&str] = &[
    "redis",
    "_G.redis",
    "_G._G.redis",
    "_G[\"redis\"]",
    "server",
    "_G.server",
    "redis0",
    "getfenv().redis",
    "getfenv(0)._G.redis",
    "debug.getregistry()",
    "package.loaded._G.redis",
    "require(\"redis\")",
    "real",
    "given",
    "own.redis",
    "program",
    "KEYS",
    "__redis__err__handler({})",
    "setfenv(1,{}).redis",
    "newproxy(true)",
    "getmetatable(\"\").__index",
    "os",
    "scripts",
    "queue",
    "opened(1)",
    "guarded(redis)",
    "closed(redis)",
];

const TABLES: &[&str] = &[
    "_G",
    "_G._G",
    "redis",
    "_G.redis",
    "string",
    "table",
    "math",
    "getmetatable('')",
    "KEYS",
    "ARGV",
    "coroutine",
    "getmetatable(_G)",
    "getmetatable(redis)",
    "server",
];

const NAMES: &[&str] = &[
    "redis",
    "_G",
    "load",
    "loadstring",
    "server",
    "call",
    "pcall",
    "getmetatable",
    "setmetatable",
    "rawset",
    "rawget",
    "next",
    "pairs",
    "KEYS",
    "ARGV",
    "__index",
    "acl_check_cmd",
];

/// Functions that the proxy's own Lua calls.
const FUNCTIONS: &[&str] = &[
    "string.find",
    "string.lower",
    "string.upper",
    "string.format",
    "string.gsub",
    "string.gmatch",
    "string.match",
    "table.concat",
    "table.insert",
    "table.remove",
    "table.sort",
    "math.min",
    "ipairs",
    "pairs",
    "select",
    "type",
    "tostring",
    "tonumber",
    "unpack",
    "error",
    "pcall",
    "xpcall",
    "rawset",
    "setmetatable",
    "redis.call",
    "next",
];

/// Texts that end the function around them, or look as if they did.
const BREAKS: &[&str] = &[
    "end return redis --",
    "end return function() return redis",
    "end,redis,function()",
    "return redis end --[[",
    "--]] end return redis",
    "return ...",
    "return redis\\nend return redis --",
    "local redis=... return redis",
    "return (function(...) return ... end)(redis)",
];

const NOT_FOR_THEM: &[&str] = &[
    "'get','secret'",
    "'get','secret'",
    "'get','secret'",
    "unpack(ARGV)",
    "'mget','lock:1','secret'",
    "'getrange','secret',0,-1",
    "'dump','secret'",
    "'set','canary','dead'",
    "'append','canary','x'",
    "'del','canary'",
    "'rename','canary','lock:2'",
    "'flushall'",
    "'flushdb','async'",
    "'copy','secret','lock:3'",
    "'sort','lock:list','by','nosort','get','secret'",
    "'eval','return redis.call([[get]],[[secret]])',0",
    "'select','1'",
    "'GET',setmetatable({},{__tostring=function() return 'secret' end})",
    "'bitop','or','lock:4','secret','secret'",
    "'getset','secret','x'",
    "'getdel','secret'",
    "'swapdb','0','1'",
    "'move','canary','1'",
    "'sunionstore','canary','lock:5'",
    "'config','set','dir','/'",
    "'lcs','secret','secret'",
];

const FOR_NOBODY: &[&str] = &[
    "'flushall'",
    "'flushdb'",
    "'FLUSHALL','async'",
    "'swapdb','0','1'",
    "'move','canary','1'",
    "'FlushDB','sync'",
    "'eval','return redis.call([[flushall]])',0",
];

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.usize(..from.len())]
}

/// These values crash a plain Redis 7.0 when raised or returned. The proxy reports an error, the same from all
/// masters.
#[tokio::test]
async fn values_that_end_one_redis_are_errors_here() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let users = ["alice on >pw ~lock:* +@all"];
    let settings = Settings::with(&users, "");
    let proxy =
        Proxy::start(&masters, &[&settings.flags()[..], &["--vote-timeout", "5s"]].concat());
    for user in ["default", "alice"] {
        let mut client = proxy.raw().await;
        if user == "alice" {
            assert_eq!(client.ask(&["AUTH", user, "pw"]).await, Reply::ok());
        }
        for script in TRAPS {
            let said = client.ask(&["EVAL", script, "0"]).await;
            assert!(is_an_error_of_the_script(&said), "{user}: {script}: {said:?}");
            assert_eq!(client.ask(&["MULTI"]).await, Reply::ok());
            client.ask(&["EVAL", script, "0"]).await;
            client.ask(&["SET", "lock:1", "mine"]).await;
            let together = client.ask(&["EXEC"]).await;
            assert_eq!(together, Reply::Array(vec![said, Reply::ok()]), "{user}: {script}");
        }
    }
    for master in masters.iter() {
        assert_eq!(
            master.ask(&["GET", "lock:1"]).await,
            Reply::bulk("mine"),
            "it was not restarted"
        );
    }
}

fn is_an_error_of_the_script(said: &Reply) -> bool {
    match said {
        Reply::Error(why) => {
            !["TRYAGAIN", "CLUSTERDOWN", "UNKNOWN"].iter().any(|code| why.starts_with(code))
        }
        Reply::Array(items) => items.iter().any(is_an_error_of_the_script),
        _ => false,
    }
}

const TRAPS: &[&str] = &[
    "error({})",
    "error({err=true})",
    "error({err={}})",
    "error({err=function() end})",
    "error({nil})",
    "error(print or {})",
    "error(function() end)",
    "error(coroutine.create(function() end))",
    "error(setmetatable({},{__index=function() error('trap') end}))",
    "error(setmetatable({},{__index=error}))",
    "error(setmetatable({},{__index=coroutine.yield}))",
    "error(setmetatable({},{__index=function() return {} end}))",
    "error(setmetatable({},{__tostring=function() error('trap') end}))",
    "error(setmetatable({},{__tostring=function() return 5 end,__metatable=false}))",
    "error(setmetatable({err='MINE is'},{__index=function() error('trap') end}))",
    "error(setmetatable({err='MINE is'},{__newindex=function() error('trap') end}))",
    "error(setmetatable({},{__index=function() return string.rep('x', 5) .. {} end}))",
    "coroutine.wrap(function() error({}) end)()",
    "assert(coroutine.resume(coroutine.create(function() error({}) end)))",
    "local done, why = pcall(error, {}) error(why)",
    "assert(false, {})",
    "xpcall(function() error({}) end, function(why) error(why) end) error({})",
    "return setmetatable({err='MINE is'},{__index=function() error('trap') end})",
    "return setmetatable({err='MINE is'},{__index=function() error('trap') end,__metatable=false})",
    "return {1,{2,setmetatable({err='MINE is',source='x'},{__index=error})}}",
    "return {1,loadstring('return setmetatable({err=[[MINE is]]},{__index=error})')()}",
    "local t = _G['set' .. 'metatable'] return t({err='MINE is'},{__index=error})",
    "local t = {} for i=1,9 do t = {t, setmetatable({err='MINE is'},{__index=error})} end return t",
    "local t = {err='MINE is'} return setmetatable(t,{__index=error,__len=error,__eq=error,__call=error})",
];
