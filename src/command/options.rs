//! The options of `SET`, `GETEX`, `EXPIRE`, `SCAN` and `GETRANGE`, parsed as Redis does (`t_string.c`, `expire.c`,
//! `db.c`) without executing anything.
//!
//! The order of checks is Redis's as well, since it decides which of two errors a client sees: first the words, then
//! the numbers. An `Err` is the reply to the client.

use crate::catalogue::error;
use crate::catalogue::table::Command;
pub use crate::resp::number::parse_i64;
use crate::resp::reply::Reply;
use crate::resp::requests::Args;

/// The options of `SET key value`: `[NX | XX | IFEQ value] [GET] [EX | PX | EXAT | PXAT time | KEEPTTL]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetOptions<'a> {
    /// The condition for setting the value.
    pub condition: Condition<'a>,
    /// The change of the key's time to live.
    pub ttl: SetTtl,
    /// `GET`: whether the reply is the old value.
    pub get: bool,
}

/// The condition under which `SET` sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition<'a> {
    /// In any case.
    Always,
    /// `NX`: if the key does not exist.
    Absent,
    /// `XX`: if the key exists.
    Present,
    /// `IFEQ`: if the key has this value.
    Equal(&'a [u8]),
}

/// The effect of `SET` on the time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTtl {
    /// The key will never expire.
    Never,
    /// `KEEPTTL`: the time to live is unchanged.
    Keep,
    /// The key expires in this many milliseconds. Zero or less is a time in the past.
    Ms(i64),
}

impl<'a> SetOptions<'a> {
    /// Parses `options`, the arguments after the value.
    ///
    /// # Errors
    /// Returns Redis's reply to options that are unknown, incomplete, contradictory or out of range.
    pub fn parse(options: Args<'a>, now: impl UnixMs) -> Result<SetOptions<'a>, Reply> {
        let (mut condition, mut ttl, mut get) = (Condition::Always, TtlOption::None, false);
        let mut words = options.iter();
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case(b"NX") {
                condition.replace(Condition::Absent)?;
            } else if word.eq_ignore_ascii_case(b"XX") {
                condition.replace(Condition::Present)?;
            } else if word.eq_ignore_ascii_case(b"IFEQ") {
                condition.replace(Condition::Equal(words.next().ok_or(error::SYNTAX)?))?;
            } else if word.eq_ignore_ascii_case(b"GET") {
                get = true;
            } else if word.eq_ignore_ascii_case(b"KEEPTTL") {
                ttl.replace(TtlOption::Keep)?;
            } else {
                ttl.replace(TtlOption::Time(Time::option(word, words.next())?))?;
            }
        }
        let ttl = match ttl {
            TtlOption::Time(time) => SetTtl::Ms(time.ttl_ms("set", now)?),
            TtlOption::Keep => SetTtl::Keep,
            TtlOption::None | TtlOption::Persist => SetTtl::Never,
        };
        Ok(SetOptions { condition, ttl, get })
    }
}

impl<'a> Condition<'a> {
    /// Sets the condition. The same one may be given twice, but not two different ones.
    fn replace(&mut self, new: Condition<'a>) -> Result<(), Reply> {
        use std::mem::discriminant;
        if *self != Condition::Always && discriminant(self) != discriminant(&new) {
            return Err(error::SYNTAX);
        }
        *self = new;
        Ok(())
    }
}

/// The effect of `GETEX` on the time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetexTtl<'a> {
    /// None: it is a `GET`.
    Unchanged,
    /// `PERSIST`: the key will never expire.
    Never,
    /// A new time to live. Redis looks the key up first: an invalid time is no error if there is no key. The caller
    /// therefore calls [`Time::ttl_ms`] once it knows.
    Time(Time<'a>),
}

impl<'a> GetexTtl<'a> {
    /// Parses `options`, the arguments after the key.
    ///
    /// # Errors
    /// Returns a syntax error.
    pub fn parse(options: Args<'a>) -> Result<GetexTtl<'a>, Reply> {
        let mut ttl = TtlOption::None;
        let mut words = options.iter();
        while let Some(word) = words.next() {
            ttl.replace(if word.eq_ignore_ascii_case(b"PERSIST") {
                TtlOption::Persist
            } else {
                TtlOption::Time(Time::option(word, words.next())?)
            })?;
        }
        Ok(match ttl {
            TtlOption::Time(time) => GetexTtl::Time(time),
            TtlOption::Persist => GetexTtl::Never,
            TtlOption::None | TtlOption::Keep => GetexTtl::Unchanged,
        })
    }
}

/// The options that exclude each other: `KEEPTTL`, `PERSIST`, `EX`, `PX`, `EXAT`, `PXAT`.
#[derive(Clone, Copy)]
enum TtlOption<'a> {
    None,
    Keep,
    Persist,
    Time(Time<'a>),
}

impl<'a> TtlOption<'a> {
    /// Sets the option. If the same one is given twice, the last counts; two different ones are an error.
    fn replace(&mut self, new: TtlOption<'a>) -> Result<(), Reply> {
        let compatible = match (*self, new) {
            (TtlOption::None, _)
            | (TtlOption::Keep, TtlOption::Keep)
            | (TtlOption::Persist, TtlOption::Persist) => true,
            (TtlOption::Time(old), TtlOption::Time(new)) => {
                (old.unit, old.base) == (new.unit, new.base)
            }
            _ => false,
        };
        *self = new;
        if compatible { Ok(()) } else { Err(error::SYNTAX) }
    }
}

/// A time as the client wrote it, not parsed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time<'a> {
    text: &'a [u8],
    unit: TimeUnit,
    base: Base,
}

/// The unit of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// `EX`, `EXAT`, `EXPIRE`, ...
    Seconds,
    /// `PX`, `PXAT`, `PEXPIRE`, ...
    Milliseconds,
}

/// The start from which a time is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// A time to live.
    Now,
    /// A moment in Unix time.
    Epoch,
}

impl<'a> Time<'a> {
    /// Returns the time `text` in this unit since this moment, e.g. the argument of `SETEX`.
    pub fn new(text: &'a [u8], unit: TimeUnit, base: Base) -> Time<'a> {
        Time { text, unit, base }
    }

    fn option(word: &[u8], text: Option<&'a [u8]>) -> Result<Time<'a>, Reply> {
        let options: [(&[u8], TimeUnit, Base); 4] = [
            (b"PX", TimeUnit::Milliseconds, Base::Now),
            (b"EX", TimeUnit::Seconds, Base::Now),
            (b"PXAT", TimeUnit::Milliseconds, Base::Epoch),
            (b"EXAT", TimeUnit::Seconds, Base::Epoch),
        ];
        let option = options.iter().find(|(name, ..)| word.eq_ignore_ascii_case(name));
        let (Some(&(_, unit, base)), Some(text)) = (option, text) else {
            return Err(error::SYNTAX);
        };
        Ok(Time { text, unit, base })
    }

    /// Returns milliseconds from now, for the commands that set a value (`getExpireMillisecondsOrReply` in
    /// `t_string.c`). A time of zero or less is refused. A past moment is valid, and the result is then zero or less.
    /// `command` is the name for the error.
    ///
    /// # Errors
    /// Returns an error if the time is not an integer, is zero or less, or is out of range.
    pub fn ttl_ms(self, command: &str, now: impl UnixMs) -> Result<i64, Reply> {
        let time = parse_i64(self.text).ok_or(error::NOT_AN_INTEGER)?;
        if time <= 0 {
            return Err(error::invalid_expire_time(command));
        }
        self.convert(time, now).ok_or_else(|| error::invalid_expire_time(command))
    }

    /// Returns milliseconds from now, or `None` if Redis's own moment of expiry would not fit an `i64`.
    fn convert(self, time: i64, now: impl UnixMs) -> Option<i64> {
        let ms = match self.unit {
            TimeUnit::Seconds => time.checked_mul(1000)?,
            TimeUnit::Milliseconds => time,
        };
        match self.base {
            Base::Now => can_end(ms, now).then_some(ms),
            Base::Epoch => Some(ms.saturating_sub(now())),
        }
    }
}

/// Unix time in milliseconds. It is read only where a time depends on it, as that costs more than parsing the time.
pub trait UnixMs: FnOnce() -> i64 {}

impl<F: FnOnce() -> i64> UnixMs for F {}

/// Whether the end of a TTL fits an `i64` of Unix milliseconds, as Redis requires.
pub fn can_end(ttl_ms: i64, now: impl UnixMs) -> bool {
    /// Earlier ends fit whatever the time of day.
    const SOON_MS: i64 = i64::MAX / 2;
    ttl_ms < SOON_MS || ttl_ms.checked_add(now()).is_some()
}

/// The arguments of `EXPIRE`, `PEXPIRE`, `EXPIREAT` and `PEXPIREAT` after the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpireOptions {
    /// Milliseconds from now. With zero or less, the key is deleted.
    pub ttl_ms: i64,
    /// `NX`: only if the key does not expire yet.
    pub nx: bool,
    /// `XX`: only if the key expires.
    pub xx: bool,
    /// `GT`: only if the key then expires later. Never expiring is the latest.
    pub gt: bool,
    /// `LT`: only if the key then expires earlier.
    pub lt: bool,
}

impl ExpireOptions {
    /// Parses the arguments of `command`, including its name and the key.
    ///
    /// # Errors
    /// Returns Redis's reply to options that are unknown or contradictory, and to a time out of range.
    pub fn parse(
        command: Command,
        args: Args<'_>,
        now: impl UnixMs,
    ) -> Result<ExpireOptions, Reply> {
        let mut options = ExpireOptions::parse_flags(args.from(3))?;
        let text = args.get(2).unwrap_or_default();
        let number = parse_i64(text).ok_or(error::NOT_AN_INTEGER)?;
        let (unit, base) = time_of(command);
        options.ttl_ms = Time::new(text, unit, base)
            .convert(number, now)
            .ok_or_else(|| error::invalid_expire_time(command.spec().name))?;
        Ok(options)
    }

    fn parse_flags(words: Args<'_>) -> Result<ExpireOptions, Reply> {
        let mut flags = ExpireOptions { ttl_ms: 0, nx: false, xx: false, gt: false, lt: false };
        for word in words.iter() {
            match word.to_ascii_uppercase().as_slice() {
                b"NX" => flags.nx = true,
                b"XX" => flags.xx = true,
                b"GT" => flags.gt = true,
                b"LT" => flags.lt = true,
                _ => return Err(error::unsupported_option(word)),
            }
        }
        if flags.nx && (flags.xx || flags.gt || flags.lt) {
            return Err(error::EXPIRE_NX_CONFLICT);
        }
        if flags.gt && flags.lt {
            return Err(error::EXPIRE_GT_LT_CONFLICT);
        }
        Ok(flags)
    }
}

/// Returns the unit and the start of times in a command of the `EXPIRE` and `SETEX` families.
fn time_of(command: Command) -> (TimeUnit, Base) {
    match command {
        Command::Pexpire | Command::PsetEx => (TimeUnit::Milliseconds, Base::Now),
        Command::PexpireAt => (TimeUnit::Milliseconds, Base::Epoch),
        Command::ExpireAt => (TimeUnit::Seconds, Base::Epoch),
        _ => (TimeUnit::Seconds, Base::Now),
    }
}

/// The arguments of `SCAN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanOptions<'a> {
    /// The position to continue from.
    pub cursor: u64,
    /// `MATCH`: a glob pattern for the names.
    pub pattern: Option<&'a [u8]>,
    /// `COUNT`: the number of keys to examine; at least 1, by default 10.
    pub count: i64,
    /// `TYPE`: only keys of this type.
    pub type_name: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    /// Parses the arguments of a command whose cursor is the word `at`.
    ///
    /// # Errors
    /// Returns Redis's reply to an invalid cursor, and to unknown or incomplete options.
    pub fn parse(args: Args<'a>, at: usize) -> Result<ScanOptions<'a>, Reply> {
        let cursor = parse_cursor(args.get(at).unwrap_or_default()).ok_or(error::INVALID_CURSOR)?;
        let mut options = ScanOptions { cursor, pattern: None, count: 10, type_name: None };
        let mut words = args.from(at + 1).iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or(error::SYNTAX)?;
            match word.to_ascii_uppercase().as_slice() {
                b"COUNT" => options.count = parse_count(value)?,
                b"MATCH" => options.pattern = Some(value),
                b"TYPE" => options.type_name = Some(value),
                _ => return Err(error::SYNTAX),
            }
        }
        Ok(options)
    }
}

fn parse_count(text: &[u8]) -> Result<i64, Reply> {
    let count = parse_i64(text).ok_or(error::NOT_AN_INTEGER)?;
    if count < 1 { Err(error::SYNTAX) } else { Ok(count) }
}

/// Parses a cursor like C's `strtoul`, which Redis uses: signs are fine, negative numbers wrap around, and a text ends
/// with its first NUL.
fn parse_cursor(text: &[u8]) -> Option<u64> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let (negative, digits) = match text {
        [] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(if negative { number.wrapping_neg() } else { number })
}

#[cfg(test)]
mod tests;
