//! Answers that are lost with their connections: the proxy asks the masters again for the outcome of a program, and
//! its client waits.

mod support;

use support::{
    Masters, Proxy, Raw, Relay, Reply, encode, eventually, target_is_plain_redis, words,
};

/// Far longer than a link takes to recover.
const PATIENCE: [&str; 2] = ["--patience", "15s"];

struct Bed {
    masters: Masters,
    relays: Vec<Relay>,
    proxy: Proxy,
}

fn bed() -> Option<Bed> {
    if target_is_plain_redis() {
        return None;
    }
    let masters = Masters::start(3);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let proxy = Proxy::in_front_of(&addresses, &PATIENCE);
    proxy.expect_warnings();
    Some(Bed { masters, relays, proxy })
}

impl Bed {
    /// Lets a program run on these masters, and cuts their connections before the proxy receives the answers. The
    /// connections come back at once.
    async fn lose_answers(&self, client: &mut Raw, requests: &[&str], masters: &[usize]) {
        let requests = requests.iter().flat_map(|line| encode(&words(line)));
        self.lose_answers_to(client, &requests.collect::<Vec<u8>>(), masters).await;
    }

    async fn lose_answers_to(&self, client: &mut Raw, requests: &[u8], masters: &[usize]) {
        let mut before = Vec::new();
        for master in masters {
            before.push(self.masters[*master].calls("evalsha").await);
            self.relays[*master].withhold_answers();
        }
        client.send(requests).await;
        for (master, before) in masters.iter().zip(before) {
            eventually("it has run there", || async {
                (self.masters[*master].calls("evalsha").await > before).then_some(())
            })
            .await;
        }
        for master in masters {
            self.relays[*master].cut_off().await;
        }
        self.relays.iter().for_each(Relay::heal);
    }
}

#[tokio::test]
async fn a_program_is_answered_if_all_answers_to_it_were_lost() {
    let Some(bed) = bed() else { return };
    let mut client = bed.proxy.raw().await;
    assert_eq!(client.ask(&words("RPUSH list a")).await, Reply::Int(1));
    bed.lose_answers(&mut client, &["RPUSH list b"], &[0, 1, 2]).await;
    assert_eq!(client.reply().await, Reply::Int(2));
}

#[tokio::test]
async fn a_program_is_answered_if_one_answer_was_lost_while_another_master_was_away() {
    let Some(bed) = bed() else { return };
    let mut client = bed.proxy.raw().await;
    assert_eq!(client.ask(&words("RPUSH list a")).await, Reply::Int(1));
    bed.relays[2].cut();
    bed.proxy.knows(2, "state", "down").await;
    bed.lose_answers(&mut client, &["RPUSH list b"], &[0]).await;
    assert_eq!(client.reply().await, Reply::Int(2));
}

#[tokio::test]
async fn a_transaction_that_only_reads_is_answered_as_well() {
    let Some(bed) = bed() else { return };
    let mut client = bed.proxy.raw().await;
    assert_eq!(client.ask(&words("RPUSH list a")).await, Reply::Int(1));
    bed.lose_answers(&mut client, &["MULTI", "LLEN list", "EXEC"], &[0, 1]).await;
    let replies = client.replies(3).await;
    assert_eq!(replies[2], Reply::Array(vec![Reply::Int(1)]));
}

/// Masters show afterwards what has become of the lock.
#[tokio::test]
async fn a_lock_is_deleted_released_and_prolonged_if_answers_of_a_quorum_were_lost() {
    let Some(bed) = bed() else { return };
    let mut client = bed.proxy.raw().await;
    let release = support::scripts::RELEASE;
    let requests: [&[&str]; 3] =
        [&["PEXPIRE", "lock", "500000"], &["EVAL", release, "1", "lock", "t"], &["DEL", "lock"]];
    for request in requests {
        client.ask(&words("SET lock t NX PX 600000")).await;
        bed.lose_answers_to(&mut client, &encode(request), &[0, 1]).await;
        assert_eq!(client.reply().await, Reply::Int(1), "{request:?}");
    }
}

/// One of two masters shows the lock. Only the third can tell whether a quorum holds it.
#[tokio::test]
async fn a_lock_in_doubt_is_read_once_the_master_that_decides_is_back() {
    const LOOKS: u64 = 8;
    let Some(bed) = bed() else { return };
    let mut client = bed.proxy.raw().await;
    let token = Reply::bulk("t");
    let reads = [
        ("GET lock", "mget", token.clone()),
        ("MGET lock other", "mget", Reply::Array(vec![token, Reply::Nil])),
        ("WATCH lock", "exec", Reply::ok()),
    ];
    for (request, looks_by, expected) in reads {
        assert_eq!(client.ask(&words("SET lock t NX PX 600000")).await, Reply::ok());
        assert_eq!(bed.masters[1].ask(&["DEL", "lock"]).await, Reply::Int(1));
        bed.relays[2].cut();
        bed.proxy.knows(2, "state", "down").await;
        let before = bed.masters[0].calls(looks_by).await;
        client.send(&encode(&words(request))).await;
        eventually("it has looked again", || async {
            (bed.masters[0].calls(looks_by).await >= before + LOOKS).then_some(())
        })
        .await;
        bed.relays[2].heal();
        assert_eq!(client.reply().await, expected, "{request}");
        bed.proxy.knows(2, "state", "voter").await;
        client.ask(&words("UNWATCH")).await;
        assert_eq!(client.ask(&words("DEL lock")).await, Reply::Int(1));
    }
}

/// A stamp keeps messages as well.
#[tokio::test]
async fn what_a_program_publishes_is_published_if_all_answers_to_it_were_lost() {
    let Some(bed) = bed() else { return };
    let other = Proxy::start(&bed.masters, &[]);
    other.expect_warnings();
    let mut subscriber = other.raw().await;
    subscriber.ask(&["SUBSCRIBE", "channel"]).await;
    let mut client = bed.proxy.raw().await;
    let publish = "EVAL \"redis.call('PUBLISH', 'channel', ARGV[1]) return redis.call('INCR', KEYS[1])\" 1 count";
    assert_eq!(client.ask(&words(&format!("{publish} first"))).await, Reply::Int(1));
    bed.lose_answers(&mut client, &[&format!("{publish} second")], &[0, 1, 2]).await;
    assert_eq!(client.reply().await, Reply::Int(2));
    for expected in ["first", "second"] {
        let Reply::Array(message) = subscriber.reply().await else { panic!("no message") };
        assert_eq!(message[2], Reply::bulk(expected));
    }
}

/// A stamp keeps what a program tells, too, unless that is long: then the reply is worth more.
#[tokio::test]
async fn what_a_program_tells_is_told_if_all_answers_to_it_were_lost() {
    let Some(bed) = bed() else { return };
    let other = Proxy::start(&bed.masters, &[]);
    other.expect_warnings();
    let (mut subscriber, mut client) = (other.raw().await, bed.proxy.raw().await);
    subscriber.ask(&["SUBSCRIBE", "__keyevent@0__:set", "__keyevent@0__:incrby"]).await;
    subscriber.reply().await;
    assert_eq!(client.ask(&words("CONFIG SET notify-keyspace-events E$")).await, Reply::ok());
    let short = "EVAL \"redis.call('SET', KEYS[1], ARGV[1]) return 'short'\" 1";
    let long =
        "EVAL \"for i = 1, 60 do redis.call('SET', KEYS[1], ARGV[1]) end return 'long'\" 1 long v";
    assert_eq!(client.ask(&words(&format!("{short} first v"))).await, Reply::bulk("short"));
    assert_eq!(client.ask(&words(long)).await, Reply::bulk("long"));
    bed.lose_answers(&mut client, &[&format!("{short} second v")], &[0, 1, 2]).await;
    assert_eq!(client.reply().await, Reply::bulk("short"));
    bed.lose_answers(&mut client, &[long], &[0, 1, 2]).await;
    assert_eq!(client.reply().await, Reply::bulk("long"));
    assert_eq!(client.ask(&words("INCR last")).await, Reply::Int(1));
    let mut heard = Vec::new();
    while heard.last() != Some(&Reply::bulk("last")) {
        let Reply::Array(message) = subscriber.reply().await else { panic!("no message") };
        heard.push(message[2].clone());
    }
    let long = vec![Reply::bulk("long"); 60];
    let names = |names: &[&str]| names.iter().map(|name| Reply::bulk(name)).collect::<Vec<_>>();
    assert_eq!(heard, [names(&["first"]), long, names(&["second", "last"])].concat());
}
