//! A network between the proxy and one master that a test can make slow, silent or broken, and
//! whole again.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::{Master, Masters};

/// Forwards TCP connections to one master. It runs on a thread of its own, so that a busy test does
/// not slow it down.
pub struct Relay {
    address: SocketAddr,
    network: watch::Sender<Network>,
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
    /// Connections are refused.
    broken: bool,
    /// A connection of an earlier epoch is reset.
    epoch: u64,
}

impl Relay {
    /// In front of `master`, and at first invisible.
    pub fn to(master: &Master) -> Relay {
        let (network, watching) = watch::channel(Network::default());
        let (end, ended) = oneshot::channel();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a non-blocking listener");
        let address = listener.local_addr().expect("the relay's address");
        let master: SocketAddr = master.address().parse().expect("the master's address");
        std::thread::spawn(move || run(listener, master, watching, ended));
        Relay { address, network, _end_of_thread: end }
    }

    /// In front of one of `masters`, and the addresses of all by which it is reached through the relay.
    pub fn in_place_of(masters: &Masters, index: usize) -> (Relay, Vec<String>) {
        let relay = Relay::to(&masters[index]);
        let mut addresses = masters.addresses();
        addresses[index] = relay.address();
        (relay, addresses)
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

    /// The network is as good as new. What a black hole held back arrives now, unless its
    /// connection is gone.
    pub fn heal(&self) {
        self.network.send_modify(|network| {
            *network = Network { epoch: network.epoch, ..Network::default() };
        });
    }
}

fn run(
    listener: std::net::TcpListener,
    master: SocketAddr,
    network: watch::Receiver<Network>,
    ended: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime for the relay").block_on(async {
        let listener = TcpListener::from_std(listener).expect("the relay's listener");
        tokio::select! {
            () = accept(listener, master, network) => (),
            _ = ended => (),
        }
    });
}

async fn accept(listener: TcpListener, master: SocketAddr, network: watch::Receiver<Network>) {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connect(stream, master, network.clone()));
        }
    }
}

/// One connection of the proxy's, until either side closes or the network breaks it.
async fn connect(client: TcpStream, master: SocketAddr, mut network: watch::Receiver<Network>) {
    let now = *network.borrow();
    let Some(server) = dial(master, now, &mut network).await else { return reset(&client) };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let there = pump(from_client, to_server, network.clone(), |network| network.towards_master);
    let back = pump(from_server, to_client, network.clone(), |network| network.towards_proxy);
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
    TcpStream::connect(master).await.ok()
}

fn reset(stream: &TcpStream) {
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Carries bytes one way. They are stamped when they come in and leave in order, so a delay does
/// not limit throughput.
///
/// A sender that closes has its last bytes delivered, late if need be: its kernel would go on
/// sending them. A sender that resets takes back what has not arrived yet.
async fn pump(
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    network: watch::Receiver<Network>,
    delay: fn(&Network) -> Duration,
) {
    let (queue, waiting) = mpsc::unbounded_channel();
    let _ =
        tokio::try_join!(stamp(from, queue, network.clone(), delay), deliver(to, waiting, network));
}

async fn stamp(
    mut from: OwnedReadHalf,
    queue: mpsc::UnboundedSender<(Instant, Vec<u8>)>,
    network: watch::Receiver<Network>,
    delay: fn(&Network) -> Duration,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let length = from.read(&mut buffer).await?;
        let due = Instant::now() + delay(&network.borrow());
        if length == 0 || queue.send((due, buffer[..length].to_vec())).is_err() {
            return Ok(());
        }
    }
}

async fn deliver(
    mut to: OwnedWriteHalf,
    mut waiting: mpsc::UnboundedReceiver<(Instant, Vec<u8>)>,
    mut network: watch::Receiver<Network>,
) -> std::io::Result<()> {
    while let Some((due, bytes)) = waiting.recv().await {
        tokio::time::sleep_until(due).await;
        if network.wait_for(|network| !network.silent).await.is_err() {
            break;
        }
        to.write_all(&bytes).await?;
    }
    Ok(())
}
