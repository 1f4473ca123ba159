//! A connection to the data Redis, set up as the URL says before its client's first request.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::catalogue::reserved::MARK;
use crate::config::DataAddr;
use crate::data::answers::{DataAnswer, error_text, must_be_master};
use crate::data::connection::Lost;
use crate::data::setup::{Credentials, Setup};
use crate::data::upstream::{Dialled, Upstream};
use crate::data::watch::HAS_MARK;
use crate::data::whereabouts::{Tenure, ended};
use crate::masters::dial::{DialledStream, Stream as _};
use crate::operation::request;
use crate::resp::extent::{NotRedis, ReplyExtents};

/// Maximum length of a reply during set-up, in bytes: the reply to `HELLO` names all modules.
const LONGEST_ANSWER: usize = 64 << 10;

/// A connection that is ready for a client.
pub(super) struct Opened {
    /// Stream to the data Redis.
    pub(super) stream: DialledStream,
    /// Time for which it may be used, if sentinels decide that.
    pub(super) tenure: Option<Tenure>,
}

/// Opens a connection, logs in and selects the database as the URL says. If sentinels name the data Redis, also checks
/// that it is a master. If that one is replaced meanwhile, dials the next: the client has not sent anything yet.
///
/// # Errors
/// Returns an error if the data Redis cannot be reached, rejects the login of the URL, or must not be watched.
pub(super) async fn open(upstream: &Upstream) -> Result<Opened, Lost> {
    let address = &upstream.settings().address;
    loop {
        let Dialled { mut stream, mut tenure } = upstream.dial().await?;
        let is_followed = tenure.is_some();
        let prepare = async {
            bring(&mut stream, address).await?;
            if is_followed {
                require_no_mark(&mut stream).await?;
                require_master(&mut stream).await?;
            }
            Ok::<_, Lost>(())
        };
        tokio::select! {
            biased;
            () = ended(tenure.as_mut()) => stream.abort_on_close(),
            prepared = prepare => return prepared.map(|()| Opened { stream, tenure }),
        }
    }
}

async fn bring(server: &mut DialledStream, address: &DataAddr) -> Result<(), Lost> {
    let login = address
        .password
        .as_ref()
        .map(|password| Credentials { user: address.user.clone(), password: password.clone() });
    let setup = Setup { login, db: address.db, ..Setup::default() };
    let mut requests = Vec::new();
    let steps = setup.bring(&Setup::default(), &mut requests);
    let answers = ask(server, &requests, steps.len()).await?;
    answers.iter().find_map(|answer| refusal(answer)).map_or(Ok(()), Err)
}

/// Refuses masters of locks, which must not be watched. If the client is to log in itself, this connection may not ask
/// yet, and passes.
///
/// # Errors
/// Returns an error if the mark of a master is there, or if the connection is lost.
pub(super) async fn require_no_mark(server: &mut DialledStream) -> Result<(), Lost> {
    let mut request = Vec::new();
    request::encode(&mut request, &[b"EXISTS", MARK.as_bytes()]);
    match ask(server, &request, 1).await?.first() {
        Some(answer) if answer == b":1\r\n" => Err(std::io::Error::other(HAS_MARK).into()),
        _ => Ok(()),
    }
}

async fn require_master(server: &mut DialledStream) -> Result<(), Lost> {
    let mut request = Vec::new();
    // On a new connection this changes nothing.
    request::encode(&mut request, &[b"HELLO", b"2"]);
    let answers = ask(server, &request, 1).await?;
    match answers.first().map(|answer| must_be_master(answer)).transpose()? {
        Some(DataAnswer::NotNow(error)) => {
            Err(Lost::Refused(String::from_utf8_lossy(error).into_owned()))
        }
        Some(DataAnswer::Fine) | None => Ok(()),
    }
}

/// Sends requests and returns their replies.
async fn ask(
    server: &mut DialledStream,
    requests: &[u8],
    answers: usize,
) -> Result<Vec<Vec<u8>>, Lost> {
    server.write_all(requests).await?;
    server.flush().await?;
    let (mut found, mut answer) = (Vec::new(), Vec::new());
    let (mut replies, mut buffer) = (ReplyExtents::default(), [0; 1024]);
    while found.len() < answers {
        let read = server.read(&mut buffer).await?;
        if read == 0 {
            // The data Redis may have said why, e.g. that it has no room for another client.
            return Err(found
                .last()
                .and_then(|last: &Vec<u8>| refusal(last))
                .unwrap_or(Lost::Closed));
        }
        let mut rest = &buffer[..read];
        while !rest.is_empty() {
            let piece = replies.read(rest)?;
            answer.extend_from_slice(&rest[..piece.bytes]);
            rest = &rest[piece.bytes..];
            if answer.len() > LONGEST_ANSWER {
                return Err(NotRedis.into());
            }
            if piece.ended.is_some() {
                found.push(std::mem::take(&mut answer));
            }
        }
    }
    // Nothing else was asked for.
    let is_all = found.len() == answers && answer.is_empty();
    if is_all { Ok(found) } else { Err(NotRedis.into()) }
}

fn refusal(answer: &[u8]) -> Option<Lost> {
    error_text(answer).map(|text| Lost::Refused(String::from_utf8_lossy(text).into_owned()))
}
