//! The lock scripts that libraries send, one per shape, each with the reply conventions that its
//! library reads.
//!
//! The comments name libraries that use the shape. Spaces, quotes and letter case differ between
//! the scripts on purpose: a proxy must recognise the shape, not the text.

/// A script that takes one key and, as its first argument, the token.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    pub name: &'static str,
    pub text: &'static str,
    /// Integer reply for "another token holds the key, not this one".
    pub not_holder: i64,
    /// Integer reply for "nobody holds the key".
    pub nobody: i64,
}

/// Compare-and-delete. Arguments: token. A successful release answers 1.
pub const RELEASES: [Script; 4] = [
    // redlock-py, redlock-php, redsync before 4.12, php-lock, Laravel, node-redlock 1 to 3, rslock
    // and many more.
    Script {
        name: "release with else",
        text: r#"if redis.call("get",KEYS[1]) == ARGV[1] then
            return redis.call("del",KEYS[1])
        else
            return 0
        end"#,
        not_holder: 0,
        nobody: 0,
    },
    // DistributedLock, rueidislock.
    Script {
        name: "release without else",
        text: "if (redis.call('get', KEYS[1]) == ARGV[1]) then return redis.call('del', KEYS[1]) end return 0",
        not_holder: 0,
        nobody: 0,
    },
    // redsync since 4.12.
    Script {
        name: "release that tells absent from foreign",
        text: r#"local held = redis.call("GET", KEYS[1])
            if held == ARGV[1] then return redis.call("DEL", KEYS[1])
            elseif held == false then return -1
            else return 0 end"#,
        not_holder: 0,
        nobody: -1,
    },
    // redis-py.
    Script {
        name: "release with early return",
        text: r"local token = redis.call('get', KEYS[1])
            if not token or token ~= ARGV[1] then return 0 end
            redis.call('del', KEYS[1])
            return 1",
        not_holder: 0,
        nobody: 0,
    },
];

/// Compare-and-expire of a held lock only. Arguments: token, milliseconds. A successful extension
/// answers 1.
pub const EXTENSIONS: [Script; 4] = [
    // redsync, node-redlock 1 to 3, pottery, redis-plus-plus, ShedLock.
    Script {
        name: "extend with else",
        text: r#"if redis.call("GET", KEYS[1]) == ARGV[1] then
            return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end"#,
        not_holder: 0,
        nobody: 0,
    },
    // DistributedLock.
    Script {
        name: "extend without else",
        text: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end; return 0",
        not_holder: 0,
        nobody: 0,
    },
    // rslock.
    Script {
        name: "extend by SET",
        text: r#"if redis.call("get", KEYS[1]) ~= ARGV[1] then
            return 0
        else
            if redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) ~= nil then
                return 1
            else
                return 0
            end
        end"#,
        not_holder: 0,
        nobody: 0,
    },
    // redis-py's reacquire.
    Script {
        name: "extend with early return",
        text: r"local token = redis.call('get', KEYS[1])
            if not token or token ~= ARGV[1] then return 0 end
            redis.call('pexpire', KEYS[1], ARGV[2])
            return 1",
        not_holder: 0,
        nobody: 0,
    },
];

/// RedLock.net: extends a lock it holds, takes one that nobody holds.
pub const EXTEND_OR_TAKE: &str = r"local currentVal = redis.call('get', KEYS[1])
if (currentVal == false) then
    return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) and 1 or 0
elseif (currentVal == ARGV[1]) then
    return redis.call('pexpire', KEYS[1], ARGV[2])
else
    return -1
end";

/// node-redlock 2 and 3: a claim as a script. Arguments: token, milliseconds.
pub const TAKE: &str = r#"return redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2])"#;

/// redsync with SetNXOnExtend, symfony before 5.2: a re-entrant claim. Arguments: token,
/// milliseconds.
pub const TAKE_OR_EXTEND: &str = r#"if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("PEXPIRE", KEYS[1], ARGV[2])
elseif redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2], "NX") then
    return 1
else
    return 0
end"#;

/// bsm/redislock 0.9.4: a claim, or a new value under the same token. Arguments: value, length of
/// the token in it, milliseconds.
pub const TAKE_BY_PREFIX: &str = r#"
if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[3]) then return redis.status_reply("OK") end

local offset = tonumber(ARGV[2])
if redis.call("getrange", KEYS[1], 0, offset-1) == string.sub(ARGV[1], 1, offset) then return redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[3]) end
"#;

/// redlock-rb: a claim that gets the same answer when repeated. Arguments: token, milliseconds,
/// whether a new lock is allowed.
pub const TAKE_AGAIN: &str = r#"if (redis.call("exists", KEYS[1]) == 0 and ARGV[3] == "yes") or redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2])
end"#;

/// The release that most libraries send.
pub const RELEASE: &str = RELEASES[0].text;

/// The extension that most libraries send.
pub const EXTEND: &str = EXTENSIONS[0].text;

/// Redisson 3.23 and later: takes the lock, or enters it once more. Answers nil on success, and
/// otherwise the remaining time to live. Arguments: milliseconds, holder.
pub const REDISSON_LOCK: &str = "if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; return redis.call('pttl', KEYS[1]);";

/// Redisson 3.24 and later: releases one level and notifies waiting clients. Keys: lock, channel,
/// latch. Arguments: message, milliseconds, holder, publishing command, milliseconds of the latch.
pub const REDISSON_UNLOCK: &str = "local val = redis.call('get', KEYS[3]); if val ~= false then return tonumber(val);end; if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil;end; local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); redis.call('set', KEYS[3], 0, 'px', ARGV[5]); return 0; else redis.call('del', KEYS[1]); redis.call(ARGV[4], KEYS[2], ARGV[1]); redis.call('set', KEYS[3], 1, 'px', ARGV[5]); return 1; end;";
