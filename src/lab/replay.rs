//! An access log against other limits: who would have been refused last week.
//!
//! The log's lines come in the order in which requests ended; they are replayed in the order in which they arrived, through the same
//! decisions as live traffic. What a request used then it uses again; one that was refused then is taken to use its estimate. Chains
//! are not walked: refused means that a limit said no, whatever the plan would have answered with.

mod line;
mod order;

use super::books;
use super::gateway::{Asked, Decided, Gateway, Held};
use crate::config::Policy;
use crate::config::policy::{App, Auth, Plan};
use crate::domain::{CustomerId, Timestamp, UserId};
use crate::limit::{Refusal, Scope, ScopeKey};
use line::Request;
use order::InOrder;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::io::{self, BufRead};
use std::sync::Arc;

/// What a replay came to.
#[derive(Debug, Default)]
pub struct Replayed {
    /// Lines that are no request which reached the limits: other messages, and requests turned away before.
    pub skipped: u64,
    /// Lines that are no JSON.
    pub unreadable: u64,
    /// Requests that ended so long after their arrival that later ones were decided before them.
    pub late: u64,
    /// Requests.
    pub requests: u64,
    /// The arrival of the first and the last, microseconds since the Unix epoch.
    pub span: Option<(u64, u64)>,
    /// Requests a limit would refuse.
    pub refused: u64,
    /// Of these, those that were answered then.
    pub newly_refused: u64,
    /// Requests that were refused then and would be admitted.
    pub newly_admitted: u64,
    /// Requests that would wait before they start, and for how long all together, microseconds.
    pub waited: (u64, u64),
    /// Refusals by limit.
    pub by_limit: BTreeMap<String, u64>,
    /// By customer.
    pub by_customer: HashMap<Arc<str>, OfCustomer>,
}

/// What a replay came to for one customer.
#[derive(Debug, Default)]
pub struct OfCustomer {
    /// Their requests.
    pub requests: u64,
    /// Those that a limit would refuse.
    pub refused: u64,
    /// By limit.
    pub by_limit: BTreeMap<String, u64>,
}

impl Replayed {
    /// Customers with refusals, those with the most first.
    #[must_use]
    pub fn worst(&self) -> Vec<(&Arc<str>, &OfCustomer)> {
        let mut worst: Vec<_> = self.by_customer.iter().filter(|(_, of)| of.refused > 0).collect();
        worst.sort_by(|(a, x), (b, y)| y.refused.cmp(&x.refused).then_with(|| a.cmp(b)));
        worst
    }
}

/// Replays a log. `progress` is told the lines read so far.
///
/// # Errors
/// Those of the reader.
pub fn replay(log: impl BufRead, policy: &Arc<Policy>, progress: &mut dyn FnMut(u64)) -> io::Result<Replayed> {
    let mut replay = Replay::new(policy);
    let mut waiting = InOrder::default();
    for (number, line) in log.split(b'\n').enumerate() {
        progress(number as u64);
        match line::read(&line?) {
            line::Read::Request(request) => {
                for request in waiting.push(*request) {
                    replay.request(&request);
                }
            }
            line::Read::Other => replay.found.skipped += 1,
            line::Read::NoJson => replay.found.unreadable += 1,
            line::Read::Empty => {}
        }
    }
    waiting.rest().for_each(|request| replay.request(&request));
    replay.found.late = waiting.late;
    Ok(replay.found)
}

/// A request that runs.
struct Running {
    held: Box<Held>,
    input: u64,
    output: u64,
    took: u64,
    customer: Arc<str>,
}

/// What happens later to a request: it starts, or it ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Later {
    End,
    Start,
}

struct Replay<'a> {
    policy: &'a Arc<Policy>,
    gateway: Gateway,
    apps: HashMap<Arc<str>, Arc<App>>,
    running: HashMap<u64, Running>,
    later: BinaryHeap<Reverse<(u64, Later, u64)>>,
    /// When the gauges are to be looked at next.
    looked: u64,
    found: Replayed,
}

/// How often the gauges are looked at. Production does four times as often; a week has many seconds.
const LOOK: u64 = 1_000_000;
/// After so long without a request every level has ended by itself, unless it is configured to hold longer.
const QUIET: u64 = 4 * 3_600_000_000;

impl<'a> Replay<'a> {
    fn new(policy: &'a Arc<Policy>) -> Self {
        let apps = match &policy.auth {
            Auth::Keys { apps } => apps.values().map(|app| (Arc::clone(&app.name), Arc::clone(app))).collect(),
            Auth::Passthrough { .. } => HashMap::new(),
        };
        let (gateway, found) = (Gateway::new(policy), Replayed::default());
        Self { policy, gateway, apps, running: HashMap::new(), later: BinaryHeap::new(), looked: 0, found }
    }

    fn request(&mut self, request: &Request) {
        let now = request.arrived;
        self.until(now);
        let found = &mut self.found;
        found.requests += 1;
        found.span = Some(found.span.map_or((now, now), |(first, last)| (first.min(now), last.max(now))));
        found.by_customer.entry(Arc::clone(&request.customer)).or_default().requests += 1;
        let Some(plan) = self.plan(request) else { return self.refused(request.refused, &request.customer, "unknown customer") };
        let customer = books::customer(&request.customer);
        let user = request.user.as_ref().map(|user| {
            let user = UserId::from_trusted(user);
            ScopeKey { scope: Scope::User, owner: format!("{}/{}", customer.owner, user.key()).into() }
        });
        let asked = Asked {
            customer: &customer,
            user: user.as_ref(),
            app: request.app.as_ref().and_then(|app| self.apps.get(app)).map(AsRef::as_ref),
            plan: &plan,
            model: &request.model,
            priority: request.priority,
            input: request.estimated_input,
            cap: request.output_cap,
            first: true,
        };
        match self.gateway.decide(Timestamp(now), &asked) {
            Decided::Starts(held, wait) => {
                self.found.newly_admitted += u64::from(request.refused);
                if wait > 0 {
                    self.found.waited.0 += 1;
                    self.found.waited.1 += wait;
                }
                let id = self.found.requests;
                let output = request.output.unwrap_or(held.expected).min(held.cap.max(1));
                let running = Running {
                    held,
                    input: request.input.unwrap_or(request.estimated_input),
                    output,
                    took: request.took,
                    customer: Arc::clone(&request.customer),
                };
                self.running.insert(id, running);
                self.later.push(Reverse((now.saturating_add(wait), Later::Start, id)));
            }
            Decided::Paused(_) => self.refused(request.refused, &request.customer, "level paused"),
            Decided::Refused(refusal) => self.refused(request.refused, &request.customer, &name(&refusal)),
        }
    }

    /// Everything that happens before a request arrives. After an idle time the gauges are empty however often they are looked at.
    fn until(&mut self, now: u64) {
        self.looked = self.looked.max(now.saturating_sub(QUIET));
        loop {
            let next = self.later.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
            if next.min(self.looked) > now {
                return;
            }
            if next <= self.looked {
                if let Some(Reverse((at, what, id))) = self.later.pop() {
                    self.happen(at, what, id);
                }
            } else {
                self.gateway.look(Timestamp(self.looked));
                self.looked += LOOK;
            }
        }
    }

    fn happen(&mut self, at: u64, what: Later, id: u64) {
        let Some(mut running) = self.running.remove(&id) else { return };
        let now = Timestamp(at);
        match what {
            Later::End => self.gateway.answered(now, *running.held, running.input, running.output),
            Later::Start => match self.gateway.start(now, &mut running.held) {
                Ok(wait) => {
                    let (next, after) = if wait > 0 { (Later::Start, wait) } else { (Later::End, running.took) };
                    self.later.push(Reverse((at.saturating_add(after), next, id)));
                    self.running.insert(id, running);
                }
                Err(refusal) => {
                    self.gateway.failed(now, *running.held, false);
                    self.refused(false, &running.customer, &name(&refusal));
                }
            },
        }
    }

    /// The plan of the customer: its own entry, else the plan it had where there still is one of that name, else the default plan.
    fn plan(&self, request: &Request) -> Option<Arc<Plan>> {
        let own = self.policy.customers.get(&*request.customer);
        let then = || request.plan.as_ref().and_then(|plan| self.policy.plans.get(plan));
        own.or_else(then).or_else(|| self.policy.plan_of(&request.customer)).cloned()
    }

    fn refused(&mut self, refused_then: bool, customer: &Arc<str>, limit: &str) {
        let found = &mut self.found;
        found.refused += 1;
        found.newly_refused += u64::from(!refused_then);
        *found.by_limit.entry(limit.to_owned()).or_default() += 1;
        let of = found.by_customer.entry(Arc::clone(customer)).or_default();
        of.refused += 1;
        *of.by_limit.entry(limit.to_owned()).or_default() += 1;
    }
}

fn name(refusal: &Refusal) -> String {
    format!("{} {}", refusal.scope.as_str(), refusal.limit.as_str())
}

/// The id of a log line as the gateway would take it; others are no customers.
fn known(id: &str) -> Option<Arc<str>> {
    CustomerId::parse(id.as_bytes(), true).ok().map(|id| id.as_str().into())
}
