//! OpenTelemetry: spans and histograms with the names of the GenAI conventions, sent to a collector (OTLP, protobuf over HTTP).
//!
//! Nothing is instrumented: a request notes its steps in its record, and when it has ended its spans are made of what is known of it and
//! put in a bounded queue. A task of its own sends them in batches. A collector that is slow or away costs spans, which are counted
//! (`tollgate_otlp_dropped`), and never a request anything. Switched off, all of this is one look at an `Option`.

pub mod context;
mod count;
pub mod meters;
pub mod names;
mod send;
pub mod spans;
pub mod steps;

pub use count::OtlpMetrics;
pub use steps::{Kind, StepId, Trace};

use super::Metrics;
use crate::config::policy;
use crate::domain::Clock;
use meters::Meters;
use send::{Sender, Told};
use spans::Request;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Requests whose spans wait to be sent; those of one take some kilobytes.
const WAITING: usize = 4_096;

/// See the module.
pub struct Otlp {
    sample: u32,
    customer_ids: bool,
    meters: Arc<Meters>,
    spans: mpsc::Sender<Told>,
    readings: mpsc::Sender<oneshot::Sender<()>>,
    /// No more pauses: the gateway ends.
    hurry: CancellationToken,
    metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Otlp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Otlp").finish_non_exhaustive()
    }
}

impl Otlp {
    /// Starts the tasks that send. They end when nobody can tell them anything any more.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn start(settings: &policy::Otlp, clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Result<Arc<Self>, reqwest::Error> {
        let hurry = CancellationToken::new();
        let meters = Arc::new(Meters::new(clock.now()));
        let (spans, told) = mpsc::channel(WAITING);
        let (readings, asked) = mpsc::channel(1);
        let sender = |signal| Sender::new(settings, signal, metrics.clone(), hurry.clone());
        tokio::spawn(send::spans(sender("traces")?, told, settings.interval));
        tokio::spawn(send::readings(sender("metrics")?, meters.clone(), asked, clock, settings.metrics_interval));
        let (sample, customer_ids) = (settings.sample, settings.customer_ids);
        Ok(Arc::new(Self { sample, customer_ids, meters, spans, readings, hurry, metrics }))
    }

    /// The part of traces begun here that is exported, millionths.
    #[must_use]
    pub const fn sample(&self) -> u32 {
        self.sample
    }

    /// A request has ended. Called from a `Drop`: neither blocks nor panics.
    pub fn ended(&self, trace: &Trace, request: &Request<'_>) {
        self.meters.ended(request);
        if !trace.context.sampled {
            return;
        }
        let spans = spans::spans(trace, request, self.customer_ids);
        let count = spans.len() as u64;
        if self.spans.try_send(Told::Spans(spans)).is_err() {
            self.metrics.otlp.dropped("queue_full", count);
        }
    }

    /// Waits until everything told so far is sent or given up, for so long. Gives whether it is.
    pub async fn drain(&self, patience: Duration) -> bool {
        self.hurry.cancel();
        let spans = async {
            let (ack, sent) = oneshot::channel();
            self.spans.send(Told::Flush(ack)).await.is_ok() && sent.await.is_ok()
        };
        let readings = async {
            let (ack, sent) = oneshot::channel();
            self.readings.send(ack).await.is_ok() && sent.await.is_ok()
        };
        timeout(patience, async { tokio::join!(spans, readings) }).await.is_ok_and(|both| both == (true, true))
    }
}
