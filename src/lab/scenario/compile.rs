//! From the file as written to a scenario: defaults, names looked up, numbers checked, all problems at once.

use super::file::{self, File};
use super::{Behaviour, Client, Compare, Crowd, MINUTE, Path, Provider, Run, Scenario, Sweep, Timing};
use crate::config::Policy;
use crate::config::node::{self, Node, Value};
use crate::config::problem::{Findings, Place, Problem, Source, suggestion};
use crate::config::read::{At, Named, Read as _};
use crate::config::value::{PerPeriod, Timeout, Wait};
use crate::domain::Priority;
use std::sync::Arc;
use std::time::Duration;

/// What a crowd asks for unless it says so.
const MODEL: &str = "gpt-4o-mini";
/// More requests than this are a slip of the pen, and would not fit the memory of small machines.
const MOST_REQUESTS: u64 = 2_000_000;
/// A run without a length lasts so long.
const LENGTH: u64 = 10 * MINUTE;

pub fn compile(text: &str, name: &str) -> Result<Scenario, Vec<Problem>> {
    let mut findings = Findings::default();
    let source = Source::File { name: name.into(), line: 1 };
    let root = Place::root(source.clone());
    let node = Node { value: Value::Table(node::parse(text, name)?), source };
    let scenario =
        File::read(&node, &root, &mut findings).map(|file| Compiler { findings: &mut findings, file: &file }.scenario());
    findings.sort();
    match scenario {
        Some(scenario) if findings.problems.is_empty() => Ok(scenario),
        _ => Err(findings.problems),
    }
}

struct Compiler<'a> {
    file: &'a File,
    findings: &'a mut Findings,
}

impl Compiler<'_> {
    fn scenario(&mut self) -> Scenario {
        let file = self.file;
        let crowds: Vec<Crowd> = all(file.crowds.as_ref()).map(|(name, crowd)| self.crowd(name, crowd)).collect();
        let runs: Vec<Run> = file.runs.iter().flatten().map(|run| self.run(run)).collect();
        let sweep = file.sweep.as_ref().and_then(|sweep| self.sweep(sweep));
        let compare = file.compare.as_ref().and_then(|compare| self.compare(compare));
        if file.title.is_none() {
            self.findings.missing(&file.place, "title", "say what the scenario shows");
        }
        if file.runs.is_none() && file.sweep.is_none() && file.compare.is_none() {
            self.findings.problem(&file.place, "asks for nothing", "add [[runs]], [sweep] or [compare]");
        }
        for run in &runs {
            self.size(run, &crowds);
        }
        Scenario {
            title: file.title.clone().unwrap_or_default(),
            about: file.about.clone().unwrap_or_default(),
            seed: file.seed.unwrap_or(1),
            crowds,
            runs,
            sweep,
            compare,
        }
    }

    fn crowd(&mut self, name: &At<String>, crowd: &file::Crowd) -> Crowd {
        let client = crowd.client.as_ref().and_then(|at| self.find("client", at, self.file.clients.as_ref()));
        let customers = crowd.customers.as_ref().map_or(1, |at| at.value);
        if let Some(at) = crowd.customers.as_ref().filter(|at| at.value == 0) {
            self.findings.problem(&at.place, "is 0, so nobody could ask", "write 1 or more");
        }
        if let (Some(at), true) = (&crowd.id, customers > 1) {
            self.findings.problem(&at.place, "names one customer", "leave out `customers`, or the id");
        }
        for (key, missing) in [("input", crowd.input.is_none()), ("output", crowd.output.is_none())] {
            if missing {
                self.findings.missing(&crowd.place, key, "write how many tokens a request has");
            }
        }
        Crowd {
            name: name.value.as_str().into(),
            customers,
            id: crowd.id.as_ref().unwrap_or(name).value.as_str().into(),
            plan: crowd.plan.as_ref().map(|at| at.value.as_str().into()),
            model: crowd.model.as_ref().map_or(MODEL, |at| at.value.as_str()).into(),
            timing: self.timing(crowd),
            input: crowd.input.as_ref().map_or(0, |at| at.value),
            output: crowd.output.as_ref().map_or(0, |at| at.value),
            cap: crowd.cap.as_ref().map(|at| at.value),
            spread: crowd.spread.map_or(0, |spread| spread.0),
            priority: crowd.priority.unwrap_or(Priority::Live),
            class: crowd.class.as_deref().map(Into::into),
            client: client.map_or(Client::ONCE, |client| self.client(client)),
        }
    }

    fn timing(&mut self, crowd: &file::Crowd) -> Timing {
        let from = crowd.from.as_ref().map_or(0, |at| wait(at.value));
        let count = crowd.count.as_ref().map(|at| at.value);
        match (&crowd.rate, count) {
            (Some(rate), count) => {
                let PerPeriod { amount, period } = rate.value;
                if amount == 0 {
                    self.findings.problem(&rate.place, "is 0, so nobody ever comes", "leave the crowd out of the runs instead");
                }
                let lasts = crowd.lasts.as_ref().map(|at| timeout(at.value));
                let arrivals = crowd.arrivals.unwrap_or_default();
                Timing::Rate { amount: amount.max(1), period, arrivals, from, lasts, count }
            }
            (None, Some(count)) => {
                if let Some(at) = &crowd.lasts {
                    self.findings.problem(&at.place, "needs a rate", "without one all requests come at one instant");
                }
                Timing::Burst { at: from, count }
            }
            (None, None) => {
                self.findings.missing(&crowd.place, "rate", "write a rate such as \"150/m\", or a count for all at one instant");
                Timing::Burst { at: from, count: 0 }
            }
        }
    }

    fn client(&mut self, client: &file::Client) -> Client {
        let Some(kind) = &client.kind else {
            self.findings.missing(&client.place, "kind", "write \"once\", \"at_once\", \"sdk\" or \"patient\"");
            return Client::ONCE;
        };
        let (retries, pause) = match kind.value {
            Behaviour::Once => (0, 0),
            Behaviour::AtOnce => (3, 100_000),
            Behaviour::Sdk => (2, 0),
            Behaviour::Patient => (u64::MAX, 0),
        };
        if let Some(at) = client.retries.as_ref().filter(|_| kind.value == Behaviour::Once) {
            self.findings.problem(&at.place, "does not fit kind = \"once\"", "choose another kind");
        }
        Client {
            kind: kind.value,
            retries: client.retries.as_ref().map_or(retries, |at| at.value),
            pause: client.pause.map_or(pause, wait),
            gives_up: client.gives_up.as_ref().map(|at| timeout(at.value)),
        }
    }

    fn run(&mut self, run: &file::Run) -> Run {
        let Some(name) = &run.name else {
            self.findings.missing(&run.place, "name", "say what is run");
            return self.run_of(String::new(), run);
        };
        self.run_of(name.value.clone(), run)
    }

    fn run_of(&mut self, name: String, run: &file::Run) -> Run {
        if run.gateway.is_none() {
            self.findings.missing(&run.place, "gateway", "write \"none\", \"check\" or \"tollgate\"");
        }
        let policy = self.policy(run.config.as_ref());
        let crowds = self.crowds(run.crowds.as_ref(), Some(&policy));
        let providers = match &run.providers {
            None => all(self.file.providers.as_ref()).map(|(name, provider)| provider_of(name, provider)).collect(),
            Some(names) => {
                let find = |c: &mut Self, at: &At<String>| {
                    let provider = c.find("provider", at, c.file.providers.as_ref())?;
                    Some(provider_of(at, provider))
                };
                names.value.iter().filter_map(|at| find(self, at)).collect()
            }
        };
        let spent = all(run.spent.as_ref()).map(|(id, usd)| (id.value.as_str().into(), *usd)).collect();
        let path = run.gateway.as_ref().map_or(Path::Direct, |at| at.value);
        let length = run.length.as_ref().map_or(LENGTH, |at| timeout(at.value));
        Run { name, path, policy, providers, crowds, length, spent, field: run.field.clone().unwrap_or_default() }
    }

    fn policy(&mut self, name: Option<&At<String>>) -> Arc<Policy> {
        let config = name.and_then(|at| self.find("config", at, self.file.configs.as_ref()));
        config.map_or_else(|| Arc::new(Policy::builtin()), |config| Arc::clone(&config.0))
    }

    /// The crowds of a list, or all; in the order of the file either way, since it decides who comes first.
    fn crowds(&mut self, names: Option<&At<Vec<At<String>>>>, policy: Option<&Policy>) -> Vec<usize> {
        let file = self.file;
        for at in names.iter().flat_map(|names| &names.value) {
            self.find("crowd", at, file.crowds.as_ref());
        }
        let takes_part = |name: &str| names.is_none_or(|names| names.value.iter().any(|at| at.value == name));
        let mut found = Vec::new();
        for (index, (name, crowd)) in all(file.crowds.as_ref()).enumerate().filter(|(_, (name, _))| takes_part(&name.value)) {
            found.push(index);
            if let (Some(at), Some(policy)) = (&crowd.plan, policy)
                && !policy.plans.contains_key(at.value.as_str())
            {
                let reason = format!("there is no plan {:?} in the configuration of a run with crowd {:?}", at.value, name.value);
                self.findings.problem(&at.place, reason, "add it to that configuration");
            }
            if let (Some(at), Some(policy)) = (&crowd.model, policy)
                && policy.prices.get(&at.value).is_none()
            {
                let reason = format!("{:?} has no price", at.value);
                self.findings.problem(&at.place, reason, "take a model of the price table, or price it in the configuration");
            }
        }
        found
    }

    fn sweep(&mut self, sweep: &file::Sweep) -> Option<Sweep> {
        let policy = self.policy(sweep.config.as_ref());
        let tokens = sweep.tokens.as_ref().map(|at| at.value.clone()).unwrap_or_default();
        if tokens.is_empty() {
            self.findings.missing(&sweep.place, "tokens", "write sizes such as [100, 2_000, 20_000]");
        }
        let Some(at) = &sweep.plan else {
            self.findings.missing(&sweep.place, "plan", "write the plan that is loaded to its limits");
            return None;
        };
        let Some(plan) = policy.plans.get(at.value.as_str()).cloned() else {
            let mut names: Vec<&str> = policy.plans.keys().map(|name| &**name).collect();
            names.sort_unstable();
            self.findings.problem(&at.place, format!("there is no plan {:?}", at.value), suggestion(&at.value, names));
            return None;
        };
        let length = sweep.length.as_ref().map_or(LENGTH, |at| timeout(at.value));
        Some(Sweep { policy, plan, tokens, length })
    }

    fn compare(&mut self, compare: &file::Compare) -> Option<Compare> {
        let crowds = self.crowds(compare.crowds.as_ref(), None);
        let (Some(rate), Some(burst)) = (&compare.rate, &compare.burst) else {
            self.findings.problem(&compare.place, "needs rate and burst", "such as rate = \"3/s\" and burst = 5");
            return None;
        };
        let PerPeriod { amount, period } = rate.value;
        if amount == 0 || burst.value == 0 || crate::limit::Bucket::new(burst.value, amount, period).is_err() {
            self.findings.problem(
                &rate.place,
                "is no rate to hold anybody to",
                "write something like \"3/s\", and a burst above 0",
            );
            return None;
        }
        let length = compare.length.as_ref().map_or(LENGTH, |at| timeout(at.value));
        Some(Compare { crowds, amount, period, burst: burst.value, length })
    }

    /// Refuses what would take for ever, or all memory.
    fn size(&mut self, run: &Run, crowds: &[Crowd]) {
        let requests: u64 = run.crowds.iter().map(|i| crowds[*i].requests(run.length)).fold(0, u64::saturating_add);
        if requests > MOST_REQUESTS {
            let reason = format!("{requests} requests in run {:?}", run.name);
            self.findings.problem(&self.file.place, reason, format!("at most {MOST_REQUESTS} can be played"));
        }
    }

    fn find<'f, T>(&mut self, what: &str, at: &At<String>, tables: Option<&'f Named<T>>) -> Option<&'f T> {
        let found = tables.and_then(|tables| tables.get(&at.value));
        if found.is_none() {
            let names = all(tables).map(|(name, _)| name.value.as_str()).collect::<Vec<_>>();
            self.findings.problem(&at.place, format!("there is no {what} {:?}", at.value), suggestion(&at.value, names));
        }
        found
    }
}

fn all<T>(tables: Option<&Named<T>>) -> impl Iterator<Item = &(At<String>, T)> {
    tables.into_iter().flat_map(|tables| &tables.0)
}

fn provider_of(name: &At<String>, provider: &file::Provider) -> Provider {
    let models = provider.models.as_ref().map(|at| at.value.iter().map(|pattern| pattern.0.clone()).collect());
    Provider {
        name: name.value.as_str().into(),
        models: models.unwrap_or_else(|| vec!["*".into()]),
        rpm: provider.rpm.as_ref().map(|at| at.value),
        tpm: provider.tpm.as_ref().map(|at| at.value),
        window: provider.window.unwrap_or_default(),
        counts_refused: provider.counts_refused.unwrap_or(false),
        takes: provider.takes.map_or(1_000_000, wait),
        per_token: provider.per_token.map_or(0, wait),
        errors: provider.errors.map_or(0, |part| part.0),
    }
}

fn wait(wait: Wait) -> u64 {
    micros(wait.0)
}

fn timeout(timeout: Timeout) -> u64 {
    micros(timeout.0)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
