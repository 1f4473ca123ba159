//! Bringing a link up: dial, probe, say hello, and see whether the master fits in with the others.

use std::io;
use std::rc::Rc;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{Down, Link};
use crate::engine::Engine;
use crate::masters::dial::{Dial, Stream as _};
use crate::masters::facts::Facts;
use crate::masters::probe::{Predecessor, probe};
use crate::operation::request;
use crate::resp::answer::{Answer, Decoder};
use crate::resp::flat::Malformed;

/// Whom a password is for when no user is named (`acl.c`).
const DEFAULT_USER: &str = "default";

impl Link {
    /// A connection that is ready to carry votes. It cuts off the one before it.
    pub(super) async fn connect<D: Dial>(
        &self,
        dial: &D,
        predecessor: &mut Option<Predecessor>,
        engine: &Engine,
    ) -> Result<D::Stream, Down> {
        let facts = probe(dial, &self.address, predecessor.as_ref()).await?;
        let mut stream = dial.dial(&self.address).await?;
        stream.abort_on_close();
        let client_id = self.hello(&mut stream, &facts.run_id).await?;
        self.require_distinct(&facts, engine)?;
        require_databases(&facts, engine)?;
        *predecessor = Some(Predecessor { run_id: facts.run_id.clone(), client_id });
        self.state.borrow_mut().facts = Some(facts.clone());
        engine.electorate().observe(self.master, facts);
        Ok(stream)
    }

    /// One vote cast twice would break everything. Nothing is awaited between this and
    /// [`Link::came_up`], so two links cannot both find the other one down.
    fn require_distinct(&self, facts: &Facts, engine: &Engine) -> Result<(), Down> {
        let same = |link: &&Rc<Link>| {
            let known = link.facts();
            link.is_up() && known.is_some_and(|known| known.run_id == facts.run_id)
        };
        let mut others = engine.links().iter().filter(|link| link.master != self.master);
        match others.find(|link| !facts.run_id.is_empty() && same(link)) {
            Some(link) => Err(Down::SameInstance(link.address.clone())),
            None => Ok(()),
        }
    }

    /// Agrees on RESP3, which tells a script's map from its array, learns the connection's id, and makes
    /// sure that the process is still the one that was probed.
    pub(in crate::engine) async fn hello(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        run_id: &str,
    ) -> Result<i64, Down> {
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        if let Some(password) = &self.address.password {
            let user = self.address.user.as_deref().unwrap_or(DEFAULT_USER);
            hello.extend([b"AUTH", user.as_bytes(), password.expose().as_bytes()]);
        }
        hello.extend([&b"SETNAME"[..], b"redlock-proxy"]);
        let mut requests = Vec::new();
        request::encode(&mut requests, &hello);
        request::encode(&mut requests, &[b"CLIENT", b"ID"]);
        request::encode(&mut requests, &[b"INFO", b"server"]);
        let mut replies = 3;
        stream.write_all(&requests).await?;
        let (mut buffer, mut client_id, mut is_same) = (BytesMut::new(), 0, run_id.is_empty());
        while replies > 0 {
            let Some((answer, raw)) = Decoder::default().decode(&buffer)? else {
                if stream.read_buf(&mut buffer).await? == 0 {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
                continue;
            };
            match answer {
                Answer::Error(error) => {
                    return Err(Down::Hello(String::from_utf8_lossy(error).into_owned()));
                }
                Answer::Int(id) => client_id = id,
                _ => {
                    is_same |=
                        raw.windows(run_id.len().max(1)).any(|text| text == run_id.as_bytes())
                }
            }
            let len = raw.len();
            buffer.advance(len);
            replies -= 1;
        }
        match (is_same, buffer.is_empty()) {
            (true, true) => Ok(client_id),
            (true, false) => Err(Malformed.into()),
            (false, _) => Err(Down::Restarted),
        }
    }
}

/// A `SELECT` that one master refuses would send what follows it to another database there.
fn require_databases(facts: &Facts, engine: &Engine) -> Result<(), Down> {
    let voters = engine.links().iter().filter(|link| link.is_up());
    let promised = voters.filter_map(|link| Some(link.facts()?.databases)).min();
    match promised {
        Some(promised) if facts.databases < promised => {
            Err(Down::FewerDatabases(facts.databases, promised))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    /// What a process with this `run_id` makes of a greeting that is meant for `probed`.
    async fn hello(probed: &str, run_id: &str) -> Result<i64, Down> {
        let link = Link::for_tests();
        let (mut ours, mut theirs) = duplex(4096);
        let info = format!("run_id:{run_id}\r\n");
        let replies = format!("%0\r\n:7\r\n${}\r\n{info}\r\n", info.len());
        theirs.write_all(replies.as_bytes()).await.expect("room for all of it");
        link.hello(&mut ours, probed).await
    }

    #[tokio::test]
    async fn a_master_that_was_restarted_after_it_was_probed_gets_no_link() {
        assert!(matches!(hello("abc", "abc").await, Ok(7)));
        assert!(matches!(hello("abc", "xyz").await, Err(Down::Restarted)));
    }
}
