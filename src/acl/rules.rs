//! Applies one word of a rule to a user (`ACLSetUser` in Redis's `acl.c`).

use super::password::Hash;
use super::user::User;
use super::{Categories, Commands, Patterns, catalogue};
use crate::resp::word::is;

/// Error in a word. The text follows `rule 3`, or the word itself if that cannot be a secret.
type Wrong = &'static str;

/// Whether a word sets or removes passwords.
pub(super) fn is_about_passwords(word: &[u8]) -> bool {
    matches!(word.first(), Some(b'>' | b'<' | b'#' | b'!')) || is(word, &["nopass", "resetpass"])
}

/// Whether a word may appear in the log, which is the case if it has the sign of a rule that is not about passwords.
pub(super) fn may_be_shown(word: &[u8]) -> bool {
    matches!(word.first(), Some(b'+' | b'-' | b'~' | b'&' | b'%'))
}

/// Applies one word to `user`.
pub(super) fn apply(user: &mut User, word: &[u8]) -> Result<(), Wrong> {
    let rest = word.get(1..).unwrap_or_default();
    match word.first() {
        Some(b'>') => user.add_password(Hash::of(rest)),
        Some(b'#') => user.add_password(Hash::parse(rest).ok_or(NO_HASH)?),
        Some(b'<') => remove(user, &Hash::of(rest))?,
        Some(b'!') => remove(user, &Hash::parse(rest).ok_or(NO_HASH)?)?,
        Some(b'~') => pattern(&mut user.keys, rest, AFTER_ALL_KEYS)?,
        Some(b'&') => pattern(&mut user.channels, rest, AFTER_ALL_CHANNELS)?,
        Some(b'%') => read_write(user, rest)?,
        Some(b'(') => return Err(SELECTOR),
        Some(b'+') => commands(user, rest, true)?,
        Some(b'-') => commands(user, rest, false)?,
        _ => named(user, word)?,
    }
    Ok(())
}

fn named(user: &mut User, word: &[u8]) -> Result<(), Wrong> {
    match &word.to_ascii_lowercase()[..] {
        b"on" => user.is_on = true,
        b"off" => user.is_on = false,
        b"nopass" => user.set_nopass(),
        b"resetpass" => user.reset_passwords(),
        b"allkeys" => user.keys = Patterns::All,
        b"resetkeys" => user.keys = Patterns::NONE,
        b"allchannels" => user.channels = Patterns::All,
        b"resetchannels" => user.channels = Patterns::NONE,
        b"allcommands" => user.commands = Commands::all(),
        b"nocommands" => user.commands = Commands::none(),
        b"reset" => user.reset(),
        // These concern RESTORE, which the masters check as configured.
        b"sanitize-payload" | b"skip-sanitize-payload" => {}
        _ => return Err("is not a rule"),
    }
    Ok(())
}

fn remove(user: &mut User, password: &Hash) -> Result<(), Wrong> {
    if user.remove_password(password) { Ok(()) } else { Err(NO_SUCH_PASSWORD) }
}

fn pattern(patterns: &mut Patterns, pattern: &[u8], refused: Wrong) -> Result<(), Wrong> {
    if pattern.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0) {
        return Err("has a space in its pattern");
    }
    if patterns.add(pattern) { Ok(()) } else { Err(refused) }
}

/// Applies `%RW~pattern`, which equals `~pattern`.
fn read_write(user: &mut User, rest: &[u8]) -> Result<(), Wrong> {
    let at = rest.iter().position(|byte| *byte == b'~').ok_or("is not a rule")?;
    match &rest[..at].to_ascii_uppercase()[..] {
        b"RW" | b"WR" => pattern(&mut user.keys, &rest[at + 1..], AFTER_ALL_KEYS),
        b"R" | b"W" => Err(READ_OR_WRITE),
        _ => Err("is not a rule"),
    }
}

fn commands(user: &mut User, name: &[u8], allow: bool) -> Result<(), Wrong> {
    if let Some(category) = name.strip_prefix(b"@") {
        return of_category(user, category, allow);
    }
    let place = catalogue::find(name).ok_or_else(|| match has_no_subcommands(name) {
        true => "names a subcommand of a command without subcommands",
        false => NO_COMMAND,
    })?;
    user.commands.change(place, allow);
    Ok(())
}

fn of_category(user: &mut User, category: &[u8], allow: bool) -> Result<(), Wrong> {
    if category.eq_ignore_ascii_case(b"all") {
        user.commands = if allow { Commands::all() } else { Commands::none() };
        return Ok(());
    }
    let category = Categories::named(category).ok_or(NO_COMMAND)?;
    user.commands.change_category(category, allow);
    Ok(())
}

/// Whether a word is like `+select|0`, which Redis calls a misuse but accepts.
fn has_no_subcommands(name: &[u8]) -> bool {
    let mut parts = name.splitn(2, |byte| *byte == b'|');
    let command = parts.next().and_then(catalogue::find);
    parts.next().is_some()
        && command.is_some_and(|place| catalogue::all()[place].subcommands.is_empty())
}

const NO_COMMAND: Wrong = "is not a command or category";
const NO_HASH: Wrong = "is not a SHA-256 digest: 64 hexadecimal digits in lower case";
const NO_SUCH_PASSWORD: Wrong = "removes a password that the user does not have";
const SELECTOR: Wrong = "is a selector, which is not supported: define a second user instead";
const READ_OR_WRITE: Wrong = "is not supported: use ~pattern, and +@read or +@write";
const AFTER_ALL_KEYS: Wrong = "has no effect after all keys: put resetkeys before it";
const AFTER_ALL_CHANNELS: Wrong = "has no effect after all channels: put resetchannels before it";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn after(rules: &str) -> User {
        let mut user = User::new("alice");
        for word in rules.split_whitespace() {
            assert_eq!(apply(&mut user, word.as_bytes()), Ok(()), "{word}");
        }
        user
    }

    fn may(user: &User, command: &str) -> bool {
        user.commands.contains(catalogue::find(command.as_bytes()).unwrap())
    }

    #[test]
    fn a_new_user_may_do_nothing() {
        let user = after("");
        assert!(!user.is_on && !user.accepts(b"") && user.keys == Patterns::NONE);
        assert_eq!(user.to_string(), "user alice off resetchannels -@all");
    }

    #[test]
    fn later_rules_overrule_earlier_ones() {
        let user = after("+@read -get +@all -@dangerous +keys");
        assert!(may(&user, "get") && may(&user, "keys") && !may(&user, "flushall"));
        let user = after("+@all nocommands +client|id");
        assert!(may(&user, "client|id") && !may(&user, "client|list") && !may(&user, "get"));
        let user = after("on >a ~x &y +@all reset");
        assert_eq!(user, after(""));
    }

    #[test]
    fn words_have_any_case_and_names_of_others_are_taken() {
        let user = after("ON AllKeys ALLCHANNELS +@WRITE -SPop sanitize-payload +DEBUG");
        assert!(may(&user, "set") && !may(&user, "spop") && may(&user, "debug"));
        assert!(user.is_on && user.keys.is_all() && user.channels.is_all());
    }

    #[test]
    fn passwords_come_and_go() {
        let hash = Hash::of(b"two").hex();
        let user = after(&format!("on >one #{hash}"));
        assert!(user.accepts(b"one") && user.accepts(b"two") && !user.accepts(b"three"));
        let user = after(&format!("on >one >two <one !{hash}"));
        assert!(!user.accepts(b"one") && !user.accepts(b"two"));
        assert!(after("on nopass").accepts(b"whatever"));
        assert!(!after("on nopass >one").accepts(b"whatever"));
        assert!(!after("on nopass resetpass").accepts(b"whatever"));
        assert!(!after("off >one").accepts(b"one"));
    }

    #[test]
    fn read_and_write_together_are_a_key_pattern() {
        assert_eq!(after("%RW~a* %wr~b").keys, after("~a* ~b").keys);
    }

    #[test]
    fn what_redis_does_not_know_is_refused() {
        for (word, wrong) in [
            ("+@nonsense", NO_COMMAND),
            ("+@", NO_COMMAND),
            ("-nonsense", NO_COMMAND),
            ("+client|nonsense", NO_COMMAND),
            ("+select|0", "names a subcommand of a command without subcommands"),
            ("%R~x", READ_OR_WRITE),
            ("%X~x", "is not a rule"),
            ("%RW", "is not a rule"),
            ("(+get", SELECTOR),
            ("nonsense", "is not a rule"),
            ("", "is not a rule"),
            ("#abc", NO_HASH),
            ("!abc", NO_HASH),
            ("<abc", NO_SUCH_PASSWORD),
            ("~a b", "has a space in its pattern"),
        ] {
            assert_eq!(apply(&mut User::new("alice"), word.as_bytes()), Err(wrong), "{word}");
        }
        assert_eq!(apply(&mut after("~*"), b"~a"), Err(AFTER_ALL_KEYS));
        assert_eq!(apply(&mut after("allchannels"), b"&a"), Err(AFTER_ALL_CHANNELS));
    }

    proptest! {
        #[test]
        fn no_word_panics(word in any::<Vec<u8>>()) {
            let _ = apply(&mut User::new("alice"), &word);
        }

        /// The output of `ACL LIST` grants the same permissions when parsed again.
        #[test]
        fn what_is_listed_means_the_same(
            words in proptest::collection::vec(proptest::sample::select(WORDS), 0..12)
        ) {
            let mut user = User::new("alice");
            for word in words {
                let _ = apply(&mut user, word.as_bytes());
            }
            let listed = user.to_string();
            let again = after(listed.strip_prefix("user alice ").unwrap());
            prop_assert_eq!(again.to_string(), listed);
            for place in 0..catalogue::all().len() {
                let both = [&again, &user].map(|user| user.commands.contains(place));
                prop_assert_eq!(both[0], both[1], "{}", catalogue::all()[place].name);
            }
            prop_assert_eq!((again.keys, again.channels), (user.keys, user.channels));
        }
    }

    const WORDS: &[&str] = &[
        "on",
        "off",
        ">one",
        ">two",
        "<one",
        "nopass",
        "resetpass",
        "~a",
        "~b*",
        "~*",
        "resetkeys",
        "&a",
        "&*",
        "resetchannels",
        "+@all",
        "-@all",
        "+get",
        "-get",
        "+@read",
        "-@read",
        "+client",
        "-client",
        "+client|list",
        "-client|id",
        "+@connection",
        "-@dangerous",
        "+@slow",
        "reset",
    ];
}
