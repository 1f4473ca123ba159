//! Signals. The first SIGTERM or SIGINT asks the process to end, the second forces it to. SIGHUP reloads the settings
//! that can change. SIGUSR2 starts the program again, to take over.

use std::io;

use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Listens for signals from now on, on a thread of its own. The receiver turns `true` with the first signal that asks
/// for the end. The second one calls `at_once` and ends the process with 128 plus the signal's number. Before that,
/// each SIGHUP calls `read_again`, and each SIGUSR2 calls `upgrade`.
///
/// # Errors
/// Returns an error if the system refuses a thread or a signal handler.
pub fn listen(
    mut read_again: impl FnMut() + Send + 'static,
    mut upgrade: impl FnMut() + Send + 'static,
    at_once: impl FnOnce() + Send + 'static,
) -> io::Result<watch::Receiver<bool>> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            user_2: signal(SignalKind::user_defined2())?,
        }
    };
    let (stop, stopping) = watch::channel(false);
    let listen = async move {
        let name = signals.end(&mut read_again, &mut upgrade).await.name();
        tracing::info!(
            "{name}: finishing requests in flight: send a second signal to stop at once"
        );
        // The receiver is gone only if the proxy is ending anyway.
        let _ = stop.send(true);
        let second = signals.end(|| (), || ()).await;
        tracing::warn!("second signal ({}): ending at once", second.name());
        at_once();
        std::process::exit(second.exit_code())
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(listen);
    })?;
    Ok(stopping)
}

/// Calls `act` with each SIGUSR1 from now on, on a thread of its own.
///
/// # Errors
/// Returns an error if the system refuses a thread or a signal handler.
pub fn on_user_1(mut act: impl FnMut() + Send + 'static) -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let mut user_1 = {
        let _entered = runtime.enter();
        signal(SignalKind::user_defined1())?
    };
    let listen = async move {
        while user_1.recv().await.is_some() {
            act();
        }
    };
    std::thread::Builder::new()
        .name("user-1".to_owned())
        .spawn(move || runtime.block_on(listen))?;
    Ok(())
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    user_2: Signal,
}

impl Signals {
    /// Waits for the next signal that asks for the end.
    async fn end(&mut self, mut on_hang_up: impl FnMut(), mut on_user_2: impl FnMut()) -> Received {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return Received::Interrupt,
                _ = self.terminate.recv() => return Received::Terminate,
                _ = self.hang_up.recv() => on_hang_up(),
                _ = self.user_2.recv() => on_user_2(),
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Received {
    Interrupt,
    Terminate,
}

impl Received {
    fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }

    /// Returns the exit code that a shell reports for a process killed by this signal.
    fn exit_code(self) -> i32 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}
