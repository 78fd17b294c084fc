//! A customer far over its limit: what refusing one of its requests costs, against admitting one.

use crate::bench::{Bench, PROMPT};
use crate::host::gateway::cost;
use crate::host::nginx::USED;
use crate::host::side::{Sent, Setup, Side};
use crate::load::{Prompt, Spec};
use crate::table::Line;

/// What it may: nothing, once its bucket is empty.
const LIMITS: &str = "[plans.flood]\nmessages = { rate = \"1/h\", burst = 1 }\nrpm = 60_000\ntpm = 600_000_000\nspend = { day = 100 }\n\
                      [customers.flood0]\nplan = \"flood\"\n";

pub async fn flood(bench: &mut Bench) -> Result<Vec<Line>, String> {
    let row = "flood";
    let side = Side::start(bench, Setup { more: LIMITS, ..Setup::new(row) }).await?;
    let spec = bench.spec(&side.targets(), Prompt::Known(PROMPT));
    // The one request it may send.
    let only =
        Spec { connections: 1, warm_up: 0.0, seconds: 5.0, most: Some(1), customers: ("flood".to_owned(), 1), ..spec.clone() };
    let one = crate::host::generator::run(&only, Vec::new()).await?;
    one.check("the first of the flood")?;
    let flood = Spec { customers: ("flood".to_owned(), 1), expect: 429, answer: None, ..spec.clone() };
    let loads = [("admitted", spec, side.watched(bench)), ("refused", flood, side.watched(bench))];
    let windows = bench.interleaved(&loads).await?;
    let [admitted, refused] = &windows[..] else { return Err("two sides".to_owned()) };
    let mut sent = Sent::usual(&[&admitted.report], 0);
    // The plan of the flood has a cap of its own, so its books do not speak.
    sent.admitted += one.report.status(200);
    sent.spent += one.report.status(200) * cost(USED);
    side.prove(bench, &sent).await?;
    let ratio = refused.cpu_each("tollgate") / admitted.cpu_each("tollgate");
    let found = format!("{ratio:.2} of the CPU of admitting");
    Ok(vec![
        Line::of(row, "admitted", admitted),
        Line::of(row, "refused", refused).judged(ratio, found, "<= 0.33", ratio <= 1.0 / 3.0),
    ])
}
