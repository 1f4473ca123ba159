//! Program that runs another one, passed as its last argument.
//!
//! A master keeps every script text that it receives until it drops them all. So it does not receive a text as a script
//! before that text has proved to recur. Until then a runner compiles the text and runs it, and Lua garbage-collects
//! it.

use std::sync::{Arc, LazyLock};

use super::program::ProgramText;
use super::program::shebang::{self, FLAGS};

/// Runs `ARGV[#ARGV]` in its own place. The tail call leaves no trace where a program looks for the line that failed.
const RUN: &str = "\
local text = ARGV[#ARGV]
ARGV[#ARGV] = nil
return assert(loadstring(text, '@user_script'))()
";

/// Returns the runner of programs with these flags. A program without a shebang has a different runner than one without
/// flags.
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
