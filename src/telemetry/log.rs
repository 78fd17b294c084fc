//! The process log: JSON lines on standard error or into a file, one target (`access`) for the access log.

use super::line::Lines;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::JsonFields;

pub use super::gathered::Log;

/// Starts logging, until the log is dropped. `filter` is a `tracing` filter such as `info` or `tollgate=debug`; the access log is on unless
/// it says `access=off`.
///
/// # Errors
/// When the file cannot be opened, or the filter does not parse.
pub fn start(filter: &str, file: Option<&Path>) -> io::Result<Log> {
    // The journal's library tells at length what it does; only its warnings are ours to hear, unless the filter says otherwise.
    let filter = EnvFilter::try_new(format!("fjall=warn,lsm_tree=warn,{filter}"))
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e.to_string()))?;
    let (log, output) = match file {
        Some(path) => Log::into(OpenOptions::new().create(true).append(true).open(path)?)?,
        None => Log::into(io::stderr())?,
    };
    let subscriber = tracing_subscriber::fmt()
        .fmt_fields(JsonFields::new())
        .event_format(Lines::default())
        .with_env_filter(filter)
        .with_writer(output);
    // A second start (tests in one process) keeps the first.
    let _ = subscriber.try_init();
    Ok(log)
}
