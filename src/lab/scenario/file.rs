//! A scenario file as written: every table, every key. Read with the machinery of the configuration, so that all problems come at once,
//! each with its line.

use super::{Arrivals, Behaviour, Enforced, Path};
use crate::config::Policy;
use crate::config::choice::choice;
use crate::config::embedded;
use crate::config::node::Node;
use crate::config::problem::{Findings, Place};
use crate::config::read::{At, Named, Read, table};
use crate::config::value::{Fraction, Pattern, PerPeriod, Timeout, Wait};
use crate::domain::{NanoUsd, Priority};
use std::sync::Arc;

table! {
    /// The whole file.
    File {
        /// What the table and the chart are headed with.
        title: String,
        /// A sentence or two under the title.
        about: String,
        /// From which the random arrivals, sizes and waits are drawn.
        seed: u64,
        /// `[clients.NAME]`: what clients do about a refusal.
        clients: Named<Client>,
        /// `[crowds.NAME]`: who sends what.
        crowds: Named<Crowd>,
        /// `[providers.NAME]`: accounts and how they enforce their quota.
        providers: Named<Provider>,
        /// `[configs.NAME]`: configurations of the gateway, with the keys of its own file.
        configs: Named<Config>,
        /// `[[runs]]`: what is put together and compared.
        runs: Vec<Run>,
        /// `[sweep]`: which limit binds.
        sweep: Sweep,
        /// `[compare]`: the algorithms side by side.
        compare: Compare,
    }

    /// `[clients.NAME]`
    Client {
        /// How it behaves; the other keys change its numbers.
        kind: At<Behaviour>,
        /// Most retries of one question.
        retries: At<u64>,
        /// What lies between a refusal and the next attempt at least: the refusal's own way, and the client's pause.
        pause: Wait,
        /// After how long it gives a question up.
        gives_up: At<Timeout>,
    }

    /// `[crowds.NAME]`
    Crowd {
        /// What it does about refusals, a name of `[clients]`; absent: it takes no for an answer.
        client: At<String>,
        /// Over how many customers its requests are spread, at random; absent: one.
        customers: At<u64>,
        /// The id of its one customer; absent: the crowd's name.
        id: At<String>,
        /// The plan of its customers; absent: the configuration's default plan.
        plan: At<String>,
        /// The model it asks for.
        model: At<String>,
        /// Requests per period; absent: all of `count` at one instant.
        rate: At<PerPeriod>,
        /// How they are spread over the time.
        arrivals: Arrivals,
        /// When it begins.
        from: At<Wait>,
        /// For how long; absent: to the end of the run, or of its `count`.
        lasts: At<Timeout>,
        /// How many requests.
        count: At<u64>,
        /// Input tokens of a request.
        input: At<u64>,
        /// Output tokens of its answer.
        output: At<u64>,
        /// The output cap it asks for; absent: the plan's.
        cap: At<u64>,
        /// The part by which input and output vary up and down.
        spread: Fraction,
        /// Its priority.
        priority: Priority,
        /// Its class.
        class: String,
    }

    /// `[providers.NAME]`
    Provider {
        /// The models whose quota it is; absent: all.
        models: At<Vec<Pattern>>,
        /// Requests per minute.
        rpm: At<u64>,
        /// Tokens per minute, input and output together.
        tpm: At<u64>,
        /// How it enforces them.
        window: Enforced,
        /// Whether a refused request counts, too.
        counts_refused: bool,
        /// How long an answer takes before its first token.
        takes: Wait,
        /// And for each output token.
        per_token: Wait,
        /// The part of the accepted requests that end in a 500.
        errors: Fraction,
    }

    /// `[[runs]]`
    Run {
        /// What the columns are headed with.
        name: At<String>,
        /// What stands between the clients and the provider.
        gateway: At<Path>,
        /// Its configuration, a name of `[configs]`; absent: the shipped one.
        config: At<String>,
        /// The accounts behind it, names of `[providers]`; absent: all. A model that belongs to none has no quota.
        providers: At<Vec<At<String>>>,
        /// Who takes part, names of `[crowds]`; absent: all.
        crowds: At<Vec<At<String>>>,
        /// For how long requests arrive.
        length: At<Timeout>,
        /// Dollars that customers have spent today before it begins.
        spent: Named<NanoUsd>,
        /// What was seen in the field, printed beside the run.
        field: Vec<String>,
    }

    /// `[sweep]`
    Sweep {
        /// The configuration, a name of `[configs]`; absent: the shipped one.
        config: At<String>,
        /// The plan that is loaded to its limits.
        plan: At<String>,
        /// Tokens per request.
        tokens: At<Vec<u64>>,
        /// For how long each size is tried.
        length: At<Timeout>,
    }

    /// `[compare]`
    Compare {
        /// Who takes part, names of `[crowds]`; absent: all.
        crowds: At<Vec<At<String>>>,
        /// The rate they are held to.
        rate: At<PerPeriod>,
        /// The capacity of the token bucket.
        burst: At<u64>,
        /// For how long requests arrive.
        length: At<Timeout>,
    }
}

/// `[configs.NAME]`: the gateway's own configuration, compiled as the gateway would.
#[derive(Clone, Debug)]
pub struct Config(pub Arc<Policy>);

impl Read for Config {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        embedded(node, place, findings).map(|policy| Self(Arc::new(policy)))
    }
}

macro_rules! words {
    ($($type:ty: $($word:literal = $value:expr),+;)*) => {$(
        impl Read for $type {
            fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
                choice(node, place, &[$(($word, $value)),+], findings)
            }
        }
    )*};
}

words! {
    Arrivals: "random" = Self::Random, "even" = Self::Even;
    Behaviour: "once" = Self::Once, "at_once" = Self::AtOnce, "sdk" = Self::Sdk, "patient" = Self::Patient;
    Enforced: "bucket" = Self::Bucket, "second" = Self::Second, "minute" = Self::Minute;
    Path: "none" = Self::Direct, "check" = Self::Check, "tollgate" = Self::Tollgate;
}
