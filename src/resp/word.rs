//! Case-insensitive names among the words of a request.

/// Whether `word` is one of `names`.
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
