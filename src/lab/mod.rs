//! The lab: what would happen, under a virtual clock.
//!
//! A scenario file says who sends what, how the clients behave when they are refused, and how the provider enforces its quota. The
//! gateway's own limiter ([`crate::limit`]), its ladder of levels ([`crate::degrade`]) and its rules for claims decide as they do in
//! production; here is only the world around them: a clock that jumps from event to event, books in memory, and a provider that says
//! 429 as a real one does. No I/O, no tasks; one seed gives one result, on every machine.
//!
//! ```text
//! scenario   the file: read, checked, compiled           crowd     who arrives when, with what
//! world      the events of one run, in order             client    what a client does about a refusal
//! gateway    limits, levels, fallbacks, hand-off         provider  the account's quota and its answers
//! tally      what is counted meanwhile                   table, chart   how it is shown
//! sweep      which limit binds                           compare, algorithms   the algorithms side by side
//! replay     an access log against other limits          trace     a public trace against a ceiling
//! ```
//!
//! What is not modelled: slots and their queue (`[concurrency]`), the store's own latency, answers that arrive piece by piece, and the
//! error of the token estimate (a request's input is known to the token, its output only when it ends).

pub mod algorithms;
mod books;
pub mod chart;
mod client;
pub mod compare;
mod crowd;
mod gateway;
mod numbers;
mod provider;
mod random;
pub mod replay;
pub mod scenario;
pub mod sweep;
pub mod table;
pub mod tally;
pub mod trace;
mod world;

pub use scenario::Scenario;

use compare::Compared;
use sweep::Swept;
use tally::RunReport;

/// What a scenario came to.
#[derive(Debug)]
pub struct Report {
    /// The scenario's title.
    pub title: String,
    /// One per run, in the order of the file.
    pub runs: Vec<RunReport>,
    /// Which limit binds, per size of request.
    pub sweep: Option<Swept>,
    /// The algorithms side by side.
    pub compared: Option<Compared>,
}

/// Runs everything a scenario file asks for. `progress` is told from time to time which run it is and how much of its time has passed,
/// in percent.
pub fn run(scenario: &Scenario, progress: &mut dyn FnMut(&str, u64)) -> Report {
    let runs = scenario.runs.iter().map(|run| world::run(scenario, run, None, progress)).collect();
    Report {
        title: scenario.title.clone(),
        runs,
        sweep: scenario.sweep.as_ref().map(sweep::sweep),
        compared: scenario.compare.as_ref().map(|compare| compare::compare(scenario, compare)),
    }
}
