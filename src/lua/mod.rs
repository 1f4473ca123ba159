//! Meaning of lock scripts, read from their text.
//!
//! Lock libraries send the same few scripts in many spellings. A script that means one of the [`LockMeaning`]s runs as
//! the operation it stands for; every other script runs unchanged. Text becomes meaning in four steps:
//!
//! 1. `lexer`: bytes to tokens. It removes comments, white space, quotes and escapes;
//! 2. `syntax`: tokens to statements, only those of a straight-line lock script. It removes semicolons, redundant
//!    parentheses and the names of local variables;
//! 3. [`effects`]: the statements, run once for every state in which a master can find the key;
//! 4. [`recognise()`]: the effects in those states, to a [`LockMeaning`].
//!
//! None of the steps uses a list of known texts. [`known_scripts`] is only for tests and for observing traffic. Two
//! texts that do the same have the same shape, with or without `else return 0`. A step that meets anything unknown
//! gives up, because a script mistaken for another one could lose a lock.

pub mod canonical;
pub mod effects;
pub mod known_scripts;
pub mod meaning;
pub mod step_budget;

mod cache;
mod lexer;
pub mod library;
pub mod program;
mod recognise;
pub mod residents;
mod runner;
mod syntax;
pub mod transactions;

pub mod keyspace;

pub use cache::{Script, ScriptCache};
pub use effects::{Deeds, Effect, LockState};
pub use meaning::{Arg, Create, LockMeaning, Own, Prolong, ScriptValue};
pub use recognise::recognise;

/// Returns the library that sends the script with this SHA1 in lower case, and its versions.
pub fn library_of(sha: &str) -> Option<&'static str> {
    known_scripts::by_sha(sha).map(|known| known.library)
}

/// Returns the text of such a script.
pub fn text_of(sha: &str) -> Option<&'static str> {
    known_scripts::by_sha(sha).map(|known| known.text)
}
