//! Scripts of locks among those that go to the data Redis.
//!
//! Each text is read once. After that it is identified by a hash of the text, or for `EVALSHA` by its SHA1.

use std::hash::BuildHasher;
use std::sync::{PoisonError, RwLock};

use foldhash::HashMap;
use foldhash::fast::RandomState;
use sha1_smol::{Digest, Sha1};

use super::meaning::{goes_through_all_keys, kind_of};
use crate::lua::text_of;
use crate::names::kind::LockSign;

/// Maximum scripts remembered, by text and by SHA1. An application that writes values into its texts has more; later
/// ones are ignored.
const MOST_SCRIPTS: usize = 1024;

/// Maximum length of a text, in bytes. Scripts of locks are shorter, and others take too long to read.
const LONGEST_TEXT: usize = 8 << 10;

/// Use of a script's keys, if it is one that locks need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Kind of script that was recognised.
    pub kind: LockSign,
    /// Whether it does the same with all its keys; otherwise only the first one counts.
    pub is_of_all_keys: bool,
}

/// Known scripts, and their use for locks.
#[derive(Debug, Default)]
pub struct LockScripts {
    hasher: RandomState,
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    texts: HashMap<u64, Option<Use>>,
    shas: HashMap<Digest, Option<Use>>,
}

impl LockScripts {
    /// Returns the use of the script with this text, from `EVAL` or `SCRIPT LOAD`.
    pub fn text(&self, text: &[u8]) -> Option<Use> {
        if text.len() > LONGEST_TEXT {
            return None;
        }
        let hash = self.hasher.hash_one(text);
        if let Some(found) = self.read(|known| known.texts.get(&hash).copied()) {
            return found;
        }
        if self.read(|known| known.texts.len() >= MOST_SCRIPTS) {
            return None;
        }
        let found = use_of(text);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.texts.insert(hash, found);
        put(&mut known.shas, Sha1::from(text).digest(), found);
        found
    }

    /// Returns the use of the script with this SHA1, from `EVALSHA`. If its text never came this way, it is only known
    /// if it is a library's.
    pub fn sha(&self, sha: &[u8]) -> Option<Use> {
        let sha = std::str::from_utf8(sha).ok()?;
        let digest: Digest = sha.parse().ok()?;
        if let Some(found) = self.read(|known| known.shas.get(&digest).copied()) {
            return found;
        }
        let found = text_of(&sha.to_ascii_lowercase()).and_then(|text| use_of(text.as_bytes()));
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        put(&mut known.shas, digest, found);
        found
    }

    fn read<T>(&self, what: impl FnOnce(&Known) -> T) -> T {
        what(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Remembers a SHA1. Requests for unknown SHA1s must not keep out a script whose text comes later.
fn put(shas: &mut HashMap<Digest, Option<Use>>, sha: Digest, found: Option<Use>) {
    if shas.len() < 2 * MOST_SCRIPTS || shas.contains_key(&sha) {
        shas.insert(sha, found);
    } else if found.is_some() {
        shas.retain(|_, known| known.is_some());
        shas.insert(sha, found);
    }
}

fn use_of(text: &[u8]) -> Option<Use> {
    let is_of_all_keys = goes_through_all_keys(text);
    kind_of(text).map(|kind| Use { kind, is_of_all_keys })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASE: &[u8] = b"if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
    const COUNT: &[u8] = b"return redis.call('incr', KEYS[1])";

    fn sha(text: &[u8]) -> String {
        Sha1::from(text).hexdigest()
    }

    #[test]
    fn a_script_is_known_by_its_sha1_once_its_text_was_seen() {
        let scripts = LockScripts::default();
        let own = [RELEASE, b" "].concat();
        assert_eq!(scripts.sha(sha(&own).as_bytes()), None);
        let found = Some(Use { kind: LockSign::ReleaseScript, is_of_all_keys: false });
        assert_eq!((scripts.text(&own), scripts.text(&own)), (found, found));
        assert_eq!(scripts.sha(sha(&own).to_uppercase().as_bytes()), found);
        assert_eq!((scripts.text(COUNT), scripts.sha(sha(COUNT).as_bytes())), (None, None));
        for nonsense in [&b"x"[..], b"", &[0xff; 40]] {
            assert_eq!(scripts.sha(nonsense), None);
        }
    }

    #[test]
    fn a_library_is_known_before_it_sends_the_text() {
        let known = LockScripts::default().sha(b"c3f8721cbb97f72bc19e972846bd7aaf91901658");
        assert_eq!(known.map(|it| it.kind), Some(LockSign::ReleaseScript));
    }

    #[test]
    fn the_number_of_scripts_is_bounded() {
        let scripts = LockScripts::default();
        for number in 0..5 * MOST_SCRIPTS {
            scripts.sha(sha(format!("{number}").as_bytes()).as_bytes());
        }
        assert!(scripts.text(RELEASE).is_some());
        assert!(scripts.sha(sha(RELEASE).as_bytes()).is_some());
        for number in 0..2 * MOST_SCRIPTS {
            scripts.text(format!("return {number}").as_bytes());
        }
        let sizes = scripts.read(|known| (known.texts.len(), known.shas.len()));
        assert!(sizes.0 == MOST_SCRIPTS && sizes.1 <= 2 * MOST_SCRIPTS, "{sizes:?}");
        assert!(scripts.text(RELEASE).is_some() && scripts.text(&[b' '; 100_000]).is_none());
    }
}
