//! Streams: a token in every fiftieth of a second through some hundred of them, and as many open at once as the machine allows.

use crate::bench::Bench;
use crate::host::books::Expected;
use crate::host::gateway::cost;
use crate::host::generator::{Running, Watched, Window};
use crate::host::nginx::Nginx;
use crate::host::process::Process;
use crate::host::side::{Sent, Setup, Side};
use crate::host::{free_address, gateway};
use crate::load::{Prompt, Spec};
use crate::table::Line;
use crate::upstream::PROMPT_TOKENS;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Streams at 50 tokens a second each.
const PACED: usize = 400;
const PACED_PIECES: u64 = 100;
const PACED_GAP: Duration = Duration::from_millis(20);
/// Streams that are open at once, where the machine allows it: each slow, or two cores could not feed them.
const OPEN: u64 = 10_000;
const OPEN_PIECES: u64 = 10;
const OPEN_GAP: Duration = Duration::from_secs(2);
/// Seconds over which they are opened, and when everything is measured.
const RAMP: f64 = 5.0;
const MEASURED: f64 = 8.0;
/// Files that a gateway has open besides its connections.
const OTHER_FILES: u64 = 400;
/// What a stream may cost in memory.
const MOST_EACH: u64 = 32 * 1024;

pub async fn paced(bench: &mut Bench) -> Result<Vec<Line>, String> {
    let row = "streams";
    let upstream = Upstream::start(&bench.scratch, row, PACED_PIECES, PACED_GAP)?;
    let directory = bench.scratch.join("streams-nginx");
    std::fs::create_dir(&directory).map_err(|error| error.to_string())?;
    let nginx = Nginx::proxy(&directory, upstream.address, true)?;
    let side = Side::start(bench, Setup { upstream: Some(upstream.address), slots: PACED + 10, ..Setup::new(row) }).await?;
    let with = |targets: &[SocketAddr]| Spec {
        connections: PACED,
        warm_up: 2.0,
        ramp: 1.0,
        stream: Some(PACED_PIECES),
        answer: None,
        ..bench.spec(targets, Prompt::Known(1_000))
    };
    let plain = vec![("upstream", vec![upstream.process.id()]), ("nginx", vec![nginx.process.id()])];
    let loads = [("nginx", with(&[nginx.address]), plain), ("tollgate", with(&side.targets()), upstream.watched(&side))];
    let windows = bench.interleaved(&loads).await?;
    let [plain, ours] = &windows[..] else { return Err("two sides".to_owned()) };
    side.prove(bench, &Sent::of(&[&ours.report], (PROMPT_TOKENS, PACED_PIECES))).await?;
    let ratio = plain.cpu_of_piece("nginx") / ours.cpu_of_piece("tollgate");
    let late = |window: &Window| format!("{:.1} of {} tokens/s", window.pieces_a_second(), PACED * 50);
    let (mut first, mut second) = (pieces(row, "nginx", plain), pieces(row, "tollgate", ours));
    (first.found, second.found) = (late(plain), format!("{}; {ratio:.2} tokens for the CPU of one of nginx", late(ours)));
    second.figure = Some(ratio);
    Ok(vec![first, second])
}

pub async fn open(bench: &mut Bench) -> Result<Vec<Line>, String> {
    let row = "open-streams";
    // Each takes two connections of the gateway.
    let streams = OPEN.min(gateway::files().saturating_sub(OTHER_FILES) / 2);
    let upstream = Upstream::start(&bench.scratch, row, OPEN_PIECES, OPEN_GAP)?;
    let slots = usize::try_from(streams).unwrap_or_default() + 10;
    let side = Side::start(bench, Setup { upstream: Some(upstream.address), slots, ..Setup::new(row) }).await?;
    let before = side.memory();
    let spec = Spec {
        connections: usize::try_from(streams).unwrap_or_default(),
        warm_up: RAMP + 1.0,
        seconds: MEASURED,
        ramp: RAMP,
        stream: Some(OPEN_PIECES),
        answer: None,
        most: Some(streams),
        customers: ("s".to_owned(), streams),
        ..bench.spec(&side.targets(), Prompt::Known(1_000))
    };
    let running = Running::start(&spec, upstream.watched(&side)).await?;
    tokio::time::sleep(Duration::from_secs_f64(MEASURED / 2.0)).await;
    let (memory, in_flight) = (side.memory(), side.gateways[0].metric("tollgate_in_flight").await);
    let window = running.finish().await?;
    window.check("open streams")?;
    if in_flight != Some(streams) {
        return Err(format!("{in_flight:?} of {streams} streams were open when memory was measured"));
    }
    let usage = (PROMPT_TOKENS, OPEN_PIECES);
    let expected = vec![Expected::Each("s".to_owned(), streams, cost(usage))];
    side.prove(bench, &Sent { expected, ..Sent::of(&[&window.report], usage) }).await?;
    let each = memory.saturating_sub(before) / streams.max(1);
    let silence = Duration::from_micros(window.report.silence);
    let whole = window.report.status(200) == streams && silence < OPEN_GAP + Duration::from_secs(1);
    let found = format!(
        "{:.1} KiB each, {} of {streams} streams whole, longest silence {:.1} s{}",
        each as f64 / 1_024.0,
        window.report.status(200),
        silence.as_secs_f64(),
        if streams < OPEN { format!(" (no more than {streams}: `ulimit -n` is {})", gateway::files()) } else { String::new() }
    );
    let line = pieces(row, "tollgate", &window).with_memory(memory);
    Ok(vec![line.judged(each as f64, found, "<= 32 KiB each, none stalled", each <= MOST_EACH && whole)])
}

/// A line of pieces instead of requests.
fn pieces(row: &str, side: &str, window: &Window) -> Line {
    let mut line = Line::of(row, side, window);
    line.rate = Some(window.pieces_a_second());
    (line.p50, line.p99) = (Some(window.report.lag.p50 as f64 / 1_000.0), Some(window.report.lag.p99 as f64 / 1_000.0));
    line.cpu = window.cpu.keys().map(|name| ((*name).to_owned(), window.cpu_of_piece(name))).collect();
    line
}

impl Window {
    fn pieces_a_second(&self) -> f64 {
        self.report.pieces as f64 / self.report.seconds
    }

    fn cpu_of_piece(&self, name: &str) -> f64 {
        self.cpu.get(name).map_or(0.0, |micros| *micros as f64 / self.report.pieces.max(1) as f64)
    }
}

/// The upstream of streams.
struct Upstream {
    process: Process,
    address: SocketAddr,
}

impl Upstream {
    fn start(scratch: &Path, row: &str, pieces: u64, gap: Duration) -> Result<Self, String> {
        let directory = scratch.join(format!("{row}-upstream"));
        std::fs::create_dir(&directory).map_err(|error| error.to_string())?;
        let address = free_address()?;
        let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
        command.args(["upstream", &address.to_string(), &pieces.to_string(), &gap.as_micros().to_string()]);
        let mut process = Process::start(command, "streams", &directory)?;
        process.listens(address)?;
        Ok(Self { process, address })
    }

    fn watched(&self, side: &Side) -> Watched {
        let gateways = side.gateways.iter().map(|gateway| gateway.process.id()).collect();
        vec![("upstream", vec![self.process.id()]), ("tollgate", gateways)]
    }
}
