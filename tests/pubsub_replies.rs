//! Subscribers of the proxy see what subscribers of one plain `redis-server` see, byte for byte, in both versions of
//! the protocol.
//!
//! A table lists the actions of several connections, line by line: the name of the connection, and the command line
//! it sends. After each line every connection must see the same frames from both servers, replies as well as
//! messages, and nothing more. `[any order]` marks replies that Redis orders by a hash table.

mod support;

use std::collections::BTreeMap;

use support::{Master, Masters, PROTOCOLS, Proxy, Raw, encode, words};

#[tokio::test]
async fn subscribing_and_unsubscribing() {
    compare(SUBSCRIBING).await;
}

#[tokio::test]
async fn messages() {
    compare(MESSAGES).await;
}

#[tokio::test]
async fn what_subscribers_may_send() {
    compare(SUBSCRIBER_MODE).await;
}

#[tokio::test]
async fn who_listens() {
    compare(PUBSUB).await;
}

#[tokio::test]
async fn silenced_connections_get_confirmations_and_messages() {
    compare(SILENCED).await;
}

const SUBSCRIBING: &str = "
    a UNSUBSCRIBE
    a PUNSUBSCRIBE
    a SUNSUBSCRIBE
    a UNSUBSCRIBE x y
    a SUBSCRIBE x
    a SUBSCRIBE x
    a SUBSCRIBE y y x z
    a PSUBSCRIBE x* *
    a SSUBSCRIBE x
    a SSUBSCRIBE x y
    a UNSUBSCRIBE y
    a UNSUBSCRIBE y never
    a PUNSUBSCRIBE x
    a PUNSUBSCRIBE x*
    a [any order] UNSUBSCRIBE
    a UNSUBSCRIBE
    a PUNSUBSCRIBE
    a PUNSUBSCRIBE
    a SUNSUBSCRIBE x x
    a SUNSUBSCRIBE
    a SUNSUBSCRIBE
    a GET k
    a SUBSCRIBE ''
    a UNSUBSCRIBE ''
    a SUBSCRIBE
    a PSUBSCRIBE
    a SSUBSCRIBE
    a subscribe x
    a RESET
    a GET k
    b PUBLISH x nobody
";

const MESSAGES: &str = "
    a SUBSCRIBE x y
    b PSUBSCRIBE x* *
    c SUBSCRIBE x
    c PSUBSCRIBE ?
    d [any order] PUBLISH x 'to the channel and two patterns'
    d PUBLISH y ''
    d [any order] PUBLISH xyz z
    d SPUBLISH x 'nobody subscribed to the shard channel'
    b SSUBSCRIBE x
    d SPUBLISH x sharded
    d PUBLISH 'X' 'another case'
    d PUBLISH nobody nothing
    a UNSUBSCRIBE x
    d [any order] PUBLISH x 'one less'
    b PUNSUBSCRIBE *
    d PUBLISH x 'and one less'
    c RESET
    d PUBLISH x 'and two less'
    d PUBLISH x
    d PUBLISH
    d PUBLISH x y z
    d SPUBLISH x
";

const SUBSCRIBER_MODE: &str = "
    a PING
    a SUBSCRIBE x
    a PING
    a PING hello
    a PING a b
    a GET k
    a GET
    a NOSUCH
    a CLIENT GETNAME
    a CLIENT
    a CLIENT REPLY ON
    a CONFIG GET nothing
    a COMMAND GETKEYS GET k
    a PUBSUB NUMPAT
    a SCRIPT EXISTS abc
    a SELECT 1
    a AUTH x
    a PUBLISH y z
    a UNSUBSCRIBE
    a GET k
    a PING
    a SSUBSCRIBE s
    a GET k
    a SUNSUBSCRIBE
    a GET k
    a PSUBSCRIBE p
    a ECHO hi
    a PUNSUBSCRIBE
    a ECHO hi
    a SUBSCRIBE x
    a RESET
    a ECHO hi
    a PING hello
    b PUBLISH x 'the reset has unsubscribed'
    a SUBSCRIBE x
    a QUIT
";

const PUBSUB: &str = "
    q PUBSUB CHANNELS
    q PUBSUB NUMSUB
    q PUBSUB NUMSUB a
    q PUBSUB NUMPAT
    a SUBSCRIBE a b ab
    b SUBSCRIBE a
    a PSUBSCRIBE a* b*
    b PSUBSCRIBE a*
    b SSUBSCRIBE s t
    q [any order] PUBSUB CHANNELS
    q [any order] PUBSUB CHANNELS a*
    q PUBSUB CHANNELS nothing
    q PUBSUB channels b
    q PUBSUB CHANNELS a b
    q PUBSUB NUMSUB a b nobody a
    q PUBSUB NUMPAT
    q PUBSUB NUMPAT x
    q [any order] PUBSUB SHARDCHANNELS
    q PUBSUB SHARDCHANNELS s
    q PUBSUB SHARDCHANNELS a b
    q PUBSUB SHARDNUMSUB
    q PUBSUB SHARDNUMSUB s a
    b UNSUBSCRIBE a
    q PUBSUB NUMSUB a
    a UNSUBSCRIBE a
    q PUBSUB NUMSUB a
    q [any order] PUBSUB CHANNELS
    a PUNSUBSCRIBE a*
    q PUBSUB NUMPAT
    b PUNSUBSCRIBE a*
    q PUBSUB NUMPAT
    q PUBSUB HELP
    q PUBSUB HELP x
    q PUBSUB NOSUCH
    q PUBSUB
    q COMMAND GETKEYS SSUBSCRIBE a
    q COMMAND GETKEYS SPUBLISH a b
    q COMMAND GETKEYS PUBLISH a b
";

const SILENCED: &str = "
    a CLIENT REPLY OFF
    a SUBSCRIBE x y
    b PUBLISH x 'heard all the same'
    a PING
    a UNSUBSCRIBE x
    a UNSUBSCRIBE
    a ECHO unheard
    a CLIENT REPLY ON
    a RESET
    a CLIENT REPLY OFF
    a PSUBSCRIBE x
    a CLIENT REPLY ON
    a PING
";

/// Plays `table` against both servers, first in RESP2 and then in RESP3.
async fn compare(table: &str) {
    for protocol in PROTOCOLS {
        let redis = Master::start();
        let masters = Masters::start(3);
        let proxy = Proxy::start(&masters, &[]);
        let mut expected = Stage::new(redis.address(), protocol);
        let mut actual = Stage::new(proxy.address().to_owned(), protocol);
        for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let frames = expected.play(line).await;
            let seen = actual.play_and_see(line, &frames).await;
            assert_eq!(shown(line, &seen), shown(line, &frames), "RESP{protocol}: {line}");
        }
    }
}

/// All connections of a table to one server.
struct Stage {
    address: String,
    protocol: &'static str,
    connections: BTreeMap<String, Raw>,
}

/// Frames that connections have received.
type Frames = BTreeMap<String, Vec<Vec<u8>>>;

impl Stage {
    fn new(address: String, protocol: &'static str) -> Stage {
        Stage { address, protocol, connections: BTreeMap::new() }
    }

    /// Sends a line to Redis, which has sent every resulting frame once it has answered.
    async fn play(&mut self, line: &str) -> Frames {
        self.send(line).await;
        let mut frames = Frames::new();
        for (name, connection) in self.sender_first(line) {
            frames.insert(name.clone(), until_marker(connection).await);
        }
        frames
    }

    /// Sends a line to the proxy and waits for as many frames as Redis has sent, and for more.
    async fn play_and_see(&mut self, line: &str, expected: &Frames) -> Frames {
        self.send(line).await;
        let mut frames = Frames::new();
        for (name, connection) in self.sender_first(line) {
            let seen = frames.entry(name.clone()).or_default();
            for _ in &expected[name] {
                seen.push(connection.frame().await.1);
            }
            seen.extend(until_marker(connection).await);
        }
        frames
    }

    fn sender_first(&mut self, line: &str) -> Vec<(&String, &mut Raw)> {
        let mut connections: Vec<_> = self.connections.iter_mut().collect();
        connections.sort_by_key(|(name, _)| !line.starts_with(name.as_str()));
        connections
    }

    async fn send(&mut self, line: &str) {
        let (name, rest) = line.split_once(' ').expect("a name and a command");
        let command = rest.trim_start_matches("[any order] ");
        if !self.connections.contains_key(name) {
            let connection = match self.protocol {
                "3" => Raw::connect_resp3(&self.address).await,
                _ => Raw::connect(&self.address).await,
            };
            self.connections.insert(name.to_owned(), connection);
        }
        let connection = self.connections.get_mut(name).expect("it was inserted");
        connection.send(&encode(&words(command))).await;
    }
}

/// Reads frames up to the answer to an unsubscription from a name that nobody has subscribed to. Every connection may
/// send this request; it is answered even when replies are off, and changes nothing.
async fn until_marker(connection: &mut Raw) -> Vec<Vec<u8>> {
    connection.send_regardless(&encode(&["UNSUBSCRIBE", MARKER])).await;
    let mut frames = Vec::new();
    while let Some((_, bytes)) = connection.frame_or_end().await {
        if bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes()) {
            break;
        }
        frames.push(bytes);
    }
    frames
}

const MARKER: &str = "the end of what was sent";

/// Returns frames in readable form, with sorted lines where order means nothing.
fn shown(line: &str, frames: &Frames) -> Vec<String> {
    let shown = |(name, frames): (&String, &Vec<Vec<u8>>)| {
        let bytes = printable(&frames.concat());
        if !line.contains("[any order]") {
            return format!("{name}: {bytes}");
        }
        let mut lines: Vec<&str> = bytes.split("\\r\\n").collect();
        lines.sort_unstable();
        format!("{name}: {lines:?}")
    };
    frames.iter().map(shown).collect()
}

fn printable(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
