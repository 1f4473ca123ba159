//! While one master lives, every subscriber hears every message once, whatever the other masters do: die, come back
//! empty, pause and continue with old messages, or sit behind a bad network.
//!
//! The tests check without waiting that nothing is heard twice. At the end each master publishes `end` by itself, and
//! everything it had before has been processed when that arrives.

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use support::subscriber::{publish_at, subscriptions};
use support::{
    Master, Masters, PROTOCOLS, Proxy, Relay, Reply, Subscriber, eventually, int,
    target_is_plain_redis, text,
};

#[tokio::test]
async fn one_living_master_is_enough() {
    let Some(mut stage) = Stage::new(&[]).await else { return };
    stage.publish(10).await;
    stage.masters[0].kill_9();
    stage.masters[1].kill_9();
    stage.publish(10).await;
    for master in &mut stage.masters[..2] {
        master.restart_empty();
    }
    stage.all_up().await;
    stage.masters[2].kill_9();
    stage.publish(10).await;
    stage.masters[2].restart_empty();
    stage.finish().await;
}

#[tokio::test]
async fn a_master_stands_still_for_a_moment() {
    let Some(mut stage) = Stage::new(&[]).await else { return };
    stage.masters[0].stop();
    stage.publish(100).await;
    stage.masters[0].cont();
    stage.publish(100).await;
    stage.finish().await;
}

/// The proxies give up its connections meanwhile. When the master continues, it executes the requests sent on them.
#[tokio::test]
async fn a_master_stands_still_for_long() {
    let Some(mut stage) = Stage::new(&["--vote-timeout", "50ms"]).await else { return };
    stage.masters[0].stop();
    stage.publish(100).await;
    stage.gives_up().await;
    stage.publish(100).await;
    stage.masters[0].cont();
    stage.publish(100).await;
    stage.finish().await;
}

#[tokio::test]
async fn a_master_is_cut_off() {
    let Some(mut stage) = Stage::new(&[]).await else { return };
    for _ in 0..5 {
        stage.relay.cut();
        stage.publish(20).await;
        stage.relay.heal();
        stage.publish(20).await;
        stage.relay.reset();
        stage.publish(20).await;
    }
    stage.finish().await;
}

#[tokio::test]
async fn a_master_is_behind_a_black_hole() {
    let Some(mut stage) = Stage::new(&["--vote-timeout", "50ms"]).await else { return };
    stage.relay.black_hole();
    stage.publish(100).await;
    stage.relay.heal();
    stage.publish(100).await;
    stage.relay.black_hole();
    stage.gives_up().await;
    stage.publish(100).await;
    stage.relay.heal();
    stage.finish().await;
}

/// Distance of a slow master, each way.
const SLOW: Duration = Duration::from_millis(200);

/// Its copies arrive when the others are long forgotten; and when it is the only master, late is better than never.
#[tokio::test]
async fn a_master_is_slow() {
    let Some(mut stage) = Stage::new(&[]).await else { return };
    stage.relay.delay(SLOW, SLOW);
    stage.publish(200).await;
    stage.masters[1].kill_9();
    stage.masters[2].kill_9();
    stage.publish(2).await;
    for master in &mut stage.masters[1..] {
        master.restart_empty();
    }
    stage.publish(200).await;
    stage.finish().await;
}

/// A master disconnects subscribers, as it does when they have filled its output buffer.
#[tokio::test]
async fn a_master_disconnects_its_subscribers() {
    let Some(mut stage) = Stage::new(&[]).await else { return };
    for master in 0..3 {
        let mut direct = stage.masters[master].connection().await;
        // The subscriber connection of each proxy.
        assert_eq!(int(&mut direct, &["CLIENT", "KILL", "TYPE", "pubsub"]).await, 2);
        stage.publish(20).await;
        stage.all_up().await;
    }
    stage.finish().await;
}

/// A thousand messages through two proxies, while one master after the other is killed and comes back.
#[tokio::test]
async fn a_rolling_restart_loses_nothing() {
    let Some(mut stage) = Stage::new(&[]).await else { return };
    for round in 0..5 {
        let master = round % 3;
        stage.publish_while(100, |masters| masters[master].kill_9()).await;
        stage.publish_while(100, |masters| masters[master].restart_empty()).await;
        stage.all_up().await;
    }
    stage.finish().await;
}

/// A client that subscribes later, or again, does not receive messages that a master has held back.
#[tokio::test]
async fn old_messages_are_not_for_new_subscribers() {
    let Some(stage) = Stage::new(&[]).await else { return };
    let address = stage.proxies[0].address();
    let mut again = Subscriber::new(address, "2", &["SUBSCRIBE", "old"]).await;
    stage.masters[0].stop();
    let mut publisher = stage.publishers[1].clone();
    assert!(int(&mut publisher, &["PUBLISH", "old", "once"]).await > 0);
    assert_eq!(again.text().await, "once");
    again.change(&["UNSUBSCRIBE", "old"]).await;
    again.change(&["SUBSCRIBE", "old"]).await;
    let mut later = Subscriber::new(address, "3", &["SUBSCRIBE", "old"]).await;
    stage.masters[0].cont();
    subscriptions(stage.masters.iter(), 5).await;
    for master in stage.masters.iter() {
        publish_at(master, "old", "end").await;
    }
    assert!(again.texts_until("end", 3).await.is_empty());
    assert!(later.texts_until("end", 3).await.is_empty());
    drop((again, later));
    stage.finish().await;
}

/// Subscribing does not wait for a master that is down.
#[tokio::test]
async fn a_minority_down_does_not_hinder_subscribers() {
    let Some(mut stage) = Stage::new(&[]).await else { return };
    stage.masters[0].kill_9();
    stage.subscribe("news").await;
    stage.publish(10).await;
    stage.masters[1].stop();
    stage.subscribe("news").await;
    stage.subscribe("*").await;
    stage.publish(10).await;
    stage.masters[1].cont();
    stage.masters[0].restart_empty();
    stage.finish().await;
}

/// Without any master there is an error, with the word that Redisson looks for. Subscriptions survive the outage.
#[tokio::test]
async fn without_any_master() {
    let Some(mut stage) = Stage::new(&[]).await else { return };
    stage.masters.iter_mut().for_each(Master::kill_9);
    let mut client = stage.proxies[0].raw().await;
    for words in [
        &["SUBSCRIBE", "other"][..],
        &["SUBSCRIBE", "news", "other"],
        &["PSUBSCRIBE", "o*"],
        &["SSUBSCRIBE", "other"],
    ] {
        let reply = client.ask(words).await;
        assert!(reply.is_error("CLUSTERDOWN"), "{words:?} was answered {reply:?}");
        assert!(reply.text().contains("subscribe"), "{words:?} was answered {reply:?}");
    }
    for words in [&["PUBLISH", "news", "x"][..], &["SPUBLISH", "s", "x"], &["PUBSUB", "NUMPAT"]] {
        let reply = client.ask(words).await;
        assert!(reply.is_error("CLUSTERDOWN"), "{words:?} was answered {reply:?}");
    }
    assert!(matches!(client.ask(&["GET", "k"]).await, Reply::Error(_)), "not a subscriber");
    stage.masters.iter_mut().for_each(Master::restart_empty);
    stage.all_up().await;
    stage.publish(10).await;
    stage.finish().await;
}

/// Three masters, the first of them behind a relay, two proxies, and subscribers of all sorts.
struct Stage {
    masters: Masters,
    relay: Relay,
    proxies: [Proxy; 2],
    publishers: [MultiplexedConnection; 2],
    subscribers: Vec<Subscriber>,
    /// Names that subscribers have subscribed to.
    names: BTreeSet<String>,
    published: usize,
    /// Number of messages published before each subscriber came.
    since: Vec<usize>,
}

impl Stage {
    async fn new(flags: &[&str]) -> Option<Stage> {
        if target_is_plain_redis() {
            return None;
        }
        let masters = Masters::start(3);
        let (relay, addresses) = Relay::in_place_of(&masters, 0);
        // Messages are not locks: masters that have lost their memory need not wait.
        let flags = [&["--restart-wait", "0s"], flags].concat();
        let proxies = [(); 2].map(|()| Proxy::in_front_of(&addresses, &flags));
        proxies.iter().for_each(Proxy::expect_warnings);
        let publishers = [proxies[0].connection().await, proxies[1].connection().await];
        let (subscribers, names, since) = (Vec::new(), BTreeSet::new(), Vec::new());
        let mut stage =
            Stage { masters, relay, proxies, publishers, subscribers, names, published: 0, since };
        stage.subscribe("news").await;
        stage.subscribe("n*").await;
        stage.all_up().await;
        Some(stage)
    }

    /// Adds one subscriber at each proxy, for each protocol.
    async fn subscribe(&mut self, name: &str) {
        self.names.insert(name.to_owned());
        let word = if name.contains('*') { "PSUBSCRIBE" } else { "SUBSCRIBE" };
        for proxy in &self.proxies {
            for protocol in PROTOCOLS {
                let subscriber = Subscriber::new(proxy.address(), protocol, &[word, name]).await;
                self.subscribers.push(subscriber);
                self.since.push(self.published);
            }
        }
    }

    /// Publishes the next numbers, through both proxies in turn.
    async fn publish(&mut self, count: usize) {
        self.publish_while(count, |_| {}).await;
    }

    /// The same, with an event at the masters in the middle.
    async fn publish_while(&mut self, count: usize, happens: impl FnOnce(&mut Masters)) {
        let numbers = self.published..self.published + count;
        self.published += count;
        let [mut first, mut second] = self.publishers.clone();
        let publishing = tokio::spawn(async move {
            for number in numbers {
                let publisher = if number % 2 == 0 { &mut first } else { &mut second };
                int(publisher, &["PUBLISH", "news", &number.to_string()]).await;
            }
        });
        happens(&mut self.masters);
        publishing.await.expect("published");
    }

    /// Waits until both proxies can publish at every master and have subscribed to everything there.
    async fn all_up(&self) {
        for publisher in &self.publishers {
            eventually("all masters can vote", || {
                let mut publisher = publisher.clone();
                async move {
                    let info = text(&mut publisher, &["INFO", "redlock"]).await?;
                    info.contains("\r\nvoters:3\r\n").then_some(())
                }
            })
            .await;
        }
        subscriptions(self.masters.iter(), self.proxies.len() * self.names.len()).await;
    }

    /// Waits until both proxies have given up their connections to a master.
    async fn gives_up(&self) {
        for proxy in &self.proxies {
            eventually("the connections are given up", || {
                let given_up = proxy.log().iter().any(|line| line.contains("stopped answering"));
                async move { given_up.then_some(()) }
            })
            .await;
        }
    }

    /// Checks that every subscriber has heard every message once.
    async fn finish(mut self) {
        self.all_up().await;
        for master in self.masters.iter() {
            publish_at(master, "news", "end").await;
        }
        for (subscriber, since) in self.subscribers.iter_mut().zip(&self.since) {
            let mut heard = subscriber.texts_until("end", self.masters.len()).await;
            heard.sort_by_key(|text| text.parse::<usize>().expect("a number"));
            let expected = *since..self.published;
            assert_eq!(heard, expected.map(|number| number.to_string()).collect::<Vec<_>>());
            subscriber.nothing_more().await;
        }
    }
}
