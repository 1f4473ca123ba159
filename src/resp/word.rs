//! Names among the words of a request, whose case does not count.

/// Whether a word is one of these names.
pub fn is(word: &[u8], names: &[&str]) -> bool {
    names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_does_not_count_and_length_does() {
        assert!(is(b"SyNc", &["async", "sync"]));
        assert!(!is(b"sync", &["async"]) && !is(b"", &["sync"]) && !is(b"sync", &[]));
    }
}
