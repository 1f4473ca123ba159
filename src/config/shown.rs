//! Formatting of settings: on one line, for `CONFIG GET`, and for reports of changes.

use std::fmt;
use std::path::{Path, PathBuf};

use super::values::shown_duration;
use super::{ColdStart, Data, LogFormat, NoTtl, Settings};

impl Settings {
    /// Returns the name and meaning of each setting that stays the same until the next start, without passwords.
    pub fn fixed_fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![("masters", self.master_list(","))];
        fields.extend(self.data_fields());
        fields.push(("listen", or_none(self.listen.as_ref())));
        fields.extend(self.tls_fields());
        let socket = self.unix_socket.as_ref();
        let mode = socket.and_then(|socket| socket.mode).map(|mode| format!("{mode:o}"));
        fields.extend([
            ("unixsocket", path(socket.map(|socket| &socket.path))),
            ("unixsocketperm", or_none(mode.as_ref())),
            ("admin", or_none(self.admin.as_ref())),
            ("admin-host", self.admin_host.join(",")),
            ("vote-timeout", shown_duration(self.vote_timeout)),
            ("patience", shown_duration(self.patience)),
            ("max-ttl", or_none(self.max_ttl.map(shown_duration).as_ref())),
            ("drift", self.drift.to_string()),
            ("split-vote-retries", self.split_vote_retries.to_string()),
            ("split-vote-delay", shown_duration(self.split_vote_delay)),
            ("protected-mode", self.protected_mode.to_string()),
            ("max-request-bytes", self.max_request_bytes.to_string()),
            ("workers", self.workers.to_string()),
            ("restart-wait", shown_duration(self.restart_wait())),
            ("cold-start", self.cold_start.to_string()),
            ("handover", path(self.handover.as_ref())),
        ]);
        fields
    }

    fn data_fields(&self) -> [(&'static str, String); 5] {
        let data = self.data.as_ref();
        let unmatched_after = data.map_or(Data::WARN_UNMATCHED_AFTER, |it| it.warn_unmatched_after);
        let patterns = |words: Option<&Vec<Box<[u8]>>>| {
            let words = words.into_iter().flatten().map(|word| String::from_utf8_lossy(word));
            words.collect::<Vec<_>>().join(",")
        };
        [
            ("data", or_none(data.map(|data| data.address.to_string()).as_ref())),
            ("lock-keys", patterns(data.map(|data| &data.locks.keys))),
            ("lock-channels", patterns(data.map(|data| &data.locks.channels))),
            ("also-claim-on-data", data.is_some_and(|data| data.has_locks).to_string()),
            ("warn-unmatched-after", shown_duration(unmatched_after)),
        ]
    }

    fn tls_fields(&self) -> Vec<(&'static str, String)> {
        let files = self.tls.as_ref().map(|tls| &tls.files);
        let masters = &self.master_tls;
        let pair = masters.files.pair.as_ref();
        let auth_clients = files.map(|files| files.auth_clients.to_string());
        vec![
            ("tls-listen", or_none(self.tls.as_ref().map(|tls| &tls.listen))),
            ("tls-cert-file", path(files.map(|files| &files.pair.cert))),
            ("tls-key-file", path(files.map(|files| &files.pair.key))),
            ("tls-ca-cert-file", path(files.and_then(|files| files.authorities.as_ref()))),
            ("tls-auth-clients", or_none(auth_clients.as_ref())),
            ("master-tls-ca-cert-file", path(masters.files.authorities.as_ref())),
            ("master-tls-cert-file", path(pair.map(|pair| &pair.cert))),
            ("master-tls-key-file", path(pair.map(|pair| &pair.key))),
            ("master-tls-server-name", or_none(masters.server_name.as_ref())),
        ]
    }
}

/// Returns the names of the fields that differ.
pub(super) fn differences(
    ours: &[(&'static str, String)],
    theirs: &[(&'static str, String)],
) -> Vec<&'static str> {
    let differs = |((name, ours), (_, theirs)): (&(&'static str, String), &(_, String))| {
        (ours != theirs).then_some(*name)
    };
    ours.iter().zip(theirs).filter_map(differs).collect()
}

fn or_none(text: Option<&String>) -> String {
    text.map_or_else(|| "none".to_owned(), String::clone)
}

fn path(path: Option<&PathBuf>) -> String {
    let shown = |path: &PathBuf| Path::display(path).to_string();
    path.map_or_else(|| "none".to_owned(), shown)
}

/// Shows all settings on one line, by their names in the configuration file, without passwords.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = [self.fixed_fields(), self.live.fields()].concat();
        let words: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&words.join(" "))
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

impl fmt::Display for ColdStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trust => "trust",
            Self::Wait => "wait",
        })
    }
}

impl fmt::Display for NoTtl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("keep"),
            Self::Reject => f.write_str("reject"),
            Self::Lease(ttl) => write!(f, "lease={}", shown_duration(*ttl)),
        }
    }
}
