//! The payload of `FUNCTION DUMP` and `FUNCTION RESTORE`: libraries as in an RDB file, its version, and a checksum
//! (`functions.c`, `rdb.c`).

use std::sync::LazyLock;

use bytes::Bytes;

use super::error;
use crate::resp::reply::Reply;

/// Opcode before the text of each library (`RDB_OPCODE_FUNCTION2`).
const LIBRARY: u8 = 245;

/// The RDB version that Redis 7.0 writes, and the highest that it reads.
const VERSION: u16 = 10;

/// The highest version of later servers with the same format of libraries: Redis 8 and Valkey 9.
const NEWEST: u16 = 80;

/// Size of the version and the checksum after the libraries.
const FOOTER: usize = 2 + 8;

/// Maximum length of an unpacked text.
const LONGEST: usize = 64 << 20;

/// Returns the payload of these texts.
pub(super) fn dump<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    for text in texts {
        payload.push(LIBRARY);
        push_length(&mut payload, text.len());
        payload.extend_from_slice(text);
    }
    payload.extend_from_slice(&VERSION.to_le_bytes());
    let checksum = crc64(&payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
    payload
}

/// Returns the texts in a payload.
///
/// # Errors
/// Returns Redis's reply to an invalid payload.
pub(super) fn texts(payload: &[u8]) -> Result<Vec<Bytes>, Reply> {
    let (mut rest, footer) =
        payload.split_at_checked(payload.len().wrapping_sub(FOOTER)).ok_or(BAD_PAYLOAD)?;
    let (version, checksum) = footer.split_at(2);
    let is_known = version.try_into().is_ok_and(|bytes| u16::from_le_bytes(bytes) <= NEWEST);
    // A server without checksums writes 0.
    let is_whole =
        checksum == [0; 8] || checksum == crc64(&payload[..payload.len() - 8]).to_le_bytes();
    if !is_known || !is_whole {
        return Err(BAD_PAYLOAD);
    }
    let mut texts = Vec::new();
    while let Some((opcode, after)) = rest.split_first() {
        if *opcode != LIBRARY {
            return Err(NO_LIBRARY);
        }
        let (text, after) = string(after).ok_or(BROKEN)?;
        texts.push(text);
        rest = after;
    }
    Ok(texts)
}

/// Returns the string at the start of `bytes`, and the rest (`rdbGenericLoadStringObject`).
fn string(bytes: &[u8]) -> Option<(Bytes, &[u8])> {
    const PACKED: u8 = 0b1100_0011;
    if let Some(rest) = bytes.strip_prefix(&[PACKED]) {
        let (packed, rest) = length(rest)?;
        let (unpacked, rest) = length(rest)?;
        let (packed, rest) = rest.split_at_checked(packed)?;
        return Some((unpack(packed, unpacked)?.into(), rest));
    }
    let (length, rest) = length(bytes)?;
    let (text, rest) = rest.split_at_checked(length)?;
    Some((Bytes::copy_from_slice(text), rest))
}

/// Returns the length at the start of `bytes` (`rdbLoadLenByRef`), and the rest.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (low, of) = (usize::from(first & 0b0011_1111), first >> 6);
    match (of, *first) {
        (0, _) => Some((low, rest)),
        (1, _) => rest.split_first().map(|(next, rest)| (low << 8 | usize::from(*next), rest)),
        (2, 0x80) => {
            let (digits, rest) = rest.split_first_chunk::<4>()?;
            Some((u32::from_be_bytes(*digits) as usize, rest))
        }
        (2, 0x81) => {
            let (digits, rest) = rest.split_first_chunk::<8>()?;
            Some((usize::try_from(u64::from_be_bytes(*digits)).ok()?, rest))
        }
        _ => None,
    }
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    match u32::try_from(length) {
        Ok(short @ 0..64) => out.push(short as u8),
        Ok(short @ 64..16_384) => out.extend_from_slice(&(0x4000 | short as u16).to_be_bytes()),
        Ok(short) => {
            out.push(0x80);
            out.extend_from_slice(&short.to_be_bytes());
        }
        Err(_) => {
            out.push(0x81);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// Unpacks LZF (`lzf_d.c`): runs of bytes, and references to earlier output.
fn unpack(mut packed: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut text: Vec<u8> = Vec::new();
    while let Some((control, rest)) = packed.split_first() {
        packed = rest;
        let control = usize::from(*control);
        if control < 32 {
            let (run, rest) = packed.split_at_checked(control + 1)?;
            text.extend_from_slice(run);
            packed = rest;
        } else {
            let mut copied = control >> 5;
            if copied == 7 {
                let (more, rest) = packed.split_first()?;
                copied += usize::from(*more);
                packed = rest;
            }
            let (low, rest) = packed.split_first()?;
            packed = rest;
            let back = ((control & 31) << 8 | usize::from(*low)) + 1;
            let from = text.len().checked_sub(back)?;
            for at in from..from + copied + 2 {
                text.push(text[at]);
            }
        }
        if text.len() > length.min(LONGEST) {
            return None;
        }
    }
    (text.len() == length).then_some(text)
}

/// Returns the checksum of Redis (`crc64.c`): CRC-64 of Jones, reflected, from 0.
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

static TABLE: LazyLock<[u64; 256]> = LazyLock::new(|| {
    const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;
    std::array::from_fn(|byte| {
        let step = |crc: u64, _| if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
        (0..8).fold(byte as u64, step)
    })
});

const BAD_PAYLOAD: Reply = error::fixed("ERR DUMP payload version or checksum are wrong");
const NO_LIBRARY: Reply = error::fixed("ERR given type is not a function");
const BROKEN: Reply = error::fixed("ERR Failed loading library data");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn what_is_dumped_is_restored() {
        let long = "x".repeat(70_000);
        for texts_in in [&[][..], &["a"], &["b".repeat(100).as_str(), "", &long]] {
            let payload = dump(texts_in.iter().map(|text| text.as_bytes()));
            assert_eq!(texts(&payload).unwrap(), texts_in);
            for at in 0..payload.len() - FOOTER {
                let mut broken = payload.clone();
                broken[at] ^= 1;
                assert_eq!(texts(&broken), Err(BAD_PAYLOAD));
                if at > 300 {
                    break;
                }
            }
        }
        assert_eq!(texts(b"x"), Err(BAD_PAYLOAD));
    }

    #[test]
    fn packed_texts_are_unpacked() {
        // A run of one byte, and a reference that repeats it ten times.
        assert_eq!(unpack(&[0, b'a', 7 << 5, 2, 0], 12), Some(b"a".repeat(12)));
        assert_eq!(unpack(&[1, b'a', b'b', 1 << 5, 1], 5), Some(b"ababa".to_vec()));
        for broken in [&[0][..], &[32, 0], &[0, b'a', 7 << 5], &[0, b'a', 1 << 5, 9]] {
            assert_eq!(unpack(broken, 4), None);
        }
        assert_eq!(unpack(&[0, b'a'], 2), None);
    }
}
