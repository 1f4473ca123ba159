//! The words of `CLIENT TRACKING`, checked in Redis's order (`clientCommand` in `networking.c`,
//! `checkPrefixCollisionsOrReply` in `tracking.c`).

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::catalogue::error;
use crate::resp::number::parse_i64;
use crate::resp::reply::Reply;
use crate::resp::requests::Args;

/// What a client is told, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackingOptions {
    /// The client that is told instead; 0 for none.
    pub redirect: u64,
    /// Which reads may be cached.
    pub mode: TrackingMode,
    /// Prefixes of the keys that are told in [`TrackingMode::Broadcast`]; an empty one matches all keys.
    pub prefixes: Vec<Vec<u8>>,
    /// `NOLOOP`: the client's own changes are not told.
    pub no_loop: bool,
}

/// Which reads may be cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrackingMode {
    /// Every read.
    #[default]
    All,
    /// `OPTIN`: reads after `CLIENT CACHING YES`.
    OptIn,
    /// `OPTOUT`: reads that do not follow a `CLIENT CACHING NO`.
    OptOut,
    /// `BCAST`: clients are told of all changes, whatever they have read.
    Broadcast,
}

/// The words after `ON` or `OFF`.
#[derive(Debug, Default)]
struct Words<'a> {
    redirect: u64,
    broadcast: bool,
    opt_in: bool,
    opt_out: bool,
    no_loop: bool,
    prefixes: Vec<&'a [u8]>,
}

impl TrackingOptions {
    /// Reads `CLIENT TRACKING ON|OFF [option]...`. `before` is what the client has switched on, and `is_there` says
    /// whether a client can be told. Returns `None` for `OFF`.
    ///
    /// # Errors
    /// Returns Redis's reply if the words are wrong, or do not go with what is on.
    pub fn switch(
        args: Args<'_>,
        before: Option<&Self>,
        is_there: impl Fn(u64) -> bool,
    ) -> Result<Option<Self>, Reply> {
        let words = Words::read(args.from(3), is_there)?;
        match &args.at(2).to_ascii_lowercase()[..] {
            b"on" => words.on(before).map(Some),
            b"off" => Ok(None),
            _ => Err(error::SYNTAX),
        }
    }

    /// Returns those of `keys` that a broadcast is about, in one list for each prefix that matches any.
    pub fn broadcasts(&self, keys: &[Bytes]) -> Vec<Vec<Bytes>> {
        let matching = |prefix: &Vec<u8>| {
            let matching = keys.iter().filter(|key| key.starts_with(prefix));
            matching.cloned().collect::<Vec<_>>()
        };
        self.prefixes.iter().map(matching).filter(|keys| !keys.is_empty()).collect()
    }
}

impl<'a> Words<'a> {
    fn read(args: Args<'a>, is_there: impl Fn(u64) -> bool) -> Result<Self, Reply> {
        let mut words = Self::default();
        let mut left = args.iter();
        while let Some(word) = left.next() {
            match &word.to_ascii_lowercase()[..] {
                b"redirect" => {
                    let id = left.next().ok_or(error::SYNTAX)?;
                    words.redirect(id, &is_there)?;
                }
                b"prefix" => words.prefixes.push(left.next().ok_or(error::SYNTAX)?),
                b"bcast" => words.broadcast = true,
                b"optin" => words.opt_in = true,
                b"optout" => words.opt_out = true,
                b"noloop" => words.no_loop = true,
                _ => return Err(error::SYNTAX),
            }
        }
        Ok(words)
    }

    fn redirect(&mut self, id: &[u8], is_there: impl Fn(u64) -> bool) -> Result<(), Reply> {
        if self.redirect != 0 {
            return Err(error::TRACKING_TWO_REDIRECTS);
        }
        let id = parse_i64(id).ok_or(error::NOT_AN_INTEGER)?;
        let id = u64::try_from(id).ok().filter(|id| is_there(*id));
        self.redirect = id.ok_or(error::TRACKING_NO_SUCH_CLIENT)?;
        Ok(())
    }

    fn on(self, before: Option<&TrackingOptions>) -> Result<TrackingOptions, Reply> {
        if !self.broadcast && !self.prefixes.is_empty() {
            return Err(error::TRACKING_PREFIX);
        }
        let is = |mode| before.is_some_and(|before| before.mode == mode);
        if before.is_some() && is(TrackingMode::Broadcast) != self.broadcast {
            return Err(error::TRACKING_SWITCH_BCAST);
        }
        if self.broadcast && (self.opt_in || self.opt_out) {
            return Err(error::TRACKING_OPT_AND_BCAST);
        }
        if self.opt_in && self.opt_out {
            return Err(error::TRACKING_BOTH_OPTS);
        }
        let turns = self.opt_in && is(TrackingMode::OptOut);
        if turns || self.opt_out && is(TrackingMode::OptIn) {
            return Err(error::TRACKING_SWITCH_OPT);
        }
        let mode = match self {
            Self { broadcast: true, .. } => TrackingMode::Broadcast,
            Self { opt_in: true, .. } => TrackingMode::OptIn,
            Self { opt_out: true, .. } => TrackingMode::OptOut,
            _ => TrackingMode::All,
        };
        let mut prefixes = before.map(|before| before.prefixes.clone()).unwrap_or_default();
        if self.broadcast {
            self.check_prefixes(&prefixes)?;
            self.add_prefixes(&mut prefixes);
        }
        Ok(TrackingOptions { redirect: self.redirect, mode, prefixes, no_loop: self.no_loop })
    }

    /// Refuses prefixes of which one begins with another: a key would have two of them.
    fn check_prefixes(&self, existing: &[Vec<u8>]) -> Result<(), Reply> {
        let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
        for (at, prefix) in self.prefixes.iter().enumerate() {
            if let Some(other) = existing.iter().find(|other| overlap(prefix, other)) {
                return Err(error::tracking_prefix_overlap(prefix, "an existing", other));
            }
            let mut after = self.prefixes[at + 1..].iter();
            if let Some(other) = after.find(|other| overlap(prefix, other)) {
                return Err(error::tracking_prefix_overlap(prefix, "another provided", other));
            }
        }
        Ok(())
    }

    fn add_prefixes(&self, prefixes: &mut Vec<Vec<u8>>) {
        if self.prefixes.is_empty() && !prefixes.iter().any(Vec::is_empty) {
            prefixes.push(Vec::new());
        }
        prefixes.extend(self.prefixes.iter().map(|prefix| prefix.to_vec()));
        prefixes.sort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::requests::{Decoder, Limits};

    fn switch(
        words: &str,
        before: Option<&TrackingOptions>,
    ) -> Result<Option<TrackingOptions>, Reply> {
        let (mut decoder, buf) = (Decoder::new(), format!("CLIENT TRACKING {words}\n"));
        let limits = Limits { max_request_bytes: 1000, authenticated: true, may_pass: false };
        decoder.decode(buf.as_bytes(), limits).expect("valid").expect("complete");
        TrackingOptions::switch(decoder.args(buf.as_bytes()), before, |id| id == 7)
    }

    fn on(words: &str) -> TrackingOptions {
        switch(words, None).expect("right words").expect("on")
    }

    #[test]
    fn words_become_options() {
        let all = TrackingOptions::default();
        assert_eq!(on("on"), all);
        assert_eq!(
            on("ON NoLoop REDIRECT 7"),
            TrackingOptions { redirect: 7, no_loop: true, ..all }
        );
        assert_eq!(on("on optin").mode, TrackingMode::OptIn);
        assert_eq!(on("on optout").mode, TrackingMode::OptOut);
        let broadcast = on("on bcast prefix b prefix a");
        assert_eq!((broadcast.mode, broadcast.prefixes.len()), (TrackingMode::Broadcast, 2));
        assert_eq!(on("on bcast").prefixes, [b""]);
        assert_eq!(switch("off bcast", None), Ok(None));
    }

    /// As in Redis, prefixes add up, while all other options are those of the last request.
    #[test]
    fn a_client_may_add_prefixes() {
        let before = on("on bcast prefix a noloop");
        let after = switch("on bcast prefix b", Some(&before)).expect("right words").expect("on");
        assert_eq!((after.prefixes, after.no_loop), (vec![b"a".to_vec(), b"b".to_vec()], false));
        let everything = on("on bcast");
        let after = switch("on bcast", Some(&everything)).expect("right words").expect("on");
        assert_eq!(after.prefixes.len(), 1);
        assert!(switch("on bcast prefix ab", Some(&before)).is_err());
    }

    #[test]
    fn each_prefix_finds_its_keys() {
        let keys: Vec<Bytes> = ["aa", "b", "ab", "c"].map(Bytes::from).to_vec();
        let options = on("on bcast prefix x prefix b prefix a");
        assert_eq!(options.broadcasts(&keys), [vec!["aa", "ab"], vec!["b"]]);
        assert_eq!(on("on bcast").broadcasts(&keys), [keys]);
    }
}
