//! Requests that differ one by one: each key in its turn, where `redis-benchmark` can only draw.

use std::time::Instant;

use anyhow::Result;
use hdrhistogram::Histogram;

use crate::deployment::{self, Deployment};
use crate::load::{Cost, Run};

/// The requests `0..requests`. Connection `c` of `n` sends `c`, `c + n`, `c + 2n`, and so on.
pub(crate) struct Sweep<F> {
    pub(crate) connections: u32,
    pub(crate) pipeline: u32,
    pub(crate) requests: u32,
    /// The request of this number.
    pub(crate) request: F,
}

impl<F: Fn(u32) -> redis::Cmd + Sync> Sweep<F> {
    /// Sends all of them, and measures that.
    pub(crate) fn run(&self, deployment: &Deployment) -> Result<Run> {
        let ((seconds, latency_us), cost) = Cost::of(deployment, self.requests, || {
            let started = Instant::now();
            let latency_us = self.send_to(deployment.port)?;
            Ok((started.elapsed().as_secs_f64(), latency_us))
        })?;
        let quantile_ms = |quantile| latency_us.value_at_quantile(quantile) as f64 / 1e3;
        Ok(Run {
            requests: self.requests,
            per_second: f64::from(self.requests) / seconds,
            p50_ms: quantile_ms(0.5),
            p99_ms: quantile_ms(0.99),
            cost,
        })
    }

    /// Sends all of them. Returns how long the replies to each pipeline took, in microseconds.
    ///
    /// # Errors
    /// When any of them is answered with an error.
    pub(crate) fn send_to(&self, port: u16) -> Result<Histogram<u64>> {
        std::thread::scope(|threads| {
            let share = |index| threads.spawn(move || self.send_share(index, port));
            let shares: Vec<_> = (0..self.connections).map(share).collect();
            let mut all = Histogram::new(3)?;
            for share in shares {
                all.add(share.join().expect("a connection does not panic")?)?;
            }
            Ok(all)
        })
    }

    /// Sends what one connection has to send.
    fn send_share(&self, index: u32, port: u16) -> Result<Histogram<u64>> {
        let mut connection = deployment::connection(port)?;
        let mut latency_us = Histogram::new(3)?;
        let numbers: Vec<u32> = (index..self.requests).step_by(self.connections as usize).collect();
        for numbers in numbers.chunks(self.pipeline as usize) {
            let mut pipe = redis::pipe();
            for &number in numbers {
                pipe.add_command((self.request)(number)).ignore();
            }
            let sent = Instant::now();
            pipe.exec(&mut connection)?;
            latency_us.record(sent.elapsed().as_micros() as u64)?;
        }
        Ok(latency_us)
    }
}

/// A command, with [`KEY`] where the key is.
pub(crate) type Words = &'static [&'static str];

/// Where [`Words`] have their key.
pub(crate) const KEY: &str = "KEY";

/// `words` for the key of this number.
pub(crate) fn with_key(words: &[&str], number: u32) -> redis::Cmd {
    let key = key(number);
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(if *word == KEY { &key } else { *word });
    }
    command
}

/// The key that `redis-benchmark` makes of `key:__rand_int__`: it writes twelve digits.
pub(crate) fn key(number: u32) -> String {
    format!("key:{number:012}")
}
