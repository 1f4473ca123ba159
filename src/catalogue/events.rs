//! Keyspace notifications (`notify.c`): the classes of events, and the channels of an event.

use std::fmt;

use bytes::Bytes;

/// Letters of the classes, in the order in which Redis shows them. Each stands for one bit.
const LETTERS: &[u8; 14] = b"g$lshzxetdnKEm";

/// Number of the first letters that `A` stands for.
const ALL: u32 = 10;

/// A set of classes, as `notify-keyspace-events` spells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventClasses(u16);

impl EventClasses {
    /// Reads the letters of `notify-keyspace-events`; `None` if one of them is unknown.
    pub fn read(text: &str) -> Option<Self> {
        text.bytes().try_fold(Self::default(), |known, letter| {
            let bits = if letter == b'A' { (1 << ALL) - 1 } else { bit(letter)? };
            Some(Self(known.0 | bits))
        })
    }

    /// Returns the classes as one number, for an atomic.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Returns the classes of such a number.
    pub fn of_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Whether any event is published: it needs a channel and a class.
    pub fn is_any(self) -> bool {
        let channels = bits(b"KE");
        self.0 & channels != 0 && self.0 & !channels != 0
    }

    /// Whether events of the class with this letter are published.
    pub fn has(self, class: u8) -> bool {
        self.is_any() && bit(class).is_some_and(|bit| self.0 & bit != 0)
    }

    /// Returns the channels and messages of an event.
    pub fn channels_of(self, event: &KeyEvent) -> impl Iterator<Item = (Vec<u8>, Bytes)> {
        let KeyEvent { db, name, key, .. } = event;
        let by_key = (b'K', format!("__keyspace@{db}__:"), key, name);
        let by_event = (b'E', format!("__keyevent@{db}__:"), name, key);
        let is_wanted = self.has(event.class);
        [by_key, by_event]
            .into_iter()
            .filter(move |(letter, ..)| is_wanted && self.has(*letter))
            .map(|(_, prefix, channel, message)| {
                ([prefix.as_bytes(), channel].concat(), message.clone())
            })
    }
}

/// Redis shows `n` only if `A` does not stand for the others.
impl fmt::Display for EventClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = (1 << ALL) - 1;
        let is_all = self.0 & all == all;
        if is_all {
            f.write_str("A")?;
        }
        let letters = LETTERS.iter().enumerate();
        letters
            .filter(|(at, letter)| {
                self.0 & 1 << at != 0 && !(is_all && b"g$lshzxetdn".contains(letter))
            })
            .try_for_each(|(_, letter)| write!(f, "{}", char::from(*letter)))
    }
}

fn bit(letter: u8) -> Option<u16> {
    LETTERS.iter().position(|known| *known == letter).map(|at| 1 << at)
}

fn bits(letters: &[u8]) -> u16 {
    letters.iter().filter_map(|letter| bit(*letter)).fold(0, |bits, bit| bits | bit)
}

/// A change to a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyEvent {
    /// Letter of its class.
    pub class: u8,
    /// The key's database.
    pub db: u32,
    /// Name in Redis.
    pub name: Bytes,
    /// The key.
    pub key: Bytes,
}

impl KeyEvent {
    /// Creates an event of the class with this letter.
    pub fn new(class: u8, name: &'static str, db: u32, key: &[u8]) -> Self {
        Self { class, db, name: name.into(), key: Bytes::copy_from_slice(key) }
    }

    /// Reads the class, the database and the name as a program reports them: `$0 set`.
    pub fn parse(about: &[u8], key: &[u8]) -> Option<Self> {
        let (class, rest) = about.split_first()?;
        let space = rest.iter().position(|byte| *byte == b' ')?;
        let db = std::str::from_utf8(&rest[..space]).ok()?.parse().ok()?;
        let name = Bytes::copy_from_slice(&rest[space + 1..]);
        Some(Self { class: *class, db, name, key: Bytes::copy_from_slice(key) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_shown_as_redis_does() {
        let shown = [
            ("", ""),
            ("KEA", "AKE"),
            ("AnKE", "AKE"),
            ("nKE", "nKE"),
            ("mKE", "KEm"),
            ("g$lshzxetdKE", "AKE"),
            ("g$lshzxetdnmKE", "AKEm"),
            ("Kx", "xK"),
            ("EK", "KE"),
            ("ntd", "tdn"),
        ];
        for (text, expected) in shown {
            assert_eq!(EventClasses::read(text).unwrap().to_string(), expected, "{text}");
        }
        assert_eq!(EventClasses::read("KEq"), None);
    }

    #[test]
    fn an_event_needs_a_class_and_a_channel() {
        let event = KeyEvent::new(b'$', "set", 3, b"k");
        let published = |classes: &str| {
            let classes = EventClasses::read(classes).unwrap();
            let channels = classes.channels_of(&event);
            channels.map(|(channel, _)| String::from_utf8(channel).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(published("KE$"), ["__keyspace@3__:k", "__keyevent@3__:set"]);
        assert_eq!(published("KA"), ["__keyspace@3__:k"]);
        assert!(published("A").is_empty() && published("KE").is_empty());
        assert!(published("KEg").is_empty());
        assert!(!EventClasses::read("A").unwrap().is_any());
        assert!(EventClasses::read("Kx").unwrap().is_any());
    }

    #[test]
    fn what_a_program_reports_is_read() {
        assert_eq!(KeyEvent::parse(b"$3 set", b"k"), Some(KeyEvent::new(b'$', "set", 3, b"k")));
        for wrong in [&b""[..], b"$", b"$3", b"$x set"] {
            assert_eq!(KeyEvent::parse(wrong, b"k"), None);
        }
    }
}
