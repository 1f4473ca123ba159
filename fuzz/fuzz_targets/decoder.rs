//! Arbitrary bytes from a client cause no panic and no request longer than its bytes, and every argument is readable.
//! The requests and the error are the same however the network splits the bytes.
//!
//! The first four bytes of the input choose the limits and the cuts. The rest is what the client sends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redlock_proxy::resp::requests::{Decoder, Limits, ProtocolError};

fuzz_target!(|input: &[u8]| {
    let [flags, size, first, second, sent @ ..] = input else { return };
    let limits =
        Limits { max_request_bytes: usize::from(*size) * 64, authenticated: flags % 2 == 0, may_pass: false };
    let whole = receive(sent, &[sent.len()], limits);
    let cut = receive(sent, &[usize::from(*first), usize::from(*second)], limits);
    assert_eq!(whole, cut);
    assert_eq!(whole, receive(sent, &[1], limits));
});

/// The arguments of every request, and the error that ended the connection.
type Outcome = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

/// Receives `sent` in pieces of these sizes, over and over, as a session does.
fn receive(sent: &[u8], sizes: &[usize], limits: Limits) -> Outcome {
    let mut decoder = Decoder::new();
    let (mut start, mut end, mut requests) = (0, 0, Vec::new());
    for size in sizes.iter().cycle() {
        if end == sent.len() {
            break;
        }
        end = sent.len().min(end + size.max(&1));
        loop {
            let buf = &sent[start..end];
            match decoder.decode(buf, limits) {
                Err(error) => return (requests, Some(error)),
                Ok(None) => break,
                Ok(Some(read)) => {
                    assert!(0 < read && read <= buf.len());
                    requests.push(decoder.args(buf).iter().map(<[u8]>::to_vec).collect());
                    start += read;
                }
            }
        }
    }
    (requests, None)
}
