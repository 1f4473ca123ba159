//! The masters, and the login to them.

use super::{joined, or_none, shown};
use crate::config::setting::{Access, Field, Setting, list, one};

pub(super) static SETTINGS: &[Setting] = &[
    list("masters", "HOST:PORT")
        .brief("Master; repeat the flag or separate by commas")
        .help("Master: host:port, redis:// or (over TLS) rediss://user:password@host:port")
        .flag("master")
        .field(Field::Fixed(Access {
            show: |it| if it.shards.is_empty() { joined(&it.masters) } else { String::new() },
            set: None,
            differs: |ours, theirs| ours.shards.is_empty() && ours.masters != theirs.masters,
        })),
    list("shards", "NAME=HOST:PORT")
        .help(
            "Instead of --master: one of several shards, clusters of masters that share the keys: NAME=host:port,...",
        )
        .flag("shard")
        .field(Field::Fixed(Access {
            show: |it| joined(&it.shards),
            set: None,
            differs: |ours, theirs| ours.shards != theirs.shards,
        })),
    one("master-user", "NAME").help("User for masters whose URL names none"),
    one("master-password-file", "FILE")
        .help("File with the password for masters whose URL has none"),
    one("master-tls-ca-cert-file", "FILE")
        .help("Authorities of the certificates of rediss:// masters; if not set, the system's")
        .field(shown(|it| {
            or_none(&it.master_tls.files.authorities.as_ref().map(|it| it.display()))
        })),
    one("master-tls-cert-file", "FILE")
        .help("Certificate to present to such masters")
        .field(shown(|it| or_none(&it.master_tls.files.pair.as_ref().map(|it| it.cert.display())))),
    one("master-tls-key-file", "FILE")
        .help("Private key of that certificate")
        .field(shown(|it| or_none(&it.master_tls.files.pair.as_ref().map(|it| it.key.display())))),
    one("master-tls-server-name", "NAME")
        .help("Name in the certificates of such masters; if not set, the host in their address")
        .field(shown(|it| or_none(&it.master_tls.server_name))),
];
