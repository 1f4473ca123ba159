//! A command that only the masters know: of a later version, or of a module.
//!
//! All voting masters are asked to describe it (`COMMAND INFO`). If they agree, it runs according to its flags and
//! keys: as a read, or as a program. That takes a round trip before each, as nothing is cached: a module may be loaded
//! or unloaded.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;

use super::Asking;
use crate::catalogue::error;
use crate::catalogue::table::Nothing;
use crate::lua::program::{self, ProgramText as Text};
use crate::operation::program::{Call, Program, ProgramShape, Rendering};
use crate::operation::verbatim_read::Query;
use crate::operation::{Kind, Operation, request, verdict};
use crate::resp::flat;
use crate::resp::reply::{Protocol, Reply};

/// A request with such a command.
#[derive(Debug)]
pub struct Newer {
    /// The database.
    pub db: u32,
    /// All its words.
    pub words: Vec<Box<[u8]>>,
    /// The client's protocol version.
    pub protocol: Protocol,
    /// The reply if masters do not know it.
    pub unknown: Reply,
    /// The program that runs single commands.
    pub text: Arc<Text>,
    /// The text that runs it on masters that do not keep it.
    pub runner: Option<Arc<Text>>,
}

/// A master's description of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Info {
    arity: i64,
    flags: Vec<Vec<u8>>,
    /// First key, last key and step.
    keys: [i64; 3],
    /// Whether the reply, and so the effect, depends on more than its words and its keys.
    is_by_chance: bool,
}

impl Newer {
    /// Returns the key that counts for the order within the session, which is a guess at this point.
    pub(super) fn key(&self) -> &[u8] {
        self.words.get(1).map_or(b"", |word| word)
    }

    /// Returns the reply.
    pub(super) async fn run(&self, asking: &Asking) -> Reply {
        let info = match self.info(asking).await {
            Ok(Some(info)) => info,
            Ok(None) => return self.unknown.clone(),
            Err(error) => return error,
        };
        let name = String::from_utf8_lossy(&self.words[0]).to_lowercase();
        if !info.accepts(self.words.len()) {
            return error::wrong_arity(&name);
        }
        if program::is_by_clock(&name) {
            return error::by_clock(&name);
        }
        if info.has("write") && info.is_by_chance {
            return error::by_dice(&name);
        }
        let keys = match self.keys(&info, asking).await {
            Ok(keys) => keys,
            Err(error) => return error,
        };
        // Commands without keys concern the server. Those that block or subscribe would do so on the proxy's own
        // connection.
        let is_of_server =
            ["admin", "noscript", "blocking", "pubsub"].iter().any(|it| info.has(it));
        if keys.is_empty() || is_of_server {
            return error::unsupported_command(&self.words[0]);
        }
        if keys.iter().any(|key| !asking.engine.rules().share.includes(key)) {
            return error::CROSS_SLOT;
        }
        asking.engine.run_now(self.operation(&info, &keys, asking)).await
    }

    fn operation(&self, info: &Info, keys: &[Box<[u8]>], asking: &Asking) -> Operation {
        let kind = if info.has("readonly") {
            let query = Query::new(request::of(self.words()), Nothing::Again);
            Kind::Query(Box::new(query.on_keys(keys.iter().map(|key| &**key))))
        } else {
            let shape = ProgramShape::Command(Rendering::AsIs);
            Kind::Program(Box::new(Program::new(self.call(keys, asking), shape)))
        };
        Operation { db: self.db, key: keys[0].clone(), kind }
    }

    fn call(&self, keys: &[Box<[u8]>], asking: &Asking) -> Call {
        let numbers = [self.db as usize, self.words.len()];
        let [db, length] = numbers.map(|number| number.to_string().into_bytes());
        let queue = [self.protocol.number(), &db, &length].into_iter().chain(self.words());
        let turns = keys.iter().map(|key| asking.engine.fingerprint(self.db, key)).collect();
        let keys = keys.iter().map(|key| &**key);
        Call::new(Arc::clone(&self.text), self.runner.clone(), turns, keys, queue)
    }

    fn words(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.words.iter().map(|word| &**word)
    }

    /// Returns the description shared by all voting masters, or `None` if one does not know the command, or they
    /// differ.
    async fn info(&self, asking: &Asking) -> Result<Option<Info>, Reply> {
        let mut question = Vec::new();
        request::encode(&mut question, &[b"COMMAND", b"INFO", &self.words[0]]);
        let answers = self.ask_all(question, asking).await?;
        let mut infos = answers.iter().map(|answer| Info::parse(answer));
        let first = infos.next().flatten();
        Ok(first.filter(|first| infos.all(|other| other.as_ref() == Some(first))))
    }

    async fn ask_all(&self, question: Vec<u8>, asking: &Asking) -> Result<Vec<Bytes>, Reply> {
        let rules = asking.engine.rules();
        let asked = rules.quorum.everybody().iter();
        let asked = asked.map(|master| asking.engine.ask_aside(master, 0, question.clone(), 1));
        let answers: Vec<Bytes> = join_all(asked).await.into_iter().flatten().collect();
        if answers.len() < rules.quorum.needed() {
            return Err(asking.engine.lacks_quorum().unwrap_or(verdict::nobody_answered(&rules)));
        }
        Ok(answers)
    }

    /// Returns its keys in this request: at fixed positions, or else where masters find them.
    async fn keys(&self, info: &Info, asking: &Asking) -> Result<Vec<Box<[u8]>>, Reply> {
        if !info.has("movablekeys") {
            return Ok(info.places(self.words.len()).map(|at| self.words[at].clone()).collect());
        }
        let mut question = Vec::new();
        let words: Vec<&[u8]> =
            [&b"COMMAND"[..], b"GETKEYS"].into_iter().chain(self.words()).collect();
        request::encode(&mut question, &words);
        let answers = self.ask_all(question, asking).await?;
        match answers.first().and_then(|answer| flat::items(answer)) {
            Some(keys) => Ok(keys.into_iter().filter_map(flat::bulk).map(Into::into).collect()),
            None => Err(answers.first().map_or(Reply::Nil, |answer| Reply::Raw(answer.clone()))),
        }
    }
}

impl Info {
    /// Parses the reply to `COMMAND INFO` of one command.
    fn parse(answer: &[u8]) -> Option<Self> {
        let [command] = flat::items(answer)?[..] else { return None };
        let parts = flat::items(command)?;
        let [_, arity, flags, first, last, step] = parts.get(..6)?.try_into().ok()?;
        let number = flat::int;
        let mut flags = texts(flags);
        flags.sort_unstable();
        let tips = parts.get(7).map(|tips| texts(tips)).unwrap_or_default();
        Some(Self {
            arity: number(arity)?,
            flags,
            keys: [number(first)?, number(last)?, number(step)?],
            is_by_chance: tips.iter().any(|tip| tip == b"nondeterministic_output"),
        })
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|it| it == flag.as_bytes())
    }

    fn accepts(&self, words: usize) -> bool {
        let bound = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { words >= bound } else { words == bound }
    }

    /// Returns the positions of its keys among this number of words.
    fn places(&self, words: usize) -> impl Iterator<Item = usize> + use<> {
        let [first, last, step] = self.keys;
        let last = if last < 0 { words as i64 + last } else { last.min(words as i64 - 1) };
        let places = (first..=last).step_by(step.max(1) as usize);
        places.filter(move |_| first > 0).map(|at| at as usize)
    }
}

/// Returns the texts of an array or a set.
fn texts(frame: &[u8]) -> Vec<Vec<u8>> {
    let words = flat::elements(frame).skip(1);
    words.map(|word| word.body.unwrap_or(word.line).to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "*1\r\n*8\r\n$3\r\nnew\r\n:-3\r\n~2\r\n+write\r\n+fast\r\n:1\r\n:-2\r\n:2\r\n~0\r\n~1\r\n+x\r\n";

    #[test]
    fn what_masters_say_is_read() {
        let info = Info::parse(INFO.as_bytes()).expect("an info");
        assert!(
            info.has("write") && info.has("fast") && !info.has("readonly") && !info.is_by_chance
        );
        assert!(info.accepts(3) && info.accepts(9) && !info.accepts(2));
        assert_eq!(info.places(8).collect::<Vec<_>>(), [1, 3, 5]);
        assert_eq!(info.places(2).collect::<Vec<_>>(), [0; 0]);
        let by_chance = INFO.replace("+x", "+nondeterministic_output");
        assert!(Info::parse(by_chance.as_bytes()).expect("an info").is_by_chance);
        for unknown in ["*1\r\n_\r\n", "-ERR x\r\n", "*1\r\n*2\r\n$1\r\na\r\n:1\r\n"] {
            assert_eq!(Info::parse(unknown.as_bytes()), None);
        }
    }
}
