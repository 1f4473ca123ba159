//! Values under a master's keys: the types of Redis that the simulation's scripts use, and their
//! dump format.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::resp::Reply;

/// A value. Values with elements are never empty.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(Vec<u8>),
    List(VecDeque<Vec<u8>>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Set(BTreeSet<Vec<u8>>),
    /// Members and scores.
    Sorted(BTreeMap<Vec<u8>, f64>),
}

/// Version of the format. A checksum follows; the proxy only relies on their presence and lengths.
const VERSION: [u8; 2] = [11, 0];
const CHECKSUM: usize = 8;

impl Value {
    /// Type name, as in `TYPE`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::List(_) => "list",
            Self::Hash(_) => "hash",
            Self::Set(_) => "set",
            Self::Sorted(_) => "zset",
        }
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::List(elements) => elements.is_empty(),
            Self::Hash(fields) => fields.is_empty(),
            Self::Set(members) => members.is_empty(),
            Self::Sorted(members) => members.is_empty(),
        }
    }

    /// `DUMP`, in a format of its own.
    pub fn dump(&self) -> Vec<u8> {
        let mut dump = vec![match self {
            Self::Text(_) => 0,
            Self::List(_) => 1,
            Self::Set(_) => 2,
            Self::Sorted(_) => 5,
            Self::Hash(_) => 4,
        }];
        for part in self.parts() {
            dump.extend_from_slice(&(part.len() as u32).to_be_bytes());
            dump.extend_from_slice(&part);
        }
        dump.extend_from_slice(&VERSION);
        let checksum = sha1_smol::Sha1::from(&dump).digest().bytes();
        dump.extend_from_slice(&checksum[..CHECKSUM]);
        dump
    }

    /// Decodes a dump. Returns `None` if it is not in this format.
    pub fn of_dump(dumped: &[u8]) -> Option<Self> {
        let (kind, rest) = dumped.split_first()?;
        let mut rest = rest.get(..rest.len().checked_sub(VERSION.len() + CHECKSUM)?)?;
        let mut parts = Vec::new();
        while let Some((len, after)) = rest.split_first_chunk() {
            let (part, after) = after.split_at_checked(u32::from_be_bytes(*len) as usize)?;
            parts.push(part.to_vec());
            rest = after;
        }
        let mut parts = parts.into_iter();
        let value = match kind {
            0 => Self::Text(parts.next()?),
            1 => Self::List(parts.collect()),
            2 => Self::Set(parts.collect()),
            4 => Self::Hash(std::iter::from_fn(|| parts.next().zip(parts.next())).collect()),
            5 => {
                let score = |bytes: Vec<u8>| Some(f64::from_be_bytes(bytes.try_into().ok()?));
                let next = || Some((parts.next()?, score(parts.next()?)?));
                Self::Sorted(std::iter::from_fn(next).collect())
            }
            _ => return None,
        };
        (value.dump() == dumped).then_some(value)
    }

    fn parts(&self) -> Vec<Vec<u8>> {
        let pair = |(one, other): (&Vec<u8>, &Vec<u8>)| [one.clone(), other.clone()];
        match self {
            Self::Text(text) => vec![text.clone()],
            Self::List(elements) => elements.iter().cloned().collect(),
            Self::Set(members) => members.iter().cloned().collect(),
            Self::Hash(fields) => fields.iter().flat_map(pair).collect(),
            Self::Sorted(members) => {
                let pair = |(it, score): (&Vec<u8>, &f64)| [it.clone(), score.to_be_bytes().into()];
                members.iter().flat_map(pair).collect()
            }
        }
    }

    /// Readable form.
    pub fn shown(&self) -> String {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        match self {
            Self::Text(value) => text(value.clone()),
            Self::Sorted(members) => {
                let members = members.iter().map(|(it, score)| (text(it.clone()), score));
                format!("zset {:?}", members.collect::<Vec<_>>())
            }
            other => {
                let parts: Vec<_> = other.parts().into_iter().map(text).collect();
                format!("{} {parts:?}", other.kind())
            }
        }
    }
}

/// Runs a command on the value of a key, whatever type it needs. Returns `None` for unknown
/// commands.
pub fn run(name: &[u8], value: Option<Value>, args: &[Vec<u8>]) -> Option<(Option<Value>, Reply)> {
    let done = match name {
        b"STRLEN" | b"GETRANGE" | b"APPEND" | b"INCR" | b"DECR" | b"INCRBY" | b"DECRBY" => {
            on_text(name, value.clone(), args)
        }
        b"LPUSH" | b"RPUSH" | b"LPOP" | b"RPOP" | b"LLEN" | b"LRANGE" => {
            on_list(name, value.clone(), args)
        }
        b"HSET" | b"HGET" | b"HDEL" | b"HLEN" | b"HEXISTS" | b"HGETALL" => {
            on_hash(name, value.clone(), args)
        }
        b"SADD" | b"SREM" | b"SCARD" | b"SISMEMBER" | b"SMEMBERS" => {
            on_set(name, value.clone(), args)
        }
        b"ZADD" | b"ZREM" | b"ZCARD" | b"ZSCORE" | b"ZRANGE" | b"ZREMRANGEBYSCORE"
        | b"ZREMRANGEBYRANK" | b"ZSCAN" => on_sorted(name, value.clone(), args),
        _ => return None,
    };
    let (after, reply) = done.unwrap_or_else(|error| (value, Reply::error(error)));
    Some((after.filter(|it| !it.is_empty()), reply))
}

type Done = Result<(Option<Value>, Reply), &'static str>;

pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const NO_INTEGER: &str = "ERR value is not an integer or out of range";
const SYNTAX: &str = "ERR syntax error";
const NO_FLOAT: &str = "ERR value is not a valid float";

fn on_text(name: &[u8], value: Option<Value>, args: &[Vec<u8>]) -> Done {
    let mut text = match value {
        None => None,
        Some(Value::Text(text)) => Some(text),
        Some(_) => return Err(WRONG_TYPE),
    };
    let reply = match name {
        b"STRLEN" => count(text.as_ref().map_or(0, Vec::len)),
        b"GETRANGE" => {
            let (first, last) = (integer(&args[0])?, integer(&args[1])?);
            let text = text.as_deref().unwrap_or_default();
            let is_backwards = first < 0 && last < 0 && first > last;
            // Unlike for a list, a place before the first byte means the first byte
            // (`getrangeCommand` in `t_string.c`).
            let last = if is_backwards { last } else { last.max(-(text.len() as i64)) };
            let range = range(first, last, text.len());
            Reply::Bulk(if is_backwards { Vec::new() } else { text[range].to_vec() })
        }
        b"APPEND" => {
            let text = text.get_or_insert_default();
            text.extend_from_slice(&args[0]);
            count(text.len())
        }
        _ => {
            let by = match name {
                b"INCR" => 1,
                b"DECR" => -1,
                b"INCRBY" => integer(&args[0])?,
                _ => integer(&args[0])?.checked_neg().ok_or("ERR decrement would overflow")?,
            };
            let before = text.as_deref().map_or(Ok(0), integer)?;
            let after =
                before.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
            text = Some(after.to_string().into_bytes());
            Reply::Int(after)
        }
    };
    Ok((text.map(Value::Text), reply))
}

fn on_list(name: &[u8], value: Option<Value>, args: &[Vec<u8>]) -> Done {
    let is_there = value.is_some();
    let mut list = match value {
        None => VecDeque::new(),
        Some(Value::List(list)) => list,
        Some(_) => return Err(WRONG_TYPE),
    };
    let reply = match name {
        b"LPUSH" => {
            args.iter().for_each(|it| list.push_front(it.clone()));
            count(list.len())
        }
        b"RPUSH" => {
            list.extend(args.iter().cloned());
            count(list.len())
        }
        b"LPOP" | b"RPOP" if args.is_empty() => {
            let popped = if name == b"LPOP" { list.pop_front() } else { list.pop_back() };
            popped.map_or(Reply::Nil, Reply::Bulk)
        }
        b"LLEN" => count(list.len()),
        b"LRANGE" => {
            let (first, last) = (integer(&args[0])?, integer(&args[1])?);
            let shown = list.range(range(first, last, list.len()));
            bulks(shown.cloned())
        }
        _ => return Err(SYNTAX),
    };
    Ok(((is_there || !list.is_empty()).then_some(Value::List(list)), reply))
}

fn on_hash(name: &[u8], value: Option<Value>, args: &[Vec<u8>]) -> Done {
    let mut hash = match value {
        None => BTreeMap::new(),
        Some(Value::Hash(hash)) => hash,
        Some(_) => return Err(WRONG_TYPE),
    };
    let reply = match name {
        b"HSET" => {
            let before = hash.len();
            hash.extend(args.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())));
            count(hash.len() - before)
        }
        b"HGET" => hash.get(&args[0]).cloned().map_or(Reply::Nil, Reply::Bulk),
        b"HDEL" => count(args.iter().filter(|field| hash.remove(*field).is_some()).count()),
        b"HLEN" => count(hash.len()),
        b"HEXISTS" => Reply::Int(i64::from(hash.contains_key(&args[0]))),
        _ => {
            let pairs = hash.iter().flat_map(|(field, value)| [field.clone(), value.clone()]);
            Reply::Map(pairs.map(Reply::Bulk).collect())
        }
    };
    Ok((Some(Value::Hash(hash)), reply))
}

fn on_set(name: &[u8], value: Option<Value>, args: &[Vec<u8>]) -> Done {
    let mut set = match value {
        None => BTreeSet::new(),
        Some(Value::Set(set)) => set,
        Some(_) => return Err(WRONG_TYPE),
    };
    let reply = match name {
        b"SADD" => count(args.iter().filter(|it| set.insert((*it).clone())).count()),
        b"SREM" => count(args.iter().filter(|it| set.remove(*it)).count()),
        b"SCARD" => count(set.len()),
        b"SISMEMBER" => Reply::Int(i64::from(set.contains(&args[0]))),
        _ => bulks(set.iter().cloned()),
    };
    Ok((Some(Value::Set(set)), reply))
}

fn on_sorted(name: &[u8], value: Option<Value>, args: &[Vec<u8>]) -> Done {
    let mut sorted = match value {
        None => BTreeMap::new(),
        Some(Value::Sorted(sorted)) => sorted,
        Some(_) => return Err(WRONG_TYPE),
    };
    let reply = match name {
        b"ZADD" => add(&mut sorted, args)?,
        b"ZREM" => count(args.iter().filter(|it| sorted.remove(*it).is_some()).count()),
        b"ZCARD" => count(sorted.len()),
        b"ZSCORE" => sorted.get(&args[0]).map_or(Reply::Nil, |score| Reply::text(told(*score))),
        b"ZREMRANGEBYSCORE" => {
            let (lowest, highest) = (score(&args[0])?, score(&args[1])?);
            let before = sorted.len();
            sorted.retain(|_, score| *score < lowest || *score > highest);
            count(before - sorted.len())
        }
        b"ZREMRANGEBYRANK" | b"ZRANGE" => {
            let (first, last) = (integer(&args[0])?, integer(&args[1])?);
            let ranked = ranked(&sorted);
            let found = &ranked[range(first, last, ranked.len())];
            if name == b"ZRANGE" {
                let has_scores = args.len() > 2 && args[2].eq_ignore_ascii_case(b"WITHSCORES");
                with_scores(found, has_scores)
            } else {
                found.iter().for_each(|(member, _)| _ = sorted.remove(member));
                count(found.len())
            }
        }
        // All in one page, as Redis does too with few members.
        _ => Reply::Array(vec![Reply::text("0"), with_scores(&ranked(&sorted), true)]),
    };
    Ok((Some(Value::Sorted(sorted)), reply))
}

/// `ZADD key [GT] score member [score member...]`
fn add(sorted: &mut BTreeMap<Vec<u8>, f64>, args: &[Vec<u8>]) -> Result<Reply, &'static str> {
    let only_higher = args[0].eq_ignore_ascii_case(b"GT");
    let pairs = args[usize::from(only_higher)..].chunks(2);
    let pair = |pair: &[Vec<u8>]| match pair {
        [score_of, member] => Ok((score(score_of)?, member.clone())),
        _ => Err(SYNTAX),
    };
    let pairs = pairs.map(pair).collect::<Result<Vec<_>, _>>()?;
    let before = sorted.len();
    for (score, member) in pairs {
        let held = sorted.entry(member).or_insert(score);
        if score > *held || !only_higher {
            *held = score;
        }
    }
    Ok(count(sorted.len() - before))
}

fn ranked(sorted: &BTreeMap<Vec<u8>, f64>) -> Vec<(Vec<u8>, f64)> {
    let mut ranked: Vec<_> = sorted.iter().map(|(it, score)| (it.clone(), *score)).collect();
    ranked.sort_by(|one, other| one.1.total_cmp(&other.1));
    ranked
}

fn with_scores(found: &[(Vec<u8>, f64)], has_scores: bool) -> Reply {
    let pair = |(member, score): &(Vec<u8>, f64)| {
        let score = has_scores.then(|| Reply::text(told(*score)));
        [Some(Reply::Bulk(member.clone())), score]
    };
    Reply::Array(found.iter().flat_map(pair).flatten().collect())
}

/// Formats a score as in replies. The simulation's scores are whole numbers.
fn told(score: f64) -> String {
    format!("{score}")
}

fn count(number: usize) -> Reply {
    Reply::Int(number as i64)
}

fn bulks(words: impl Iterator<Item = Vec<u8>>) -> Reply {
    Reply::Array(words.map(Reply::Bulk).collect())
}

/// Parses an integer. Redis accepts no sign but a minus, and no leading zeros (`string2ll` in
/// `util.c`).
pub fn integer(word: &[u8]) -> Result<i64, &'static str> {
    let number = std::str::from_utf8(word).ok().and_then(|word| word.parse::<i64>().ok());
    number.filter(|number| number.to_string().as_bytes() == word).ok_or(NO_INTEGER)
}

fn score(word: &[u8]) -> Result<f64, &'static str> {
    let text = std::str::from_utf8(word).map_err(|_| NO_FLOAT)?;
    text.parse().ok().filter(|score: &f64| !score.is_nan()).ok_or(NO_FLOAT)
}

/// Range between two places, each of which may count from the end.
fn range(first: i64, last: i64, len: usize) -> std::ops::Range<usize> {
    let len = len as i64;
    let at = |place: i64| if place < 0 { (len + place).max(0) } else { place };
    let end = if last < 0 && len + last < 0 { 0 } else { (at(last) + 1).min(len) };
    let start = at(first).min(end);
    start as usize..end as usize
}
