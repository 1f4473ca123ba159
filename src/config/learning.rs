//! Settings of `learn`, from what was typed.

use std::time::Duration;

use super::typed::{Typed, Word};
use super::values::{duration_within, switch};
use super::{InvalidSetting, Settings, YEAR_MS, access, given, set, set_given};

/// Settings without masters. The proxy asks its clients for nothing: the data Redis does that.
#[derive(Clone, Debug, PartialEq)]
pub struct Learning {
    /// Addresses to listen on, the way to the data Redis, and the limits for clients.
    pub settings: Settings,
    /// Duration of the watch; `None`: until it is interrupted.
    pub span: Option<Duration>,
}

impl Learning {
    /// Interprets the typed settings. Those for a proxy with masters may stay there.
    ///
    /// # Errors
    /// Returns an error for the first value that is malformed or out of its range, for a missing data Redis, or for an
    /// address at which any host could reach the data Redis.
    pub fn from_typed(typed: &Typed, span: &Option<Word>) -> Result<Self, InvalidSetting> {
        let of_a_proxy = Typed {
            masters: None,
            lock_keys: None,
            lock_channels: None,
            handover: None,
            requirepass: None,
            requirepass_file: None,
            users: None,
            protected_mode: Some("no".into()),
            ..typed.clone()
        };
        let mut settings = Settings::without_check(Vec::new());
        if given(&typed.data).is_none() {
            return Err(InvalidSetting::new(
                "learn watches the clients of one Redis: name it with --data redis://host:port",
            ));
        }
        settings.apply(&of_a_proxy)?;
        set(&mut settings.protected_mode, "protected-mode", &typed.protected_mode, switch)?;
        settings.protected_mode |= given(&typed.protected_mode).is_none();
        require_protection(&settings)?;
        let mut of_time = None;
        set_given(&mut of_time, "for", span, |text| {
            duration_within(SHORTEST_MS..=YEAR_MS)(text).map(Some)
        })?;
        Ok(Self { settings, span: of_time })
    }
}

/// Refuses addresses open to other hosts. A client that connects reaches the data Redis from this host, and with the
/// login in its URL.
fn require_protection(settings: &Settings) -> Result<(), InvalidSetting> {
    match access::open_to_other_hosts(settings).filter(|_| settings.protected_mode) {
        None => Ok(()),
        Some(listen) => Err(InvalidSetting::new(format!(
            "{listen} can be reached from other hosts, and learn asks nothing of them: listen on 127.0.0.1, demand \
             certificates (tls-auth-clients yes), or say protected-mode no if the data Redis asks for a password"
        ))),
    }
}

/// A shorter watch sees no lock being taken.
const SHORTEST_MS: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn learning(toml: &str, span: Option<&str>) -> Result<Learning, String> {
        let typed: Typed = toml::from_str(toml).expect("TOML");
        Learning::from_typed(&typed, &span.map(Word::from)).map_err(|why| why.to_string())
    }

    #[test]
    fn what_a_proxy_needs_may_stay() {
        let toml = "masters = ['a:1']\nlock-keys = ['x']\ndata = 'b:2'\nrequirepass = 'p'\nhandover = '/h'";
        let found = learning(toml, Some("10m")).unwrap();
        assert!(found.settings.masters.is_empty() && found.settings.handover.is_none());
        assert!(found.settings.data.is_some_and(|data| data.locks.keys.is_empty()));
        assert_eq!(found.span, Some(Duration::from_secs(600)));
    }

    #[test]
    fn what_is_wrong_is_one_sentence() {
        for (toml, span, expected) in [
            ("", None, "learn watches the clients of one Redis"),
            ("data = 'h:0'", None, "data "),
            ("data = 'h:1'", Some("soon"), "for "),
            (
                "data = 'h:1'\nlisten = '0.0.0.0:1'",
                None,
                "0.0.0.0:1 can be reached from other hosts",
            ),
            ("data = 'h:1'\nprotected-mode = 'x'", None, "protected-mode "),
        ] {
            let why = learning(toml, span).unwrap_err();
            assert!(why.starts_with(expected), "{why}");
        }
        let open = "data = 'h:1'\nlisten = '0.0.0.0:1'\nprotected-mode = false";
        assert!(learning(open, None).is_ok());
    }
}
