//! What a request waits for us: one connection, and half of what the gateway can do.

use crate::bench::{Bench, PROMPT};
use crate::host::generator;
use crate::host::side::{Sent, Setup, Side};
use crate::load::{Prompt, Spec};
use crate::table::Line;

pub async fn one_connection(bench: &mut Bench) -> Result<Vec<Line>, String> {
    let row = "one-connection";
    let side = Side::start(bench, Setup::new(row)).await?;
    let with = |targets: &[std::net::SocketAddr]| Spec { connections: 1, ..bench.spec(targets, Prompt::Known(PROMPT)) };
    let loads = [
        ("direct", with(&[bench.upstream.address]), bench.direct()),
        ("nginx", with(&[bench.proxy.address]), bench.plain()),
        ("tollgate", with(&side.targets()), side.watched(bench)),
    ];
    let windows = bench.interleaved(&loads).await?;
    let [direct, plain, ours] = &windows[..] else { return Err("three sides".to_owned()) };
    side.prove(bench, &Sent::usual(&[&ours.report], direct.report.status(200) + plain.report.status(200))).await?;
    let added = |of: fn(&crate::load::Spread) -> u64| {
        (of(&ours.report.latency).saturating_sub(of(&direct.report.latency))) as f64 / 1_000.0
    };
    let (p50, p99) = (added(|spread| spread.p50), added(|spread| spread.p99));
    let found = format!("{p50:.3} and {p99:.3} ms added, p50 and p99");
    Ok(vec![
        Line::of(row, "direct", direct),
        Line::of(row, "nginx", plain),
        Line::of(row, "tollgate", ours).judged(p50, found, "<= 0.15 and 0.5 ms", p50 <= 0.15 && p99 <= 0.5),
    ])
}

pub async fn half_load(bench: &mut Bench) -> Result<Vec<Line>, String> {
    let row = "half-load";
    let side = Side::start(bench, Setup::new(row)).await?;
    let mut before = Vec::new();
    let most = match bench.embedded {
        Some(rate) => rate,
        None => {
            let quick = Spec { seconds: 2.0, ..bench.spec(&side.targets(), Prompt::Known(PROMPT)) };
            let window = generator::run(&quick, side.watched(bench)).await?;
            window.check("tollgate")?;
            before.push(window);
            before[0].report.rate()
        }
    };
    let with = |targets: &[std::net::SocketAddr]| Spec {
        rate: Some(most / 2.0),
        connections: 128,
        ..bench.spec(targets, Prompt::Known(PROMPT))
    };
    let loads = [
        ("direct", with(&[bench.upstream.address]), bench.direct()),
        ("nginx", with(&[bench.proxy.address]), bench.plain()),
        ("tollgate", with(&side.targets()), side.watched(bench)),
    ];
    let windows = bench.interleaved(&loads).await?;
    let [direct, plain, ours] = &windows[..] else { return Err("three sides".to_owned()) };
    let beside = direct.report.status(200) + plain.report.status(200);
    let loads: Vec<_> = before.iter().map(|window| &window.report).chain([&ours.report]).collect();
    side.prove(bench, &Sent::usual(&loads, beside)).await?;
    let added = ours.report.latency.p99.saturating_sub(direct.report.latency.p99) as f64 / 1_000.0;
    let found = format!("{added:.2} ms added, p99");
    Ok(vec![
        Line::of(row, "direct", direct),
        Line::of(row, "nginx", plain),
        Line::of(row, "tollgate", ours).judged(added, found, "<= 2 ms", added <= 2.0),
    ])
}
