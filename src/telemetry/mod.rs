//! What is seen of the gateway from outside: one access-log line a request, metrics, the process log.

pub mod alerts;
pub mod clock;
mod gathered;
mod line;
pub mod log;
pub mod metrics;
pub mod otlp;
pub mod outage;
pub mod record;
pub mod reload;
pub mod spelled;
pub mod tls;
pub mod triage;

pub use clock::SystemClock;
pub use metrics::Metrics;
pub use record::{Ending, Facts, Record};
