//! Cost of an idle connection.

use std::net::TcpStream;

use anyhow::{Context, Result, ensure};

use crate::deployment::Deployment;
use crate::process::open_files_limit;
use crate::report::Table;
use crate::settings::Settings;
use crate::wire;

pub(crate) fn measure(settings: &Settings) -> Result<Table> {
    let count = affordable(settings.connections);
    let proxy = Deployment::proxy(&settings.proxy, 3)?;
    let deployments = [Deployment::direct()?, Deployment::twemproxy()?, proxy];
    table(&format!("{count} idle connections"), &deployments, count, &[b"PING"])
}

/// Returns the table for this number of connections, each of which has sent one request.
pub(crate) fn table(
    heading: &str,
    deployments: &[Deployment],
    count: u32,
    request: &[&[u8]],
) -> Result<Table> {
    let mut table = Table::new(heading, READING, &COLUMNS);
    for deployment in deployments {
        table.row(row(deployment, count, request)?);
    }
    Ok(table)
}

/// Returns the wanted number of connections, limited to what this process and its servers may have open.
pub(crate) fn affordable(wanted: u32) -> u32 {
    let limit = u32::try_from(open_files_limit()).unwrap_or(u32::MAX);
    wanted.min(limit.saturating_sub(SPARE_FILES))
}

fn row(deployment: &Deployment, count: u32, request: &[&[u8]]) -> Result<Vec<String>> {
    let before = deployment.front().resident_bytes()?;
    let _held = connect_all(deployment.port, count, request)?;
    let after = deployment.front().resident_bytes()?;
    let each = after.saturating_sub(before) as f64 / f64::from(count);
    eprintln!("{:<28} {:.0} bytes per connection", deployment.name, each);
    Ok(vec![
        deployment.name.clone(),
        format!("{:.1}", before as f64 / MEBI),
        format!("{:.1}", after as f64 / MEBI),
        format!("{:.2}", each / KIBI),
    ])
}

/// Serves every connection once, so that memory allocated on first use is counted.
fn connect_all(port: u16, count: u32, request: &[&[u8]]) -> Result<Vec<TcpStream>> {
    let connect = || {
        let mut connection = wire::connect(port)?;
        let reply = wire::ask(&mut connection, request)?;
        ensure!(["+PONG", "*0"].contains(&&*reply), "the reply is {reply}");
        Ok(connection)
    };
    (1..=count).map(|number| connect().with_context(|| format!("connection {number}"))).collect()
}

const COLUMNS: [&str; 4] = ["clients talk to", "MiB before", "MiB with all", "KiB per connection"];

const READING: &str = "Resident memory (`VmRSS`) of the process the clients are connected to, before and \
after; every connection has sent one request. The kernel's socket buffers are not in it.";

const SPARE_FILES: u32 = 100;
const KIBI: f64 = 1024.0;
const MEBI: f64 = 1024.0 * KIBI;
