//! Removal of what no request may do: wait for long, set a time to live that ends during a sequence, or anything else
//! that `docs/differences.md` excludes.

use crate::step::lower;

/// Returns the words with longer times to live and shorter waiting times.
pub(crate) fn words(mut words: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let name = words.first().map(|name| lower(name)).unwrap_or_default();
    match name.as_str() {
        "set" | "getex" | "setex" | "psetex" | "expire" | "pexpire" | "expireat" | "pexpireat"
        | "restore" => {
            words.iter_mut().skip(2).for_each(lengthen);
            // Padding makes two equal times unequal.
            if name.ends_with("expireat") {
                words.retain(|word| !["gt", "lt"].contains(&lower(word).as_str()));
            }
        }
        "blpop" | "brpop" | "bzpopmin" | "bzpopmax" | "blmove" | "brpoplpush" => {
            words.iter_mut().skip(1).next_back().into_iter().for_each(shorten);
        }
        "blmpop" | "bzmpop" => words.iter_mut().skip(1).take(1).for_each(shorten),
        "xread" | "xreadgroup" => {
            let mut rest = words.iter_mut().skip_while(|word| lower(word) != "block").skip(1);
            rest.next().into_iter().for_each(shorten_ms);
        }
        "srandmember" | "hrandfield" | "zrandmember" => words.iter_mut().skip(2).for_each(lessen),
        // Elements without weights are equal and a set has no order, so any order would be valid.
        "sort" | "sort_ro" if words.iter().any(|word| lower(word) == "by") => {
            words.retain(|word| lower(word) != "alpha");
            let pattern = words.iter().skip_while(|word| lower(word) != "by").nth(1);
            if pattern.is_none_or(|pattern| !pattern.contains(&b'*')) {
                words.retain(|word| lower(word) != "limit");
            }
        }
        // Redis does not check the key of a PFMERGE without sources.
        "pfmerge" if words.len() == 2 => words.push(words[1].clone()),
        "wait" => words.iter_mut().skip(2).for_each(shorten_ms),
        _ => {}
    }
    words
}

/// Lengthens a time between 1 ms and 3 hours: it could end during the sequence.
fn lengthen(word: &mut Vec<u8>) {
    let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<u64>().ok());
    if number.is_some_and(|number| (1..10_000_000).contains(&number)) {
        *word = [b"1000000000", word.as_slice()].concat();
    }
}

/// Reduces a number of repeated elements that would take forever to draw.
fn lessen(word: &mut Vec<u8>) {
    let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<i64>().ok());
    if number.is_some_and(|number| number < -1000 && number > i64::MIN) {
        *word = b"-1000".to_vec();
    }
}

fn shorten(word: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(word);
    let seconds = text.trim_start().parse::<f64>();
    // Only Redis accepts hexadecimal numbers.
    if text.contains("0x") || seconds.is_ok_and(|seconds| (0.0..LONGEST).contains(&seconds)) {
        *word = b"0.01".to_vec();
    }
}

fn shorten_ms(word: &mut Vec<u8>) {
    let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<i64>().ok());
    if number.is_some_and(|number| number >= 0) {
        *word = b"1".to_vec();
    }
}

/// Anything longer is out of range.
const LONGEST: f64 = 9.2e15;
