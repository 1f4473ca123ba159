//! Reads that become programs: a key on which no quorum has decided is settled first, and read in the same run.

use std::sync::Arc;

use super::Rules;
use super::program::{Call, Program, ProgramShape, Rendering};

/// The words of a transaction before its commands: the protocol that masters speak, and a database that only matters
/// for scripts. Clients get a command's reply as from other reads.
const HEAD: [&[u8]; 2] = [b"3", b"0"];

/// Returns the program that runs the command with these words on these keys. It begins with a prepare: masters that
/// differ would refuse a request based on what this worker holds.
pub fn program<'a>(
    rules: &Rules,
    keys: impl Iterator<Item = &'a [u8]>,
    words: impl Iterator<Item = &'a [u8]>,
    rendering: Rendering,
) -> Box<Program> {
    let (keys, words): (Vec<_>, Vec<_>) = (keys.collect(), words.collect());
    let length = words.len().to_string();
    let queue = HEAD.into_iter().chain([length.as_bytes()]).chain(words);
    // The read already has its turns.
    let (text, turns) = (Arc::clone(&rules.commands), Vec::new());
    let call = Call::new(text, None, turns, keys.into_iter(), queue);
    Box::new(Program::new(call, ProgramShape::Command(rendering)).fresh())
}
