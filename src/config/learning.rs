//! The settings of `learn`.

use std::time::Duration;

use super::typed::Typed;
use super::values::{YEAR_MS, duration_within, switch};
use super::{InvalidSetting, Settings, access};

/// Settings without masters. Clients need no login at the proxy: the data Redis may require one.
#[derive(Clone, Debug, PartialEq)]
pub struct Learning {
    /// The addresses to listen on, the data Redis, and the limits for clients.
    pub settings: Settings,
    /// Time to watch; `None` is until interrupted.
    pub span: Option<Duration>,
}

impl Learning {
    /// Parses the typed settings. Settings that only apply to a proxy with masters are accepted and ignored.
    ///
    /// # Errors
    /// Returns an error for the first value that is malformed or out of range, and for a missing data Redis. An address
    /// through which any host would reach the data Redis is also an error.
    pub fn from_typed(typed: &Typed, span: Option<&str>) -> Result<Self, InvalidSetting> {
        if typed.given("data").is_none() {
            return Err(InvalidSetting::new(
                "learn watches the clients of one Redis: name it with --data redis://host:port",
            ));
        }
        let mut settings = Settings::without_check(Vec::new());
        let without_masters = typed.clone().without(&ONLY_WITH_MASTERS);
        settings.apply(&Typed::of("protected-mode", "no").or(without_masters))?;
        settings.protected_mode = protected_mode(typed)?;
        require_protection(&settings)?;
        Ok(Self { settings, span: span.filter(|span| !span.is_empty()).map(time).transpose()? })
    }
}

/// Settings of a proxy with masters that have no meaning here.
const ONLY_WITH_MASTERS: [&str; 8] = [
    "masters",
    "shards",
    "lock-keys",
    "lock-channels",
    "handover",
    "requirepass",
    "requirepass-file",
    "users",
];

fn protected_mode(typed: &Typed) -> Result<bool, InvalidSetting> {
    let word = typed.word("protected-mode").unwrap_or("true");
    switch(word).map_err(|why| InvalidSetting::of("protected-mode", word, &why))
}

fn time(span: &str) -> Result<Duration, InvalidSetting> {
    let time = duration_within(SHORTEST_MS..=YEAR_MS)(span);
    time.map_err(|why| InvalidSetting::of("for", span, &why))
}

/// Rejects addresses open to other hosts: every client reaches the data Redis from this host, and with the login in its
/// URL.
fn require_protection(settings: &Settings) -> Result<(), InvalidSetting> {
    match access::open_to_other_hosts(settings).filter(|_| settings.protected_mode) {
        None => Ok(()),
        Some(listen) => Err(InvalidSetting::new(format!(
            "{listen} is open to other hosts, and learn does not authenticate clients: listen on 127.0.0.1, demand \
             certificates (tls-auth-clients yes), or say protected-mode no if the data Redis asks for a password"
        ))),
    }
}

/// Minimum time to watch: no lock is taken in less.
const SHORTEST_MS: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn learning(toml: &str, span: Option<&str>) -> Result<Learning, String> {
        let typed = Typed::from_toml(toml).expect("TOML");
        Learning::from_typed(&typed, span).map_err(|why| why.to_string())
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
            ("data = 'h:1'\nlisten = '0.0.0.0:1'", None, "0.0.0.0:1 is open to other hosts"),
            ("data = 'h:1'\nprotected-mode = 'x'", None, "protected-mode "),
        ] {
            let why = learning(toml, span).unwrap_err();
            assert!(why.starts_with(expected), "{why}");
        }
        let open = "data = 'h:1'\nlisten = '0.0.0.0:1'\nprotected-mode = false";
        assert!(learning(open, None).is_ok());
    }
}
