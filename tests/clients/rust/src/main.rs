//! Runs the checks of one Rust client, or only holds or tries locks. Called by `run`.

mod checks;
mod library;
mod redis_crate;
mod rslock_manager;

use std::time::Duration;

use anyhow::{Context, ensure};
use checks::{LONG, check};
use library::{Library, Lock};

const HOLD: Duration = Duration::from_secs(120);

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [action, client, keys @ ..] = arguments.as_slice() else {
        anyhow::bail!("usage: check ID | hold ID KEY... | try ID KEY...");
    };
    let address = std::env::var("REDLOCK_ADDRESS").context("REDLOCK_ADDRESS")?;
    match client.as_str() {
        "redis-rs" => act(action, redis_crate::connect(&address, "resp2").await?, keys).await,
        "redis-rs-resp3" => act(action, redis_crate::connect(&address, "resp3").await?, keys).await,
        "rslock" => act(action, rslock_manager::connect(&address).await?, keys).await,
        _ => anyhow::bail!("no client of Rust is called {client}"),
    }
}

async fn act(action: &str, library: impl Library, keys: &[String]) -> anyhow::Result<()> {
    match action {
        "check" => check(&library).await,
        "hold" => hold(&library, keys).await,
        "try" => try_to_take(&library, keys).await,
        _ => anyhow::bail!("cannot {action}"),
    }
}

async fn hold(library: &impl Library, keys: &[String]) -> anyhow::Result<()> {
    for key in keys {
        ensure!(library.lock(key, HOLD).acquire().await?, "{key} is not free");
        println!("held\t{key}");
    }
    Ok(())
}

async fn try_to_take(library: &impl Library, keys: &[String]) -> anyhow::Result<()> {
    for key in keys {
        let taken = library.lock(key, LONG).acquire().await?;
        println!("{}\t{key}", if taken { "taken" } else { "refused" });
    }
    Ok(())
}
