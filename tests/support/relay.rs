//! A network between the proxy and one master that a test can make slow, silent or broken, and then
//! heal.

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

/// Forwards TCP connections to one master. It runs on its own thread, so that a busy test does not
/// slow it down.
pub struct Relay {
    address: SocketAddr,
    network: watch::Sender<Network>,
    seen: Arc<Seen>,
    _end_of_thread: oneshot::Sender<()>,
}

/// Current behaviour of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Network {
    towards_master: Duration,
    towards_proxy: Duration,
    /// Whether bytes wait, as they do in TCP when packets are lost. They arrive late if the
    /// connection lives long enough.
    silent: bool,
    /// Same as `silent`, for the masters' answers only.
    withheld: bool,
    /// Text that traps a connection once the proxy sends it, and the fate of that connection.
    trap: Option<(&'static str, Fate)>,
    /// Destination of new connections, if not the master that the relay was made for.
    leads_to: Option<SocketAddr>,
    /// Whether connections are refused.
    broken: bool,
    /// Connections of an earlier epoch are reset.
    epoch: u64,
}

/// Counters of past events.
#[derive(Debug, Default)]
struct Seen {
    refused: AtomicUsize,
    caught: AtomicUsize,
}

/// Treatment of a trapped connection from then on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// Nothing more is delivered to the master.
    Swallowed,
    /// Nothing more is delivered until the network is healed.
    HeldBack,
    /// Everything is delivered, but the answers are held back until the network is healed.
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

    /// A healthy network in which open connections stay as they are.
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
    /// Starts a relay in front of `master`. At first it only forwards.
    pub fn to(master: &Master) -> Relay {
        Relay::to_address(&master.address())
    }

    /// Starts a relay in front of any address, such as another relay's.
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

    /// Starts a relay in front of one of `masters`. Also returns the addresses of all masters, with
    /// the relay's in place of that one.
    pub fn in_place_of(masters: &Masters, index: usize) -> (Relay, Vec<String>) {
        let relay = Relay::to(&masters[index]);
        let mut addresses = masters.addresses();
        addresses[index] = relay.address();
        (relay, addresses)
    }

    /// Starts a relay in front of one of `masters`, and a proxy that uses it. The proxy may log
    /// warnings about that master.
    pub fn between(masters: &Masters, index: usize, flags: &[&str]) -> (Relay, Proxy) {
        let (relay, addresses) = Relay::in_place_of(masters, index);
        let proxy = Proxy::in_front_of(&addresses, flags);
        proxy.expect_warnings();
        (relay, proxy)
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Delays every byte, with a separate delay for each direction.
    pub fn delay(&self, towards_master: Duration, towards_proxy: Duration) {
        self.network.send_modify(|network| {
            network.towards_master = towards_master;
            network.towards_proxy = towards_proxy;
        });
    }

    /// Stops delivery in both directions, without closing connections.
    pub fn black_hole(&self) {
        self.network.send_modify(|network| network.silent = true);
    }

    /// Stops the master's answers from arriving. Requests still arrive.
    pub fn withhold_answers(&self) {
        self.network.send_modify(|network| network.withheld = true);
    }

    /// Heals the network, except for connections on which the proxy sends `text` in one piece.
    /// Neither that nor anything after it ever arrives, and the connections stay open.
    pub fn swallow(&self, text: &'static str) {
        self.trap(text, Fate::Swallowed);
    }

    /// Same as [`Relay::swallow`], but the data arrives once the network is healed or holds back
    /// something else.
    pub fn hold_back(&self, text: &'static str) {
        self.trap(text, Fate::HeldBack);
    }

    /// Same as [`Relay::hold_back`], but all requests arrive and only the master's answers are held
    /// back until the network is healed.
    pub fn hold_back_answers_to(&self, text: &'static str) {
        self.trap(text, Fate::Unanswered);
    }

    fn trap(&self, text: &'static str, fate: Fate) {
        self.network.send_modify(|network| {
            *network = Network { trap: Some((text, fate)), ..network.healed() };
        });
    }

    /// Leads new connections to `address` from now on. Open ones stay where they are, as when a
    /// name comes to mean another instance.
    pub fn lead_to(&self, address: &str) {
        let address = parsed(address);
        self.network.send_modify(|network| network.leads_to = Some(address));
    }

    /// Number of connections swallowed or held back so far.
    pub fn caught(&self) -> usize {
        self.seen.caught.load(Ordering::Relaxed)
    }

    /// Number of connections refused so far.
    pub fn refused(&self) -> usize {
        self.seen.refused.load(Ordering::Relaxed)
    }

    /// Resets the open connections; data in flight is lost. New connections work.
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

    /// Same as [`Relay::cut`], but returns only once the client of the relay has noticed and tried
    /// to reconnect.
    pub async fn cut_off(&self) {
        let before = self.refused();
        self.cut();
        let is_noticed = async || (self.refused() > before).then_some(());
        super::eventually("somebody finds out that the network is cut", is_noticed).await;
    }

    /// Restores the network. Data held back by a black hole arrives now, unless its connection is
    /// gone.
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

/// Carries one of the proxy's connections until either side closes or the network breaks it.
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
        // Either side's end ends the connection; the proxy never half-closes.
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
    /// Whether something was sent whose answer is withheld for now.
    unanswered: &'a AtomicBool,
}

/// Carries bytes one way. They are timestamped on arrival and leave in order, so a delay does not
/// limit throughput.
///
/// If a sender closes, its last bytes are still delivered, late if need be: its kernel would go on
/// sending them. If a sender resets, data that has not arrived yet is discarded.
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
