//! Messages between two processes while one takes over from the other.
//!
//! # Format
//! Two lengths, 32 bits each in network order, then that many bytes of JSON and that many bytes of raw data. Raw data
//! has no place in JSON: a client's incomplete request, or scripts. Sockets come with the first byte (`SCM_RIGHTS` in
//! unix(7)).
//!
//! The first message has the version of all that follows. Fields may be added within a version if a receiver that lacks
//! them can do without: unknown fields are skipped.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::{Deserialize, Serialize};

use crate::catalogue::channel::Topic;
use crate::context::portable::SessionState;
use crate::net::sockets::SocketPlace;

/// The version of this process.
pub const VERSION: u32 = 1;

/// One message; see the [parent module](super) for their order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case")]
pub enum HandoverMessage {
    /// The successor begins.
    Hello {
        /// Version of the successor.
        version: u32,
    },
    /// The predecessor serves on.
    Refused {
        /// The reason, in one sentence.
        why: String,
    },
    /// The predecessor's listening sockets, which come along.
    Sockets {
        /// Purpose of each socket.
        places: Vec<SocketPlace>,
    },
    /// The successor could serve now.
    Ready,
    /// The predecessor accepts no more clients.
    Yours {
        /// Number of its last client.
        last_id: u64,
    },
    /// Scripts that clients may call by their SHA1. Their texts come along.
    Scripts {
        /// Length and kind of each.
        scripts: Vec<Loaded>,
    },
    /// The successor accepts.
    Serving,
    /// Subscriptions of the predecessor's clients.
    Listen {
        /// Every topic, once.
        topics: Vec<Topic>,
    },
    /// The successor hears these topics, too.
    Listening,
    /// A client. Its socket comes along, and so do bytes that were read from it but not processed.
    Client {
        /// State of its session.
        state: Box<SessionState>,
    },
    /// The successor goes on with this client.
    Taken {
        /// Number of the client.
        id: u64,
    },
    /// All clients have left.
    Done,
}

/// A script that a client has loaded.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Loaded {
    /// Length of its text.
    pub bytes: usize,
    /// Whether a quorum of masters accepts it as Lua.
    pub is_lua: bool,
}

/// A message, and what came along.
#[derive(Debug)]
pub struct ReceivedMessage {
    /// The message.
    pub message: HandoverMessage,
    /// The bytes.
    pub raw: Vec<u8>,
    /// The sockets.
    pub sockets: Vec<OwnedFd>,
}

/// The connection between the two.
#[derive(Debug)]
pub struct Wire(UnixStream);

impl Wire {
    /// Wraps `stream`, if its other end runs as the same user: a process that gets the sockets gets the clients, too.
    ///
    /// # Errors
    /// Returns an error if it is another user.
    pub fn over(stream: UnixStream) -> io::Result<Self> {
        let wire = Self(stream);
        if rustix::net::sockopt::socket_peercred(&wire.0)?.uid != rustix::process::geteuid() {
            return Err(io::Error::other("the other process belongs to another user"));
        }
        Ok(wire)
    }

    /// Returns the id of the process at the other end.
    ///
    /// # Errors
    /// Returns an error if the system does not know it.
    pub fn pid(&self) -> io::Result<u32> {
        let pid = rustix::net::sockopt::socket_peercred(&self.0)?.pid;
        Ok(pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// Limits the time that the other end may take from now on; `None`: no limit.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub fn be_patient(&self, patience: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(patience)?;
        self.0.set_write_timeout(patience)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Returns an error if the other end is gone, or does not take the message in time.
    pub fn send(&mut self, message: &HandoverMessage) -> io::Result<()> {
        self.send_with(message, &[], &[])
    }

    /// Sends a message with bytes and sockets.
    ///
    /// # Errors
    /// As for [`Self::send`].
    pub fn send_with(
        &mut self,
        message: &HandoverMessage,
        raw: &[u8],
        sockets: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        self.send_frame(message, raw, sockets).map_err(plainly)
    }

    fn send_frame(
        &mut self,
        message: &HandoverMessage,
        raw: &[u8],
        sockets: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let json = serde_json::to_vec(message)?;
        let lengths = [length_of(&json)?, length_of(raw)?].concat();
        let sent = self.send_sockets(&lengths, sockets)?;
        self.0.write_all(&lengths[sent..])?;
        self.0.write_all(&json)?;
        self.0.write_all(raw)
    }

    fn send_sockets(&self, bytes: &[u8], sockets: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_SOCKETS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !sockets.is_empty() && !control.push(SendAncillaryMessage::ScmRights(sockets)) {
            return Err(io::Error::other("too many sockets for one message"));
        }
        let send = || {
            let bytes = [IoSlice::new(bytes)];
            rustix::net::sendmsg(&self.0, &bytes, &mut control, SendFlags::NOSIGNAL)
        };
        Ok(rustix::io::retry_on_intr(send)?)
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// Returns an error if the other end is gone, sends nothing in time, or sends nothing that can be understood.
    pub fn receive(&mut self) -> io::Result<ReceivedMessage> {
        self.receive_frame().map_err(plainly)
    }

    fn receive_frame(&mut self) -> io::Result<ReceivedMessage> {
        let mut lengths = [[0; 4]; 2];
        let sockets = self.receive_sockets(lengths.as_flattened_mut())?;
        let [json, raw] = lengths.map(u32::from_be_bytes);
        if json > MAX_JSON {
            return Err(not_understood());
        }
        let (json, raw) = (self.receive_bytes(json)?, self.receive_bytes(raw)?);
        let message = serde_json::from_slice(&json).map_err(|_| not_understood())?;
        Ok(ReceivedMessage { message, raw, sockets })
    }

    fn receive_sockets(&mut self, bytes: &mut [u8]) -> io::Result<Vec<OwnedFd>> {
        let (mut at, mut sockets) = (0, Vec::new());
        while at < bytes.len() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_SOCKETS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let receive = || {
                let mut bytes = [IoSliceMut::new(&mut bytes[at..])];
                rustix::net::recvmsg(&self.0, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC)
            };
            let received = rustix::io::retry_on_intr(receive)?;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    sockets.extend(rights);
                }
            }
            if received.bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at += received.bytes;
        }
        Ok(sockets)
    }

    /// Reads bytes. Allocates memory only for bytes that have arrived.
    fn receive_bytes(&mut self, length: u32) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        (&self.0).take(length.into()).read_to_end(&mut bytes)?;
        if bytes.len() < length as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(bytes)
    }

    /// Whether the other end has hung up, as far as is known without waiting.
    pub fn is_broken(&self) -> bool {
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(&self.0, &mut byte, flags) {
            Ok((_, received)) => received == 0,
            Err(error) => error != rustix::io::Errno::AGAIN && error != rustix::io::Errno::INTR,
        }
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns the error for a message that does not belong here.
pub(super) fn not_understood() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the other process sent an invalid message")
}

/// Replaces the system's words for these errors, which are obscure.
fn plainly(error: io::Error) -> io::Error {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
    match error.kind() {
        WouldBlock | TimedOut => io::Error::new(TimedOut, "the other process does not answer"),
        UnexpectedEof | BrokenPipe | ConnectionReset => {
            io::Error::new(UnexpectedEof, "the other process has hung up")
        }
        _ => error,
    }
}

fn length_of(bytes: &[u8]) -> io::Result<[u8; 4]> {
    let length = u32::try_from(bytes.len());
    Ok(length.map_err(|_| io::Error::other("a client has sent too much"))?.to_be_bytes())
}

/// Maximum sockets that the system accepts in one message (`SCM_MAX_FD`).
const MAX_SOCKETS: usize = 253;

/// Maximum bytes of JSON: far more than the longest list of topics.
const MAX_JSON: u32 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Wire, Wire) {
        let (one, other) = UnixStream::pair().expect("a pair of sockets");
        (Wire::over(one).expect("ourselves"), Wire::over(other).expect("ourselves"))
    }

    #[test]
    fn bytes_and_sockets_arrive_with_their_message_and_no_other() {
        let (mut here, mut there) = pair();
        let (file, mut end) = UnixStream::pair().expect("a pair of sockets");
        here.send(&HandoverMessage::Ready).expect("sent");
        here.send_with(&HandoverMessage::Taken { id: 7 }, b"*1\r\n$4", &[file.as_fd()])
            .expect("sent");
        here.send(&HandoverMessage::Done).expect("sent");
        let ready = there.receive().expect("a message");
        assert!(matches!(ready.message, HandoverMessage::Ready) && ready.sockets.is_empty());
        let mut taken = there.receive().expect("a message");
        assert!(matches!(taken.message, HandoverMessage::Taken { id: 7 }));
        assert_eq!(taken.raw, b"*1\r\n$4");
        let mut copy = UnixStream::from(taken.sockets.pop().expect("a socket"));
        copy.write_all(b"x").expect("written");
        let mut byte = [0];
        end.read_exact(&mut byte).expect("read");
        assert!(matches!(there.receive().expect("a message").message, HandoverMessage::Done));
    }

    #[test]
    fn whoever_hangs_up_or_talks_nonsense_is_noticed() {
        let (mut here, there) = pair();
        assert!(!here.is_broken());
        drop(there);
        assert!(here.is_broken());
        assert_eq!(here.receive().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let (mut here, there) = pair();
        (&there.0).write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
        assert_eq!(here.receive().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_newer_process_may_say_more() {
        let newer = r#"{"message":"hello","version":1,"program":"9.9.9"}"#;
        let hello = serde_json::from_str(newer).expect("a message");
        assert!(matches!(hello, HandoverMessage::Hello { version: 1 }));
    }
}
