//! The least HTTP that a test needs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use super::PATIENCE;

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// Sends one request over a connection of its own.
pub fn http(address: &str, method: &str, path: &str, body: &str) -> Answer {
    http_with(address, method, path, &format!("Host: {address}\r\n"), body)
}

/// Same as [`http`], with extra header fields; each must end its line.
pub fn http_with(address: &str, method: &str, path: &str, fields: &str, body: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("a listener");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{fields}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    answer(stream)
}

/// Reads the response from a connection on which a request was sent.
pub fn answer(stream: TcpStream) -> Answer {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).expect("a head") > 0, "it ends in {head:?}");
    }
    let head = head.to_lowercase();
    let field = |line: &str| line.strip_prefix("content-length:")?.trim().parse().ok();
    let length: u64 = head.lines().find_map(field).expect("a length");
    let mut body = String::new();
    stream.take(length).read_to_string(&mut body).expect("a body");
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    Answer { status, head, body }
}
