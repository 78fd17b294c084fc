//! As fast as it goes, against nginx as a plain proxy before the same upstream.

use crate::bench::{Bench, PROMPT};
use crate::host::process;
use crate::host::side::{Sent, Setup, Side};
use crate::load::Prompt;
use crate::table::Line;

pub async fn embedded_warm(bench: &mut Bench) -> Result<Vec<Line>, String> {
    let lines = pairing(bench, Setup::new("embedded-warm"), Prompt::Known(PROMPT), 0.50).await?;
    bench.embedded = lines.last().and_then(|line| line.rate);
    Ok(lines)
}

pub async fn embedded_new(bench: &mut Bench) -> Result<Vec<Line>, String> {
    pairing(bench, Setup::new("embedded-new"), Prompt::New(PROMPT), 0.25).await
}

pub async fn redis_warm(bench: &mut Bench) -> Result<Vec<Line>, String> {
    pairing(bench, Setup { redis: true, ..Setup::new("redis-warm") }, Prompt::Known(PROMPT), 0.30).await
}

pub async fn redis_new(bench: &mut Bench) -> Result<Vec<Line>, String> {
    pairing(bench, Setup { redis: true, ..Setup::new("redis-new") }, Prompt::New(PROMPT), 0.18).await
}

pub async fn two_gateways(bench: &mut Bench) -> Result<Vec<Line>, String> {
    let setup = Setup { redis: true, gateways: 2, ..Setup::new("redis-two-gateways") };
    // No bar of its own: on two cores a second gateway adds nothing but itself.
    pairing(bench, setup, Prompt::Known(PROMPT), 0.0).await
}

async fn pairing(bench: &Bench, setup: Setup<'_>, prompt: Prompt, bar: f64) -> Result<Vec<Line>, String> {
    let row = setup.name;
    let side = Side::start(bench, setup).await?;
    let loads = [
        ("nginx", bench.spec(&[bench.proxy.address], prompt), bench.plain()),
        ("tollgate", bench.spec(&side.targets(), prompt), side.watched(bench)),
    ];
    let windows = bench.interleaved(&loads).await?;
    let [plain, ours] = &windows[..] else { return Err("two sides".to_owned()) };
    let memory = side.memory();
    let dropped = side.prove(bench, &Sent::usual(&[&ours.report], plain.report.status(200))).await?;
    let ratio = ours.report.rate() / plain.report.rate();
    let mut found = format!("{ratio:.3} of nginx");
    if dropped > 0 {
        found.push_str(&format!("; {dropped} records of requests not kept"));
    }
    let mut line = Line::of(row, "tollgate", ours).with_memory(memory);
    if bar > 0.0 {
        line = line.judged(ratio, found, &format!(">= {bar:.2}"), ratio >= bar);
    } else {
        (line.figure, line.found) = (Some(ratio), found);
    }
    Ok(vec![Line::of(row, "nginx", plain).with_memory(process::memory(bench.proxy.process.id())), line])
}
