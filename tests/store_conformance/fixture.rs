//! A fresh store per test, and the words in which the cases ask it.

use crate::redis_cluster::RedisCluster;
use crate::redis_server::RedisServer;
use crate::reference::Reference;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tollgate::config::policy::{RedisServers, Secret};
use tollgate::domain::{Boundaries, Clock, Period, ReservationId, Timestamp, Zone};
use tollgate::limit::{
    Admission, Bucket, Claim, Decision, Elastic, LimitName, Line, Measure, Outcome, Rule, Scope, ScopeKey, Settlement,
};
use tollgate::store::embedded::{EmbeddedLedger, LostHold};
use tollgate::store::redis::RedisLedger;
use tollgate::store::{Balance, Ledger};

/// Noon of Monday, 30 November 2026, UTC: the time zero of every case.
pub const NOON: Timestamp = Timestamp(1_796_040_000_000_000);
pub const SECOND: u64 = 1_000_000;
pub const MINUTE: u64 = 60 * SECOND;
pub const HOUR: u64 = 60 * MINUTE;
/// A dollar in nano-dollars.
pub const DOLLAR: u64 = 1_000_000_000;

/// A fresh store, seen by two gateways.
pub struct Fixture {
    pub ledger: Arc<dyn Ledger>,
    /// The same books through another instance.
    pub peer: Arc<dyn Ledger>,
    next: AtomicU64,
    _store: Box<dyn Any + Send + Sync>,
}

/// The Redis store, on a server of its own.
pub async fn redis() -> Fixture {
    let server = RedisServer::start();
    let gateway = || RedisLedger::connect(&[&server.url()], Duration::from_secs(10)).expect("a well-formed address");
    let (ledger, peer) = (Arc::new(gateway()), Arc::new(gateway()));
    Fixture { ledger, peer, next: AtomicU64::new(1), _store: Box::new(server) }
}

/// The embedded store, with a journal of its own. Its times are passed in like everybody's, so the clock stands.
pub async fn embedded() -> Fixture {
    struct Stands;
    impl Clock for Stands {
        fn now(&self) -> Timestamp {
            NOON
        }
    }
    let directory = tempfile::tempdir().expect("a directory for the journal");
    let ledger: Arc<dyn Ledger> =
        Arc::new(EmbeddedLedger::open(directory.path(), Arc::new(Stands), LostHold::Charge).expect("a fresh journal"));
    Fixture { peer: Arc::clone(&ledger), ledger, next: AtomicU64::new(1), _store: Box::new(directory) }
}

/// A cluster that serves one case after the other.
pub struct Clustered {
    cluster: RedisCluster,
}

impl Clustered {
    pub fn start() -> Self {
        let cluster = RedisCluster::without_replicas(3);
        Self { cluster }
    }

    /// The cluster without anything in it, seen by two gateways.
    pub fn fresh(&self) -> Fixture {
        for node in 0..self.cluster.len() {
            let _: () = redis::cmd("FLUSHALL").query(&mut self.cluster.connection(node)).expect("FLUSHALL");
        }
        let urls = self.cluster.urls();
        // Each knows another node, and has seen nothing of the case before: else it would put back what was spent there.
        let gateway = |n: usize| {
            let servers = RedisServers::Cluster(vec![Secret::new(&urls[n])]);
            Arc::new(RedisLedger::open(&servers, Duration::from_secs(30)).expect("a well-formed address"))
        };
        let (ledger, peer) = (gateway(0), gateway(1));
        Fixture { ledger, peer, next: AtomicU64::new(1), _store: Box::new(()) }
    }
}

/// The pure functions over a map: what the cases say must hold of them first.
pub async fn reference() -> Fixture {
    Fixture::over(Arc::new(Reference::default()))
}

/// What was asked and answered.
pub struct Asked {
    pub admission: Admission,
    pub decision: Decision,
}

impl Fixture {
    /// Over a store that somebody else keeps alive.
    pub fn over(ledger: Arc<dyn Ledger>) -> Self {
        Self { peer: Arc::clone(&ledger), ledger, next: AtomicU64::new(1), _store: Box::new(()) }
    }

    /// Another gateway of the same books gives other ids.
    pub fn numbered_from(&mut self, first: u64) {
        self.next = AtomicU64::new(first);
    }

    /// An admission with a new reservation id, of the customer whose limits are claimed first, or else of `c`.
    pub fn admission(&self, claims: Vec<Claim>) -> Admission {
        let reservation = ReservationId::new(u128::from(self.next.fetch_add(1, Ordering::Relaxed)));
        let whose = claims.iter().find(|claim| claim.scope.scope == Scope::Customer).map(|claim| claim.scope.clone());
        Admission { reservation, customer: whose.unwrap_or_else(customer), claims, elastic: None, lease: 10 * MINUTE }
    }

    /// Asks at noon plus `micros`.
    pub async fn ask(&self, micros: u64, claims: Vec<Claim>) -> Asked {
        self.ask_this(micros, self.admission(claims)).await
    }

    pub async fn ask_this(&self, micros: u64, admission: Admission) -> Asked {
        let decision = self.ledger.admit(&admission, Some(NOON.plus(micros))).await.expect("the store answers");
        Asked { admission, decision }
    }

    /// Asks one thing and gives its outcome.
    pub async fn outcome(&self, micros: u64, claim: Claim) -> Outcome {
        self.ask(micros, vec![claim]).await.decision.verdicts[0].outcome
    }

    /// What is left of a limit: asks for nothing.
    pub async fn remaining(&self, micros: u64, claim: &Claim) -> u64 {
        let nothing = Claim { amount: 0, ..claim.clone() };
        self.ask(micros, vec![nothing]).await.decision.verdicts[0].remaining
    }

    /// Settles at noon plus `micros` to these amounts, one per claim.
    pub async fn settle(&self, micros: u64, asked: &Asked, actual: &[u64]) {
        let batch = [settlement(asked, actual)];
        self.ledger.settle(&batch, Some(NOON.plus(micros))).await.expect("the store answers");
    }

    /// The only balance of a scope.
    pub async fn balance(&self, scope: &ScopeKey) -> Balance {
        let balances = self.ledger.read(scope).await.expect("the store answers");
        assert_eq!(balances.len(), 1, "{balances:?}");
        balances[0]
    }
}

/// The settlement of everything that was taken, as the gateway makes it: with what was granted as held, without what was deferred.
pub fn settlement(asked: &Asked, actual: &[u64]) -> Settlement {
    let Asked { admission, decision } = asked;
    let granted = admission.elastic.and_then(|elastic: Elastic| decision.granted.map(|cap| elastic.cost(cap).get()));
    let all = admission.claims.iter().zip(&decision.verdicts).zip(actual);
    let taken = all.filter(|((_, verdict), _)| verdict.outcome != Outcome::Deferred);
    let lines = taken.map(|((claim, verdict), actual)| {
        let amount = granted.filter(|_| claim.measure == Measure::Money).unwrap_or(claim.amount);
        Line { claim: Claim { amount, ..claim.clone() }, actual: *actual, booked: verdict.booked }
    });
    Settlement { reservation: admission.reservation, customer: admission.customer.clone(), lines: lines.collect() }
}

pub fn key(scope: Scope, owner: &str) -> ScopeKey {
    ScopeKey { scope, owner: owner.into() }
}

pub fn customer() -> ScopeKey {
    key(Scope::Customer, "c")
}

/// A claim of the customer on a bucket of `capacity` that refills with as much per minute.
pub fn per_minute(limit: LimitName, capacity: u64, amount: u64) -> Claim {
    bucket(limit, capacity, capacity, MINUTE, amount)
}

/// A claim of the customer on a bucket of `capacity` refilled by `refill` every `period`; overruns are forgiven.
pub fn bucket(limit: LimitName, capacity: u64, refill: u64, period: u64, amount: u64) -> Claim {
    let bucket = Bucket::new(capacity, refill, period).expect("exact");
    let measure = match limit {
        LimitName::Messages => Measure::Message,
        LimitName::Rpm => Measure::Request,
        _ => Measure::Tokens,
    };
    Claim { scope: customer(), limit, rule: Rule::Bucket { bucket, max_wait: 0, forgive: true, mirrors: false }, measure, amount }
}

/// The same claim, with this longest wait.
pub fn waiting(mut claim: Claim, longest: u64) -> Claim {
    match &mut claim.rule {
        Rule::Bucket { max_wait, .. } | Rule::Window { max_wait, .. } => *max_wait = longest,
        Rule::Budget { .. } => panic!("a budget has no start times"),
    }
    claim
}

/// The same claim of another scope.
pub fn of(scope: Scope, owner: &str, claim: Claim) -> Claim {
    Claim { scope: key(scope, owner), ..claim }
}

/// A claim of the customer on the dollars of a day (UTC).
pub fn dollars(cap: u64, amount: u64) -> Claim {
    budget(Period::Day, Zone::default().boundaries(Period::Day, NOON), cap, amount)
}

pub fn budget(period: Period, boundaries: Boundaries, cap: u64, amount: u64) -> Claim {
    let rule = Rule::Budget { cap, boundaries };
    Claim { scope: customer(), limit: LimitName::Spend(period), rule, measure: Measure::Money, amount }
}
