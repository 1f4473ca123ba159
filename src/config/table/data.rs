//! A Redis for everything that is not a lock.

use super::{joined, or_none, shown};
use crate::config::Data;
use crate::config::setting::{Access, Field, Setting, list, one, toggle};
use crate::config::values::shown_duration;

pub(super) static SETTINGS: &[Setting] = &[
    one("data", "URL")
        .brief("Redis for everything that is not a lock")
        .help(
            "Redis for everything that is not a lock: redis://user:password@host:port/db, \
             rediss://, unix:/path, or sentinel://user:password@host:port,host:port/NAME/db. If \
             not set, all keys are locks",
        )
        .field(Field::Fixed(Access {
            show: |it| or_none(&it.data.as_ref().map(|data| &data.address)),
            set: None,
            differs: |ours, theirs| ours.data != theirs.data,
        })),
    one("data-user", "NAME").help("User for the data Redis, if its URL names none"),
    one("data-password-file", "FILE").help("File with that user's password"),
    one("data-sentinel-password-file", "FILE")
        .help("File with the password of the sentinels themselves, if --data names some"),
    list("lock-keys", "PATTERN")
        .brief("With --data, the keys that are locks, such as lock:*")
        .help("With --data, the keys that are locks, such as lock:*")
        .field(shown(|it| patterns(it.data.as_ref().map(|data| &data.locks.keys)))),
    list("lock-channels", "PATTERN")
        .help("With --data, the channels that belong to locks")
        .field(shown(|it| patterns(it.data.as_ref().map(|data| &data.locks.channels)))),
    toggle("also-claim-on-data")
        .help("Take every lock on the data Redis as well, while old instances still lock there")
        .default("false")
        .field(shown(|it| it.data.as_ref().is_some_and(|data| data.has_locks).to_string())),
    one("warn-unmatched-after", "DURATION")
        .help(
            "Time with requests but without a match after which a pattern of --lock-keys or \
             --lock-channels is warned about; 0s never warns",
        )
        .default("1h")
        .field(shown(|it| {
            let data = it.data.as_ref();
            shown_duration(&data.map_or(Data::WARN_UNMATCHED_AFTER, |it| it.warn_unmatched_after))
        })),
];

fn patterns(patterns: Option<&Vec<Box<[u8]>>>) -> String {
    joined(patterns.into_iter().flatten().map(|pattern| String::from_utf8_lossy(pattern)))
}
