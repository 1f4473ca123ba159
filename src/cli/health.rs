//! `redlock-proxy health`: asks a proxy whether it is up, for the `HEALTHCHECK` of a container.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Address of the proxy to check.
pub enum HealthTarget {
    /// `host:port`
    Tcp(String),
    /// The path of a socket.
    Unix(PathBuf),
}

impl fmt::Display for HealthTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Sends `PING` to `place`, after `AUTH` if there is a password.
///
/// `-NOAUTH` is a healthy answer: the proxy is up, and rightly asks for a password that a health check need not know.
/// So is `-NOPERM`, for a user who may not even send `PING`.
///
/// # Errors
/// Returns one sentence about the answer that came instead.
pub fn check(place: &HealthTarget, password: Option<&str>) -> Result<(), String> {
    let failed = |why: io::Error| format!("{place} did not answer: {why}");
    let connection = connect(place).map_err(failed)?;
    let mut replies = BufReader::new(connection);
    if let Some(password) = password {
        let length = password.len();
        let request = format!("*2\r\n$4\r\nAUTH\r\n${length}\r\n{password}\r\n");
        let reply = ask(&mut replies, &request).map_err(failed)?;
        if reply != "+OK" {
            return Err(format!("{place} answered AUTH with {reply:?}"));
        }
    }
    let reply = ask(&mut replies, "*1\r\n$4\r\nPING\r\n").map_err(failed)?;
    if reply == "+PONG" || reply.starts_with("-NOAUTH ") || reply.starts_with("-NOPERM ") {
        return Ok(());
    }
    Err(format!("{place} answered PING with {reply:?}"))
}

/// Returns the address at which a client on the same host reaches a proxy that listens on `listen`.
pub fn reachable(listen: &str) -> String {
    let (host, port) = listen.rsplit_once(':').unwrap_or((listen, "6379"));
    match host {
        "0.0.0.0" => format!("127.0.0.1:{port}"),
        "[::]" => format!("[::1]:{port}"),
        _ => listen.to_owned(),
    }
}

/// A connection of either kind.
trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

fn connect(place: &HealthTarget) -> io::Result<Box<dyn Stream>> {
    match place {
        HealthTarget::Tcp(address) => Ok(Box::new(connect_tcp(address)?)),
        HealthTarget::Unix(path) => {
            let connection = UnixStream::connect(path)?;
            connection.set_read_timeout(Some(PATIENCE))?;
            connection.set_write_timeout(Some(PATIENCE))?;
            Ok(Box::new(connection))
        }
    }
}

fn connect_tcp(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(connection) => {
                connection.set_read_timeout(Some(PATIENCE))?;
                connection.set_write_timeout(Some(PATIENCE))?;
                return Ok(connection);
            }
            Err(why) => last = why,
        }
    }
    Err(last)
}

/// Sends a request and reads the single line of its reply.
fn ask(connection: &mut BufReader<Box<dyn Stream>>, request: &str) -> io::Result<String> {
    connection.get_mut().write_all(request.as_bytes())?;
    let mut line = Vec::new();
    Read::take(connection, LONGEST_REPLY).read_until(b'\n', &mut line)?;
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// Timeout of each step; the three of them stay below the 30 s that Docker gives a check.
const PATIENCE: Duration = Duration::from_secs(3);

/// Maximum length of a reply: the other end may not be a proxy, and may never end its line.
const LONGEST_REPLY: u64 = 4096;
