//! Small requests while prompts of a megabyte are counted beside them.

use crate::bench::{Bench, PROMPT};
use crate::host::generator::{self, Running, Window};
use crate::host::side::{Sent, Setup, Side};
use crate::load::{Prompt, Spec};
use crate::table::Line;

/// Small requests a second: few enough that nobody waits for want of CPU alone.
const SMALL: f64 = 500.0;
/// Large ones at a time, each new.
const LARGE: usize = 2;
const MEGABYTE: usize = 1_000_000;

pub async fn large(bench: &mut Bench) -> Result<Vec<Line>, String> {
    let row = "large-prompts";
    let side = Side::start(bench, Setup::new(row)).await?;
    let small = Spec { rate: Some(SMALL), ..bench.spec(&side.targets(), Prompt::Known(PROMPT)) };
    // Around the small ones: it starts before they are measured and ends after.
    let beside = Spec {
        connections: LARGE,
        warm_up: 0.2,
        seconds: small.warm_up + small.seconds + 0.5,
        ..bench.spec(&side.targets(), Prompt::New(MEGABYTE))
    };
    let (mut alone, mut with, mut large) = (Window::default(), Window::default(), Window::default());
    for _ in 0..crate::bench::ROUNDS {
        alone.add(generator::run(&small, side.watched(bench)).await?);
        let running = Running::start(&beside, side.watched(bench)).await?;
        with.add(generator::run(&small, side.watched(bench)).await?);
        large.add(running.finish().await?);
    }
    for (window, who) in [(&alone, "alone"), (&with, "beside large ones"), (&large, "large ones")] {
        window.check(who)?;
    }
    side.prove(bench, &Sent::usual(&[&alone.report, &with.report, &large.report], 0)).await?;
    let milliseconds = |window: &Window| window.report.latency.p99 as f64 / 1_000.0;
    let (without, beside) = (milliseconds(&alone), milliseconds(&with));
    let kept = beside <= 2.0 * without || beside <= without + 5.0;
    let found = format!("p99 {:.1}x, +{:.1} ms", beside / without, beside - without);
    // Their CPU is that of all requests of the time, so it says nothing of one kind.
    let mut lines =
        [Line::of(row, "small, alone", &alone), Line::of(row, "small, beside", &with), Line::of(row, "1 MB, new", &large)];
    lines[1..].iter_mut().for_each(|line| line.cpu.clear());
    let [alone, with, large] = lines;
    Ok(vec![alone, large, with.judged(beside - without, found, "<= 2x or +5 ms", kept)])
}
