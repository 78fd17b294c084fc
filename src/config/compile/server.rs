//! The parts about the process itself: `[server]`, `[store]`, `[budget]`, `[retry]`, `[concurrency]`, `[pricing]`.

use super::Compiler;
use crate::config::choice;
use crate::config::file::{self, File};
use crate::config::policy::{Concurrency, LostHold, Outage, Retry, Server, StoreKind, Unbounded};
use crate::config::problem::Place;
use crate::config::read::{At, Known as _};
use crate::config::value::{self, Timeout};
use crate::degrade::breaker::Rules;
use crate::domain::{Priority, Zone};
use foldhash::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Slots when nothing is said.
const SLOTS: u64 = 32;

/// `[server]`, and where `listen` was said.
pub fn server(c: &mut Compiler<'_>, file: &File) -> (Server, Place) {
    let empty = file::Server::empty(file.place.clone());
    let file::Server { place, listen, max_body, header_timeout, body_idle_timeout, body_timeout, max_connections, grace, tls } =
        file.server.as_ref().unwrap_or(&empty);
    let at = listen.as_ref().map_or(place, |listen| &listen.place).clone();
    let timeout = |written: &Option<value::Timeout>, seconds| written.map_or(Duration::from_secs(seconds), |t| t.0);
    let server = Server {
        listen: listen.as_ref().map_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)), |listen| listen.value),
        max_body: max_body.map_or(32 << 20, |size| size.0),
        header_timeout: timeout(header_timeout, 10),
        body_idle_timeout: timeout(body_idle_timeout, 10),
        body_timeout: timeout(body_timeout, 120),
        max_connections: count(c, max_connections.as_ref(), 16_384, 1),
        grace: grace.map_or(Duration::from_secs(30), |wait| wait.0),
        tls: super::tls::tls(c, tls.as_ref()),
    };
    (server, at)
}

/// `[store]`
pub fn store(c: &mut Compiler<'_>, file: &File) -> StoreKind {
    let empty = file::Store::empty(file.place.clone());
    let written = file.store.as_ref().unwrap_or(&empty);
    let file::Store { place: _, kind, path, urls, cluster, sentinel, deadline, lease, lost_hold, outage, journal, journal_max } =
        written;
    let lost_hold = lost_hold.as_ref().map_or_else(LostHold::default, |at| at.value);
    let kind = kind.as_ref().map_or(choice::Store::Embedded, |at| at.value);
    if kind == choice::Store::Embedded {
        let unused = [
            urls.as_ref().map(|at| &at.place),
            cluster.as_ref().map(|at| &at.place),
            sentinel.as_ref().map(|at| &at.place),
            deadline.as_ref().map(|at| &at.place),
            lease.as_ref().map(|at| &at.place),
            outage.as_ref().map(|at| &at.place),
            journal.as_ref().map(|at| &at.place),
            journal_max.as_ref().map(|at| &at.place),
        ];
        for place in unused.into_iter().flatten() {
            c.findings.warn(place, "has no effect with the embedded store", "set store.kind = \"redis\" to use Redis");
        }
        let path = PathBuf::from(path.as_ref().map_or("tollgate-data", |at| &at.value));
        return StoreKind::Embedded { path, lost_hold };
    }
    if let Some(path) = path {
        c.findings.warn(&path.place, "has no effect with Redis", "leave it out");
    }
    let bounds = Duration::from_secs(1)..=Duration::from_secs(3_600);
    if let Some(at) = lease.as_ref().filter(|at| !bounds.contains(&at.value.0)) {
        let advice = "2m is usual: gateways renew three times in it, and after it a dead gateway's holds are booked";
        c.findings.problem(&at.place, "is not between 1s and 1h", advice);
    }
    StoreKind::Redis {
        servers: super::redis::servers(c, written),
        deadline: deadline.as_ref().map_or(Duration::from_millis(50), |at| at.value.0),
        lease: lease.as_ref().map_or(StoreKind::LEASE, |at| at.value.0),
        lost_hold,
        outage: Outage {
            journal: journal.as_ref().map_or_else(|| Outage::default().journal, |at| PathBuf::from(&at.value)),
            journal_max: journal_max.as_ref().map_or(Outage::default().journal_max, |at| at.value.0 as u64),
            ..outage.as_ref().map_or_else(Outage::default, |at| self::outage(c, &at.value))
        },
    }
}

/// `[store] outage`
fn outage(c: &mut Compiler<'_>, written: &file::Outage) -> Outage {
    let file::Outage { place: _, max, share, failures, probe } = written;
    let default = Outage::default();
    let longest = Duration::from_secs(10);
    if let Some(probe) = probe.as_ref().filter(|probe| probe.value.0 > longest) {
        c.findings.problem(
            &probe.place,
            "is longer than 10s",
            "requests are refused or decided alone until a probe succeeds; 1s is usual",
        );
    }
    Outage {
        max: max.map_or(default.max, |max| max.0),
        share: share.as_ref().map_or(default.share, |share| share.value.0),
        failures: u32::try_from(count(c, failures.as_ref(), u64::from(default.failures), 1)).unwrap_or(u32::MAX),
        probe: probe.as_ref().map_or(default.probe, |probe| probe.value.0),
        ..default
    }
}

/// `[budget]`: the zone, and the percent of a cap from which answers carry a notice.
pub fn budget(c: &mut Compiler<'_>, file: &File) -> (Zone, u8) {
    let Some(budget) = &file.budget else { return (Zone::default(), 80) };
    let zone = budget.zone.as_ref().and_then(|at| {
        let unknown = |_| {
            c.findings.problem(
                &at.place,
                format!("there is no time zone {:?}", at.value),
                "write an IANA name such as \"America/New_York\" or \"UTC\"",
            )
        };
        Zone::named(&at.value).map_err(unknown).ok()
    });
    let notice = budget.notice.as_ref().map_or(80, |at| {
        let percent = u8::try_from(at.value).ok().filter(|percent| (1..=100).contains(percent));
        if percent.is_none() {
            c.findings.problem(&at.place, format!("{} is not a percentage", at.value), "write a whole number from 1 to 100");
        }
        percent.unwrap_or(80)
    });
    (zone.unwrap_or_default(), notice)
}

/// `[retry]`
pub fn retry(c: &mut Compiler<'_>, file: &File) -> Retry {
    let default = Retry::default();
    let Some(file::Retry { place: _, max, wait_budget, breaker }) = &file.retry else { return default };
    if let Some(max) = max.as_ref().filter(|max| max.value > 10) {
        c.findings.problem(&max.place, "is more than 10", "each retry is load on a provider that has none to spare; 2 is usual");
    }
    Retry {
        max: max.as_ref().map_or(default.max, |max| u32::try_from(max.value).unwrap_or(u32::MAX)),
        wait_budget: wait_budget.map_or(default.wait_budget, |wait| wait.0),
        breaker: breaker.as_ref().map_or(default.breaker, |written| self::breaker(c, written, default.breaker)),
    }
}

/// `[retry.breaker]`
fn breaker(c: &mut Compiler<'_>, written: &file::Breaker, default: Rules) -> Rules {
    let file::Breaker { place: _, failures, share, window, pause } = written;
    let mut micros = |at: Option<&At<Timeout>>, default: u64| {
        let Some(at) = at else { return default };
        if !(Duration::from_millis(100)..=Duration::from_secs(600)).contains(&at.value.0) {
            c.findings.problem(&at.place, "is not between 100ms and 10m", "10s for the window and 5s for the pause are usual");
        }
        u64::try_from(at.value.0.as_micros()).unwrap_or(u64::MAX)
    };
    Rules {
        window: micros(window.as_ref(), default.window),
        pause: micros(pause.as_ref(), default.pause),
        failures: u32::try_from(count(c, failures.as_ref(), u64::from(default.failures), 0)).unwrap_or(u32::MAX),
        share: share.as_ref().map_or(default.share, |share| share.value.0),
    }
}

/// `[concurrency]`
pub fn concurrency(c: &mut Compiler<'_>, file: &File) -> Concurrency {
    let empty = file::Concurrency::empty(file.place.clone());
    let file::Concurrency { place, slots, queue, queue_per_customer, max_wait, orphans, orphans_per_customer } =
        file.concurrency.as_ref().unwrap_or(&empty);
    if slots.is_none() {
        let reason =
            format!("concurrency.slots is not set: at most {SLOTS} requests are in flight to providers at once, the rest waits");
        c.findings.warn(place, reason, "set it to what the provider account can serve at once");
    }
    let queue = count(c, queue.as_ref(), 1_000, 0);
    let slots = count(c, slots.as_ref(), SLOTS, 1);
    // As many again as there are slots: what clients left behind may double the load on a provider, and no more.
    let orphans = count(c, orphans.as_ref(), slots as u64, 0);
    Concurrency {
        slots,
        queue,
        queue_per_customer: count(c, queue_per_customer.as_ref(), 100, 0).min(queue),
        max_wait: max_wait.map_or(Duration::from_secs(6), |wait| wait.0),
        orphans,
        orphans_per_customer: count(c, orphans_per_customer.as_ref(), 4, 0).min(orphans),
    }
}

/// `[priorities]`: the part of a ceiling each priority may use, in millionths.
pub fn shares(c: &mut Compiler<'_>, file: &File) -> HashMap<Priority, u32> {
    let priorities = file.priorities.as_ref();
    let mut share = |table: Option<&file::PriorityShare>, default| match table.and_then(|table| table.share.as_ref()) {
        Some(at) => {
            if at.value.0 == 0 {
                super::limits::blocks_all(&at.place, &mut c.findings);
            }
            at.value.0
        }
        None => default,
    };
    let internal = share(priorities.and_then(|p| p.internal.as_ref()), 500_000);
    let background = share(priorities.and_then(|p| p.background.as_ref()), 150_000);
    [(Priority::Internal, internal), (Priority::Background, background)]
        .into_iter()
        .filter(|(_, share)| *share < 1_000_000)
        .collect()
}

/// `[pricing] features`
pub fn unbounded(file: &File) -> Unbounded {
    let features = file.pricing.as_ref().and_then(|pricing| pricing.features.as_ref());
    Unbounded {
        stored_context_tokens: features.and_then(|features| features.stored_context_tokens),
        server_tools: features.and_then(|features| features.server_tools),
    }
}

/// A number of things that fits this machine.
pub(super) fn count(c: &mut Compiler<'_>, at: Option<&At<u64>>, default: u64, least: u64) -> usize {
    const MOST: u64 = 1_000_000;
    let n = at.map_or(default, |at| {
        if !(least..=MOST).contains(&at.value) {
            c.findings.problem(
                &at.place,
                format!("{} is out of range", at.value),
                format!("write a number from {least} to {MOST}"),
            );
        }
        at.value
    });
    usize::try_from(n).unwrap_or(usize::MAX)
}
