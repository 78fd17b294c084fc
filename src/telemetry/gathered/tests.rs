use super::*;
use crate::telemetry::line::Lines;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use tracing_subscriber::fmt::format::JsonFields;

const PATIENCE: Duration = Duration::from_secs(10);

/// Gives what is written to the test, a write at a time; while the gate is locked it takes nothing.
struct Seen {
    writes: SyncSender<String>,
    gate: Arc<Mutex<()>>,
}

impl Write for Seen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        drop(self.gate.lock());
        let text = String::from_utf8_lossy(bytes).into_owned();
        self.writes.send(text).map_err(|_| io::Error::other("the test is over"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn log() -> (Log, Output, Receiver<String>, Arc<Mutex<()>>) {
    let (writes, seen) = sync_channel(1_000);
    let gate = Arc::default();
    let (log, output) = Log::into(Seen { writes, gate: Arc::clone(&gate) }).expect("a thread");
    (log, output, seen, gate)
}

fn logged(output: &Output, work: impl FnOnce()) {
    let subscriber = tracing_subscriber::fmt().fmt_fields(JsonFields::new()).event_format(Lines::default());
    tracing::subscriber::with_default(subscriber.with_writer(output.clone()).finish(), work);
}

fn access(n: u32) {
    tracing::info!(target: "access", members = format!("\"n\":{n}"));
}

/// The numbers of the access lines in a text, in their order.
fn numbers(text: &str) -> Vec<u64> {
    let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("a whole line")["n"].as_u64();
    text.lines().filter_map(line).collect()
}

#[test]
fn access_lines_are_written_together_and_other_lines_at_once_behind_them() {
    let (_log, output, seen, gate) = log();
    logged(&output, || {
        let closed = gate.lock();
        // The writer's thread stands at the gate with these, or has not woken up yet.
        (0..50).for_each(access);
        drop(closed);
        let mut first = Vec::new();
        while first.len() < 50 {
            first.extend(numbers(&seen.recv_timeout(PATIENCE).expect("they are written without further ado")));
        }
        assert!(first.iter().copied().eq(0..50), "each once, in order: {first:?}");
        access(50);
        tracing::warn!("something else");
        let before = std::iter::from_fn(|| seen.try_recv().ok()).collect::<String>();
        assert_eq!(numbers(&before), [50], "when the call is back both are written");
        assert!(before.lines().last().expect("two lines").contains("something else"), "{before}");
    });
}

#[test]
fn what_has_gathered_is_written_at_the_end_and_so_is_what_comes_after_it() {
    let (log, output, seen, _) = log();
    logged(&output, || {
        (0..3).for_each(access);
        drop(log);
        access(3);
    });
    drop(output);
    assert_eq!(numbers(&seen.iter().collect::<String>()), [0, 1, 2, 3]);
}

#[test]
fn nobody_waits_for_an_output_that_takes_nothing_and_lines_are_dropped_whole() {
    let (log, output, seen, gate) = log();
    let line = vec![b'x'; MOST / 64];
    let closed = gate.lock();
    for _ in 0..200 {
        output.0.gather(&line);
    }
    let waiting = output.0.waiting.lock();
    let (bytes, dropped) = (waiting.lines.len(), usize::try_from(waiting.dropped).expect("few"));
    drop(waiting);
    assert!(bytes <= MOST && bytes % line.len() == 0, "{bytes}");
    // The thread may have taken as many to the gate before the others came.
    assert!(dropped >= 200 - 2 * 64, "{dropped}");
    drop(closed);
    drop(log);
    let written: usize = seen.try_iter().map(|text| text.len()).sum();
    assert_eq!(written / line.len() + dropped, 200);
    assert_eq!(output.0.waiting.lock().dropped, 0, "told");
}
