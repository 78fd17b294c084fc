//! The background task: looks at what was seen, decides what is news, and tells it once.

use super::away::{self, Away};
use super::destinations::Destinations;
use super::news::Alert;
use super::observation::Observation;
use super::once::{self, Claim, Known, Mark};
use super::pools::{Event, Pools};
use super::spend::{Reached, Spend, streak};
use super::words::Words;
use super::{Kind, PATIENCE, Recent, Seen, Sources, shelf};
use crate::config::Policy;
use crate::domain::{Period, Timestamp};
use crate::telemetry::triage::ResultLabels;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

/// Alerts that wait for the store: to be told, or to be kept.
const WAITING: usize = 1_024;
/// What waited longer than this to be told is no news any more, microseconds.
const STALE: u64 = 86_400_000_000;
/// How often the same trouble is told while it lasts.
const HOUR: Duration = Duration::from_secs(3_600);
/// How long it is known that somebody was at a cap once.
const FIRST: Duration = Duration::from_secs(400 * 86_400);
/// Marks outlive their periods by so much: gateways' clocks differ.
const SLACK: u64 = 86_400;
/// How long a change of a level can be told twice: as long as a pin may last, and more.
const LEVELS: Duration = Duration::from_secs(8 * 86_400);
/// So many alerts between two looks at how many are kept.
const PRUNE: u64 = 50;
/// Turns between two questions to a store that nobody guards.
const PING: u64 = 20;
/// Unanswered ones that make an outage.
const PINGS: u32 = 2;

/// See the module. Whoever owns it calls [`Worker::step`] again and again.
pub(super) struct Worker {
    sources: Sources,
    seen: Receiver<Observation>,
    recent: Arc<Recent>,
    spend: Spend,
    pools: Pools,
    away: Away,
    known: Known,
    claims: VecDeque<Claim>,
    unkept: VecDeque<Alert>,
    pub(super) destinations: Destinations,
    /// Webhooks given up, as last counted.
    given_up: u64,
    kept: u64,
    turn: u64,
    unanswered: u32,
}

impl Worker {
    pub(super) fn new(sources: Sources, seen: Receiver<Observation>, recent: Arc<Recent>) -> Self {
        let destinations = Destinations::new(sources.clock.clone(), sources.metrics.clone());
        Self {
            sources,
            seen,
            recent,
            spend: Spend::default(),
            pools: Pools::default(),
            away: Away::default(),
            known: Known::default(),
            claims: VecDeque::new(),
            unkept: VecDeque::new(),
            destinations,
            given_up: 0,
            kept: 0,
            turn: 0,
            unanswered: 0,
        }
    }

    /// One turn.
    pub(super) async fn step(&mut self) {
        self.turn += 1;
        let policy = self.sources.policy.load_full();
        let now = self.sources.clock.now();
        self.destinations.set(&policy.alerts.webhooks);
        // First what needs no store.
        self.look_at_store(&policy, now).await;
        let today = policy.zone.boundaries(Period::Day, now).0;
        while let Ok(observation) = self.seen.try_recv() {
            self.observe(observation, &policy, now, today[1]);
        }
        self.look_at_pools(&policy, now);
        self.look_at_webhooks(&policy, now);
        let reached = self.spend.look(&*self.sources.ledger, &policy.alerts.spend, now, today[1]).await;
        for one in reached {
            self.reached(&one, &policy, now, today).await;
        }
        self.tell_once(&policy, now).await;
        self.keep(&policy).await;
    }

    async fn look_at_store(&mut self, policy: &Policy, now: Timestamp) {
        let guarded = self.sources.ledger.standing();
        let away = match &guarded {
            Some(status) => status.away,
            None => {
                if self.turn % PING == 1 {
                    let answer = timeout(PATIENCE, self.sources.ledger.ping()).await;
                    self.unanswered = if matches!(answer, Ok(Ok(()))) { 0 } else { self.unanswered + 1 };
                }
                self.unanswered >= PINGS
            }
        };
        if let Some(event) = self.away.see(away, guarded.unwrap_or_default(), now) {
            let kind = Kind::StoreOutage;
            if policy.alerts.tells(kind) {
                let alert = words(policy, now).store(event);
                // Nobody can be asked whether others told it: each gateway tells of its own outages.
                self.tell(alert, policy);
            }
            if matches!(event, away::Event::Ended { .. }) {
                tracing::debug!("what waited for the store is told now");
            }
        }
    }

    fn observe(&mut self, observation: Observation, policy: &Policy, now: Timestamp, today: u64) {
        let words = words(policy, now);
        match observation {
            Observation::Spend { cap, refused } => {
                let last = policy.alerts.spend.last().copied().unwrap_or(0);
                if !self.spend.near(cap, refused, last, today) {
                    self.sources.metrics.alerts.missed.inc();
                }
            }
            Observation::Loop { customer, app, model, times } => {
                let mark = Mark::new(format!("loop:{}", customer.key()), HOUR);
                self.claim(Kind::PromptLoop, mark, policy, now, || words.prompt_loop(&customer, &app, &model, times));
            }
            Observation::Provider { upstream, status, used_up } => {
                let mark = Mark::new(format!("provider:{upstream}:{}", if used_up { 402 } else { status }), HOUR);
                self.claim(Kind::ProviderAccount, mark, policy, now, || words.provider(&upstream, status, used_up));
            }
            Observation::Unpriced { model, app } => {
                let mark = Mark::new("unpriced".to_owned(), HOUR);
                self.claim(Kind::UnpricedModel, mark, policy, now, || words.unpriced(&model, &app));
            }
        }
    }

    fn look_at_pools(&mut self, policy: &Policy, now: Timestamp) {
        let Seen { gauges, pins } = (self.sources.pools)();
        let lasts = u64::try_from(policy.alerts.pool_for.as_micros()).unwrap_or(u64::MAX);
        for event in self.pools.see(&gauges, pins, policy.alerts.pool_percent, lasts, now) {
            let (kind, mark) = match &event {
                Event::Busy { gauge, .. } => (Kind::PoolBusy, Mark::new(format!("busy:{}", gauge.owner), HOUR)),
                Event::Level(gauge) => {
                    let id = format!("level:{}:{}:{}", gauge.owner, gauge.changed.micros(), gauge.level);
                    (Kind::LevelChanged, Mark::new(id, LEVELS))
                }
                Event::Pinned(pin) => {
                    let id = format!("pin:{}:{}:{}", pin.pool, pin.level, pin.until.micros());
                    (Kind::LevelChanged, Mark::new(id, LEVELS))
                }
                Event::Unpinned { pin, .. } => {
                    let id = format!("unpin:{}:{}:{}", pin.pool, pin.level, pin.until.micros());
                    (Kind::LevelChanged, Mark::new(id, LEVELS))
                }
            };
            self.claim(kind, mark, policy, now, || words(policy, now).pool(&event));
        }
    }

    /// Webhooks of the desk and of alerts that were given up since the last turn. One gateway's own trouble, told once an hour.
    fn look_at_webhooks(&mut self, policy: &Policy, now: Timestamp) {
        let count = self.sources.metrics.triage.webhooks.get_or_create(&ResultLabels { result: "given_up" }).get();
        let lost = count.saturating_sub(self.given_up);
        self.given_up = count;
        if lost > 0 {
            let mark = Mark::new("webhook".to_owned(), HOUR);
            self.claim(Kind::WebhookLost, mark, policy, now, || words(policy, now).webhook_lost(lost));
        }
    }

    /// A cap has passed a step, or somebody is at it.
    async fn reached(&mut self, one: &Reached, policy: &Policy, now: Timestamp, today: [u64; 4]) {
        let Reached { cap, steps, at_cap, .. } = one;
        let words = words(policy, now);
        let whose = format!("{}:{}", cap.scope.scope.as_str(), cap.scope.owner);
        let keep = Duration::from_secs(cap.end.saturating_sub(now.secs()).saturating_add(SLACK));
        let mark = |step: u8| Mark::new(format!("spend:{step}:{}:{}:{}:{whose}", cap.period.as_str(), cap.start, cap.cap), keep);
        if let Some((last, passed)) = steps.split_last()
            && policy.alerts.tells(Kind::SpendCap)
        {
            // Passed together: the highest says it all, and nobody else is to tell the lower ones.
            for step in passed {
                self.push(Claim { mark: mark(*step), alert: None, at: now }, now);
            }
            self.claim(Kind::SpendCap, mark(*last), policy, now, || words.spend_cap(one, *last));
        }
        if !at_cap {
            return;
        }
        let first = Mark::new(format!("first:{whose}"), FIRST);
        self.claim(Kind::FirstAtCap, first, policy, now, || words.first_at_cap(one));
        if !policy.alerts.tells(Kind::DaysAtCap) {
            return;
        }
        match timeout(PATIENCE, streak(&*self.sources.documents, cap, today[1], today[0])).await {
            Ok(Ok(streak)) if streak.days.is_multiple_of(policy.alerts.days_at_cap.max(1)) => {
                let mark =
                    Mark::new(format!("days:{}:{}:{whose}", cap.period.as_str(), today[1]), 2 * Duration::from_secs(SLACK));
                self.claim(Kind::DaysAtCap, mark, policy, now, || words.days_at_cap(one, streak));
            }
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => self.spend.again(cap),
        }
    }

    /// Puts an alert in line to be told, unless nobody wants it or it is known to be told.
    fn claim(&mut self, kind: Kind, mark: Mark, policy: &Policy, now: Timestamp, alert: impl FnOnce() -> Alert) {
        if policy.alerts.tells(kind) && !self.known.insert(&mark, now) {
            self.enqueue(Claim { mark, alert: Some(alert()), at: now });
        }
    }

    fn push(&mut self, claim: Claim, now: Timestamp) {
        if !self.known.insert(&claim.mark, now) {
            self.enqueue(claim);
        }
    }

    fn enqueue(&mut self, claim: Claim) {
        if self.claims.len() >= WAITING
            && let Some(oldest) = self.claims.pop_front()
        {
            self.known.remove(&oldest.mark);
            self.sources.metrics.alerts.missed.inc();
        }
        self.claims.push_back(claim);
    }

    /// Tells what nobody has told. Without the store it waits until somebody can be asked.
    async fn tell_once(&mut self, policy: &Policy, now: Timestamp) {
        while let Some(claim) = self.claims.front() {
            if now.since(claim.at) < STALE {
                let Ok(Ok(ours)) = timeout(PATIENCE, once::claim(&*self.sources.documents, claim)).await else { return };
                let alert = claim.alert.clone().filter(|_| ours);
                if let Some(alert) = alert {
                    self.tell(alert, policy);
                }
            }
            self.claims.pop_front();
        }
    }

    /// Tells it, now.
    fn tell(&mut self, alert: Alert, policy: &Policy) {
        self.sources.metrics.alerts.raised(alert.kind.as_str());
        if policy.alerts.log {
            alert.log();
        }
        self.destinations.tell(&alert);
        self.recent.add(alert.clone());
        if self.unkept.len() >= WAITING {
            self.unkept.pop_front();
        }
        self.unkept.push_back(alert);
    }

    async fn keep(&mut self, policy: &Policy) {
        let documents = &*self.sources.documents;
        while let Some(alert) = self.unkept.front() {
            let Ok(Ok(())) = timeout(PATIENCE, shelf::keep(documents, alert, policy.alerts.keep)).await else { return };
            self.unkept.pop_front();
            self.kept += 1;
            if self.kept.is_multiple_of(PRUNE) {
                // Should it fail it is done the next time; the alerts have an end of their own.
                let _ = timeout(PATIENCE, shelf::prune(documents)).await;
            }
        }
    }
}

fn words(policy: &Policy, now: Timestamp) -> Words<'_> {
    Words { now, settings: &policy.alerts, levels: policy.levels.up }
}
