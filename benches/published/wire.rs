//! A minimal Redis client that works with every candidate.
//!
//! A client library starts with `CLIENT SETINFO`, at which twemproxy closes the connection.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Result, bail};

/// Encodes a request as an array of bulk strings.
pub(crate) fn encode(words: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    request
}

/// Connects to a server on this machine.
pub(crate) fn connect(port: u16) -> Result<TcpStream> {
    let connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    connection.set_read_timeout(Some(REPLY_TIMEOUT))?;
    Ok(connection)
}

/// Sends one request and reads its one-line reply, without the line ending.
pub(crate) fn ask(connection: &mut TcpStream, words: &[&[u8]]) -> Result<String> {
    connection.write_all(&encode(words))?;
    let mut reply = Vec::new();
    let mut buffer = [0; 512];
    while !reply.ends_with(b"\r\n") {
        match connection.read(&mut buffer)? {
            0 => bail!("the server closed the connection"),
            count => reply.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(String::from_utf8_lossy(&reply).trim_end().to_owned())
}

/// The release script of the Redlock description.
pub(crate) const RELEASE: &str = "if redis.call(\"get\",KEYS[1]) == ARGV[1] then \
                                  return redis.call(\"del\",KEYS[1]) else return 0 end";

const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
