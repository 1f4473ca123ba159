//! A simulated network between two machines, which delays traffic.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

/// Forwards traffic between clients of the returned port and `server`, with `delay` in each direction. Ends with this
/// process.
pub(crate) fn before(server: u16, delay: Duration) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            // If it fails, the client sees a closed connection.
            let _ = connect(client, server, delay);
        }
    });
    Ok(port)
}

fn connect(client: TcpStream, server: u16, delay: Duration) -> Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server))?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    pass_on(client.try_clone()?, server.try_clone()?, delay);
    pass_on(server, client, delay);
    Ok(())
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (under_way, arriving) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if under_way.send((Instant::now() + delay, buffer[..count].to_vec())).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in arriving {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // It fails if the connection is already closed.
        let _ = to.shutdown(Shutdown::Both);
    });
}
