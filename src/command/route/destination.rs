//! The destination of one request, by its keys.

use crate::catalogue::keys;
use crate::catalogue::table::{self, Command, Family, Spec};
use crate::names::lock_names::LockNames;
use crate::resp::requests::Args;
use crate::resp::word::is;

/// The destination of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination<'a> {
    /// The proxy answers the request itself, as it does without a data Redis.
    Proxy,
    /// The masters, because of this key or channel.
    Locks(&'a [u8]),
    /// The data Redis, because of this key or channel, or because the request concerns the whole keyspace.
    Data(Option<&'a [u8]>),
    /// None: the request has keys of both kinds.
    Both {
        /// A name that is a lock's.
        lock: &'a [u8],
        /// A name that is not.
        data: &'a [u8],
    },
}

impl<'a> Destination<'a> {
    /// Returns the destination of a request, given which names are locks.
    pub(super) fn of(locks: &LockNames, args: Args<'a>) -> Self {
        let Some(spec) = table::lookup(args.at(0)) else {
            return Self::of_other(locks, args);
        };
        if !spec.accepts(args.len()) {
            return Self::Proxy;
        }
        match spec.first_key {
            1 if spec.last_key == 1 && !spec.flags.contains(&"movablekeys") => {
                Self::of_name(args.at(1), is_lock(locks, spec)(args.at(1)))
            }
            _ => Self::of_command(locks, spec, args),
        }
    }

    /// Returns the destination of a request of `words` words, of which only the first have arrived. Returns `None`
    /// unless it is already known to be the data Redis.
    pub(super) fn of_beginning(locks: &LockNames, args: Args<'a>, words: usize) -> Option<Self> {
        let spec = table::lookup(args.get(0)?)?;
        let last =
            usize::try_from(spec.last_key).ok().filter(|last| spec.first_key > 0 && *last > 0)?;
        let is_known = args.len() > last && !spec.flags.contains(&"movablekeys");
        if !is_known || !spec.accepts(words) {
            return None;
        }
        let names = keys::of(spec, args);
        match Self::of_names(names, is_lock(locks, spec)) {
            destination @ Self::Data(_) => Some(destination),
            _ => None,
        }
    }

    fn of_command(locks: &LockNames, spec: &Spec, args: Args<'a>) -> Self {
        match spec.id {
            Command::DbSize
            | Command::Keys
            | Command::RandomKey
            | Command::Scan
            | Command::FlushDb
            | Command::FlushAll
            | Command::Wait => Self::Data(None),
            Command::Pubsub if is(args.at(1), &CHANNELS_OF_ALL) => Self::Data(None),
            Command::Pubsub if is(args.at(1), &["numsub", "shardnumsub"]) => {
                let names = args.from(2).iter().collect();
                Self::of_names(names, |name| locks.has_channel(name))
            }
            Command::Script if !is(args.at(1), &["load", "help"]) => Self::Data(None),
            Command::Function => Self::Data(None),
            Command::Info if args.get(1).is_some_and(|word| is(word, &["data"])) => {
                Self::Data(None)
            }
            Command::Client if is(args.at(1), &CLIENT_OF_DATA) => Self::Data(None),
            Command::Publish => Self::of_name(args.at(1), locks.has_channel(args.at(1))),
            _ => {
                let keys = keys::of(spec, args);
                let needs_keys = spec.first_key != 0 || spec.flags.contains(&"movablekeys");
                match Self::of_names(keys, is_lock(locks, spec)) {
                    Self::Proxy if needs_keys => Self::Data(None),
                    destination => destination,
                }
            }
        }
    }

    /// Returns the destination of a command that the proxy does not answer, but the data Redis may.
    fn of_other(locks: &LockNames, args: Args<'a>) -> Self {
        let name = args.at(0);
        if is(name, &NOBODYS) || table::is_http(name) {
            return Self::Proxy;
        }
        let keys = keys::of_other(args);
        match Self::of_names(keys, |key| locks.has_key(key)) {
            Self::Proxy => Self::Data(None),
            destination => destination,
        }
    }

    fn of_name(name: &'a [u8], is_lock: bool) -> Self {
        if is_lock { Self::Locks(name) } else { Self::Data(Some(name)) }
    }

    fn of_names(names: Vec<&'a [u8]>, is_lock: impl Fn(&[u8]) -> bool) -> Self {
        let lock = names.iter().find(|name| is_lock(name));
        let data = names.iter().find(|name| !is_lock(name));
        match (lock, data) {
            (Some(lock), Some(data)) => Self::Both { lock, data },
            (Some(lock), None) => Self::Locks(lock),
            (None, Some(data)) => Self::Data(Some(data)),
            (None, None) => Self::Proxy,
        }
    }
}

/// Subcommands of `CLIENT` for connection state that only the data Redis has.
const CLIENT_OF_DATA: [&str; 4] = ["tracking", "trackinginfo", "caching", "getredir"];

/// Subcommands of `PUBSUB` about channels that name none.
const CHANNELS_OF_ALL: [&str; 3] = ["channels", "shardchannels", "numpat"];

/// Commands that would turn the connection into one that no longer answers requests.
pub(in crate::command) const NOBODYS: [&str; 4] = ["sync", "psync", "replconf", "asking"];

fn is_lock(locks: &LockNames, spec: &Spec) -> impl Fn(&[u8]) -> bool {
    let family = spec.family;
    move |name| match family {
        Family::Pubsub => locks.has_channel(name),
        // Scripts of locks have their channel among their keys.
        Family::Script => locks.has_key(name) || locks.has_channel(name),
        _ => locks.has_key(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::requests::{Decoder, Limits};

    #[track_caller]
    fn assert_goes(line: &str, expected: &str) {
        let locks =
            LockNames { keys: vec![b"lock:*"[..].into()], channels: vec![b"free:*"[..].into()] };
        let (mut decoder, buf) = (Decoder::new(), format!("{line}\n"));
        let limits = Limits { max_request_bytes: 1000, authenticated: true, may_pass: false };
        decoder.decode(buf.as_bytes(), limits).expect("valid").expect("complete");
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let found = match Destination::of(&locks, decoder.args(buf.as_bytes())) {
            Destination::Proxy => "proxy".to_owned(),
            Destination::Locks(key) => format!("locks {}", text(key)),
            Destination::Data(None) => "data".to_owned(),
            Destination::Data(Some(key)) => format!("data {}", text(key)),
            Destination::Both { lock, data } => format!("both {} {}", text(lock), text(data)),
        };
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn a_request_goes_where_its_keys_are() {
        for (line, expected) in [
            ("get lock:a", "locks lock:a"),
            ("get a", "data a"),
            ("set a lock:b", "data a"),
            ("mset a lock:b c lock:d", "data a"),
            ("del lock:a lock:b", "locks lock:a"),
            ("del a lock:b c", "both lock:b a"),
            ("rename lock:a b", "both lock:a b"),
            ("eval text 1 lock:a b", "locks lock:a"),
            ("eval text 2 lock:a queue:{lock:a} b", "locks lock:a"),
            ("eval text 2 lock:a b", "both lock:a b"),
            ("eval text 2 lock:a free:a", "locks lock:a"),
            ("eval text 0 lock:a", "data"),
            ("sort a store lock:b", "both lock:b a"),
            ("blpop lock:a 0", "locks lock:a"),
            ("publish free:a lock:a", "locks free:a"),
            ("publish lock:a free:a", "data lock:a"),
            ("publish unlock:{lock:a} 1", "locks unlock:{lock:a}"),
            ("spublish free:a 1", "locks free:a"),
        ] {
            assert_goes(line, expected);
        }
    }

    #[test]
    fn what_has_no_keys_goes_where_it_is_told() {
        for (line, expected) in [
            ("ping", "proxy"),
            ("info", "proxy"),
            ("info data", "data"),
            ("info memory", "proxy"),
            ("client list", "proxy"),
            ("client tracking on", "data"),
            ("dbsize", "data"),
            ("randomkey", "data"),
            ("scan 0", "data"),
            ("keys *", "data"),
            ("randomkey", "data"),
            ("flushall", "data"),
            ("function list", "data"),
            ("script load x", "proxy"),
            ("script flush", "data"),
            ("select 1", "proxy"),
            ("get", "proxy"),
        ] {
            assert_goes(line, expected);
        }
    }

    #[test]
    fn what_the_proxy_does_not_know_is_the_data_redis_own() {
        for (line, expected) in [
            ("spop s", "data s"),
            ("spop lock:s", "locks lock:s"),
            ("fcall f 1 lock:a x", "locks lock:a"),
            ("fcall f 2 a lock:b", "both lock:b a"),
            ("xread count 1 streams a lock:b 0 0", "both lock:b a"),
            ("xreadgroup group g c streams a >", "data a"),
            ("memory usage lock:a", "locks lock:a"),
            ("memory doctor", "data"),
            ("migrate h 1 a 0 5", "data a"),
            ("json.set doc $ lock:a", "data doc"),
            ("json.set lock:doc $ 1", "locks lock:doc"),
            ("nonsense", "data"),
            ("psync ? -1", "proxy"),
        ] {
            assert_goes(line, expected);
        }
    }
}
