//! Reads that become programs: what a quorum does not show as decided is settled first, and read along with that.

use std::sync::Arc;

use super::Rules;
use super::program::{Call, Program, ProgramShape, Rendering};

/// The words of a transaction before its commands: the protocol that masters speak, and a database that is only of
/// importance for scripts. What a command replies goes to clients as other reads do.
const HEAD: [&[u8]; 2] = [b"3", b"0"];

/// Returns the program that runs one command of these words, on these keys. It begins with a prepare: masters that differ
/// would refuse what is built on what this worker holds.
pub fn program<'a>(
    rules: &Rules,
    keys: impl Iterator<Item = &'a [u8]>,
    words: impl Iterator<Item = &'a [u8]>,
    rendering: Rendering,
) -> Box<Program> {
    let (keys, words): (Vec<_>, Vec<_>) = (keys.collect(), words.collect());
    let length = words.len().to_string();
    let queue = HEAD.into_iter().chain([length.as_bytes()]).chain(words);
    // Its turns are those of who reads.
    let (text, turns) = (Arc::clone(&rules.commands), Vec::new());
    let call = Call::new(text, None, turns, keys.into_iter(), queue);
    Box::new(Program::new(call, ProgramShape::Command(rendering)).fresh())
}
