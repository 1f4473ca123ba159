//! The checks of every lock, in the order of the table.

use std::fs::File;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::timeout;

use crate::library::{Library, Lock};

pub const LONG: Duration = Duration::from_secs(60);
const LONGER: Duration = Duration::from_secs(90);
const SHORT: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(20);

pub async fn check(library: &impl Library) -> Result<()> {
    let name = new_name();
    let (mut mine, mut other) = (library.lock(&name, LONG), library.lock(&name, LONG));
    report("acquire", acquire(&mut mine).await)?;
    middle().await?;
    report("refuse", refuse(&mut other).await)?;
    report("extend", extend(library, &name, &mut mine).await)?;
    report("stranger", stranger(library, &name, &mut other).await)?;
    report("release", release(library, &name, &mut mine, &mut other).await)?;
    report("expire", expire(library).await)?;
    report("wait", wait(library).await)?;
    library.more().await?;
    println!("all locks held");
    Ok(())
}

pub fn report(name: &str, outcome: Result<()>) -> Result<()> {
    outcome.with_context(|| format!("the check {name} failed"))?;
    println!("{name}\tpassed");
    Ok(())
}

pub fn new_name() -> String {
    format!("lock {:032x}", fastrand::u128(..))
}

async fn acquire(mine: &mut impl Lock) -> Result<()> {
    ensure!(mine.acquire().await?, "a free lock was refused");
    Ok(())
}

async fn refuse(other: &mut impl Lock) -> Result<()> {
    ensure!(!other.acquire().await?, "two hold one lock");
    Ok(())
}

async fn extend(library: &impl Library, name: &str, mine: &mut impl Lock) -> Result<()> {
    mine.extend(LONGER).await?;
    let left_ms = library.pttl(name).await?;
    ensure!(left_ms > 60_000, "{left_ms} ms left after an extension");
    Ok(())
}

async fn stranger(library: &impl Library, name: &str, other: &mut impl Lock) -> Result<()> {
    let told = other.release_as_stranger().await?;
    ensure!(told != Some(true), "a stranger was told that it had released the lock");
    ensure!(library.pttl(name).await? > 0, "a stranger released the lock");
    refuse(other).await
}

async fn release<L: Library>(
    library: &L,
    name: &str,
    mine: &mut L::Lock,
    other: &mut L::Lock,
) -> Result<()> {
    let told = mine.release().await?;
    ensure!(told != Some(false), "the holder was told that it does not hold the lock");
    ensure!(library.pttl(name).await? == -2, "the released lock is still there");
    ensure!(other.acquire().await?, "a released lock was refused");
    ensure!(other.release().await? != Some(false));
    Ok(())
}

async fn expire(library: &impl Library) -> Result<()> {
    let name = new_name();
    let (mut late, mut following) = (library.lock(&name, SHORT), library.lock(&name, LONG));
    acquire(&mut late).await?;
    timeout(PATIENCE, following.wait()).await.context("the lock does not expire")??;
    let told = late.release().await?;
    ensure!(told != Some(true), "the late holder was told that it had released the lock");
    ensure!(library.pttl(&name).await? > 0, "the late holder released somebody else's lock");
    ensure!(following.release().await? != Some(false));
    Ok(())
}

async fn wait(library: &impl Library) -> Result<()> {
    let name = new_name();
    let (mut first, mut second) = (library.lock(&name, LONG), library.lock(&name, LONG));
    acquire(&mut first).await?;
    {
        let mut waiter = pin!(second.wait());
        let early = timeout(Duration::from_millis(300), &mut waiter).await;
        ensure!(early.is_err(), "somebody who waits got {early:?} while the lock was held");
        ensure!(first.release().await? != Some(false));
        timeout(PATIENCE, waiter).await.context("who waits does not get the lock")??;
    }
    ensure!(second.release().await? != Some(false));
    Ok(())
}

/// Lets the harness break something while a lock is held, and continues when that is done.
async fn middle() -> Result<()> {
    let Ok(path) = std::env::var("REDLOCK_MIDDLE") else { return Ok(()) };
    File::create_new(&path)?;
    let done = format!("{path}.done");
    let appears = async {
        while !Path::new(&done).exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(30), appears).await.with_context(|| format!("nobody wrote {done}"))
}
