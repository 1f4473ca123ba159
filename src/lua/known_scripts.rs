//! Scripts of lock libraries, byte for byte as the libraries send them.
//!
//! The SHA1 next to each is the one that its library sends with `EVALSHA`; a test hashes the texts. Two libraries for
//! .NET send CRLF or LF, depending on where they were built. Their scripts have a second SHA1.

/// Script of a library.
pub(super) struct Known {
    /// Library and versions that send it.
    pub(super) library: &'static str,
    /// SHA1 of the text.
    pub(super) sha1: &'static str,
    /// SHA1 of the text with CRLF line ends, if a build with these exists.
    pub(super) sha1_crlf: Option<&'static str>,
    /// Text of the script.
    pub(super) text: &'static str,
}

/// Returns the script with this SHA1 in lower case, with either line end.
pub(super) fn by_sha(sha: &str) -> Option<&'static Known> {
    let is_it = |known: &&Known| known.sha1 == sha || known.sha1_crlf == Some(sha);
    ALL.iter().copied().flatten().find(is_it)
}

/// All groups.
const ALL: &[&[Known]] = &[
    RELEASES,
    RELEASES_THAT_TELL_MISSING,
    RELEASES_WITH_ERRORS,
    RELEASES_IN_BOOLEANS,
    EXTENDS,
    EXTENDS_IN_BOOLEANS,
    EXTENDS_BY_SET,
    CLAIMS,
    ACQUIRES,
    ACQUIRES_THAT_TELL_CONFLICT,
    ACQUIRES_IN_BOOLEANS,
    ACQUIRES_WITH_ERRORS,
    ACQUIRES_IF_TOLD,
    ACQUIRES_BY_PREFIX,
    ACQUIRES_IN_BULKS,
];

/// Compares and deletes: 1 if deleted, 0 otherwise.
pub(super) const RELEASES: &[Known] = &[
    Known {
        library: "antirez/redlock-rb, redlock-py",
        sha1: "4e92fdc63815b3a0a2dd1c1df3694de73607c88d",
        sha1_crlf: None,
        text: r#"
    if redis.call("get",KEYS[1]) == ARGV[1] then
        return redis.call("del",KEYS[1])
    else
        return 0
    end"#,
    },
    Known {
        library: "leandromoreira/redlock-rb 1 and 2",
        sha1: "8e4905cee18e7c3188d10f2b8b170e403baed34f",
        sha1_crlf: None,
        text: r#"      if redis.call("get",KEYS[1]) == ARGV[1] then
        return redis.call("del",KEYS[1])
      else
        return 0
      end
"#,
    },
    Known {
        library: "ronnylt/redlock-php 1.0, symfony/lock 3.4 to 5.1",
        sha1: "bec85b1c518b7ba0348a49c79b24adbb1ca95d3b",
        sha1_crlf: None,
        text: r#"
            if redis.call("GET", KEYS[1]) == ARGV[1] then
                return redis.call("DEL", KEYS[1])
            else
                return 0
            end
        "#,
    },
    Known {
        library: "php-lock/lock 3.1",
        sha1: "d220654d7721ae520b15ed0e24a4cc97024efa08",
        sha1_crlf: None,
        text: r#"if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
else
    return 0
end"#,
    },
    Known {
        library: "go-redsync/redsync 3.0 to 4.11",
        sha1: "00583931c4e4d483f6233879c133c71ed5393f9d",
        sha1_crlf: None,
        text: r#"
	if redis.call("GET", KEYS[1]) == ARGV[1] then
		return redis.call("DEL", KEYS[1])
	else
		return 0
	end
"#,
    },
    Known {
        library: "bsm/redislock 0.3 to 0.9, node-redlock 1 to 3",
        sha1: "cf0e94b2e9ffc7e04395cf88f7583fc309985910",
        sha1_crlf: None,
        text: r#"if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end"#,
    },
    Known {
        library: "Redis::DistLock 0.07",
        sha1: "bfe9502cc2930d7ab50d6d252d1a8a9a10d5964e",
        sha1_crlf: None,
        text: r#"
if redis.call( "get", KEYS[1] ) == ARGV[1] then
    return redis.call( "del", KEYS[1] )
else
    return 0
end
"#,
    },
    Known {
        library: "jacket-code/redlock-cpp",
        sha1: "e9f69f2beb755be68b5e456ee2ce9aadfbc4ebf4",
        sha1_crlf: None,
        text: r#"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"#,
    },
    Known {
        library: "KidFashion/redlock-cs 2.0",
        sha1: "bcbea205a1f0d62a22dcffeaac518c3f3a73065b",
        sha1_crlf: Some("c26c0ae6e3a95d997036b76d9cf197e31bbe6bfc"),
        text: r#"
            if redis.call("get",KEYS[1]) == ARGV[1] then
                return redis.call("del",KEYS[1])
            else
                return 0
            end"#,
    },
    Known {
        library: "samcook/RedLock.net 2.3",
        sha1: "18b2a577dbe847b16bebde190d69a1613d68e60e",
        sha1_crlf: Some("cb0427378f700ddb2f0e9394dbb0a40bd6dba04a"),
        text: r#"if redis.call('get', KEYS[1]) == ARGV[1] then
	return redis.call('del', KEYS[1])
else
	return 0
end"#,
    },
    Known {
        library: "brainix/pottery 3.0",
        sha1: "a4aada0b36710970eedaaaeec4a6b7d8c78c4f80",
        sha1_crlf: None,
        text: r#"
                if redis.call('get', KEYS[1]) == ARGV[1] then
                    return redis.call('del', KEYS[1])
                else
                    return 0
                end
            "#,
    },
    Known {
        library: "laravel/framework 6 to 13",
        sha1: "647c65a442733a1aa440f99908d249d13b4d6c4a",
        sha1_crlf: None,
        text: r#"if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("del",KEYS[1])
else
    return 0
end"#,
    },
    Known {
        library: "ShedLock 7.9 with safeUpdate",
        sha1: "194f3902b2dd08557818d09fc2e7682d91480e53",
        sha1_crlf: None,
        text: r#"if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("del",KEYS[1])
else
    return 0
end
"#,
    },
    Known {
        library: "rslock 0.7 to 0.10",
        sha1: "daf86bbf8740dd3ca86733367a016364b2110627",
        sha1_crlf: None,
        text: r#"
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end
"#,
    },
    Known {
        library: "redis-plus-plus 1.3",
        sha1: "764ece7daa93da82f4fbf4e82e0ade7067dfec70",
        sha1_crlf: None,
        text: r#"
if redis.call("GET",KEYS[1]) == ARGV[1] then
  return redis.call("del",KEYS[1])
else
  return 0
end
"#,
    },
    Known {
        library: "DistributedLock.Redis 1.1.1",
        sha1: "2e47b373b4dbd63ee966d2eb9fe24ed6a138ad4e",
        sha1_crlf: None,
        text: r#"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"#,
    },
    Known {
        library: "rueidislock 1.0",
        sha1: "7726c7be95e2a0ed082ec1da1e26b562f5c8903f",
        sha1_crlf: None,
        text: r#"if redis.call("GET",KEYS[1]) == ARGV[1] then return redis.call("DEL",KEYS[1]) else return 0 end"#,
    },
    Known {
        library: "redis-py 3 to 8, lock",
        sha1: "c3f8721cbb97f72bc19e972846bd7aaf91901658",
        sha1_crlf: None,
        text: r#"
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('del', KEYS[1])
        return 1
    "#,
    },
];

/// Compares and deletes: 1 if deleted, -1 if missing, 0 if another client holds it.
pub(super) const RELEASES_THAT_TELL_MISSING: &[Known] = &[Known {
    library: "go-redsync/redsync 4.12 and later",
    sha1: "e950836ed1e694540c503ef9972b8de518044d3b",
    sha1_crlf: None,
    text: r#"
	local val = redis.call("GET", KEYS[1])
	if val == ARGV[1] then
		return redis.call("DEL", KEYS[1])
	elseif val == false then
		return -1
	else
		return 0
	end
"#,
}];

/// Compares and deletes: 1 if deleted, OK if missing, an error if another client holds it.
pub(super) const RELEASES_WITH_ERRORS: &[Known] = &[Known {
    library: "aioredlock 0.7",
    sha1: "241e4ca540a1cc4ec1f32d9eb9f879e607d7e6e5",
    sha1_crlf: None,
    text: r#"local identifier = redis.call('get', KEYS[1])
if not identifier then
return redis.status_reply('OK')
elseif identifier == ARGV[1] then
return redis.call("del", KEYS[1])
else
return redis.error_reply('ERROR')
end"#,
}];

/// Compares and deletes: true if deleted, false otherwise.
pub(super) const RELEASES_IN_BOOLEANS: &[Known] = &[Known {
    library: "spring-integration 7.0, spin lock",
    sha1: "f0f9038aa2b6d6c3436c72d147573ea2a58f0ef2",
    sha1_crlf: None,
    text: r#"local lockClientId = redis.call('GET', KEYS[1])
if lockClientId == ARGV[1] then
	redis.call('UNLINK', KEYS[1])
	return true
end
return false
"#,
}];

/// Compares and prolongs with PEXPIRE: 1 if prolonged, 0 otherwise.
pub(super) const EXTENDS: &[Known] = &[
    Known {
        library: "go-redsync/redsync 3.0",
        sha1: "53692746b44cae854b8dfa32b177218bbe40baee",
        sha1_crlf: None,
        text: r#"
	if redis.call("GET", KEYS[1]) == ARGV[1] then
		return redis.call("pexpire", KEYS[1], ARGV[2])
	else
		return 0
	end
"#,
    },
    Known {
        library: "go-redsync/redsync 4",
        sha1: "d75bb8b5bd13532ddedd17762e772346e39b321e",
        sha1_crlf: None,
        text: r#"
	if redis.call("GET", KEYS[1]) == ARGV[1] then
		return redis.call("PEXPIRE", KEYS[1], ARGV[2])
	else
		return 0
	end
"#,
    },
    Known {
        library: "bsm/redislock 0.3 to 0.9, node-redlock 1 to 3",
        sha1: "a7aba3bc5d6e99b3003da8b9d80a63b9f4092ecf",
        sha1_crlf: None,
        text: r#"if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end"#,
    },
    Known {
        library: "brainix/pottery 3.0",
        sha1: "ba015a80261b616e7a62d35df0b8e3edbe6c9414",
        sha1_crlf: None,
        text: r#"
                if redis.call('get', KEYS[1]) == ARGV[1] then
                    return redis.call('pexpire', KEYS[1], ARGV[2])
                else
                    return 0
                end
            "#,
    },
    Known {
        library: "symfony/lock 3.4 to 5.1",
        sha1: "ae948f48c8da9feb2e215c474a412c605d33ff30",
        sha1_crlf: None,
        text: r#"
            if redis.call("GET", KEYS[1]) == ARGV[1] then
                return redis.call("PEXPIRE", KEYS[1], ARGV[2])
            else
                return 0
            end
        "#,
    },
    Known {
        library: "redis-plus-plus 1.3",
        sha1: "d9558fccdcd78dcea082d72df1b67924077deac2",
        sha1_crlf: None,
        text: r#"
if redis.call("GET",KEYS[1]) == ARGV[1] then
  return redis.call("pexpire",KEYS[1],ARGV[2])
else
  return 0
end
"#,
    },
    Known {
        library: "ShedLock 7.9 with safeUpdate",
        sha1: "67256370c2d1c87e2250898075542b1a7fa5b917",
        sha1_crlf: None,
        text: r#"if redis.call('get', KEYS[1]) == ARGV[1] then
   return redis.call('pexpire', KEYS[1], ARGV[2])
else
   return 0
end
"#,
    },
    Known {
        library: "DistributedLock.Redis 1.1.1",
        sha1: "e95849a1757fe494b3c802dc09b717d0c074eb21",
        sha1_crlf: None,
        text: r#"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"#,
    },
    Known {
        library: "redis-py 3 to 8, reacquire",
        sha1: "1cac51482acf5858da00f6d685d68f886cd6b6b2",
        sha1_crlf: None,
        text: r#"
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('pexpire', KEYS[1], ARGV[2])
        return 1
    "#,
    },
];

/// Compares and prolongs with PEXPIRE: true if prolonged, false otherwise.
pub(super) const EXTENDS_IN_BOOLEANS: &[Known] = &[Known {
    library: "spring-integration 6.4 to 7.0, renew",
    sha1: "879e0f7b8d83c3266d4e996627438c05dbda0b89",
    sha1_crlf: None,
    text: r#"if (redis.call('GET', KEYS[1]) == ARGV[1]) then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	return true
end
return false
"#,
}];

/// Compares and prolongs with SET PX: 1 if prolonged, 0 otherwise.
pub(super) const EXTENDS_BY_SET: &[Known] = &[Known {
    library: "rslock 0.7 to 0.10",
    sha1: "17a49af0c4b1a9034503fa84f3570f5ca76c4cbf",
    sha1_crlf: None,
    text: r#"
if redis.call("get", KEYS[1]) ~= ARGV[1] then
  return 0
else
  if redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) ~= nil then
    return 1
  else
    return 0
  end
end
"#,
}];

/// SET NX PX: OK or nil.
pub(super) const CLAIMS: &[Known] = &[Known {
    library: "node-redlock 2 and 3",
    sha1: "862f31bf38e9b63ce28d6e9e5143551bb34ef981",
    sha1_crlf: None,
    text: r#"return redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2])"#,
}];

/// Takes or prolongs with PEXPIRE: 1 if held now, 0 otherwise.
pub(super) const ACQUIRES: &[Known] = &[
    Known {
        library: "symfony/lock 3.4 to 5.1, save",
        sha1: "81523960da32c1f15ecab9f1f0fae74f7e943d07",
        sha1_crlf: None,
        text: r#"
            if redis.call("GET", KEYS[1]) == ARGV[1] then
                return redis.call("PEXPIRE", KEYS[1], ARGV[2])
            elseif redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then
                return 1
            else
                return 0
            end
        "#,
    },
    Known {
        library: "go-redsync/redsync 4 with SetNXOnExtend",
        sha1: "b6b55c439e02c6f52ffb8be7ec8c0d0ac816ea79",
        sha1_crlf: None,
        text: r#"
	if redis.call("GET", KEYS[1]) == ARGV[1] then
		return redis.call("PEXPIRE", KEYS[1], ARGV[2])
	elseif redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2], "NX") then
		return 1
	else
		return 0
	end
"#,
    },
];

/// Takes or prolongs with PEXPIRE: 1 if held now, -1 otherwise.
pub(super) const ACQUIRES_THAT_TELL_CONFLICT: &[Known] = &[Known {
    library: "samcook/RedLock.net 2.3, extend",
    sha1: "9f614a785a5f9ae8c6396c6b4bf94d2087342603",
    sha1_crlf: Some("3e7c6bf3e080bb97a92e77362149c26252b98212"),
    text: r#"local currentVal = redis.call('get', KEYS[1])
if (currentVal == false) then
	return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) and 1 or 0
elseif (currentVal == ARGV[1]) then
	return redis.call('pexpire', KEYS[1], ARGV[2])
else
	return -1
end"#,
}];

/// Takes or prolongs with PEXPIRE: true if held now, false otherwise.
pub(super) const ACQUIRES_IN_BOOLEANS: &[Known] = &[Known {
    library: "spring-integration 7.0, obtain",
    sha1: "175897a4e379e99e79a54937be09226f76cdcfe5",
    sha1_crlf: None,
    text: r#"local lockClientId = redis.call('GET', KEYS[1])
if lockClientId == ARGV[1] then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	return true
elseif not lockClientId then
	redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
	return true
end
return false
"#,
}];

/// Takes or prolongs with SET PX: OK if held now, an error otherwise.
pub(super) const ACQUIRES_WITH_ERRORS: &[Known] = &[Known {
    library: "aioredlock 0.7",
    sha1: "c75a9bf1538efcdb1f383acc3e273c5089d57e58",
    sha1_crlf: None,
    text: r#"local identifier = redis.call('get', KEYS[1])
if not identifier or identifier == ARGV[1] then
return redis.call("set", KEYS[1], ARGV[1], 'PX', ARGV[2])
else
return redis.error_reply('ERROR')
end"#,
}];

/// Takes, if `ARGV[3]` is yes, or prolongs with SET PX: OK if held now, nil otherwise.
pub(super) const ACQUIRES_IF_TOLD: &[Known] = &[Known {
    library: "leandromoreira/redlock-rb 1 and 2",
    sha1: "ceb2b2062e40c51a2b3963fd078bc71f11bdc65c",
    sha1_crlf: None,
    text: r#"      if (redis.call("exists", KEYS[1]) == 0 and ARGV[3] == "yes") or redis.call("get", KEYS[1]) == ARGV[1] then
        return redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2])
      end
"#,
}];

/// Takes, or overwrites a value with the same prefix: OK if held now, nil otherwise.
pub(super) const ACQUIRES_BY_PREFIX: &[Known] = &[Known {
    library: "bsm/redislock 0.9.4",
    sha1: "80a1b5f2cfccec3b7119ba7721d2127682b691a7",
    sha1_crlf: None,
    text: r#"
if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[3]) then return redis.status_reply("OK") end

local offset = tonumber(ARGV[2])
if redis.call("getrange", KEYS[1], 0, offset-1) == string.sub(ARGV[1], 1, offset) then return redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[3]) end
"#,
}];

/// Takes or prolongs with SET PX: OK if held now, as a bulk string for an own key; nil otherwise.
pub(super) const ACQUIRES_IN_BULKS: &[Known] = &[Known {
    library: "go-zero, core/stores/redis",
    sha1: "dbecad63894903ddf755d05d73a3eb7432ef75c0",
    sha1_crlf: None,
    text: r#"if redis.call("GET", KEYS[1]) == ARGV[1] then
    redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
    return "OK"
else
    return redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2])
end"#,
}];
