//! What all layers share: the configuration in force, the books, the counters.

use super::call::Who;
use super::empty::EmptyBuckets;
use super::expected::Expected;
use super::jobs::Board;
use super::levels::{LevelKeeper, Levels, pool_of};
use super::newcomers::Newcomers;
use super::pauses::{Pauses, RealPauses};
use super::shadow::Shadows;
use super::slots::Slots;
use crate::alert::{Alerts, Gauge, Owner, Pin, Seen, Sources};
use crate::config::Policy;
use crate::config::policy::Concurrency;
use crate::directory::Directory;
use crate::directory::keys::KeyKeeper;
use crate::domain::{Boundaries, Clock, Period, RequestId, ReservationId, Timestamp, Zone};
use crate::estimate::Estimator;
use crate::history::History;
use crate::limit::{Claim, Decision, Scope};
use crate::records::Records;
use crate::store::ceilings::Ceilings;
use crate::store::documents::Documents;
use crate::store::leases::Keeper;
use crate::store::settler::Settler;
use crate::store::{Ledger, Stores};
use crate::telemetry::otlp::Otlp;
use crate::telemetry::reload::Reloads;
use crate::telemetry::{Metrics, Record};
use crate::trail::StoredTrail;
use crate::triage::Desk;
use crate::upstream::{Breakers, Client, Orphans, Tasks};
use crate::wire::Api;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Prompts counted off the async threads at once: few, so that long prompts never take the cores from short ones.
const LONG_COUNTS: usize = 1;
/// Large bodies gone over off the async threads at once.
const LARGE_BODIES: usize = 2;
/// Pieces of prompts whose token counts are remembered.
const REMEMBERED_PIECES: usize = 200_000;

/// The shared state of one gateway process.
pub struct Gateway {
    /// The configuration in force; a request keeps the one it started with.
    pub policy: Arc<ArcSwap<Policy>>,
    /// The books.
    pub ledger: Arc<dyn Ledger>,
    /// Tickets, records, stored replies, jobs.
    pub documents: Arc<dyn Documents>,
    /// Those who wait for a person.
    pub triage: Desk,
    /// Plans and overrides set at run time.
    pub directory: Arc<Directory>,
    /// Where the configuration was read from, for operators; set once by whoever read it.
    pub origin: OnceLock<String>,
    /// When it started.
    pub started: Timestamp,
    /// Who changed what at run time.
    pub trail: Arc<StoredTrail>,
    /// Who was named before.
    pub(super) newcomers: Arc<Newcomers>,
    /// What is kept of each request.
    pub records: Arc<Records>,
    /// The books of proposed plans.
    pub shadows: Shadows,
    /// What was used over time.
    pub history: Arc<History>,
    /// The queue of settlements.
    pub settler: Settler,
    /// How long a hold stands without being renewed.
    pub lease: Duration,
    /// Counts prompts.
    pub estimator: Arc<Estimator>,
    /// Expects outputs.
    pub expected: Expected,
    /// Calls providers.
    pub client: Client,
    /// The semaphore.
    pub slots: Slots,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Work that outlives its request. SIGTERM waits for it.
    pub tasks: Tasks,
    /// Replies read to their end after the client left, so many at most.
    pub orphans: Orphans,
    /// Which upstreams are well.
    pub breakers: Breakers,
    /// Waits between attempts.
    pub pauses: Box<dyn Pauses>,
    /// Customers just seen empty.
    pub empty: EmptyBuckets,
    /// The jobs this gateway is at.
    pub jobs: Board,
    /// Bounds the prompts counted off the async threads.
    pub long_counts: Arc<Semaphore>,
    /// Bounds the large bodies gone over off the async threads.
    pub large_bodies: Semaphore,
    /// How near each pool is to its ceiling.
    pub levels: Arc<Levels>,
    /// What became of changed configurations.
    pub reloads: Reloads,
    /// Places for settlements.
    places: usize,
    /// What operators are told of.
    pub alerts: Alerts,
    /// What OpenTelemetry is told; `None` = nothing.
    pub otlp: Option<Arc<Otlp>>,
    calendar: Mutex<Calendar>,
    _keys: KeyKeeper,
    _levels: LevelKeeper,
    /// Renews the holds of this gateway and books those of dead ones.
    _keeper: Keeper,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").finish_non_exhaustive()
    }
}

impl Gateway {
    /// A gateway over these books. Must be called inside a tokio runtime: it starts the tasks that settle, renew and sweep.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(policy: Policy, stores: Stores, clock: Arc<dyn Clock>) -> Result<Arc<Self>, crate::upstream::ClientError> {
        Self::paced(policy, stores, clock, Box::new(RealPauses))
    }

    /// As [`Gateway::new`], with other waits between attempts than real ones.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn paced(
        policy: Policy,
        stores: Stores,
        clock: Arc<dyn Clock>,
        pauses: Box<dyn Pauses>,
    ) -> Result<Arc<Self>, crate::upstream::ClientError> {
        let Stores { ledger, documents } = stores;
        let client = Client::new(&policy)?;
        let Concurrency { slots, queue, queue_per_customer, orphans, orphans_per_customer, .. } = policy.concurrency;
        let places = places(&policy.concurrency);
        let lease = policy.store.lease();
        let ceilings = Arc::new(Ceilings::new(clock.clone()));
        let settler = Settler::start(ledger.clone(), places).telling(ceilings.clone());
        let (metrics, tasks) = (Arc::<Metrics>::default(), Tasks::default());
        metrics.tls.show(&policy);
        let reloads = Reloads::new(clock.now(), &metrics.reload);
        let triage = Desk::start(documents.clone(), &policy.triage, clock.clone(), metrics.clone())?;
        let levels = Arc::new(Levels::new(ceilings, documents.clone(), clock.clone()));
        let trail = Arc::new(StoredTrail::new(documents.clone(), clock.clone()));
        let otlp = policy.telemetry.otlp.as_ref();
        let otlp = otlp.map(|settings| Otlp::start(settings, clock.clone(), metrics.clone())).transpose()?;
        let policy = Arc::new(ArcSwap::from_pointee(policy));
        let in_force = policy.clone();
        let directory =
            Arc::new(Directory::new(policy.load_full(), documents.clone(), ledger.clone(), clock.clone(), trail.clone()));
        let gauges = levels.clone();
        let alerts = Alerts::start(Sources {
            policy: policy.clone(),
            ledger: ledger.clone(),
            documents: documents.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
            pools: Box::new(move || seen(&gauges)),
        });
        Ok(Arc::new(Self {
            _levels: LevelKeeper::start(levels.clone(), move || in_force.load().levels.clone()),
            levels,
            alerts,
            otlp,
            triage,
            _keys: KeyKeeper::start(directory.clone()),
            directory,
            trail,
            origin: OnceLock::new(),
            started: clock.now(),
            newcomers: Arc::new(Newcomers::new(documents.clone(), ledger.clone(), clock.clone(), metrics.clone())),
            records: Arc::new(Records::start(documents.clone(), metrics.clone())),
            shadows: Shadows::new(clock.clone()),
            history: History::start(documents.clone(), policy.load().history, clock.clone(), metrics.clone()),
            _keeper: Keeper::start(&ledger, settler.running(), lease),
            settler,
            lease,
            estimator: Arc::new(Estimator::new(REMEMBERED_PIECES)),
            expected: Expected::default(),
            client,
            slots: Slots::new(slots, queue, queue_per_customer),
            calendar: Mutex::new(Calendar::new(policy.load().zone.clone(), clock.now())),
            ledger,
            documents,
            orphans: Orphans::new(tasks.clone(), orphans, orphans_per_customer),
            breakers: Breakers::new(clock.clone(), metrics.clone()),
            pauses,
            clock,
            metrics,
            tasks,
            empty: EmptyBuckets::default(),
            jobs: Board::default(),
            long_counts: Arc::new(Semaphore::new(LONG_COUNTS)),
            large_bodies: Semaphore::new(LARGE_BODIES),
            reloads,
            places,
            policy,
        }))
    }

    /// Puts another configuration in force, whole. Requests that began under the one before end under it; balances, levels, breakers,
    /// slots in use and what was said at run time stay. What takes a restart ([`crate::reload`] refuses such a change) stays as it was.
    ///
    /// # Errors
    /// When an HTTP client cannot be built; nothing is changed then.
    pub fn adopt(&self, policy: Policy) -> Result<(), crate::upstream::ClientError> {
        let triage = self.triage.prepare(&policy.triage)?;
        self.client.prepare(&policy)?;
        let policy = Arc::new(policy);
        let Concurrency { slots, queue, queue_per_customer, orphans, orphans_per_customer, .. } = policy.concurrency;
        self.triage.put(triage);
        self.slots.resize(slots, queue, queue_per_customer);
        self.orphans.resize(orphans, orphans_per_customer);
        // Before the policy itself, so that the first request under it finds the plans that belong to it.
        self.directory.replace(&policy);
        let before = self.policy.swap(policy.clone());
        self.metrics.forget(&before, &policy);
        self.metrics.tls.show(&policy);
        Ok(())
    }

    /// Requests that may be in flight or in line, as far as there are places for their settlements.
    #[must_use]
    pub const fn most_requests(&self) -> usize {
        self.places
    }

    /// The record of a request that arrives now, kept as the policy says.
    #[must_use]
    pub fn record(&self, api: Api) -> Record {
        let now = self.clock.now();
        let record = Record::new(RequestId::at(now, fastrand::u128(..)), api, self.metrics.clone());
        record.traced(self.otlp.as_ref(), now).watched(self.history.clone(), now).kept(
            self.records.clone(),
            now,
            self.policy.load().records.keep,
        )
    }

    /// Shows the alerts what was decided on a request's claims.
    pub(super) fn watch(&self, who: &Who, claims: &[Claim], decision: &Decision) {
        let customer = &who.customer;
        self.alerts.decided(&who.policy.alerts, claims, decision, |scope| {
            let plan = || Some(customer.plan.name.clone());
            Some(match scope {
                Scope::Customer => (Owner::Customer(customer.id.clone()), plan()),
                Scope::User => (Owner::User(customer.id.clone(), customer.user.as_ref()?.0.clone()), plan()),
                Scope::App => (Owner::App(who.app.name.clone()), None),
                Scope::Gateway => (Owner::Gateway, None),
                Scope::Share | Scope::Pool => return None,
            })
        });
    }

    /// A new reservation id.
    #[must_use]
    pub fn reservation_id(&self) -> ReservationId {
        ReservationId::at(self.clock.now(), fastrand::u128(..))
    }

    /// The periods around `now` in the policy's zone.
    #[must_use]
    pub fn boundaries(&self, zone: &Zone, period: Period, now: Timestamp) -> Boundaries {
        let mut calendar = self.calendar.lock();
        if calendar.zone != *zone || !(calendar.from..calendar.until).contains(&now.secs()) {
            *calendar = Calendar::new(zone.clone(), now);
        }
        calendar.periods[period as usize]
    }
}

/// Places for settlements that a gateway makes at its start: as many requests may ever be in flight or in line.
#[must_use]
pub const fn places(concurrency: &Concurrency) -> usize {
    concurrency.slots + concurrency.queue + SPARE_SETTLEMENTS
}

/// How the pools stand, for the alerts.
fn seen(levels: &Levels) -> Seen {
    let gauges = levels.all().into_iter().map(|(owner, standing, _)| Gauge {
        owner,
        level: standing.state.level,
        before: standing.changed.map_or(standing.state.level, |change| change.from),
        changed: standing.changed.map_or(Timestamp(0), |change| change.at),
        used: standing.used,
    });
    let pins = levels.pinned().into_iter().map(|(pool, pinned)| Pin {
        level: pinned.level,
        until: Timestamp(pinned.until),
        by: pinned.by,
        pool: pool_of(&pool).to_owned(),
    });
    Seen { gauges: gauges.collect(), pins: pins.collect() }
}

/// Settlements that may wait beyond those of requests in flight or in line: clients that left, replies still read to their end.
const SPARE_SETTLEMENTS: usize = 4_096;

/// The periods around now, kept until the day ends: asking a time zone costs more than a request should.
struct Calendar {
    zone: Zone,
    from: u64,
    until: u64,
    periods: [Boundaries; 3],
}

impl Calendar {
    fn new(zone: Zone, now: Timestamp) -> Self {
        let periods = Period::ALL.map(|period| zone.boundaries(period, now));
        let (from, until) = periods[Period::Day as usize].at(now);
        Self { zone, from, until, periods }
    }
}
