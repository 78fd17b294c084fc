//! Admitting and settling a request with every limit on, in both stores.

#[path = "../../tests/support/redis_server.rs"]
#[expect(dead_code, reason = "the server serves several tests; none uses all of it")]
mod redis_server;

use crate::Work;
use redis_server::RedisServer;
use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tollgate::domain::{Clock, Period, ReservationId, Zone};
use tollgate::limit::{Admission, Bucket, Claim, LimitName, Line, Measure, Rule, Scope, ScopeKey, Settlement};
use tollgate::store::Ledger;
use tollgate::store::embedded::{EmbeddedLedger, LostHold};
use tollgate::store::redis::RedisLedger;
use tollgate::telemetry::SystemClock;

pub const WORK: [Work; 3] = [
    Work { name: "admit-settle-memory", set_up: memory },
    Work { name: "admit-settle-embedded", set_up: embedded },
    Work { name: "admit-settle-redis", set_up: redis },
];

/// Customers that ask in turn.
const CUSTOMERS: u64 = 64;
const MINUTE: u64 = 60_000_000;

/// The decisions alone, without a journal.
fn memory() -> Option<Box<dyn FnMut()>> {
    Some(through(EmbeddedLedger::in_memory(Arc::new(SystemClock)), ()))
}

/// With the journal; each admission waits until it is there.
fn embedded() -> Option<Box<dyn FnMut()>> {
    let directory = tempfile::tempdir().expect("a directory for the journal");
    let ledger = EmbeddedLedger::open(directory.path(), Arc::new(SystemClock), LostHold::Charge).expect("a fresh journal");
    Some(through(ledger, directory))
}

/// Two scripts on a server beside.
fn redis() -> Option<Box<dyn FnMut()>> {
    let installed = std::env::split_paths(&std::env::var_os("PATH")?).any(|place| place.join("redis-server").is_file());
    if !installed {
        let _ = writeln!(std::io::stderr(), "admit-settle-redis: redis-server is not installed, so this one does nothing");
        return None;
    }
    let server = RedisServer::start();
    let ledger = RedisLedger::connect(&[&server.url()], Duration::from_secs(10)).expect("a well-formed address");
    Some(through(ledger, server))
}

/// One request after another through a ledger; `kept` lives as long.
fn through(ledger: impl Ledger, kept: impl Sized + 'static) -> Box<dyn FnMut()> {
    let runtime = Runtime::new().expect("a runtime");
    let mut number = 0;
    Box::new(move || {
        let _ = &kept;
        number += 1;
        runtime.block_on(one(&ledger, number));
    })
}

async fn one(ledger: &impl Ledger, number: u64) {
    let customer = ScopeKey { scope: Scope::Customer, owner: format!("c{}", number % CUSTOMERS).into() };
    let admission = Admission {
        reservation: ReservationId::new(u128::from(number)),
        customer: customer.clone(),
        claims: claims(&customer),
        elastic: None,
        lease: 2 * MINUTE,
    };
    let decision = ledger.admit(&admission, None).await.expect("the store answers");
    assert!(decision.admitted, "the limits are wide");
    let lines = admission.claims.iter().zip(&decision.verdicts).map(|(claim, verdict)| Line {
        claim: claim.clone(),
        // What was not used is given back.
        actual: if claim.amount > 1 { claim.amount / 2 } else { claim.amount },
        booked: verdict.booked,
    });
    let lines = lines.collect();
    let settlement = Settlement { reservation: admission.reservation, customer, lines };
    ledger.settle(&[black_box(settlement)], None).await.expect("the store answers");
}

/// What a request claims under a plan with everything, an application and a gateway with limits, and a ceiling.
fn claims(customer: &ScopeKey) -> Vec<Claim> {
    let key = |scope, owner: &str| ScopeKey { scope, owner: owner.into() };
    let rate = |scope: &ScopeKey, limit, measure, amount| {
        let bucket = Bucket::new(1_000_000_000, 1_000_000_000, MINUTE).expect("exact");
        let rule = Rule::Bucket { bucket, max_wait: 0, forgive: scope.scope != Scope::Pool, mirrors: false };
        Claim { scope: scope.clone(), limit, rule, measure, amount }
    };
    let budget = |scope: &ScopeKey, period| {
        let boundaries = Zone::default().boundaries(period, SystemClock.now());
        let rule = Rule::Budget { cap: 1_000_000_000_000_000, boundaries };
        Claim { scope: scope.clone(), limit: LimitName::Spend(period), rule, measure: Measure::Money, amount: 600_000 }
    };
    let mut claims = vec![rate(customer, LimitName::Messages, Measure::Message, 1)];
    for scope in [customer, &key(Scope::App, "app"), &key(Scope::Gateway, "")] {
        claims.push(rate(scope, LimitName::Rpm, Measure::Request, 1));
        claims.push(rate(scope, LimitName::Tpm, Measure::Tokens, 900));
        claims.push(budget(scope, Period::Day));
    }
    claims.push(budget(customer, Period::Month));
    let pool = key(Scope::Pool, "mini");
    claims.push(rate(&pool, LimitName::Rpm, Measure::Request, 1));
    claims.push(rate(&pool, LimitName::Tpm, Measure::Reserved, 900));
    claims
}
