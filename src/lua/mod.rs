//! What a lock script means, read from its text.
//!
//! Lock libraries send the same few scripts in many spellings. A script whose meaning is one of the [`LockMeaning`]s is run as
//! the operation it stands for; everything else is left to run as it is. The way from text to meaning:
//!
//! 1. `lexer`: bytes to tokens; comments, white space, quotes and escapes are gone after it;
//! 2. `syntax`: tokens to statements, only those of a straight-line lock script; semicolons, redundant parentheses and
//!    the names of local variables are gone after it;
//! 3. `outcome`: the statements, run once for every state in which a master can find the key;
//! 4. [`recognise()`]: what happened in those states, to a [`LockMeaning`].
//!
//! No list of known texts takes part in that (`known` is for tests, and for whoever only watches): two texts that do the same have the same shape, `else return 0` or not. A step that
//! meets anything it does not know gives up, because a script taken for another one could lose a lock.

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
pub use meaning::{Arg, Create, LockMeaning, Own, Prolong, ScriptValue};
pub use recognise::recognise;

/// The library that sends the script with this SHA1 in lower case, and its versions.
pub fn library_of(sha: &str) -> Option<&'static str> {
    known_scripts::by_sha(sha).map(|known| known.library)
}

/// The text of such a script.
pub fn text_of(sha: &str) -> Option<&'static str> {
    known_scripts::by_sha(sha).map(|known| known.text)
}
