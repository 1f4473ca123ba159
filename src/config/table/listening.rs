//! Addresses for clients, and their certificates.

use super::{or_none, shown};
use crate::config::setting::{Access, Field, Setting, one};
use crate::config::values::{listen_address, unless};

pub(super) static SETTINGS: &[Setting] = &[
    one("listen", "HOST:PORT")
        .brief("Address for clients. [default: 127.0.0.1:6379]")
        .help("Address for clients, or none")
        .default("127.0.0.1:6379")
        .field(field!(Fixed.listen, unless("none", listen_address), or_none)),
    one("tls-listen", "HOST:PORT")
        .help("Address for clients that use TLS, in addition to --listen")
        .field(shown(|it| or_none(&it.tls.as_ref().map(|tls| &tls.listen)))),
    one("tls-cert-file", "FILE")
        .help("The proxy's certificate and its chain, in PEM format")
        .field(shown(|it| or_none(&it.tls.as_ref().map(|tls| tls.files.pair.cert.display())))),
    one("tls-key-file", "FILE")
        .help("Private key of that certificate")
        .field(shown(|it| or_none(&it.tls.as_ref().map(|tls| tls.files.pair.key.display())))),
    one("tls-ca-cert-file", "FILE")
        .help("Authorities that sign the clients' certificates, in PEM format")
        .field(shown(|it| {
            let authorities = it.tls.as_ref().and_then(|tls| tls.files.authorities.as_ref());
            or_none(&authorities.map(|path| path.display()))
        })),
    one("tls-auth-clients", "RULE")
        .help("Client certificates: yes (if not set, with --tls-ca-cert-file), optional or no")
        .field(shown(|it| or_none(&it.tls.as_ref().map(|tls| tls.files.auth_clients)))),
    one("unixsocket", "PATH")
        .help("Unix socket for clients on this host, in addition to --listen")
        .field(shown(|it| or_none(&it.unix_socket.as_ref().map(|socket| socket.path.display())))),
    one("unixsocketperm", "MODE")
        .help("Mode of that socket, such as 770; if not set, the umask applies")
        .field(shown(|it| {
            let mode = it.unix_socket.as_ref().and_then(|socket| socket.mode);
            or_none(&mode.map(|mode| format!("{mode:o}")))
        })),
];
