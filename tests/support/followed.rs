//! A data Redis that sentinels name, and the changes it may go through.

use super::certificates::Authority;
use super::{Master, Reply, Sentinel, eventually, free_port};

/// Name of the master at the sentinels.
pub const NAME: &str = "shop-1";

/// Makes the sentinel replace a master that does not answer.
pub const WATCHFUL: &str = "sentinel down-after-milliseconds shop-1 1500";

/// Starts a master, its replica, and a sentinel that could promote the replica. `more` adds lines
/// to the sentinel's configuration.
pub async fn pair(more: &[&str]) -> (Sentinel, Master, Master) {
    let (first, second) = (data(), data());
    follow(&second, &first).await;
    let sentinel = Sentinel::start(NAME, &first, more);
    sentinel.knows_replica(NAME, &second).await;
    (sentinel, first, second)
}

/// Starts a data Redis whose replicas sync without delay.
pub fn data() -> Master {
    Master::start_with(&["--repl-diskless-sync-delay", "0"])
}

/// Makes `replica` replicate `master`, and waits until it is in sync.
pub async fn follow(replica: &Master, master: &Master) {
    let port = master.port.to_string();
    assert_eq!(replica.ask(&["REPLICAOF", "127.0.0.1", &port]).await, Reply::ok());
    eventually("the replica is in step", || async {
        let info = replica.ask(&["INFO", "replication"]).await.text();
        info.contains("master_link_status:up").then_some(())
    })
    .await;
}

/// Checks that no client tried to write to this instance while it was a replica.
pub async fn refused_no_write(replica: &Master) {
    let errors = replica.ask(&["INFO", "errorstats"]).await.text();
    assert!(!errors.contains("READONLY"), "{errors}");
}

/// Starts a sentinel and its master, both with TLS. Also returns the URL for `--data`.
pub fn by_tls(authority: &Authority) -> (Sentinel, Master, String) {
    let (pair, ca) = (authority.sign(&["127.0.0.1"]), authority.path());
    let [cert, key, ca] = [&pair.cert, &pair.key, &ca].map(|it| it.to_str().expect("a path"));
    let port = free_port().to_string();
    let flags = [
        ["--tls-port", &port],
        ["--tls-cert-file", cert],
        ["--tls-key-file", key],
        ["--tls-ca-cert-file", ca],
        ["--tls-auth-clients", "no"],
    ];
    let flags = flags.concat().into_iter().map(|it| &*it.to_owned().leak());
    let data = Master::start_with(flags.collect::<Vec<&'static str>>().leak());
    // The sentinel announces the port that it monitors, so that one has to be the TLS port.
    let by_tls = free_port();
    let lines = [
        &format!("tls-port {by_tls}"),
        &format!("tls-cert-file {cert}"),
        &format!("tls-key-file {key}"),
        &format!("tls-ca-cert-file {ca}"),
        "tls-auth-clients no",
        "tls-replication yes",
    ];
    let sentinel = Sentinel::start_at(NAME, port.parse().expect("a port"), &lines);
    (sentinel, data, format!("rediss+sentinel://127.0.0.1:{by_tls}/{NAME}"))
}
