//! One or several gateways that are measured, with the Redis they share; and the proof afterwards that their limits were on.

use super::books::{self, Expected};
use super::gateway::{Gateway, SPENT, WIDE, Wanted, cost};
use super::generator::Watched;
use super::nginx::USED;
use super::redis::Redis;
use super::{probe, process};
use crate::bench::{Bench, CUSTOMERS};
use crate::load::Report;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What is measured.
pub struct Side {
    pub gateways: Vec<Gateway>,
    pub redis: Option<Redis>,
    /// What the first of them is like, and where its files are.
    wanted: Wanted,
    directory: PathBuf,
    /// What the upstream had answered before.
    handled: u64,
    /// Requests of the probes that were admitted.
    probed: u64,
}

/// What is to be started.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    pub name: &'a str,
    pub redis: bool,
    pub gateways: usize,
    pub slots: usize,
    pub upstream: Option<SocketAddr>,
    pub more: &'a str,
    /// A program that runs the gateway, with its arguments.
    pub under: &'a [String],
}

impl<'a> Setup<'a> {
    /// One gateway, which keeps its books itself, before the upstream that answers at once.
    pub const fn new(name: &'a str) -> Self {
        Self { name, redis: false, gateways: 1, slots: 64, upstream: None, more: "", under: &[] }
    }
}

/// What was sent to a side, to be found in its books.
pub struct Sent {
    /// Requests that were admitted, warming up included.
    pub admitted: u64,
    /// What they cost, nano-dollars.
    pub spent: u64,
    /// Requests that went to the same upstream past the gateways; `None` where the upstream does not count.
    pub beside: Option<u64>,
    /// What must be in the books.
    pub expected: Vec<Expected>,
}

impl Sent {
    /// Of the usual customers, answered by the upstream that answers at once.
    pub fn usual(loads: &[&Report], beside: u64) -> Self {
        Self { beside: Some(beside), ..Self::of(loads, USED) }
    }

    /// Of the usual customers, every answer with the same usage.
    pub fn of(loads: &[&Report], usage: (u64, u64)) -> Self {
        let admitted = loads.iter().map(|report| report.status(200)).sum::<u64>();
        let (spent, customers) = (admitted * cost(usage), (0..CUSTOMERS).map(|number| format!("c{number}")).collect());
        Self { admitted, spent, beside: None, expected: vec![Expected::Together(customers, spent)] }
    }
}

impl Side {
    /// Starts it, and sends the probes.
    pub async fn start(bench: &Bench, setup: Setup<'_>) -> Result<Self, String> {
        let handled = bench.upstream.handled().await?;
        let directory = bench.scratch.join(setup.name);
        std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
        let redis = if setup.redis { Some(Redis::start(&directory)?) } else { None };
        let wanted = |number: usize| Wanted {
            name: format!("gateway{number}"),
            upstream: setup.upstream.unwrap_or(bench.upstream.address),
            redis: redis.as_ref().map(Redis::url),
            slots: setup.slots,
            cap: WIDE,
            more: setup.more.to_owned(),
            under: setup.under.to_vec(),
        };
        let mut gateways = Vec::new();
        for number in 0..setup.gateways {
            gateways.push(wanted(number).start(&bench.options.tollgate, &directory).await?);
        }
        let mut side = Self { gateways, wanted: wanted(0), redis, directory, handled, probed: 0 };
        // The probes are answered by the upstream that answers at once, or by none.
        if setup.upstream.is_none() {
            let first = side.gateways.first().ok_or("no gateway")?;
            side.probed = probe::all(first).await?.iter().map(|(_, admitted)| admitted).sum();
        }
        Ok(side)
    }

    pub fn targets(&self) -> Vec<SocketAddr> {
        self.gateways.iter().map(|gateway| gateway.address).collect()
    }

    pub fn watched(&self, bench: &Bench) -> Watched {
        let mut watched = bench.direct();
        watched.push(("tollgate", self.gateways.iter().map(|gateway| gateway.process.id()).collect()));
        watched.extend(self.redis.as_ref().map(|redis| ("redis", vec![redis.process.id()])));
        watched
    }

    /// Bytes of the gateways in RAM.
    pub fn memory(&self) -> u64 {
        self.gateways.iter().map(|gateway| process::memory(gateway.process.id())).sum()
    }

    /// Ends it. Fails unless every admitted request reached the upstream, is in the access log and in the books at its price, nothing is held,
    /// and the audit is clean. Gives how many records of requests were not kept.
    pub async fn prove(mut self, bench: &Bench, sent: &Sent) -> Result<u64, String> {
        let (mut dropped, mut spent) = (0, 0);
        for gateway in &self.gateways {
            gateway.settled().await?;
            // What was decided without Redis is another thing than what was to be measured.
            let away = gateway.metric("tollgate_store_outages_total").await.unwrap_or(0);
            if away > 0 {
                return Err(format!(
                    "Redis did not answer in time and was taken for away {away} times; is the machine busy with other things?"
                ));
            }
            dropped += gateway.metric("tollgate_records_dropped").await.unwrap_or(0);
            spent += gateway.metric("tollgate_spent_nano_usd_total").await.unwrap_or(0);
        }
        let right = sent.spent + self.probed * cost(USED);
        if spent != right {
            return Err(format!("{spent} nano-dollars were booked, {right} are right"));
        }
        let all = sent.admitted + self.probed;
        if let Some(beside) = sent.beside {
            let handled = bench.upstream.handled().await? - self.handled - 1;
            if handled != all + beside {
                return Err(format!("the upstream answered {handled} requests, {} were admitted", all + beside));
            }
        }
        for gateway in &mut self.gateways {
            if !gateway.process.stop()? {
                return Err("the gateway did not end well".to_owned());
            }
        }
        let logged: u64 = self.gateways.iter().map(|gateway| gateway.logged(200)).sum::<Result<_, _>>()?;
        if logged != all {
            return Err(format!("{logged} admitted requests are in the access log, {all} were"));
        }
        self.gateways[0].audit()?;
        // Started once more on the same books, with a cap that everybody has reached.
        let again = Wanted { cap: SPENT, ..self.wanted.clone() };
        let again = again.start(&bench.options.tollgate, &self.directory).await?;
        books::compare(&again, &sent.expected).await?;
        Ok(dropped)
    }
}
