//! A million customers, each asking once: what the gateway keeps of them in memory.

use crate::bench::Bench;
use crate::host::books::Expected;
use crate::host::gateway::cost;
use crate::host::generator;
use crate::host::nginx::USED;
use crate::host::side::{Sent, Setup, Side};
use crate::load::{Prompt, Spec};
use crate::table::Line;

/// Requests of a few customers before, so that what does not grow with customers is there already.
const BEFORE: u64 = 100_000;
/// Seconds that it may take.
const MOST: f64 = 150.0;
/// Bytes that a customer may cost.
const EACH: f64 = 300.0;

pub async fn million(bench: &mut Bench) -> Result<Vec<Line>, String> {
    let row = "customers";
    let side = Side::start(bench, Setup::new(row)).await?;
    let spec = Spec { warm_up: 0.0, seconds: MOST, ..bench.spec(&side.targets(), Prompt::Known(100)) };
    let few = generator::run(&Spec { most: Some(BEFORE), ..spec.clone() }, side.watched(bench)).await?;
    few.check("before")?;
    let before = side.memory();
    let customers = bench.options.customers;
    let many = Spec { most: Some(customers), customers: ("many".to_owned(), customers), ..spec };
    let window = generator::run(&many, side.watched(bench)).await?;
    window.check("a million")?;
    side.gateways[0].settled().await?;
    let after = side.memory();
    let asked = window.report.status(200);
    let mut sent = Sent::usual(&[&few.report, &window.report], 0);
    sent.expected = vec![Expected::Each("many".to_owned(), asked, cost(USED))];
    side.prove(bench, &sent).await?;
    let each = after.saturating_sub(before) as f64 / asked.max(1) as f64;
    let found = format!("{each:.0} bytes for each of {asked} customers");
    Ok(vec![Line::of(row, "tollgate", &window).with_memory(after).judged(each, found, "<= 300 bytes", each <= EACH)])
}
