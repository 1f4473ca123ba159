//! The program that runs another one, which it is handed as its last argument.
//!
//! A master keeps every text it was given as a script, until it forgets them all. So a text is not given to it before
//! it has proved to come again: until then a runner compiles it, runs it, and Lua collects it as garbage.

use std::sync::{Arc, LazyLock};

use super::program::ProgramText;
use super::program::shebang::{self, FLAGS};

/// Runs `ARGV[#ARGV]` in its own place: a tail call leaves no trace where a program looks for the line that failed.
const RUN: &str = "\
local text = ARGV[#ARGV]
ARGV[#ARGV] = nil
return assert(loadstring(text, '@user_script'))()
";

/// The runner of programs with these flags; one without a shebang is not the one with no flags.
pub(super) fn with(flags: Option<usize>) -> Arc<ProgramText> {
    let at = flags.map_or(0, |bits| 1 + bits);
    Arc::clone(&RUNNERS[at])
}

static RUNNERS: LazyLock<Vec<Arc<ProgramText>>> = LazyLock::new(|| {
    let flagged = (0..1 << FLAGS.len()).map(|bits| shebang::spelled(bits) + "\n" + RUN);
    let texts = std::iter::once(RUN.to_owned()).chain(flagged);
    texts.map(|text| Arc::new(ProgramText::ours(text.into_bytes()))).collect()
});

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_set_of_flags_has_a_runner_of_its_own() {
        let all = (0..32).map(Some).chain([None]);
        let shas: HashSet<_> = all.map(|flags| with(flags).sha.clone()).collect();
        assert_eq!(shas.len(), 33);
        assert!(with(Some(3)).text.starts_with(b"#!lua flags=no-writes,allow-oom\nlocal text"));
        assert!(with(Some(0)).text.starts_with(b"#!lua\nlocal text"));
        assert!(with(None).text.starts_with(b"local text"));
    }
}
