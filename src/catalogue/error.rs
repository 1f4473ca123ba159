//! Errors for requests that cannot be done, in the words of Redis 7.0.
//!
//! Client libraries compare these texts, or their first word, so they equal Redis's byte for byte. There is one
//! exception: client bytes that are not UTF-8 are quoted back as replacement characters.

use std::borrow::Cow;

use super::reserved;
use crate::catalogue::channel;
use crate::resp::reply::Reply;
use crate::resp::requests::Args;

/// Options that contradict each other, are incomplete, or do not exist.
pub const SYNTAX: Reply = fixed("ERR syntax error");
/// An argument or value that is not a 64-bit integer.
pub const NOT_AN_INTEGER: Reply = fixed("ERR value is not an integer or out of range");
/// `WAIT` or `CLIENT PAUSE` with a time that is not an integer.
pub const TIMEOUT_NOT_AN_INTEGER: Reply = fixed("ERR timeout is not an integer or out of range");
/// `WAIT` with a negative time.
pub const TIMEOUT_NEGATIVE: Reply = fixed("ERR timeout is negative");
/// `BLPOP` with a time that is not a number.
pub const TIMEOUT_NOT_A_FLOAT: Reply = fixed("ERR timeout is not a float or out of range");
/// `BLMPOP` without keys.
pub const NUMKEYS_NOT_POSITIVE: Reply = fixed("ERR numkeys should be greater than 0");
/// `BLMPOP` of zero elements.
pub const COUNT_NOT_POSITIVE: Reply = fixed("ERR count should be greater than 0");
/// `DECRBY` by the one number that cannot be negated.
pub const DECREMENT_OVERFLOW: Reply = fixed("ERR decrement would overflow");
/// `EXPIRE` with `NX` and another condition.
pub const EXPIRE_NX_CONFLICT: Reply =
    fixed("ERR NX and XX, GT or LT options at the same time are not compatible");
/// `EXPIRE` with both `GT` and `LT`.
pub const EXPIRE_GT_LT_CONFLICT: Reply =
    fixed("ERR GT and LT options at the same time are not compatible");
/// `SCAN` with an invalid cursor.
pub const INVALID_CURSOR: Reply = fixed("ERR invalid cursor");
/// `SELECT` with a number that does not fit a C `int`.
pub const DB_NOT_AN_INT: Reply =
    fixed("ERR value is out of range, value must between -2147483648 and 2147483647");
/// `SELECT` of a database that does not exist.
pub const DB_INDEX: Reply = fixed("ERR DB index is out of range");
/// A command before `AUTH`.
pub const NO_AUTH: Reply = fixed("NOAUTH Authentication required.");
/// `HELLO` without the `AUTH` option, before `AUTH`.
pub const NO_AUTH_HELLO: Reply = fixed(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH \
     <user> <pass> option can be used to authenticate the client and select the RESP protocol \
     version at the same time",
);
/// A wrong user or password.
pub const WRONG_PASS: Reply =
    fixed("WRONGPASS invalid username-password pair or user is disabled.");
/// A key that the user may not touch.
pub const NO_PERMISSION_FOR_KEY: Reply =
    fixed("NOPERM this user has no permissions to access one of the keys used as arguments");
/// A channel that the user may not use.
pub const NO_PERMISSION_FOR_CHANNEL: Reply =
    fixed("NOPERM this user has no permissions to access one of the channels used as arguments");
/// A queued command that the user at `EXEC`, who has changed since, may not send.
pub const NO_PERMISSION_IN_EXEC: Reply = fixed(
    "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC \
     call. This command is no longer allowed for the following reason: no permission to execute \
     the command or subcommand",
);
/// A queued command with a key that the user at `EXEC`, who has changed since, may not touch.
pub const NO_PERMISSION_FOR_KEY_IN_EXEC: Reply = fixed(
    "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC \
     call. This command is no longer allowed for the following reason: no permission to touch the \
     specified keys",
);
/// A queued command with a channel that the user at `EXEC`, who has changed since, may not use.
pub const NO_PERMISSION_FOR_CHANNEL_IN_EXEC: Reply = fixed(
    "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC \
     call. This command is no longer allowed for the following reason: no permission to access one \
     of the channels used as arguments to the command",
);
/// A key or channel reserved for the proxy. Not one of Redis's texts.
pub const RESERVED_NAME: Reply = fixed(reserved::REFUSAL);
/// A channel name or pattern that is too long for a shared subscription.
pub const LONG_CHANNEL: Reply = fixed(channel::TOO_LONG);
/// `SORT … BY` by a user who may not read all keys.
pub const SORT_BY_DENIED: Reply =
    fixed("ERR BY option of SORT denied due to insufficient ACL permissions.");
/// `SORT … GET` by a user who may not read all keys.
pub const SORT_GET_DENIED: Reply =
    fixed("ERR GET option of SORT denied due to insufficient ACL permissions.");
/// `SORT … BY` where the keys of the pattern may be on other shards.
pub const SORT_BY_OF_SHARDS: Reply = fixed("ERR BY option of SORT denied in cluster mode.");
/// `SORT … GET`, likewise.
pub const SORT_GET_OF_SHARDS: Reply = fixed("ERR GET option of SORT denied in cluster mode.");
/// `ACL SETUSER` and other commands that would change users. Not one of Redis's texts.
pub const USERS_IN_THE_FILE: Reply =
    fixed("ERR users of redlock-proxy are defined in its settings file: edit it and send SIGHUP");
/// `EVAL` after `MULTI` by two different users. Not one of Redis's texts.
pub const SCRIPTS_OF_TWO_USERS: Reply =
    fixed("ERR scripts of different users cannot run in one transaction: send them separately");
/// `EVAL` after `MULTI` with a script that could not be checked with the masters. Not one of Redis's texts.
pub const SCRIPT_NOT_LOOKED_AT: Reply =
    fixed("TRYAGAIN no quorum of masters could check the script when it was queued: try again");
/// `AUTH` when no password is required.
pub const NO_PASSWORD_SET: Reply = fixed(
    "ERR AUTH <password> called without any password configured for the default user. Are you sure \
     your configuration is correct?",
);
/// `HELLO` with a version that is not a number.
pub const PROTOCOL_NOT_AN_INTEGER: Reply =
    fixed("ERR Protocol version is not an integer or out of range");
/// `HELLO` with a version other than 2 and 3.
pub const NO_PROTO: Reply = fixed("NOPROTO unsupported protocol version");
/// A connection name that `CLIENT LIST` could not show.
pub const CLIENT_NAME: Reply =
    fixed("ERR Client names cannot contain spaces, newlines or special characters.");
/// `CLIENT SETINFO` with a value that would break the lines of `CLIENT LIST`.
pub fn not_plain(what: &str) -> Reply {
    Reply::error(format!("ERR {what} cannot contain spaces, newlines or special characters."))
}

/// A name that would make every `CLIENT LIST` long.
pub fn too_long(what: &str, most: usize) -> Reply {
    Reply::error(format!("ERR {what} cannot be longer than {most} bytes: choose a shorter one"))
}

/// `CLIENT KILL` of a client that does not exist.
pub const NO_SUCH_CLIENT: Reply = fixed("ERR No such client");
/// `EVALSHA` of a script that is not in the cache. Clients react by sending the whole script.
pub const NO_SCRIPT: Reply = fixed("NOSCRIPT No matching script. Please use EVAL.");
/// `SCRIPT KILL` when no master is busy with a script.
pub const NO_SCRIPT_RUNNING: Reply = fixed("NOTBUSY No scripts in execution right now.");
/// `SCRIPT KILL` when a master is busy with a script that has written.
pub const UNKILLABLE: Reply = fixed(
    "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
     either wait the script termination or kill the server in a hard way using the SHUTDOWN \
     NOSAVE command.",
);
/// `SCRIPT FLUSH` with an unknown option.
pub const SCRIPT_FLUSH_OPTION: Reply = fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option");
/// `EVAL` with a negative number of keys.
pub const NEGATIVE_KEYS: Reply = fixed("ERR Number of keys can't be negative");
/// `EVAL` with more keys than arguments.
pub const TOO_MANY_KEYS: Reply = fixed("ERR Number of keys can't be greater than number of args");
/// `MULTI` after `MULTI`.
pub const NESTED_MULTI: Reply = fixed("ERR MULTI calls can not be nested");
/// `WATCH` after `MULTI`.
pub const WATCH_IN_MULTI: Reply = fixed("ERR WATCH inside MULTI is not allowed");
/// `EXEC` without `MULTI`.
pub const EXEC_WITHOUT_MULTI: Reply = fixed("ERR EXEC without MULTI");
/// `DISCARD` without `MULTI`.
pub const DISCARD_WITHOUT_MULTI: Reply = fixed("ERR DISCARD without MULTI");
/// `EXEC` after a command that was refused.
pub const EXEC_ABORT: Reply = fixed("EXECABORT Transaction discarded because of previous errors.");
/// An `EXEC` that was itself refused (`execCommandAbort`).
pub fn exec_aborted_by(why: &str) -> Reply {
    let why = why.strip_prefix("ERR ").unwrap_or(why);
    Reply::error(format!("EXECABORT Transaction discarded because of: {why}"))
}
/// `CLUSTER`, `READONLY`, `READWRITE`.
pub const NO_CLUSTER: Reply = fixed("ERR This instance has cluster support disabled");
/// A request, script or transaction with keys of several hash slots (`clusterRedirectClient` in `cluster.c`).
pub const CROSS_SLOT: Reply = fixed("CROSSSLOT Keys in request don't hash to the same slot");
/// `EVAL_RO` of a script whose shebang does not declare it as free of writes.
pub const WRITE_FLAG: Reply =
    fixed("ERR Can not execute a script with write flag using *_ro command.");
/// A request or transaction with keys of both locks and data. Its first word is that of Redis Cluster.
pub fn lock_and_data(lock: &[u8], data: &[u8]) -> Reply {
    let [lock, data] = [lock, data].map(String::from_utf8_lossy);
    Reply::error(format!(
        "CROSSSLOT '{lock}' is a lock and '{data}' is not: locks live on the masters and everything else on the data Redis: a request or transaction cannot span both"
    ))
}

/// A request for the data Redis by a user without credentials to log in there.
pub fn nobody_on_data(user: &str) -> Reply {
    Reply::error(format!(
        "NOPERM user '{user}' has no password for the data Redis: set the same password in both places"
    ))
}

/// `COMMAND GETKEYS` of a command without keys.
pub const NO_KEY_ARGUMENTS: Reply = fixed("ERR The command has no key arguments");

/// `COMMAND GETKEYS` of a command whose number of keys does not fit.
pub const INVALID_KEY_ARGUMENTS: Reply = fixed("ERR Invalid arguments specified for command");

/// `CONFIG SET` of an unknown parameter.
pub fn unknown_parameter(name: &str) -> Reply {
    Reply::error(format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'"))
}

/// `CONFIG SET` with a value that is not allowed.
pub fn config_set_failed(name: &str, why: &str) -> Reply {
    Reply::error(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"))
}

/// A command, by its full name, that the user is not permitted to run.
pub fn no_permission(command: &str) -> Reply {
    Reply::error(format!("NOPERM this user has no permissions to run the '{command}' command"))
}

/// `ACL CAT` of an unknown category.
pub fn unknown_category(name: &[u8]) -> Reply {
    Reply::error(format!("ERR Unknown category '{}'", String::from_utf8_lossy(c_string(name))))
}

/// `LATENCY GRAPH` of an event without samples.
pub fn no_samples(event: &[u8]) -> Reply {
    let event = String::from_utf8_lossy(c_string(event));
    Reply::error(format!("ERR No samples available for event '{event}'"))
}

/// `CLIENT KILL USER` of a user who does not exist.
pub fn no_such_user(name: &[u8]) -> Reply {
    Reply::error(format!("ERR No such user '{}'", String::from_utf8_lossy(c_string(name))))
}

/// A connection beyond the user's maximum. Not one of Redis's texts.
pub fn too_many_clients_of(user: &str) -> Reply {
    Reply::error(format!("ERR max number of clients reached for user '{user}'"))
}

/// A wrong number of arguments. `command` is the full name in lower case, e.g. `client|setname` for a subcommand.
pub fn wrong_arity(command: &str) -> Reply {
    Reply::error(format!("ERR wrong number of arguments for '{command}' command"))
}

/// A time to live that is not positive or is out of range.
pub fn invalid_expire_time(command: &str) -> Reply {
    Reply::error(format!("ERR invalid expire time in '{command}' command"))
}

/// An unknown command. Arguments are quoted until their list reaches 128 bytes.
pub fn unknown_command(args: Args<'_>) -> Reply {
    let mut quoted = Vec::new();
    for arg in args.from(1).iter() {
        if quoted.len() >= QUOTED_MAX {
            break;
        }
        let arg = truncate(c_string(arg), QUOTED_MAX - quoted.len());
        quoted.push(b'\'');
        quoted.extend_from_slice(arg);
        quoted.extend_from_slice(b"' ");
    }
    Reply::error(format!(
        "ERR unknown command '{}', with args beginning with: {}",
        quote(args.get(0).unwrap_or_default()),
        String::from_utf8_lossy(&quoted)
    ))
}

/// A command of Redis that has no meaning for this proxy. Not one of Redis's texts.
pub fn unsupported_command(name: &[u8]) -> Reply {
    Reply::error(format!(
        "ERR command '{}' is not supported: this is a lock proxy in front of independent masters",
        quote(name).to_ascii_lowercase()
    ))
}

/// A command of later versions that gives a time to live to parts of a key. Not one of Redis's texts.
pub fn by_clock(command: &str) -> Reply {
    Reply::error(format!(
        "ERR '{command}' is not supported by redlock-proxy, because each master would use its own clock: expire the whole key instead"
    ))
}

/// A command of later versions or a module whose writes are unpredictable. Not one of Redis's texts.
pub fn by_dice(command: &str) -> Reply {
    Reply::error(format!(
        "ERR '{command}' is not supported by redlock-proxy: each master would write a different result"
    ))
}

/// `XREADGROUP` without a group.
pub const MISSING_GROUP: Reply = fixed("ERR Missing GROUP option for XREADGROUP");

/// `XREAD` with an option of `XREADGROUP`.
pub fn only_of_xreadgroup(option: &str) -> Reply {
    Reply::error(format!(
        "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
    ))
}

/// A stream without an id.
pub const UNBALANCED_STREAMS: Reply = fixed(
    "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
);

/// More words than a script can pass to a command. Not one of Redis's texts.
pub fn too_many_words(command: &str) -> Reply {
    Reply::error(format!(
        "ERR '{command}' with more than 7900 arguments is not supported: split it"
    ))
}

/// More elements with repeats than masters draw at once. Not one of Redis's texts.
pub fn too_many_repeats(most: i64) -> Reply {
    Reply::error(format!(
        "ERR more than {most} elements with repeats are not supported: request fewer at a time"
    ))
}

/// `CLIENT TRACKING` with `REDIRECT`. On a master, the given number is that of another client. Not one of Redis's
/// texts.
pub const NO_REDIRECT: Reply = fixed(
    "ERR CLIENT TRACKING with REDIRECT is not supported: client ids are local to the proxy: use RESP3 instead",
);

/// `CLIENT TRACKING` with `REDIRECT` twice (`networking.c`, like those that follow).
pub const TRACKING_TWO_REDIRECTS: Reply =
    fixed("ERR A client can only redirect to a single other client");

/// `CLIENT TRACKING ... REDIRECT` to a client that is not connected.
pub const TRACKING_NO_SUCH_CLIENT: Reply =
    fixed("ERR The client ID you want redirect to does not exist");

/// `CLIENT TRACKING ... PREFIX` without `BCAST`.
pub const TRACKING_PREFIX: Reply = fixed("ERR PREFIX option requires BCAST mode to be enabled");

/// `CLIENT TRACKING` with `BCAST` while tracking is on without it, or the reverse.
pub const TRACKING_SWITCH_BCAST: Reply = fixed(
    "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
);

/// `CLIENT TRACKING ... BCAST` with `OPTIN` or `OPTOUT`.
pub const TRACKING_OPT_AND_BCAST: Reply =
    fixed("ERR OPTIN and OPTOUT are not compatible with BCAST");

/// `CLIENT TRACKING` with both `OPTIN` and `OPTOUT`.
pub const TRACKING_BOTH_OPTS: Reply =
    fixed("ERR You can't specify both OPTIN mode and OPTOUT mode");

/// `CLIENT TRACKING ... OPTIN` while tracking is on with `OPTOUT`, or the reverse.
pub const TRACKING_SWITCH_OPT: Reply = fixed(
    "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.",
);

/// `CLIENT CACHING` without tracking.
pub const CACHING_WITHOUT_TRACKING: Reply = fixed(
    "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
);

/// `CLIENT CACHING YES` without `OPTIN`.
pub const CACHING_YES: Reply =
    fixed("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.");

/// `CLIENT CACHING NO` without `OPTOUT`.
pub const CACHING_NO: Reply =
    fixed("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");

/// Two prefixes of `CLIENT TRACKING ... BCAST`, of which one begins with the other.
pub fn tracking_prefix_overlap(prefix: &[u8], which: &str, other: &[u8]) -> Reply {
    let [prefix, other] = [prefix, other].map(String::from_utf8_lossy);
    Reply::error(format!(
        "ERR Prefix '{prefix}' overlaps with {which} prefix '{other}'. Prefixes for a single client must not overlap."
    ))
}

/// A command that cannot be queued. Not one of Redis's texts.
pub fn not_in_multi(command: &str) -> Reply {
    Reply::error(format!("ERR '{command}' is not supported after MULTI: send it separately"))
}

/// An unknown subcommand of `command`.
pub fn unknown_subcommand(command: &str, subcommand: &[u8]) -> Reply {
    let (subcommand, help) = (quote(subcommand), command.to_ascii_uppercase());
    Reply::error(format!("ERR unknown subcommand '{subcommand}'. Try {help} HELP."))
}

/// A subcommand with a number of arguments that only the subcommand itself checks.
pub fn subcommand_syntax(command: &str, subcommand: &[u8]) -> Reply {
    let (subcommand, help) = (quote(subcommand), command.to_ascii_uppercase());
    Reply::error(format!(
        "ERR unknown subcommand or wrong number of arguments for '{subcommand}'. Try {help} HELP."
    ))
}

/// A command that a subscriber may not send. `command` is its full name, as in [`wrong_arity`].
pub fn only_for_subscribers(command: &str) -> Reply {
    Reply::error(format!(
        "ERR Can't execute '{command}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
         RESET are allowed in this context"
    ))
}

/// An unknown option of `EXPIRE`.
pub fn unsupported_option(option: &[u8]) -> Reply {
    Reply::error(format!("ERR Unsupported option {}", String::from_utf8_lossy(c_string(option))))
}

/// An unknown option of `HELLO`, or one that lacks its arguments.
pub fn hello_option(option: &[u8]) -> Reply {
    let option = String::from_utf8_lossy(c_string(option));
    Reply::error(format!("ERR Syntax error in HELLO option '{option}'"))
}

/// Creates an error with a constant text.
pub const fn fixed(text: &'static str) -> Reply {
    Reply::Error(Cow::Borrowed(text))
}

fn quote(name: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(truncate(c_string(name), QUOTED_MAX))
}

fn truncate(text: &[u8], len: usize) -> &[u8] {
    &text[..text.len().min(len)]
}

/// Returns the text that `%s` would print, i.e. up to the first NUL.
fn c_string(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Maximum bytes quoted: the `128` of `processCommand` and `commandCheckExistence` in `server.c`.
const QUOTED_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::requests::{Decoder, Limits};

    #[track_caller]
    fn assert_text(reply: Reply, expected: &str) {
        assert_eq!(reply, Reply::error(expected.to_owned()));
    }

    fn unknown(line: &str) -> Reply {
        let (mut decoder, buf) = (Decoder::new(), format!("{line}\n"));
        let limits = Limits { max_request_bytes: 1000, authenticated: true, may_pass: false };
        decoder.decode(buf.as_bytes(), limits).expect("valid").expect("complete");
        unknown_command(decoder.args(buf.as_bytes()))
    }

    #[test]
    fn an_unknown_command_is_quoted_with_its_arguments() {
        assert_text(unknown("foo"), "ERR unknown command 'foo', with args beginning with: ");
        assert_text(
            unknown("FOO \"a'b\" c"),
            "ERR unknown command 'FOO', with args beginning with: 'a'b' 'c' ",
        );
    }

    #[test]
    fn an_unknown_command_is_quoted_up_to_128_bytes() {
        let (a, b, c) = ("a".repeat(200), "b".repeat(101), "c".repeat(57));
        assert_text(
            unknown(&format!("foo {a} b")),
            &format!("ERR unknown command 'foo', with args beginning with: '{}' ", &a[..128]),
        );
        assert_text(
            unknown(&format!("{a} {b} {c} d")),
            &format!(
                "ERR unknown command '{}', with args beginning with: '{b}' '{}' ",
                &a[..128],
                &c[..24]
            ),
        );
    }

    #[test]
    fn quoted_words_end_at_a_nul() {
        assert_text(
            unknown(r#""f\x00x" "a\x00b" c"#),
            "ERR unknown command 'f', with args beginning with: 'a' 'c' ",
        );
    }

    #[test]
    fn subcommands_are_named_with_their_command() {
        assert_text(
            unknown_subcommand("client", b"Foo"),
            "ERR unknown subcommand 'Foo'. Try CLIENT HELP.",
        );
        assert_text(
            wrong_arity("client|setname"),
            "ERR wrong number of arguments for 'client|setname' command",
        );
    }
}
