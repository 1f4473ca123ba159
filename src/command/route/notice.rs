//! Evidence from routed requests on whether the patterns name the right locks.
//!
//! A request for data that cannot take or release a lock costs a check of its command, and no more.

use super::destination::Destination;
use crate::catalogue::table::{self, Command, Family};
use crate::catalogue::{keys, words};
use crate::command::{Action, outlook};
use crate::data::advice::Notes;
use crate::data::advice::unmatched::Unmatched;
use crate::names::kind::LockSign;
use crate::resp::requests::Args;
use crate::resp::word::is;

/// Shown while it is unknown how the lock will end.
const SETNX: &str = "SETNX";

/// Records a routed request. `command` is its place in the table.
pub(super) fn of(
    notes: &Notes,
    command: u16,
    to: Destination<'_>,
    args: Args<'_>,
    action: Option<&Action>,
) {
    match to {
        Destination::Locks(_) | Destination::Both { .. } => {
            notes.traffic();
            look_for_matches(notes, command, args);
        }
        Destination::Data(key) => {
            notes.traffic();
            if let (Some(key), Some(Action::Pass(_) | Action::Share { .. })) = (key, action) {
                look_for_locks(notes, command, key, args);
            }
        }
        // Subscriptions.
        Destination::Proxy => look_for_matches(notes, command, args),
    }
}

fn look_for_matches(notes: &Notes, command: u16, args: Args<'_>) {
    if let Some(unmatched) = notes.awaited() {
        see_names(unmatched, command, args);
    }
}

fn see_names(unmatched: &Unmatched, command: u16, args: Args<'_>) {
    let Some(spec) = table::at(command) else {
        return unmatched.see_keys(outlook::keys(args));
    };
    if !spec.accepts(args.len()) {
        return;
    }
    match spec.family {
        Family::Pubsub => unmatched.see_channels(words::channels(spec, args)),
        // Scripts of locks have their channel among their keys.
        Family::Script => {
            let keys = keys::of(spec, args);
            unmatched.see_channels(keys.iter().copied());
            unmatched.see_keys(keys);
        }
        _ => unmatched.see_keys(keys::of(spec, args)),
    }
}

/// Records a possible lock under `key`, which no pattern names.
fn look_for_locks(notes: &Notes, command: u16, key: &[u8], args: Args<'_>) {
    let Some(spec) = table::at(command) else { return };
    match spec.id {
        Command::Set if args.len() > 3 => {
            if let Some(kind) = claim(args) {
                notes.claimed(key, kind.title());
            }
        }
        Command::SetNx => notes.claimed(key, SETNX),
        Command::DelEx | Command::DelIfEq if args.len() > 2 => {
            notes.claimed(key, LockSign::DeleteIfEqual.title());
        }
        Command::Eval | Command::EvalSha => {
            let word = args.at(1);
            let scripts = notes.scripts();
            let found =
                if spec.id == Command::Eval { scripts.text(word) } else { scripts.sha(word) };
            if let Some(script) = found {
                notes.ran(script, &keys::of(spec, args));
            }
        }
        _ => (),
    }
}

/// Returns the kind of lock that a `SET` with options takes, if it only sets missing keys.
fn claim(args: Args<'_>) -> Option<LockSign> {
    let has = |names: &[&str]| args.from(3).iter().any(|word| is(word, names));
    let has_ttl = || has(&["px", "ex", "pxat", "exat"]);
    has(&["nx"]).then(|| if has_ttl() { LockSign::Claim } else { LockSign::ClaimForGood })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::client::outbox::{Order, Ticket};
    use crate::names::lock_names::LockNames;
    use crate::resp::requests::Words;

    fn words(line: &[&str]) -> Words {
        let mut words = Words::default();
        for word in line {
            words.begin();
            words.extend(word.as_bytes());
        }
        words
    }

    fn notes(keys: &[&str], channels: &[&str]) -> (Notes, LockNames) {
        let all = |patterns: &[&str]| patterns.iter().map(|it| it.as_bytes().into()).collect();
        let locks = LockNames { keys: all(keys), channels: all(channels) };
        (Notes::new(&locks, Duration::from_secs(1)), locks)
    }

    /// Routes a request as if there were a data Redis.
    fn route(notes: &Notes, locks: &LockNames, line: &[&str]) {
        let words = words(line);
        let args = words.args();
        let command = table::lookup(args.at(0)).map_or(u16::MAX, |spec| spec.place);
        let pass = Action::Pass(Ticket { key: 0, order: Order::Passed, bytes: 0, command });
        of(notes, command, Destination::of(locks, args), args, Some(&pass));
    }

    fn split(line: &str) -> Vec<&str> {
        line.split(' ').collect()
    }

    const RELEASE: &str = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

    #[test]
    fn what_takes_or_releases_a_lock_is_noted_and_nothing_else() {
        for (line, sign) in [
            ("set job 1 nx px 10", "SET NX with a TTL"),
            ("SET job 1 EX 10 NX GET", "SET NX with a TTL"),
            ("set job 1 nx", "SET NX without a TTL"),
            ("setnx job 1", "SETNX"),
            ("delifeq job 1", "DELEX or DELIFEQ"),
            ("delex job ifeq 1", "DELEX or DELIFEQ"),
            ("evalsha c3f8721cbb97f72bc19e972846bd7aaf91901658 1 job t", "script that releases"),
            ("set job nx", ""),
            ("set job 1 px 10", ""),
            ("set job 1 xx px 10", ""),
            ("get job", ""),
            ("delex job", ""),
            ("setex job 10 1", ""),
            ("incr job", ""),
            ("hsetnx job f nx", ""),
            ("eval return 1 job", ""),
            ("json.set job $ nx", ""),
            ("set lock:a 1 nx px 10", ""),
        ] {
            let (notes, locks) = notes(&["lock:*"], &[]);
            route(&notes, &locks, &split(line));
            let said: Vec<_> = notes.all().iter().map(ToString::to_string).collect();
            match sign {
                "" => assert!(said.is_empty(), "{line}: {said:?}"),
                sign => assert!(said.len() == 1 && said[0].contains(sign), "{line}: {said:?}"),
            }
        }
        let (notes, locks) = notes(&["lock:*"], &[]);
        route(&notes, &locks, &["EVAL", RELEASE, "1", "job", "t"]);
        assert_eq!(notes.unguarded_patterns(), 1);
        route(&notes, &locks, &["EVAL", RELEASE, "0"]);
        assert_eq!(notes.unguarded_claims(), 1);
    }

    #[test]
    fn what_the_data_redis_does_not_get_is_not_noted() {
        let (notes, locks) = notes(&["lock:*"], &[]);
        let words = words(&["setnx", "job", "1"]);
        let command = table::lookup(b"setnx").expect("a command").place;
        let to = Destination::of(&locks, words.args());
        for action in [None, Some(Action::Later)] {
            of(&notes, command, to, words.args(), action.as_ref());
        }
        assert_eq!(notes.unguarded_claims(), 0);
    }

    #[test]
    fn a_pattern_is_matched_by_whatever_names_a_lock() {
        for (line, matches) in [
            ("get lock:a", true),
            ("del x lock:a", true),
            ("spop lock:a", true),
            ("eval text 1 lock:a", true),
            ("get x:{lock:a}", true),
            ("subscribe x x:{lock:a}", true),
            ("publish x:{lock:a} 1", true),
            ("get page", false),
            ("set page lock:a", false),
            ("subscribe lock:a", false),
            ("get lock:a b", false),
            ("ping lock:a", false),
        ] {
            let (notes, locks) = notes(&["lock:*"], &[]);
            route(&notes, &locks, &split(line));
            assert_eq!(notes.awaited().is_none(), matches, "{line}");
        }
        for (line, matches) in [
            ("subscribe free:a", true),
            ("psubscribe free:*", true),
            ("publish free:a 1", true),
            ("eval text 2 lock:a free:a", true),
            ("get free:a", false),
        ] {
            let (notes, locks) = notes(&["lock:*"], &["free:*"]);
            route(&notes, &locks, &["get", "lock:a"]);
            route(&notes, &locks, &split(line));
            assert_eq!(notes.awaited().is_none(), matches, "{line}");
        }
    }

    #[test]
    fn only_names_are_traffic() {
        for (line, is_traffic) in [
            ("ping", false),
            ("info", false),
            ("get x", true),
            ("get lock:a", true),
            ("dbsize", true),
        ] {
            let (notes, locks) = notes(&["lokc:*"], &[]);
            route(&notes, &locks, &split(line));
            notes.tick();
            assert_eq!(notes.unmatched_patterns(), usize::from(is_traffic), "{line}");
        }
    }
}
