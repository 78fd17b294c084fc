//! One run: a clock that jumps from event to event, and everything that happens to a request between its client and the provider.

mod chain;
mod forward;
mod watch;

use super::books;
use super::crowd::{Arrival, Stream};
use super::gateway::{Asked, Decided, Gateway, Held};
use super::provider::Account;
use super::random::Random;
use super::scenario::{Crowd, Path, Run, Scenario};
use super::tally::{Fate, RunReport, Served, Spending};
use super::{client::Told, numbers};
use crate::config::Policy;
use crate::config::policy::Plan;
use crate::degrade::chain::Walk;
use crate::domain::Period;
use crate::limit::{LimitName, Scope, ScopeKey};
use crate::stack::levels::TICK;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

/// How often the gateway looks at its gauges, microseconds.
const LOOK: u64 = TICK.as_micros() as u64;
/// Events between two reports of progress.
const REPORT_EVERY: u64 = 50_000;

/// What can happen. The order is that of events at one instant: what ends makes room for what begins, and crowds come in the order of
/// the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// An answer is complete.
    End(usize),
    /// The gateway looks at its gauges.
    Tick,
    /// A crowd's next request arrives.
    Arrive(usize),
    /// A client asks again.
    Attempt(usize),
    /// An admitted request's wait is over.
    Start(usize),
    /// The gateway tries the provider again.
    Retry(usize),
}

/// A question on its way.
struct Question<'a> {
    crowd: usize,
    customer: ScopeKey,
    plan: &'a Arc<Plan>,
    arrival: Arrival,
    attempts: u64,
    /// When the present attempt reached the gateway.
    asked: u64,
    /// Calls to the provider within this attempt.
    calls: u32,
    held: Option<Box<Held>>,
    /// Where it is on its plan's chain, and the refusal that began the walk.
    walk: Option<(Walk<'a>, No)>,
    cheaper: bool,
    /// Whether this attempt has been to the limits before: the message is spent once.
    decided: bool,
    output: u64,
    draw: Random,
}

/// A refusal on its way to the client, unless the chain finds something better.
#[derive(Clone, Debug)]
struct No {
    told: Told,
    /// What refused.
    by: String,
}

struct World<'a> {
    scenario: &'a Scenario,
    run: &'a Run,
    now: u64,
    events: BinaryHeap<Reverse<(u64, Event, u64)>>,
    scheduled: u64,
    streams: Vec<Option<(Stream, Option<Arrival>)>>,
    questions: Vec<Question<'a>>,
    /// Questions without a fate yet, and arrivals still to come.
    open: u64,
    gateway: Gateway,
    accounts: Vec<Account>,
    watched: Vec<watch::Watched>,
    report: RunReport,
}

/// Plays a run. `crowds` replaces those of the scenario (for replays).
pub fn run(scenario: &Scenario, run: &Run, crowds: Option<&[Crowd]>, progress: &mut dyn FnMut(&str, u64)) -> RunReport {
    let crowds = crowds.unwrap_or(&scenario.crowds);
    let mut world = World::new(scenario, run, crowds);
    let mut events = 0_u64;
    while let Some(Reverse((at, event, _))) = world.events.pop() {
        world.now = at;
        events += 1;
        if events.is_multiple_of(REPORT_EVERY) {
            progress(&run.name, at * 100 / run.length.max(1));
        }
        world.happen(event, crowds);
    }
    world.end()
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, run: &'a Run, crowds: &[Crowd]) -> Self {
        let mut gateway = Gateway::new(&run.policy);
        for (id, spent) in &run.spent {
            gateway.books().spend(books::instant(0), &books::customer(id), &run.policy.zone, *spent);
        }
        let taking_part = run.crowds.iter().map(|index| crowds[*index].name.to_string());
        let mut world = Self {
            scenario,
            run,
            now: 0,
            events: BinaryHeap::new(),
            scheduled: 0,
            streams: crowds.iter().map(|_| None).collect(),
            questions: Vec::new(),
            open: 0,
            gateway,
            accounts: run.providers.iter().map(Account::new).collect(),
            watched: Vec::new(),
            report: RunReport::new(run, taking_part),
        };
        for index in &run.crowds {
            let stream = crowds[*index].arrivals(scenario.seed, *index as u64, run.length);
            world.streams[*index] = Some((stream, None));
            world.next_arrival(*index, crowds);
        }
        if run.path == Path::Tollgate {
            world.choose_watched(crowds);
            world.schedule(0, Event::Tick);
        }
        world
    }

    fn schedule(&mut self, after: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((self.now.saturating_add(after), event, self.scheduled)));
    }

    fn next_arrival(&mut self, index: usize, crowds: &[Crowd]) {
        let Some((stream, next)) = &mut self.streams[index] else { return };
        *next = stream.next(&crowds[index]);
        if let Some(arrival) = *next {
            self.open += 1;
            self.schedule(arrival.at.saturating_sub(self.now), Event::Arrive(index));
        }
    }

    fn happen(&mut self, event: Event, crowds: &[Crowd]) {
        match event {
            Event::Arrive(index) => {
                let arrival = self.streams[index].as_ref().and_then(|(_, next)| *next);
                let question = self.question(index, &crowds[index], arrival.expect("an arrival is scheduled once it is drawn"));
                self.questions.push(question);
                self.next_arrival(index, crowds);
                self.attempt(self.questions.len() - 1, crowds);
            }
            Event::Attempt(id) => self.attempt(id, crowds),
            Event::Start(id) => self.start(id, crowds),
            Event::Retry(id) => self.retry(id, crowds),
            Event::End(id) => self.answered(id, crowds),
            Event::Tick => {
                let level = self.gateway.look(books::instant(self.now));
                if self.report.levels.last().map_or(0, |(_, level)| *level) != level {
                    self.report.levels.push((self.now, level));
                }
                let now = self.now;
                let step = self.report.at(now);
                step.level = step.level.max(level);
                self.watch();
                if self.open > 0 {
                    self.schedule(LOOK, Event::Tick);
                }
            }
        }
    }

    fn question(&self, index: usize, crowd: &Crowd, arrival: Arrival) -> Question<'a> {
        let id = id_of(crowd, arrival.customer);
        Question {
            crowd: index,
            customer: books::customer(&id),
            plan: plan_of(&self.run.policy, crowd, &id),
            arrival,
            attempts: 0,
            asked: self.now,
            calls: 0,
            held: None,
            walk: None,
            cheaper: false,
            decided: false,
            output: 0,
            draw: Random::new(self.scenario.seed, (1 << 32) | self.questions.len() as u64),
        }
    }

    /// The crowd's place in the report.
    fn tally(&mut self, index: usize) -> &mut super::tally::CrowdReport {
        let place = self.run.crowds.iter().position(|crowd| *crowd == index).expect("only crowds of the run ask");
        &mut self.report.crowds[place]
    }

    /// A client asks, for the first time or again.
    fn attempt(&mut self, id: usize, crowds: &[Crowd]) {
        let now = self.now;
        let question = &mut self.questions[id];
        question.attempts += 1;
        (question.asked, question.calls, question.walk) = (now, 0, None);
        (question.cheaper, question.decided) = (false, false);
        let (index, first) = (question.crowd, question.attempts == 1);
        let tally = self.tally(index);
        tally.attempts += 1;
        tally.questions += u64::from(first);
        match self.run.path {
            Path::Direct => self.direct(id, crowds),
            Path::Check => {
                let question = &self.questions[id];
                let cap = question.plan.limits.spend.iter().find(|(period, _)| *period == Period::Day).map(|(_, cap)| *cap);
                if cap.is_some_and(|cap| self.gateway.spent(&question.customer) >= cap) {
                    let told = Told { retry_after: None, final_: true };
                    return self.refused(id, crowds, No { told, by: "customer spend_day".to_owned() });
                }
                self.direct(id, crowds);
            }
            Path::Tollgate => {
                let model = Arc::clone(&crowds[index].model);
                self.ask(id, crowds, &model);
            }
        }
    }

    /// The gateway decides who may go on.
    fn ask(&mut self, id: usize, crowds: &[Crowd], model: &Arc<str>) {
        let question = &self.questions[id];
        let crowd = &crowds[question.crowd];
        let asked = Asked {
            customer: &question.customer,
            user: None,
            app: None,
            plan: question.plan,
            model,
            priority: crowd.priority,
            input: question.arrival.input,
            cap: crowd.cap,
            first: !question.decided,
        };
        let decided = self.gateway.decide(books::instant(self.now), &asked);
        let tokens = question.arrival.input + question.arrival.output;
        self.questions[id].decided = true;
        match decided {
            Decided::Starts(held, wait) => {
                self.questions[id].held = Some(held);
                self.schedule(wait, Event::Start(id));
            }
            Decided::Paused(retry_after) => {
                let told = Told { retry_after: Some(retry_after), final_: false };
                self.refused(id, crowds, No { told, by: "level paused".to_owned() });
            }
            Decided::Refused(refusal) => {
                if refusal.scope == Scope::Pool
                    && self.account(model).is_some_and(|a| self.accounts[a].room(self.now, tokens).is_ok())
                {
                    self.report.refused_with_room += 1;
                }
                self.limited(id, crowds, &refusal);
            }
        }
    }

    /// What is left of the wait budget of this attempt.
    fn wait_left(&self, id: usize) -> Duration {
        let waited = Duration::from_micros(self.now - self.questions[id].asked);
        self.run.policy.retry.wait_budget.saturating_sub(waited)
    }

    /// A question's fate is known.
    fn settled(&mut self, id: usize, fate: Fate) {
        let now = self.now;
        self.open -= 1;
        self.report.at(now).fates[fate as usize] += 1;
        let index = self.questions[id].crowd;
        let tally = self.tally(index);
        tally.fates[fate as usize] += 1;
        if fate >= Fate::Cheaper {
            tally.harmed = Some((tally.harmed.map_or(now, |(first, _)| first), now));
        }
    }

    fn served(&mut self, id: usize) {
        let question = &self.questions[id];
        let served = Served { arrived: question.arrival.at, started: self.now };
        let (index, retried) = (question.crowd, question.calls > 1);
        let tally = self.tally(index);
        tally.served.push(served);
        tally.retried += u64::from(retried);
    }

    fn end(mut self) -> RunReport {
        let run = self.run;
        let ceilings =
            |name| run.providers.iter().map(|account| numbers::ceiling(&run.policy, account, run.path, name)).collect();
        self.report.ceilings = ceilings(LimitName::Tpm);
        self.report.request_ceilings = ceilings(LimitName::Rpm);
        for (id, before) in &run.spent {
            let plan = run.policy.customers.get(id).unwrap_or(&run.policy.identity.default_plan);
            let of_its_crowd = self.questions.iter().find(|question| question.customer == books::customer(id)).map(|q| q.plan);
            let plan = of_its_crowd.unwrap_or(plan);
            let cap = plan.limits.spend.iter().find(|(period, _)| *period == Period::Day).map(|(_, cap)| *cap);
            let after = self.gateway.spent(&books::customer(id));
            self.report.spending.push(Spending { customer: id.to_string(), before: *before, after, cap });
        }
        self.report
    }
}

/// The id of one of a crowd's customers.
fn id_of(crowd: &Crowd, customer: u64) -> String {
    if crowd.customers > 1 { format!("{}-{customer}", crowd.id) } else { crowd.id.to_string() }
}

/// The plan of one of a crowd's customers.
fn plan_of<'a>(policy: &'a Policy, crowd: &Crowd, id: &str) -> &'a Arc<Plan> {
    let configured = || policy.customers.get(id).unwrap_or(&policy.identity.default_plan);
    crowd.plan.as_ref().and_then(|plan| policy.plans.get(plan)).unwrap_or_else(configured)
}
