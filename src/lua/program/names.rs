//! Names in a script, however a lexer of Lua reads it. Where rules depend on names, it must not matter whether the
//! proxy's lexer and Redis's agree on what is a comment or a string.
//!
//! A name in Lua is never a part of a longer run of letters, digits and underscores. So these runs include all names,
//! and also some words of comments and strings.

use std::collections::BTreeSet;

use crate::lua::step_budget::steps;

/// Names for which a script gets replacements once it may refer to the real ones, in this order.
pub(super) const GIVEN: &str = "redis,KEYS,ARGV,_G,load,loadstring,server,os,getmetatable,setmetatable,rawget,\
     rawset,next,pairs";

/// Other globals of Redis 7.0. Masters let no script change them or their fields.
pub(super) const GLOBALS: &str = "_VERSION assert bit cjson cmsgpack collectgarbage coroutine error gcinfo \
     ipairs math pcall rawequal select string struct table tonumber tostring type unpack xpcall";

/// Returns whether a script may get a replacement under this name.
pub(super) fn is_given(name: &[u8]) -> bool {
    GIVEN.split(',').any(|given| given.as_bytes() == name)
}

/// Returns whether there is a name through which a script could find the real `redis`, or change what others use.
pub(super) fn lead_to_globals(text: &[u8]) -> bool {
    words(text).any(|word| LEADING.contains(&word))
}

/// Returns whether the script could give a table a metatable.
pub(super) fn set_metatables(text: &[u8]) -> bool {
    words(text).any(|word| MAKING.contains(&word))
}

/// Returns whether the script could change how all later replies or effects are treated.
pub(super) fn change_what_follows(text: &[u8]) -> bool {
    words(text).any(|word| LASTING.contains(&word))
}

/// Returns the names that are no globals in Redis 7.0, without duplicates and separated by blanks.
pub(super) fn unknown(text: &[u8]) -> String {
    let is_known = |word: &str| {
        let given = GIVEN.split(',').chain(GLOBALS.split(' '));
        given.chain(KEYWORDS.split(' ')).any(|known| known == word)
    };
    let words = words(text).filter_map(|word| std::str::from_utf8(word).ok());
    let unknown: BTreeSet<_> = words.filter(|word| !is_known(word)).collect();
    unknown.into_iter().collect::<Vec<_>>().join(" ")
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    steps(text.len());
    text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
        .filter(|word| word.first().is_some_and(|first| !first.is_ascii_digit()))
}

const LEADING: [&[u8]; 8] =
    [b"_G", b"load", b"loadstring", b"server", b"os", b"getmetatable", b"setmetatable", b"rawset"];

const MAKING: [&[u8]; 4] = [b"setmetatable", b"_G", b"load", b"loadstring"];

const LASTING: [&[u8]; 3] = [b"setresp", b"set_repl", b"replicate_commands"];

const KEYWORDS: &str = "and break do else elseif end false for function if in local nil not or repeat return \
     then true until while";

#[cfg(test)]
mod tests {
    use mlua::Lua;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_is_a_whole_run_of_letters() {
        assert!(lead_to_globals(b"return\"x\"_G.redis") && lead_to_globals(b"--[[x]]load(f)"));
        assert!(!lead_to_globals(b"payload reload load1 _G_ 1load"));
        assert_eq!(
            unknown(b"local x = redis.call('get', KEYS[1]) return x and 0xff"),
            "call get x"
        );
    }

    proptest! {
        /// Every global that Lua reads is among the words of the text.
        #[test]
        fn every_global_that_lua_reads_is_found(
            text in r#"(foo|bar|1|0x|e|\.|\.\.|=|==|\[|\]|\[\[|\]\]|--|'|"|\\|\n| |;|,|return |local |\(|\)|\+|-|:|é){1,14}"#
        ) {
            let lua = Lua::new();
            let watched = "local seen={} local env=setmetatable({}, {__index=function(_, name) \
                 seen[name]=true end}) return seen, env";
            let (seen, env): (mlua::Table, mlua::Table) = lua.load(watched).eval().unwrap();
            let _ = lua.load(&text).set_environment(env).exec();
            for name in seen.pairs::<String, bool>() {
                let (name, _) = name.unwrap();
                prop_assert!(words(text.as_bytes()).any(|word| word == name.as_bytes()), "{}", name);
            }
        }
    }
}
