//! One customer on a tier: from what was typed to a scenario, and what it came to.

use super::super::parts::{Head, Table, grouped, table as set};
use super::form::Wanted;
use super::shown;
use crate::config::policy::{Limit, LimitKind, Plan};
use crate::config::{Env, Policy};
use crate::domain::Priority;
use crate::lab::scenario::{Client, Crowd, MINUTE, Path, Recorded, Run, Sweep, Timing};
use crate::lab::sweep::Swept;
use crate::lab::tally::{CrowdReport, Fate, RunReport};
use crate::lab::{self, Scenario, table};
use crate::limit::Measure;
use maud::{Markup, html};
use std::fmt::Write as _;
use std::sync::Arc;

/// The model that is asked. Its price is known; its pool is the account.
const MODEL: &str = "gpt-4o-mini";
/// The plan of what was typed.
const PLAN: &str = "typed";
/// Requests of one size that the sweep tries at most: where a tier lets more through, the size is left out.
const MOST_SWEPT: u64 = 20_000;
/// How long a size is tried.
const SWEPT_FOR: u64 = 10 * MINUTE;

/// What is tried.
pub(super) struct Trial {
    pub(super) wanted: Wanted,
    /// The plan that was chosen, as the gateway has it.
    pub(super) plan: Option<Arc<Plan>>,
}

impl Trial {
    /// Plays it. Blocks, for a second or two at most.
    pub(super) fn play(&self) -> Markup {
        let scenario = self.scenario();
        let report = lab::run(&scenario, &mut |_, _| {});
        match report.runs.first() {
            Some(run) => self.shown(run, report.sweep.as_ref()),
            None => html! {},
        }
    }

    /// The configuration in which it is tried.
    fn policy(&self) -> Policy {
        let Wanted { messages, rpm, tpm, account_rpm, account_tpm, .. } = &self.wanted;
        let limit = |limit: &Option<u64>| limit.map_or_else(|| "\"unlimited\"".to_owned(), |limit| limit.to_string());
        let messages = messages
            .map_or_else(|| "\"unlimited\"".to_owned(), |(rate, burst)| format!("{{ rate = \"{rate}/m\", burst = {burst} }}"));
        let mut text = format!(
            "[plans.{PLAN}]\nmessages = {messages}\nrpm = {}\ntpm = {}\non_spend = []\non_tokens = []\non_provider = []\n",
            limit(rpm),
            limit(tpm)
        );
        let ceiling: Vec<String> = [("rpm", account_rpm), ("tpm", account_tpm)]
            .into_iter()
            .filter_map(|(name, limit)| limit.map(|limit| format!("{name} = {limit}")))
            .collect();
        if !ceiling.is_empty() {
            let ceiling = ceiling.join(", ");
            let _ = writeln!(
                text,
                "[pools.account]\nupstream = \"openai\"\nmodels = [\"{MODEL}\"]\ncounts = \"actual\"\nceiling = {{ {ceiling} }}"
            );
        }
        let parsed = Policy::parse(&text, "lab", &Env::default());
        parsed.map(|(policy, _)| policy).unwrap_or_else(|problems| {
            // The fields are checked; should a number pass that the limits cannot keep, the shipped limits hold rather than nothing.
            tracing::warn!(?problems, "the lab cannot use what was typed");
            Policy::builtin()
        })
    }

    fn scenario(&self) -> Scenario {
        let mut policy = self.policy();
        let plan = match &self.plan {
            Some(plan) => Arc::clone(plan),
            None => policy.plans.get(PLAN).unwrap_or(&policy.identity.default_plan).clone(),
        };
        policy.plans.insert(Arc::clone(&plan.name), Arc::clone(&plan));
        let (policy, length) = (Arc::new(policy), self.wanted.minutes * MINUTE);
        let crowd = Crowd {
            name: "customer".into(),
            customers: 1,
            id: "customer".into(),
            plan: Some(Arc::clone(&plan.name)),
            model: MODEL.into(),
            timing: Timing::Recorded(self.requests()),
            input: self.wanted.input,
            output: self.wanted.output,
            cap: Some(self.wanted.output),
            spread: 0,
            priority: Priority::Live,
            class: None,
            client: Client::ONCE,
        };
        let run = Run {
            name: self.tier(),
            path: Path::Tollgate,
            policy: Arc::clone(&policy),
            providers: Vec::new(),
            crowds: vec![0],
            length,
            spent: Vec::new(),
            field: Vec::new(),
        };
        let sweep = self.sizes(&plan).map(|tokens| Sweep { policy, plan, tokens, length: SWEPT_FOR });
        Scenario { title: self.tier(), about: String::new(), seed: 1, crowds: vec![crowd], runs: vec![run], sweep, compare: None }
    }

    /// When requests come: at equal distances, or a minute's at its beginning.
    fn requests(&self) -> Arc<[Recorded]> {
        let Wanted { rate, burst, input, output, minutes, .. } = self.wanted;
        let at = |n: u64| if burst { n / rate * MINUTE } else { n * MINUTE / rate };
        (0..rate * minutes).map(|n| Recorded { at: at(n), input, output }).collect()
    }

    /// Sizes around the one that was typed, as far as the tier bounds how many of them pass.
    fn sizes(&self, plan: &Plan) -> Option<Vec<u64>> {
        let size = self.wanted.input + self.wanted.output;
        let passes = |tokens: u64| {
            let most = |limit: &Limit| {
                let (burst, most) = match limit.kind {
                    LimitKind::Bucket(bucket) => (bucket.capacity(), bucket.per_minute()),
                    LimitKind::Sliding(most) => (most, most),
                };
                let each = if limit.measure == Measure::Request { 1 } else { tokens };
                burst.saturating_add(most.saturating_mul(SWEPT_FOR / MINUTE)) / each
            };
            plan.limits.rates.iter().map(most).min()
        };
        let sizes = [size / 8, size / 4, size / 2, size, size * 2, size * 4, size * 8];
        let mut sizes: Vec<u64> =
            sizes.into_iter().filter(|size| *size > 0 && passes(*size).is_some_and(|passes| passes <= MOST_SWEPT)).collect();
        sizes.dedup();
        (!sizes.is_empty()).then_some(sizes)
    }

    /// What the tier is called.
    fn tier(&self) -> String {
        self.plan.as_ref().map_or_else(|| "the limits typed in".to_owned(), |plan| format!("plan {}", plan.name))
    }

    fn shown(&self, run: &RunReport, swept: Option<&Swept>) -> Markup {
        let Some(crowd) = run.crowds.first() else { return html! {} };
        let cut = self.plan.as_ref().and_then(|plan| plan.max_output_tokens).filter(|most| *most < self.wanted.output);
        html! {
            section #result aria-label="Result" {
                h2 { "Result: " (run.name) }
                p.verdict role="status" { (verdict(crowd)) }
                @if let Some(most) = cut { p { "The plan cuts answers at " (grouped(most)) " tokens." } }
                (counts(crowd))
                (shown::buckets("buckets", run))
                @if let Some(swept) = swept { (sizes(swept)) }
            }
        }
    }
}

/// What became of it, in a sentence or two, and which limit binds.
fn verdict(crowd: &CrowdReport) -> String {
    let asked = crowd.questions;
    let (served, degraded, refused) = sums(crowd);
    let mut stopped: Vec<(&String, u64)> = crowd.stopped.iter().map(|(by, count)| (by, *count)).collect();
    stopped.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let binds = match stopped.first() {
        Some((by, count)) => format!("What binds: {by}, which stopped {} first.", grouped(*count)),
        None => "Nothing binds: every request fits.".to_owned(),
    };
    let of = |count| format!("{} of {}", grouped(count), grouped(asked));
    format!("{} served, {} degraded, {} refused. {binds}", of(served), grouped(degraded), grouped(refused))
}

/// Served as asked, served otherwise, refused.
fn sums(crowd: &CrowdReport) -> (u64, u64, u64) {
    let degraded = [Fate::Short, Fate::Cheaper, Fate::HandedOff].map(|fate| crowd.of(fate)).iter().sum();
    (crowd.of(Fate::Full), degraded, crowd.of(Fate::Unanswered))
}

fn counts(crowd: &CrowdReport) -> Markup {
    let fates = Fate::ALL.into_iter().map(|fate| {
        let name = if fate == Fate::Unanswered { "refused" } else { fate.as_str() };
        (name.to_owned(), crowd.of(fate))
    });
    let stopped = crowd.stopped.iter().map(|(by, count)| (format!("stopped first by {by}"), *count));
    let row = |(name, count): (String, u64)| {
        vec![html! { (name) }, html! { (grouped(count)) }, html! { (part(count, crowd.questions)) }]
    };
    let mut rows: Vec<Vec<Markup>> = fates.chain(stopped).map(row).collect();
    let waited = crowd.wait(990);
    if waited > 0 {
        rows.push(vec![html! { "wait of the served, 99th percentile" }, html! { (waited.div_ceil(1_000)) " ms" }, html! {}]);
    }
    let heads = [Head::Text("What became of the requests"), Head::Number("Requests"), Head::Number("Part")];
    set(&Table { caption: "Served, degraded, refused", heads: &heads, rows, empty: "None was sent." })
}

fn part(count: u64, of: u64) -> String {
    (count * 100 + of / 2).checked_div(of).map_or_else(|| "-".to_owned(), |percent| format!("{percent} %"))
}

/// Which limit would bind for other sizes.
fn sizes(swept: &Swept) -> Markup {
    html! {
        h3 { "Other sizes of requests" }
        p { "How much of the tier's own requests and tokens a minute is used by one who asks for all there is." }
        (shown::cells(&table::swept(swept)))
    }
}
