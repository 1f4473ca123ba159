//! Messages that tell a client what it must drop from its cache (`sendTrackingMessage` in Redis's `tracking.c`).

use bytes::Bytes;

use crate::resp::reply::Reply;

/// The channel on which RESP2 connections hear of invalidations.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// What a client must drop from its cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invalidation {
    /// These keys.
    Keys(Vec<Bytes>),
    /// Everything.
    Everything,
}

impl Invalidation {
    /// Returns the message as a push of RESP3.
    pub fn push(&self) -> Reply {
        Reply::Push(vec![word(b"invalidate"), self.what()])
    }

    /// Returns the message as a subscriber receives it in RESP2.
    pub fn message(&self) -> Reply {
        Reply::Push(vec![word(b"message"), word(CHANNEL), self.what()])
    }

    /// Returns the memory that it takes.
    pub fn held(&self) -> usize {
        match self {
            Self::Keys(keys) => keys.iter().map(|key| size_of::<Bytes>() + key.len()).sum(),
            Self::Everything => 0,
        }
    }

    fn what(&self) -> Reply {
        match self {
            Self::Keys(keys) => Reply::Array(keys.iter().cloned().map(Reply::Bulk).collect()),
            Self::Everything => Reply::Nil,
        }
    }
}

/// Returns the push that tells a client that the connection to which its invalidations go has gone.
pub fn redirection_broken(id: u64) -> Reply {
    Reply::Push(vec![word(b"tracking-redir-broken"), Reply::Int(id as i64)])
}

fn word(word: &'static [u8]) -> Reply {
    Reply::Bulk(Bytes::from_static(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::output::Output;
    use crate::resp::reply::Protocol;

    fn encoded(reply: &Reply, protocol: Protocol) -> String {
        let mut out = Output::default();
        reply.encode(protocol, &mut out);
        String::from_utf8(out.into_bytes().to_vec()).expect("text")
    }

    #[test]
    fn messages_have_the_forms_of_redis() {
        let (some, all) = (Invalidation::Keys(vec!["a".into()]), Invalidation::Everything);
        let resp3 = |reply| encoded(&reply, Protocol::Resp3);
        assert_eq!(resp3(some.push()), ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n");
        assert_eq!(resp3(all.push()), ">2\r\n$10\r\ninvalidate\r\n_\r\n");
        assert_eq!(resp3(redirection_broken(7)), ">2\r\n$21\r\ntracking-redir-broken\r\n:7\r\n");
        assert_eq!(
            encoded(&some.message(), Protocol::Resp2),
            "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\na\r\n"
        );
    }
}
