//! Alerts: what an operator is told of without asking, once, whichever of the gateways saw it.
//!
//! ```text
//! observation  what requests tell: a cap is near, a prompt repeats, a provider refuses
//! loops        counts repeated prompts, on the request's path, in memory of a fixed size
//! work         the background task: what of it is news
//! spend        caps: what is really spent, streaks of days
//! pools, away  ceilings and levels; outages of the store
//! once         marks in the store: one gateway tells, for one period
//! words        what it says
//! news         one alert, and how it looks in the log, a chat tool and a program
//! destinations webhooks, each with its wishes
//! shelf        the alerts of the last weeks
//! ```
//!
//! A request pays for this with a look at numbers it has anyway, and where they are near a cap with a place in a bounded channel; it never
//! waits and never asks the store. Four times a second a task looks at what came. What is news it claims with a mark in
//! the store (see `once`), so an alert is told once across all gateways and restarts; only an outage of the store is told
//! by each gateway on its own. While the store is away other news wait, a bounded number of them.
//!
//! What is told at most once a period: the parts of a cap (the cap's own period; passed together only the highest is told), days at a cap (a
//! day), a first time at a cap (400 days), a level's change (that change); busy pools, loops, refused accounts, lost webhooks and
//! unpriced models once an hour while it lasts.

mod away;
mod destinations;
mod loops;
mod news;
mod observation;
mod once;
mod pools;
mod shelf;
mod spend;
mod words;
mod work;

#[cfg(test)]
mod tests;

pub use crate::config::policy::AlertKind as Kind;
pub use destinations::Tried;
pub use news::{About, Alert};
pub use observation::{Cap, Owner};
pub use pools::{Gauge, Pin};

use crate::config::Policy;
use crate::config::policy;
use crate::domain::{Clock, CustomerId, Timestamp};
use crate::limit::{Claim, Decision, LimitName, Scope};
use crate::store::Ledger;
use crate::store::documents::Documents;
use crate::telemetry::Metrics;
use arc_swap::ArcSwap;
use loops::Loops;
use observation::Observation;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Between two looks.
pub const TICK: Duration = Duration::from_millis(250);
/// Observations that nobody has looked at yet, at most.
const CHANNEL: usize = 4_096;
/// How long one call to the store may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Alerts of this gateway that are remembered for the time when the store is away.
const REMEMBERED: usize = 200;
/// A loop is told again to the task after so many more turns, should it have been dropped.
const REPEAT: u32 = 16;

/// Where the alerts look.
pub struct Sources {
    /// The configuration in force.
    pub policy: Arc<ArcSwap<Policy>>,
    /// The books.
    pub ledger: Arc<dyn Ledger>,
    /// Marks, and the alerts that are kept.
    pub documents: Arc<dyn Documents>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// How the pools stand.
    pub pools: Box<dyn Fn() -> Seen + Send + Sync>,
}

/// How the pools stand.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Every ceiling in use.
    pub gauges: Vec<Gauge>,
    /// Levels that operators set.
    pub pins: Vec<Pin>,
}

/// See the module.
pub struct Alerts {
    seen: mpsc::Sender<Observation>,
    loops: Loops,
    metrics: Arc<Metrics>,
    documents: Arc<dyn Documents>,
    recent: Arc<Recent>,
    /// The task, and how it is told to end after a last look, in this time. It ends at once where nobody can tell it any more.
    working: Mutex<Option<(oneshot::Sender<Duration>, JoinHandle<()>)>>,
}

/// The last alerts of this gateway, newest last.
#[derive(Debug, Default)]
struct Recent(Mutex<VecDeque<Alert>>);

/// Alerts that were told lately.
#[derive(Debug)]
pub struct Listing {
    /// The newest first.
    pub alerts: Vec<Alert>,
    /// Whether those of the other gateways are among them: the store answered.
    pub complete: bool,
}

impl Alerts {
    /// Starts the task that looks. Must be called inside a tokio runtime.
    #[must_use]
    pub fn start(sources: Sources) -> Self {
        let (seen, inbox) = mpsc::channel(CHANNEL);
        let recent = Arc::<Recent>::default();
        let (metrics, documents) = (sources.metrics.clone(), sources.documents.clone());
        let mut worker = work::Worker::new(sources, inbox, recent.clone());
        let (finish, mut finished) = oneshot::channel();
        let working = tokio::spawn(async move {
            loop {
                match timeout(TICK, &mut finished).await {
                    Err(_) => worker.step().await,
                    Ok(Ok(patience)) => {
                        worker.step().await;
                        return worker.destinations.drain(patience).await;
                    }
                    Ok(Err(_)) => return,
                }
            }
        });
        Self { seen, loops: Loops::new(), metrics, documents, recent, working: Mutex::new(Some((finish, working))) }
    }

    /// A decision was made on these claims. `owner` knows whose a scope is, and of which plan.
    pub fn decided(
        &self,
        settings: &policy::Alerts,
        claims: &[Claim],
        decision: &Decision,
        owner: impl Fn(Scope) -> Option<(Owner, Option<Arc<str>>)>,
    ) {
        let percent = settings.spend.first().copied().unwrap_or(100);
        for (index, claim) in claims.iter().enumerate() {
            let LimitName::Spend(period) = claim.limit else { continue };
            let Some((cap, start, end, refused)) = observation::near(claim, decision, index, percent) else { continue };
            let Some((owner, plan)) = owner(claim.scope.scope) else { continue };
            let cap = Cap { scope: claim.scope.clone(), owner, plan, period, start, end, cap };
            self.tell(Observation::Spend { cap, refused });
        }
    }

    /// A customer sends a prompt.
    pub fn prompt(
        &self,
        settings: &policy::Alerts,
        customer: &CustomerId,
        app: &Arc<str>,
        model: &str,
        body: &[u8],
        now: Timestamp,
    ) {
        let most = settings.loop_per_minute;
        if most == 0 {
            return;
        }
        let times = self.loops.count(customer.as_str(), body, now);
        if times > most && (times - most - 1).is_multiple_of(REPEAT) {
            let model = model.chars().take(128).collect();
            self.tell(Observation::Loop { customer: customer.clone(), app: app.clone(), model, times });
        }
    }

    /// A provider answered that the account has no money left, or that the key is none.
    pub fn provider_refuses(&self, upstream: &Arc<str>, status: u16, used_up: bool) {
        self.tell(Observation::Provider { upstream: upstream.clone(), status, used_up });
    }

    /// A model without a price was asked for.
    pub fn unpriced(&self, model: &str, app: &Arc<str>) {
        self.tell(Observation::Unpriced { model: model.chars().take(128).collect(), app: app.clone() });
    }

    fn tell(&self, observation: Observation) {
        if self.seen.try_send(observation).is_err() {
            self.metrics.alerts.missed.inc();
        }
    }

    /// The newest alerts of all gateways, of one kind if asked for; without the store those of this gateway.
    pub async fn recent(&self, limit: usize, kind: Option<Kind>) -> Listing {
        let own = self.recent.0.lock().clone();
        let own = own.into_iter().rev().filter(|alert| kind.is_none_or(|kind| alert.kind == kind));
        let (mut alerts, complete) = match timeout(PATIENCE, shelf::read(&*self.documents, limit, kind)).await {
            Ok(Ok(alerts)) => (alerts, true),
            Ok(Err(_)) | Err(_) => (Vec::new(), false),
        };
        // What was told a moment ago, or while the store was away, may not be kept yet.
        for alert in own {
            if !alerts.iter().any(|known| known.id == alert.id) {
                alerts.push(alert);
            }
        }
        alerts.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| a.id.cmp(&b.id)));
        alerts.truncate(limit);
        Listing { alerts, complete }
    }

    /// Looks a last time and waits until everything is told, at most so long; whether it was.
    pub async fn drain(&self, patience: Duration) -> bool {
        let Some((finish, working)) = self.working.lock().take() else { return true };
        let _ = finish.send(patience);
        let abort = working.abort_handle();
        let ended = timeout(patience + PATIENCE, working).await.is_ok();
        abort.abort();
        ended
    }
}

impl std::fmt::Debug for Alerts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alerts").finish_non_exhaustive()
    }
}

impl Recent {
    fn add(&self, alert: Alert) {
        let mut alerts = self.0.lock();
        if alerts.len() >= REMEMBERED {
            alerts.pop_front();
        }
        alerts.push_back(alert);
    }
}

/// Sends a test of this kind to every destination that wants such alerts, one attempt each.
pub async fn try_out(settings: &policy::Alerts, kind: Kind, clock: Arc<dyn Clock>) -> Vec<Tried> {
    let words = words::Words { now: clock.now(), settings, levels: policy::Levels::default().up };
    destinations::try_out(&settings.webhooks, kind, &words.test(kind), clock).await
}
