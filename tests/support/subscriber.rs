//! A subscribed client and the messages it receives.

use super::{Master, Raw, Reply, client, eventually};

/// Both versions of the protocol: messages are arrays in one and pushes in the other.
pub const PROTOCOLS: [&str; 2] = ["2", "3"];

/// A connection with subscriptions.
pub struct Subscriber {
    pub raw: Raw,
}

impl Subscriber {
    /// Sends `words`, such as `SUBSCRIBE a b`, and waits for the confirmation of each name.
    pub async fn new(address: &str, protocol: &str, words: &[&str]) -> Subscriber {
        let raw = match protocol {
            "3" => Raw::connect_resp3(address).await,
            _ => Raw::connect(address).await,
        };
        let mut subscriber = Subscriber { raw };
        subscriber.change(words).await;
        subscriber
    }

    /// Sends any other subscription change and waits for its confirmations.
    pub async fn change(&mut self, words: &[&str]) {
        self.raw.send(&super::encode(words)).await;
        for name in &words[1..] {
            let confirmation = strings(&self.raw.reply().await);
            assert_eq!(confirmation[..2], [words[0].to_lowercase(), (*name).to_owned()]);
        }
    }

    /// Reads the next message: its kind, the subscription it matched, its channel if that differs,
    /// and its text.
    pub async fn message(&mut self) -> Vec<String> {
        strings(&self.raw.reply().await)
    }

    /// Text of the next message.
    pub async fn text(&mut self) -> String {
        self.message().await.pop().expect("a message has a text")
    }

    /// Texts of all messages until `last` has arrived `times` times.
    pub async fn texts_until(&mut self, last: &str, times: usize) -> Vec<String> {
        let (mut texts, mut heard) = (Vec::new(), 0);
        while heard < times {
            match self.text().await {
                text if text == last => heard += 1,
                text => texts.push(text),
            }
        }
        texts
    }

    /// Fails if an unexpected message has arrived.
    pub async fn nothing_more(&mut self) {
        let pong = self.raw.ask(&["PING", "nothing more"]).await;
        let text = match pong {
            Reply::Array(items) => items.last().map(Reply::text),
            other => Some(other.text()),
        };
        assert_eq!(text.as_deref(), Some("nothing more"));
    }
}

/// Elements of a message or confirmation as text, including integers.
fn strings(reply: &Reply) -> Vec<String> {
    let Reply::Array(items) = reply else { panic!("{reply:?} is no message") };
    items
        .iter()
        .map(|item| match item {
            Reply::Int(number) => number.to_string(),
            other => other.text(),
        })
        .collect()
}

/// Publishes directly at the master. Returns how many of its connections received the message.
pub async fn publish_at(master: &Master, channel: &str, text: &str) -> i64 {
    client::int(&mut master.connection().await, &["PUBLISH", channel, text]).await
}

/// Waits until every one of `masters` has this many subscriptions, over all its connections.
pub async fn subscriptions<'a>(masters: impl Iterator<Item = &'a Master>, expected: usize) {
    for master in masters {
        let direct = master.connection().await;
        let what = format!("{expected} subscriptions at the master on port {}", master.port);
        eventually(&what, || {
            let mut direct = direct.clone();
            async move {
                let list = client::text(&mut direct, &["CLIENT", "LIST", "TYPE", "pubsub"]).await;
                (count(&list.unwrap_or_default()) == expected).then_some(())
            }
        })
        .await;
    }
}

/// Counts the subscriptions in a `CLIENT LIST`, without those that proxies use to tell each other
/// about their masters.
fn count(list: &str) -> usize {
    let clients = list.lines().filter(|client| !client.contains("name=redlock-proxy-watch"));
    let fields = clients.flat_map(str::split_whitespace).filter_map(|field| field.split_once('='));
    let counts = fields.filter(|(name, _)| ["sub", "psub", "ssub"].contains(name));
    counts.map(|(_, count)| count.parse::<usize>().expect("a count")).sum()
}
