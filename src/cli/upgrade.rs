//! SIGUSR2: the program starts itself again, and the new process takes over.

use std::ffi::OsString;
use std::io;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Returns the handler of SIGUSR2. If nothing can be handed over, it only logs a line.
pub fn on_request(has_handover: bool) -> impl FnMut() + Send + 'static {
    let is_under_way = Arc::new(AtomicBool::new(false));
    move || {
        if !has_handover {
            tracing::warn!(
                "SIGUSR2: nothing can be handed over without --handover: set it and start again"
            );
        } else if std::process::id() == 1 {
            tracing::warn!(
                "SIGUSR2: a container stops when its first process exits: replace the container instead"
            );
        } else if is_under_way.swap(true, Ordering::Relaxed) {
            tracing::warn!("SIGUSR2: a new process was started before and has not taken over yet");
        } else {
            start(&is_under_way);
        }
    }
}

fn start(is_under_way: &Arc<AtomicBool>) {
    let started = again().and_then(|child| {
        tracing::info!("SIGUSR2: process {} is to take over", child.id());
        let is_under_way = Arc::clone(is_under_way);
        let wait = std::thread::Builder::new().name("upgrade".to_owned());
        wait.spawn(move || wait_for(child, &is_under_way))
    });
    if let Err(why) = started {
        is_under_way.store(false, Ordering::Relaxed);
        tracing::error!(
            "SIGUSR2: the program cannot be started again ({why}): this process keeps serving"
        );
    }
}

/// Starts the program under the name that was typed: the version installed there may be new, and a link may have
/// changed.
fn again() -> io::Result<Child> {
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_else(|| OsString::from("redlock-proxy"));
    Command::new(program).args(words).spawn()
}

/// Waits for the child. A successor outlives this process; one that does not has logged its reason.
fn wait_for(mut child: Child, is_under_way: &AtomicBool) {
    let pid = child.id();
    let ended = child.wait().map_or_else(|why| why.to_string(), |status| status.to_string());
    is_under_way.store(false, Ordering::Relaxed);
    tracing::error!("process {pid} has not taken over ({ended}): this process keeps serving");
}
