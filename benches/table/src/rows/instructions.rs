//! Instructions of a request through the whole gateway, one after another: what a busy machine does not change. Only when asked for.

use crate::bench::{Bench, PROMPT};
use crate::host::generator;
use crate::host::program;
use crate::host::side::{Setup, Side};
use crate::load::{Prompt, Spec};
use crate::table::Line;

/// The gateway is started twice, and asked so often.
const FEW: u64 = 100;
const MANY: u64 = 600;

pub async fn instructions(bench: &mut Bench) -> Result<Vec<Line>, String> {
    let valgrind = program("valgrind")?.display().to_string();
    let mut lines = Vec::new();
    for (name, prompt) in [("warm", Prompt::Known(PROMPT)), ("new", Prompt::New(PROMPT))] {
        let less = counted(bench, &valgrind, name, prompt, FEW).await?;
        let more = counted(bench, &valgrind, name, prompt, MANY).await?;
        let each = more.saturating_sub(less) / (MANY - FEW);
        let mut line = Line::said("instructions", name, format!("{each} instructions a request"));
        line.figure = Some(each as f64);
        lines.push(line);
    }
    Ok(lines)
}

/// Instructions of a gateway that was started, asked so often, and ended.
async fn counted(bench: &Bench, valgrind: &str, name: &str, prompt: Prompt, times: u64) -> Result<u64, String> {
    let name = format!("instructions-{name}-{times}");
    let profile = bench.scratch.join(format!("{name}.callgrind")).display().to_string();
    let under = [valgrind, "--tool=callgrind", &format!("--callgrind-out-file={profile}")].map(str::to_owned);
    let mut side = Side::start(bench, Setup { under: &under, ..Setup::new(&name) }).await?;
    let spec = Spec { connections: 1, warm_up: 0.0, seconds: 300.0, most: Some(times), ..bench.spec(&side.targets(), prompt) };
    let window = generator::run(&spec, Vec::new()).await?;
    window.check(&name)?;
    let gateway = side.gateways.first_mut().ok_or("no gateway")?;
    gateway.settled().await?;
    gateway.process.stop()?;
    let said = std::fs::read_to_string(gateway.directory.join("tollgate.out")).map_err(|error| error.to_string())?;
    let collected = said.lines().find_map(|line| line.split_once("Collected : ")?.1.split_whitespace().next()?.parse().ok());
    collected.ok_or_else(|| format!("callgrind does not say what it counted: {said}"))
}
