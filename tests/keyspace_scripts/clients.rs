//! Clients that change keys on three real masters at the same time, over links that lose and delay
//! messages.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use redlock_proxy::decision::keyspace::proposer::Outcome;
use redlock_proxy::decision::keyspace::slot::Basis;
use redlock_proxy::decision::lease::pad::Pad;
use redlock_proxy::decision::quorum::{MasterId, MasterSet, Quorum};
use redlock_proxy::lua::program::{ProgramText, ScriptRules, Tells};
use redlock_proxy::names::slot::Share;
use redlock_proxy::operation::register::ask::RequestWords;
use redlock_proxy::operation::register::run::{Run, RunStep, RunWorker, Token};
use redlock_proxy::operation::register::{Job, Place, RegisterReply, packed};
use tokio::sync::mpsc;

use crate::now_us;
use crate::support::{Master, Raw, Reply as Wire, target_is_plain_redis};
use crate::tasks::place;

const MASTERS: usize = 3;
const CLIENTS: usize = 4;
const PROGRAMS: usize = 60;

/// Time after which a client gives up a round.
const ROUND: Duration = Duration::from_millis(30);

/// Maximum rounds of a client for one program.
const ROUNDS: usize = 40;

/// Appends a letter and returns the resulting list.
const ONE: &str =
    "redis.call('rpush', KEYS[1], ARGV[1]) return redis.call('lrange', KEYS[1], 0, -1)";

/// Appends to both keys, the second of which it does not declare.
const TWO: &str = "redis.call('exists', 'two') \
    for _, key in ipairs({ 'one', 'two' }) do redis.call('rpush', key, ARGV[1]) end return { redis.call('lrange', 'one', 0, -1), redis.call('lrange', 'two', 0, -1) }";

/// Returns both lists.
const READ: &str =
    "return { redis.call('lrange', KEYS[1], 0, -1), redis.call('lrange', KEYS[2], 0, -1) }";

/// A program and its answer.
struct Event {
    name: String,
    key: Option<usize>,
    began: u64,
    /// Time of the answer and its content; `None` if the outcome is unknown.
    answer: Option<(u64, Vec<Vec<String>>)>,
}

struct World {
    addresses: Vec<String>,
    programs: [Arc<ProgramText>; 3],
    clock: Cell<u64>,
    events: RefCell<Vec<Event>>,
}

impl World {
    /// Returns a unique time, later than all before.
    fn moment(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }
}

/// A request of one operation, and its number.
type Asked = (u64, Token, RequestWords);

/// A master's answer about one of the client's operations.
type Heard = (u64, MasterId, Token, Vec<u8>);

/// A link of one client to one master. It answers requests in order, some late and some never.
async fn link(
    address: String,
    master: MasterId,
    mut requests: mpsc::UnboundedReceiver<Asked>,
    heard: mpsc::UnboundedSender<Heard>,
    mut rng: Rng,
) {
    let mut raw = Raw::connect_resp3(&address).await;
    while let Some((operation, token, words)) = requests.recv().await {
        tokio::time::sleep(Duration::from_micros(rng.u64(0..1500))).await;
        // The request is lost or delayed for long.
        match rng.u8(0..40) {
            0 => continue,
            1 => tokio::time::sleep(ROUND * 2).await,
            _ => {}
        }
        raw.send(&words.eval()).await;
        let (_, frame) = raw.frame().await;
        // The answer is lost.
        if rng.u8(0..40) > 0 {
            let _ = heard.send((operation, master, token, frame));
        }
    }
}

/// Runs one program after another, each based on the state that the one before left.
async fn client(world: Rc<World>, number: usize, mut rng: Rng) {
    let (sender, mut heard) = mpsc::unbounded_channel();
    let links = world.addresses.iter().enumerate().map(|(index, address)| {
        let (requests, received) = mpsc::unbounded_channel();
        let link =
            link(address.clone(), MasterId::new(index), received, sender.clone(), rng.fork());
        tokio::task::spawn_local(link);
        requests
    });
    let links: Vec<_> = links.collect();
    let mut held: HashMap<Vec<Place>, Vec<Basis<Job>>> = HashMap::new();
    for index in 0..PROGRAMS {
        let key = Some(rng.usize(0..2)).filter(|_| rng.u8(0..3) > 0);
        let name = format!("{number}-{index}");
        let job = job(&world, key, &name);
        let began = world.moment();
        // Other programs of this worker have used the state held for their keys.
        let basis = held.remove(&job.places).filter(|_| job.places.len() == 1);
        held.clear();
        let (outcome, left) = run(job, number, basis, &links, &mut heard, &mut rng).await;
        held.extend(left);
        let answer = outcome.map(|reply| (world.moment(), lists(&reply)));
        world.events.borrow_mut().push(Event { name, key, began, answer });
    }
}

type Left = Option<(Vec<Place>, Vec<Basis<Job>>)>;

async fn run(
    job: Job,
    number: usize,
    basis: Option<Vec<Basis<Job>>>,
    links: &[mpsc::UnboundedSender<Asked>],
    heard: &mut mpsc::UnboundedReceiver<Heard>,
    rng: &mut Rng,
) -> (Option<Bytes>, Left) {
    let quorum = Quorum::of(MASTERS);
    let worker = RunWorker { quorum, id: number as u64 + 1, version: 1, share: Share::ALL };
    let places = job.places.clone();
    let operation = rng.u64(..);
    let (mut run, mut step) = Run::new(worker, job, basis, now_us());
    for _ in 0..ROUNDS {
        let mut until = tokio::time::Instant::now() + ROUND;
        loop {
            step = match step {
                RunStep::Send(to, token, words) => {
                    send(links, to, operation, token, &words);
                    until = tokio::time::Instant::now() + ROUND;
                    RunStep::Wait
                }
                RunStep::Wait => match tokio::time::timeout_at(until, heard.recv()).await {
                    Ok(Some((of, ..))) if of != operation => RunStep::Wait,
                    Ok(Some((_, master, token, frame))) => {
                        run.answered((master, 0), token, &frame, now_us())
                    }
                    _ => break,
                },
                RunStep::Pause => break,
                RunStep::Done(Outcome::Ran(RegisterReply::Frame(frame, ..))) => {
                    let left = run.held().map(|held| (places, held.to_vec()));
                    return (Some(frame), left.filter(|(places, held)| places.len() == held.len()));
                }
                // The answers were lost, but not the reply.
                RunStep::Done(Outcome::Ran(RegisterReply::Packed(reply))) => {
                    return (packed::reply(&reply).map(|(frame, _)| Bytes::from(frame)), None);
                }
                RunStep::Done(_) => return (None, None),
                RunStep::Failed(error) => panic!("{}", String::from_utf8_lossy(&error)),
                RunStep::TooManyKeys | RunStep::OfAnotherShard => panic!("too many keys"),
            };
        }
        tokio::time::sleep(Duration::from_micros(rng.u64(0..20_000))).await;
        step = run.again(now_us());
    }
    (None, None)
}

fn send(
    links: &[mpsc::UnboundedSender<Asked>],
    to: MasterSet,
    operation: u64,
    token: Token,
    words: &RequestWords,
) {
    for master in to.iter() {
        let _ = links[master.index()].send((operation, token, words.clone()));
    }
}

fn job(world: &World, key: Option<usize>, name: &str) -> Job {
    let declared = place(key.unwrap_or(0));
    Job {
        program: Arc::clone(&world.programs[usize::from(key.is_none())]),
        db: 0,
        runner: None,
        is_read_only: false,
        keys: vec![declared.key.clone()],
        argv: vec![Bytes::from(name.to_owned())],
        places: vec![declared],
        watched: Vec::new(),
    }
}

/// Lists in a reply.
fn lists(frame: &[u8]) -> Vec<Vec<String>> {
    let (reply, _) = Wire::parse(frame).expect("a whole frame");
    let Wire::Array(items) = reply else { panic!("{reply:?}") };
    let list = |item: &Wire| match item {
        Wire::Array(items) => items.iter().map(Wire::text).collect(),
        other => panic!("{other:?}"),
    };
    match items.first() {
        Some(Wire::Array(_)) => items.iter().map(list).collect(),
        _ => vec![items.iter().map(Wire::text).collect()],
    }
}

/// Checks that every answer is a prefix of the key's final list, ends with its own name, and
/// contains everything answered before it began. No name occurs twice, and names on both keys are
/// in the same order.
fn check(events: &[Event], last: &[Vec<String>; 2]) {
    for list in last {
        let names: std::collections::BTreeSet<_> = list.iter().collect();
        assert_eq!(names.len(), list.len(), "a program ran twice: {list:?}");
    }
    let both = |list: &[String], other: &[String]| -> Vec<String> {
        list.iter().filter(|name| other.contains(name)).cloned().collect()
    };
    assert_eq!(both(&last[0], &last[1]), both(&last[1], &last[0]), "two orders");
    for event in events {
        let keys = event.key.map_or(vec![0, 1], |key| vec![key]);
        let Some((_, lists)) = &event.answer else { continue };
        for (key, list) in keys.iter().zip(lists) {
            assert!(last[*key].starts_with(list), "{}: {list:?} of {:?}", event.name, last[*key]);
            assert_eq!(list.last(), Some(&event.name));
            let before = events.iter().filter(|other| {
                other.key.is_none_or(|other| other == *key)
                    && other.answer.as_ref().is_some_and(|(ended, _)| *ended < event.began)
            });
            for other in before {
                assert!(list.contains(&other.name), "{} is not in {list:?}", other.name);
            }
        }
    }
    // A program on both keys is on both or on neither.
    for event in events.iter().filter(|event| event.key.is_none()) {
        let is_on = |key: usize| last[key].contains(&event.name);
        assert_eq!(is_on(0), is_on(1), "half of {} is there", event.name);
    }
}

#[tokio::test]
async fn programs_of_many_clients_run_once_and_in_one_order() {
    if target_is_plain_redis() {
        return;
    }
    let seed = crate::support::setting("KEYSPACE_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("KEYSPACE_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let masters: Vec<_> = (0..MASTERS).map(|_| Master::start()).collect();
    let script_rules = ScriptRules {
        pad: Pad::new(Duration::ZERO, 0.0),
        longest: None,
        sees_all_keys: true,
        tells: Tells::NOTHING,
    };
    let program = |lua: &str| Arc::new(ProgramText::wrap(lua.as_bytes(), "sha", script_rules));
    let world = Rc::new(World {
        addresses: masters.iter().map(Master::address).collect(),
        programs: [program(ONE), program(TWO), program(READ)],
        clock: Cell::new(0),
        events: RefCell::default(),
    });
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let clients = (0..CLIENTS).map(|number| {
                tokio::task::spawn_local(client(Rc::clone(&world), number, rng.fork()))
            });
            for client in clients.collect::<Vec<_>>() {
                client.await.expect("no panic");
            }
            let (sender, mut heard) = mpsc::unbounded_channel();
            let mut links = Vec::new();
            for (index, address) in world.addresses.iter().enumerate() {
                let (requests, received) = mpsc::unbounded_channel();
                let (master, address) = (MasterId::new(index), address.clone());
                let link = link(address, master, received, sender.clone(), rng.fork());
                tokio::task::spawn_local(link);
                links.push(requests);
            }
            let job = Job {
                program: Arc::clone(&world.programs[2]),
                keys: vec![place(0).key, place(1).key],
                places: vec![place(0), place(1)],
                ..job(&world, Some(0), "")
            };
            let mut last = loop {
                let job = job.clone();
                if let (Some(reply), _) =
                    run(job, CLIENTS, None, &links, &mut heard, &mut rng).await
                {
                    break lists(&reply);
                }
            };
            let events = world.events.borrow();
            let answered = events.iter().filter(|event| event.answer.is_some()).count();
            eprintln!("{answered} of {} were answered", events.len());
            assert!(answered > events.len() / 2);
            check(&events, &[last.remove(0), last.remove(0)]);
        })
        .await;
}
