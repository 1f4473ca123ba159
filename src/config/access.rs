//! Access control: the passwords of clients, remote addresses, and the proxy's own passwords for the masters.

use std::path::PathBuf;
use std::sync::Arc;

use super::master_addr::split_host_port;
use super::typed::Typed;
use super::{InvalidSetting, Live, MasterAddr, Secret, Settings, UnixSocket};
use crate::acl::Users;
use crate::net::address;
use crate::net::tls::server::AuthClients;

/// Returns the password required of clients; an empty one is none, as in `redis.conf`.
pub(super) fn requirepass(typed: &Typed) -> Result<Option<Secret>, InvalidSetting> {
    match (typed.given("requirepass"), typed.given("requirepass-file")) {
        (Some(_), Some(_)) => {
            Err(InvalidSetting::new("requirepass and requirepass-file are both set: choose one"))
        }
        (password, None) => Ok(password.map(Secret::new)),
        (None, Some(path)) => secret_from("requirepass-file", path).map(Some),
    }
}

/// Returns the users that may log in.
pub(super) fn users(
    typed: &Typed,
    requirepass: Option<&Secret>,
) -> Result<Arc<Users>, InvalidSetting> {
    let lines = typed.list("users").iter().map(String::as_str);
    let users = Users::parse(lines, requirepass.map(Secret::expose));
    users.map(Arc::new).map_err(|why| InvalidSetting::new(why.to_string()))
}

/// Sets the common user and password for masters whose URL has none.
pub(super) fn log_in(masters: &mut [MasterAddr], typed: &Typed) -> Result<(), InvalidSetting> {
    let user = typed.given("master-user");
    let Some(path) = typed.given("master-password-file") else {
        return match user {
            None => Ok(()),
            Some(_) => Err(InvalidSetting::new(
                "master-user has no password: name the file that holds it with master-password-file",
            )),
        };
    };
    let password = secret_from("master-password-file", path)?;
    for master in masters.iter_mut().filter(|master| master.password.is_none()) {
        master.password = Some(password.clone());
        master.user = user.map(str::to_owned);
    }
    Ok(())
}

/// Reads the first line of a file, without the line break that editors and `echo` add.
pub(super) fn secret_from(name: &str, path: &str) -> Result<Secret, InvalidSetting> {
    let refused = |why: &str| InvalidSetting::new(format!("{name} {path} {why}"));
    let text =
        std::fs::read_to_string(path).map_err(|why| refused(&format!("cannot be read: {why}")))?;
    match text.lines().next().unwrap_or_default() {
        "" => Err(refused("has no password in its first line")),
        password => Ok(Secret::new(password)),
    }
}

/// Returns the host names by which operators may address the admin port.
pub(super) fn admin_host(typed: &Typed) -> Result<Vec<String>, InvalidSetting> {
    let words = typed.list("admin-host").iter();
    let names: Vec<_> = words.map(|word| word.trim()).filter(|name| !name.is_empty()).collect();
    let is_name = |name: &str| {
        let part = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        name.strip_prefix('.').unwrap_or(name).split('.').all(part)
    };
    match names.iter().find(|name| !is_name(name)) {
        None => Ok(names.into_iter().map(str::to_ascii_lowercase).collect()),
        Some(_) => Err(InvalidSetting::new(
            "admin-host must be names without ports, such as proxy.example.org, or .example.org for all that end so",
        )),
    }
}

pub(super) fn unix_socket(typed: &Typed) -> Result<Option<UnixSocket>, InvalidSetting> {
    let mode = typed.read("unixsocketperm", |text| {
        let octal = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
        octal.ok_or_else(|| "must be an octal mode such as 770".to_owned())
    })?;
    match (typed.given("unixsocket").map(PathBuf::from), mode) {
        (Some(path), mode) => Ok(Some(UnixSocket { path, mode })),
        (None, Some(_)) => {
            Err(InvalidSetting::new("unixsocketperm has no effect without unixsocket"))
        }
        (None, None) => Ok(None),
    }
}

/// Rejects a proxy that no client can reach, which is a mistake.
pub(super) fn require_entrance(settings: &Settings) -> Result<(), InvalidSetting> {
    let entrances = settings.listen.is_some() || settings.tls.is_some();
    match entrances || settings.unix_socket.is_some() {
        true => Ok(()),
        false => Err(InvalidSetting::new(
            "there is nowhere to connect: set listen, tls-listen or unixsocket",
        )),
    }
}

/// Rejects an unprotected proxy that is open to other hosts: any client that reaches it can take and release every
/// lock.
pub(super) fn require_protection(settings: &Settings, live: &Live) -> Result<(), InvalidSetting> {
    if !settings.protected_mode || !live.users.default_user().is_open() {
        return Ok(());
    }
    match open_to_other_hosts(settings) {
        None => Ok(()),
        Some(listen) => Err(InvalidSetting::new(format!(
            "{listen} is open to other hosts without authentication: set requirepass or \
             requirepass-file, turn the default user off (users), demand certificates (tls-auth-clients \
             yes), or say protected-mode no"
        ))),
    }
}

/// Returns an address at which other hosts can connect without a certificate.
pub(super) fn open_to_other_hosts(settings: &Settings) -> Option<&String> {
    let shown = settings.tls.as_ref().filter(|tls| tls.files.auth_clients != AuthClients::Yes);
    let open = [settings.listen.as_ref(), shown.map(|tls| &tls.listen)];
    open.into_iter().flatten().find(|listen| !is_loopback(listen))
}

/// Whether only this host can connect there. A name other than `localhost` may mean any address.
fn is_loopback(listen: &str) -> bool {
    let host = split_host_port(listen).map(|(host, _)| host).unwrap_or_default();
    host == "localhost" || host.parse().is_ok_and(address::is_local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_hosts_are_strangers() {
        for near in [
            "127.0.0.1:1",
            "127.9.9.9:1",
            "[::1]:1",
            "[::ffff:127.0.0.1]:1",
            "localhost:1",
            "LOCALHOST:1",
        ] {
            assert!(is_loopback(near), "{near}");
        }
        for far in [
            "0.0.0.0:1",
            "[::]:1",
            "[::ffff:10.0.0.1]:1",
            "10.0.0.1:1",
            "example.org:1",
            "localhost.org:1",
            "127.1:1",
        ] {
            assert!(!is_loopback(far), "{far}");
        }
    }
}
