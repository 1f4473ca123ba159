//! A network between the proxy and one master that a test can make slow, silent or broken, and
//! whole again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::{Master, Masters, Proxy};

/// Forwards TCP connections to one master. It runs on a thread of its own, so that a busy test does
/// not slow it down.
pub struct Relay {
    address: SocketAddr,
    network: watch::Sender<Network>,
    seen: Arc<Seen>,
    _end_of_thread: oneshot::Sender<()>,
}

/// How the network behaves at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Network {
    towards_master: Duration,
    towards_proxy: Duration,
    /// Bytes wait, as TCP lets them wait when packets are lost, and arrive late if the connection
    /// lives that long.
    silent: bool,
    /// The same, only for what masters answer.
    withheld: bool,
    /// What becomes of a connection on which the proxy sends this.
    trap: Option<(&'static str, Fate)>,
    /// Where new connections lead, if not to the master that the relay was made for.
    leads_to: Option<SocketAddr>,
    /// Connections are refused.
    broken: bool,
    /// A connection of an earlier epoch is reset.
    epoch: u64,
}

/// How often something has happened.
#[derive(Debug, Default)]
struct Seen {
    refused: AtomicUsize,
    caught: AtomicUsize,
}

/// From there on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// Nothing is delivered to the master any more.
    Swallowed,
    /// Nothing is, until the network is healed.
    HeldBack,
    /// Everything is, and the answers are held back until the network is healed.
    Unanswered,
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    TowardsMaster,
    TowardsProxy,
}

impl Network {
    fn delay(&self, way: Way) -> Duration {
        match way {
            Way::TowardsMaster => self.towards_master,
            Way::TowardsProxy => self.towards_proxy,
        }
    }

    fn lets_through(&self, way: Way) -> bool {
        !(self.silent || self.withheld && way == Way::TowardsProxy)
    }

    /// As good as new, and open connections stay what they are.
    fn healed(&self) -> Network {
        Network { epoch: self.epoch, leads_to: self.leads_to, ..Network::default() }
    }

    fn catches(&self, way: Way, bytes: &[u8]) -> Option<Fate> {
        let (text, fate) = self.trap?;
        let contains = || bytes.windows(text.len()).any(|part| part == text.as_bytes());
        (way == Way::TowardsMaster && contains()).then_some(fate)
    }
}

impl Relay {
    /// In front of `master`, and at first invisible.
    pub fn to(master: &Master) -> Relay {
        Relay::to_address(&master.address())
    }

    /// The same, in front of any address: another relay's, say.
    pub fn to_address(to: &str) -> Relay {
        let (network, watching) = watch::channel(Network::default());
        let (end, ended) = oneshot::channel();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a non-blocking listener");
        let address = listener.local_addr().expect("the relay's address");
        let master: SocketAddr = parsed(to);
        let seen = Arc::<Seen>::default();
        let counting = Arc::clone(&seen);
        std::thread::spawn(move || run(listener, master, watching, counting, ended));
        Relay { address, network, seen, _end_of_thread: end }
    }

    /// In front of one of `masters`, and the addresses of all by which it is reached through the relay.
    pub fn in_place_of(masters: &Masters, index: usize) -> (Relay, Vec<String>) {
        let relay = Relay::to(&masters[index]);
        let mut addresses = masters.addresses();
        addresses[index] = relay.address();
        (relay, addresses)
    }

    /// In front of one of `masters`, and a proxy that reaches it through the relay: it may warn of what is done to it.
    pub fn between(masters: &Masters, index: usize, flags: &[&str]) -> (Relay, Proxy) {
        let (relay, addresses) = Relay::in_place_of(masters, index);
        let proxy = Proxy::in_front_of(&addresses, flags);
        proxy.expect_warnings();
        (relay, proxy)
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Delays every byte, each direction by its own time.
    pub fn delay(&self, towards_master: Duration, towards_proxy: Duration) {
        self.network.send_modify(|network| {
            network.towards_master = towards_master;
            network.towards_proxy = towards_proxy;
        });
    }

    /// Nothing arrives any more, in either direction, and nobody is told.
    pub fn black_hole(&self) {
        self.network.send_modify(|network| network.silent = true);
    }

    /// What masters answer does not arrive any more; what they are sent does.
    pub fn withhold_answers(&self) {
        self.network.send_modify(|network| network.withheld = true);
    }

    /// The network is as good as new, but for connections on which the proxy sends `text` in one piece:
    /// neither that nor what comes after it ever arrives, and nobody is told.
    pub fn swallow(&self, text: &'static str) {
        self.trap(text, Fate::Swallowed);
    }

    /// The same, but it arrives when the network is healed, or holds back something else.
    pub fn hold_back(&self, text: &'static str) {
        self.trap(text, Fate::HeldBack);
    }

    /// The same, but all of it arrives, and what the master answers is held back until the network is
    /// healed.
    pub fn hold_back_answers_to(&self, text: &'static str) {
        self.trap(text, Fate::Unanswered);
    }

    fn trap(&self, text: &'static str, fate: Fate) {
        self.network.send_modify(|network| {
            *network = Network { trap: Some((text, fate)), ..network.healed() };
        });
    }

    /// From now on new connections lead there; the open ones stay where they are, as when a name comes
    /// to mean another instance.
    pub fn lead_to(&self, address: &str) {
        let address = parsed(address);
        self.network.send_modify(|network| network.leads_to = Some(address));
    }

    /// How many connections have been swallowed or held back so far.
    pub fn caught(&self) -> usize {
        self.seen.caught.load(Ordering::Relaxed)
    }

    /// How many connections have been refused so far.
    pub fn refused(&self) -> usize {
        self.seen.refused.load(Ordering::Relaxed)
    }

    /// Resets the open connections; what was under way is lost. New connections work.
    pub fn reset(&self) {
        self.network.send_modify(|network| network.epoch += 1);
    }

    /// Resets the open connections and refuses new ones.
    pub fn cut(&self) {
        self.network.send_modify(|network| {
            network.epoch += 1;
            network.broken = true;
        });
    }

    /// The same, and returns when whoever is behind the relay has found out and tried to connect anew.
    pub async fn cut_off(&self) {
        let before = self.refused();
        self.cut();
        let is_noticed = async || (self.refused() > before).then_some(());
        super::eventually("somebody finds out that the network is cut", is_noticed).await;
    }

    /// The network is as good as new. What a black hole held back arrives now, unless its
    /// connection is gone.
    pub fn heal(&self) {
        self.network.send_modify(|network| *network = network.healed());
    }
}

fn parsed(address: &str) -> SocketAddr {
    address.parse().expect("an address and a port")
}

fn run(
    listener: std::net::TcpListener,
    master: SocketAddr,
    network: watch::Receiver<Network>,
    seen: Arc<Seen>,
    ended: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime for the relay").block_on(async {
        let listener = TcpListener::from_std(listener).expect("the relay's listener");
        tokio::select! {
            () = accept(listener, master, network, seen) => (),
            _ = ended => (),
        }
    });
}

async fn accept(
    listener: TcpListener,
    master: SocketAddr,
    network: watch::Receiver<Network>,
    seen: Arc<Seen>,
) {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connect(stream, master, network.clone(), Arc::clone(&seen)));
        }
    }
}

/// One connection of the proxy's, until either side closes or the network breaks it.
async fn connect(
    client: TcpStream,
    master: SocketAddr,
    mut network: watch::Receiver<Network>,
    seen: Arc<Seen>,
) {
    let now = *network.borrow();
    let Some(server) = dial(master, now, &mut network).await else {
        seen.refused.fetch_add(1, Ordering::Relaxed);
        return reset(&client);
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let unanswered = AtomicBool::new(false);
    let pump = |from, to, way| {
        let (network, seen, unanswered) = (network.clone(), &seen, &unanswered);
        pump(Pump { from, to, network, way, seen, unanswered })
    };
    let there = pump(from_client, to_server, Way::TowardsMaster);
    let back = pump(from_server, to_client, Way::TowardsProxy);
    let mut network = network.clone();
    tokio::select! {
        // Either side's end is the connection's end; the proxy never half-closes.
        () = there => (),
        () = back => (),
        _ = network.wait_for(|network| network.epoch != now.epoch) => (),
    }
}

async fn dial(
    master: SocketAddr,
    now: Network,
    network: &mut watch::Receiver<Network>,
) -> Option<TcpStream> {
    let state = *network.wait_for(|network| !network.silent || network.broken).await.ok()?;
    if state.broken || state.epoch != now.epoch {
        return None;
    }
    TcpStream::connect(state.leads_to.unwrap_or(master)).await.ok()
}

fn reset(stream: &TcpStream) {
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// One direction of a connection.
struct Pump<'a> {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    network: watch::Receiver<Network>,
    way: Way,
    seen: &'a Seen,
    /// Something has been sent that is not to be answered yet.
    unanswered: &'a AtomicBool,
}

/// Carries bytes one way. They are stamped when they come in and leave in order, so a delay does
/// not limit throughput.
///
/// A sender that closes has its last bytes delivered, late if need be: its kernel would go on
/// sending them. A sender that resets takes back what has not arrived yet.
async fn pump(pump: Pump<'_>) {
    let Pump { from, to, network, way, seen, unanswered } = pump;
    let (queue, waiting) = mpsc::unbounded_channel();
    let stamped = stamp(from, queue, network.clone(), way, (seen, unanswered));
    let held_back = (way == Way::TowardsProxy).then_some(unanswered);
    let _ = tokio::try_join!(stamped, deliver(to, waiting, network, held_back));
}

async fn stamp(
    mut from: OwnedReadHalf,
    queue: mpsc::UnboundedSender<(Instant, Vec<u8>)>,
    mut network: watch::Receiver<Network>,
    way: Way,
    (seen, unanswered): (&Seen, &AtomicBool),
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    let mut is_swallowed = false;
    loop {
        let length = from.read(&mut buffer).await?;
        let due = Instant::now() + network.borrow().delay(way);
        let trap = network.borrow().trap;
        let fate = network.borrow().catches(way, &buffer[..length]);
        seen.caught.fetch_add(usize::from(fate.is_some()), Ordering::Relaxed);
        match fate {
            None => {}
            Some(Fate::Swallowed) => is_swallowed = true,
            Some(Fate::Unanswered) => unanswered.store(true, Ordering::Relaxed),
            Some(Fate::HeldBack) => {
                let _ = network.wait_for(|network| network.trap != trap).await;
            }
        }
        if length == 0 || !is_swallowed && queue.send((due, buffer[..length].to_vec())).is_err() {
            return Ok(());
        }
    }
}

async fn deliver(
    mut to: OwnedWriteHalf,
    mut waiting: mpsc::UnboundedReceiver<(Instant, Vec<u8>)>,
    mut network: watch::Receiver<Network>,
    unanswered: Option<&AtomicBool>,
) -> std::io::Result<()> {
    let way = unanswered.map_or(Way::TowardsMaster, |_| Way::TowardsProxy);
    while let Some((due, bytes)) = waiting.recv().await {
        tokio::time::sleep_until(due).await;
        let is_held_back = unanswered.is_some_and(|unanswered| unanswered.load(Ordering::Relaxed));
        let may_pass = |network: &Network| {
            network.lets_through(way) && !(is_held_back && network.trap.is_some())
        };
        if network.wait_for(may_pass).await.is_err() {
            break;
        }
        if let Some(unanswered) = unanswered.filter(|_| is_held_back) {
            unanswered.store(false, Ordering::Relaxed);
        }
        to.write_all(&bytes).await?;
    }
    Ok(())
}
