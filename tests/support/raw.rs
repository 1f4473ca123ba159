//! A client that sends exactly the bytes it is given and sees exactly the bytes that come back.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{PATIENCE, Reply};

pub struct Raw {
    stream: Box<dyn Stream>,
    received: Vec<u8>,
    consumed: usize,
}

/// Any transport under a connection.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

impl Raw {
    pub fn over(stream: impl Stream + 'static) -> Raw {
        Raw { stream: Box::new(stream), received: Vec::new(), consumed: 0 }
    }

    pub async fn connect(address: &str) -> Raw {
        let stream = timeout(PATIENCE, TcpStream::connect(address)).await;
        let stream = stream.expect("connected in time").expect("a listener");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        Raw::over(stream)
    }

    /// Connects and switches to RESP3.
    pub async fn connect_resp3(address: &str) -> Raw {
        let mut raw = Raw::connect(address).await;
        let hello = raw.ask(&["HELLO", "3"]).await;
        assert_eq!(hello.field("proto"), Some(Reply::Int(3)), "HELLO 3 answered {hello:?}");
        raw
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        let sent = timeout(PATIENCE, self.stream.write_all(bytes)).await;
        sent.expect("sent in time").expect("an open connection");
    }

    /// Sends as much as it can, and ignores it if the other side closes meanwhile.
    pub async fn send_regardless(&mut self, bytes: &[u8]) {
        let _ = timeout(PATIENCE, self.stream.write_all(bytes)).await.expect("sent in time");
    }

    /// Sends one command as an array of bulk strings and waits for its reply.
    pub async fn ask<S: AsRef<[u8]>>(&mut self, words: &[S]) -> Reply {
        self.send(&encode(words)).await;
        self.reply().await
    }

    /// Id of the process at the other end, as it reports it.
    pub async fn process_id(&mut self) -> u32 {
        let info = self.ask(&["INFO", "server"]).await.text();
        let id = info.lines().find_map(|line| line.strip_prefix("process_id:"));
        id.expect("a process id").parse().expect("a number")
    }

    pub async fn reply(&mut self) -> Reply {
        self.frame().await.0
    }

    /// Reads the next reply. Also returns its exact bytes.
    pub async fn frame(&mut self) -> (Reply, Vec<u8>) {
        match self.frame_or_end().await {
            Some(frame) => frame,
            None => panic!("closed instead of a reply, after {:?}", self.unread()),
        }
    }

    /// Reads the next reply and its bytes, or returns `None` if the other side closes instead.
    pub async fn frame_or_end(&mut self) -> Option<(Reply, Vec<u8>)> {
        loop {
            let rest = &self.received[self.consumed..];
            if let Some((reply, length)) = (!rest.is_empty()).then(|| Reply::parse(rest)).flatten()
            {
                let bytes = rest[..length].to_vec();
                self.consume(length);
                return Some((reply, bytes));
            }
            if self.read_more().await == 0 {
                return None;
            }
        }
    }

    pub async fn replies(&mut self, count: usize) -> Vec<Reply> {
        let mut replies = Vec::with_capacity(count);
        for _ in 0..count {
            replies.push(self.reply().await);
        }
        replies
    }

    /// Reads this many bytes or a few more, and returns the first of them.
    pub async fn skip(&mut self, bytes: usize) -> Vec<u8> {
        let (mut first, mut skipped) = (Vec::new(), 0);
        while skipped < bytes {
            assert!(self.read_more().await > 0, "closed after {skipped} bytes");
            skipped += self.received.len() - self.consumed;
            first.extend(self.received.drain(..).take(64 - first.len().min(64)));
            self.consumed = 0;
        }
        first
    }

    /// Reads everything until the other side closes.
    pub async fn until_closed(&mut self) -> Vec<u8> {
        while self.read_more().await > 0 {}
        self.received.split_off(self.consumed)
    }

    /// Returns whether the other side ends the connection as its transport demands. For TLS, a bare
    /// disconnect is an error.
    pub async fn is_ended_properly(&mut self) -> bool {
        let read = timeout(PATIENCE, self.stream.read_buf(&mut self.received)).await;
        matches!(read.expect("the end in time"), Ok(0))
    }

    /// Closes the sending side. The server still answers requests sent before.
    pub async fn finish_sending(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Reads available bytes; 0 means closed, including by a reset.
    async fn read_more(&mut self) -> usize {
        let read = timeout(PATIENCE, self.stream.read_buf(&mut self.received)).await;
        match read {
            Ok(result) => result.unwrap_or(0),
            Err(_) => panic!("neither a reply nor the end, after {:?}", self.unread()),
        }
    }

    fn unread(&self) -> String {
        String::from_utf8_lossy(&self.received[self.consumed..]).into_owned()
    }

    /// Moves on. Frees the consumed bytes only occasionally, not for every reply of a long
    /// pipeline.
    fn consume(&mut self, length: usize) {
        self.consumed += length;
        if self.consumed > 1 << 16 {
            self.received.drain(..self.consumed);
            self.consumed = 0;
        }
    }
}

/// Encodes one command as an array of bulk strings, as every driver does.
pub fn encode<S: AsRef<[u8]>>(words: &[S]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Splits a command line at spaces. Single or double quotes hold a word together, even an empty
/// one.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (word, after) = first_word(rest).expect("a closing quote");
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

/// Whether a quote is still open at the end of `line`.
pub fn ends_inside_quotes(line: &str) -> bool {
    let mut rest = line.trim();
    while !rest.is_empty() {
        let Some((_, after)) = first_word(rest) else { return true };
        rest = after.trim_start();
    }
    false
}

/// Returns the word at the front and the rest after it, or `None` if its quote is not closed.
fn first_word(rest: &str) -> Option<(&str, &str)> {
    match rest.chars().next()? {
        quote @ ('"' | '\'') => rest[1..].split_once(quote),
        _ => Some(rest.split_once(char::is_whitespace).unwrap_or((rest, ""))),
    }
}
