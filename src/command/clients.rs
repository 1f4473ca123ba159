//! `CLIENT LIST` and `CLIENT KILL`: some clients at a time, as there may be ten thousand.

use std::net::SocketAddr;
use std::sync::Arc;

use super::{Action, Outcome};
use crate::catalogue::error;
use crate::client::registry::{Client, Peer, Registry};
use crate::client::slices::{Slice, Sliced, Slices};
use crate::context::caller::Caller;
use crate::resp::number::parse_i64;
use crate::resp::reply::Reply;
use crate::resp::requests::Args;

/// Lines made at once, and clients compared at once.
const LINES: usize = 8;
const COMPARED: usize = 32;

/// `CLIENT LIST [TYPE type | ID id...]`
pub(super) fn list(caller: &Caller, args: Args<'_>) -> Outcome {
    let option = args.get(2).map(<[u8]>::to_ascii_lowercase);
    let (walk, kind) = match (option.as_deref(), args.len()) {
        (None, _) => (Walk::all(caller), None),
        (Some(b"type"), 4) => (Walk::all(caller), Some(Kind::parse(args.at(3))?)),
        (Some(b"id"), 4..) => {
            let ids = args.from(3).iter().map(parse_i64).collect::<Option<Vec<_>>>();
            let ids = ids.ok_or_else(|| Reply::error("ERR Invalid client ID"))?;
            (Walk::These(ids.into_iter()), None)
        }
        _ => return Err(error::SYNTAX),
    };
    let registry = Arc::clone(caller.worker.registry());
    Ok(Action::Slices(Sliced::new(List {
        registry,
        walk,
        kind,
        lines: String::new(),
        ended: false,
    })))
}

/// `CLIENT KILL address | [filter value]...`
pub(super) fn kill(caller: &Caller, args: Args<'_>) -> Outcome {
    let filter = match args.len() {
        3 => Filter { address: Some(End::parse(args.at(2))), ..Filter::default() },
        _ => Filter::parse(caller, args)?,
    };
    let (walk, registry) = (filter.walk(caller), Arc::clone(caller.worker.registry()));
    Ok(Action::Slices(Sliced::new(Kill {
        registry,
        walk,
        filter,
        me: Arc::clone(&caller.client),
        counts: args.len() > 3,
        killed: 0,
        kills_me: false,
        ended: false,
    })))
}

/// The type of a client, as Redis defines it. There are no replicas here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Subscriber,
    Other,
}

impl Kind {
    fn parse(word: &[u8]) -> Result<Self, Reply> {
        match &word.to_ascii_lowercase()[..] {
            b"normal" => Ok(Self::Normal),
            b"pubsub" => Ok(Self::Subscriber),
            b"master" | b"replica" | b"slave" => Ok(Self::Other),
            _ => Err(Reply::error(format!("ERR Unknown client type '{}'", text(word)))),
        }
    }

    fn of(client: &Client) -> Self {
        if client.is_subscriber() { Self::Subscriber } else { Self::Normal }
    }
}

/// The clients to visit, one after the other.
enum Walk {
    /// Those with ids after the first and up to the last.
    All(u64, u64),
    /// Those with these ids, in this order.
    These(std::vec::IntoIter<i64>),
    /// Those that an index has found.
    Found(Vec<Arc<Client>>),
}

impl Walk {
    fn all(caller: &Caller) -> Self {
        Self::All(0, caller.worker.registry().last_id())
    }

    /// Returns the next clients, or `None` when there are no more.
    fn next(&mut self, registry: &Registry, most: usize) -> Option<Vec<Arc<Client>>> {
        match self {
            Self::All(after, last) => {
                let mut clients = registry.after(*after, most);
                clients.retain(|client| client.id <= *last);
                *after = clients.last()?.id;
                Some(clients)
            }
            Self::These(ids) => {
                if ids.len() == 0 {
                    return None;
                }
                let known = |id: i64| registry.client(u64::try_from(id).ok()?);
                Some(ids.take(most).filter_map(known).collect())
            }
            Self::Found(clients) => {
                (!clients.is_empty()).then(|| clients.split_off(clients.len().saturating_sub(most)))
            }
        }
    }
}

/// The lines of a `CLIENT LIST`. The reply starts with its length, so it is sent when it is complete.
struct List {
    registry: Arc<Registry>,
    walk: Walk,
    kind: Option<Kind>,
    lines: String,
    ended: bool,
}

impl Slices for List {
    fn next(&mut self) -> Option<Slice> {
        if self.ended {
            return None;
        }
        let Some(clients) = self.walk.next(&self.registry, LINES) else {
            self.ended = true;
            let lines = std::mem::take(&mut self.lines).into_bytes();
            return Some(Slice::Part(Reply::Verbatim(lines.into())));
        };
        let is_meant =
            |client: &&Arc<Client>| self.kind.is_none_or(|kind| kind == Kind::of(client));
        for client in clients.iter().filter(is_meant) {
            self.lines.push_str(&client.line());
            self.lines.push('\n');
        }
        Some(Slice::Nothing)
    }

    fn bytes(&self) -> usize {
        self.lines.capacity()
    }
}

/// A `CLIENT KILL` in progress.
struct Kill {
    registry: Arc<Registry>,
    walk: Walk,
    filter: Filter,
    me: Arc<Client>,
    /// Whether the reply is the number of killed clients.
    counts: bool,
    killed: i64,
    kills_me: bool,
    ended: bool,
}

impl Slices for Kill {
    fn next(&mut self) -> Option<Slice> {
        if self.ended {
            return None;
        }
        let Some(clients) = self.walk.next(&self.registry, COMPARED) else {
            self.ended = true;
            if self.kills_me {
                // Done last, or the reply would not be sent.
                self.me.kill();
            }
            return Some(Slice::Part(self.reply()));
        };
        for client in clients.iter().filter(|client| self.filter.means(client, self.me.id)) {
            self.killed += 1;
            if client.id == self.me.id {
                self.kills_me = true;
            } else {
                client.kill();
            }
        }
        Some(Slice::Nothing)
    }
}

impl Kill {
    fn reply(&self) -> Reply {
        match (self.counts, self.killed) {
            (true, killed) => Reply::Int(killed),
            (false, 0) => error::NO_SUCH_CLIENT,
            (false, _) => Reply::OK,
        }
    }
}

/// One end of a connection, as `CLIENT LIST` shows it.
enum End {
    Tcp(SocketAddr),
    /// A path, or a word that is no address.
    Other(String),
}

impl End {
    fn parse(word: &[u8]) -> Self {
        let word = text(word);
        match word.parse::<SocketAddr>() {
            Ok(address) if address.to_string() == word => Self::Tcp(address),
            _ => Self::Other(word),
        }
    }

    fn is(&self, peer: &Peer) -> bool {
        match (self, peer) {
            (Self::Tcp(wanted), Peer::Tcp(address)) => wanted == address,
            (Self::Other(wanted), Peer::Unix(_)) => *wanted == peer.to_string(),
            _ => false,
        }
    }
}

/// The clients that `CLIENT KILL` selects.
#[derive(Default)]
struct Filter {
    id: Option<i64>,
    address: Option<End>,
    local_address: Option<End>,
    user: Option<Arc<str>>,
    kind: Option<Kind>,
    skip_me: bool,
}

impl Filter {
    fn parse(caller: &Caller, args: Args<'_>) -> Result<Self, Reply> {
        let mut filter = Self { skip_me: true, ..Self::default() };
        let mut words = args.from(2).iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or(error::SYNTAX)?;
            match &word.to_ascii_lowercase()[..] {
                b"id" => {
                    let id = parse_i64(value).filter(|id| *id > 0);
                    let refused = "ERR client-id should be greater than 0";
                    filter.id = Some(id.ok_or_else(|| Reply::error(refused))?);
                }
                b"addr" => filter.address = Some(End::parse(value)),
                b"laddr" => filter.local_address = Some(End::parse(value)),
                b"type" => filter.kind = Some(Kind::parse(value)?),
                b"user" => {
                    let live = caller.worker.live();
                    let user = live.users.named(value);
                    filter.user =
                        Some(Arc::clone(user.ok_or_else(|| error::no_such_user(value))?.name()));
                }
                b"skipme" if value.eq_ignore_ascii_case(b"yes") => filter.skip_me = true,
                b"skipme" if value.eq_ignore_ascii_case(b"no") => filter.skip_me = false,
                _ => return Err(error::SYNTAX),
            }
        }
        Ok(filter)
    }

    /// Returns the clients that may be selected: no others can match.
    fn walk(&self, caller: &Caller) -> Walk {
        match (self.id, &self.address) {
            (Some(id), _) => Walk::These(vec![id].into_iter()),
            (None, Some(End::Tcp(address))) => Walk::Found(caller.worker.registry().at(*address)),
            _ => Walk::all(caller),
        }
    }

    fn means(&self, client: &Client, me: u64) -> bool {
        let is_excepted = self.skip_me && client.id == me;
        !is_excepted
            && self.id.is_none_or(|id| id == client.id as i64)
            && self.kind.is_none_or(|kind| kind == Kind::of(client))
            && self.address.as_ref().is_none_or(|end| end.is(&client.address))
            && self.local_address.as_ref().is_none_or(|end| end.is(&client.local_address))
            && self.user.as_ref().is_none_or(|user| *user == client.words().user)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
