//! A stand-in collector: takes OTLP over HTTP and reads it back with the official message definitions.

use axum::Router;
use axum::extract::{Request, State};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::HistogramDataPoint;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use prost::Message as _;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// What was posted.
#[derive(Clone, Debug)]
pub struct Posted {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// What was answered.
    pub status: u16,
}

#[derive(Clone, Default)]
struct Shared {
    posted: Arc<Mutex<Vec<Posted>>>,
    status: Arc<AtomicU16>,
}

/// Listens on loopback, and answers everything with one status.
pub struct Collector {
    pub address: SocketAddr,
    shared: Shared,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Collector {
    pub async fn new() -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    pub async fn at(address: SocketAddr) -> Self {
        let listener = tokio::net::TcpListener::bind(address).await.expect("a loopback port");
        let address = listener.local_addr().expect("bound");
        let shared = Shared { status: Arc::new(AtomicU16::new(200)), ..Shared::default() };
        let router = Router::new().fallback(take).with_state(shared.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.expect("serves") });
        Self { address, shared, serving }
    }

    /// From now on this is the answer.
    pub fn answers(&self, status: u16) {
        self.shared.status.store(status, Ordering::SeqCst);
    }

    pub fn posted(&self) -> Vec<Posted> {
        self.shared.posted.lock().clone()
    }

    /// Posts that were taken.
    pub fn taken(&self, path: &str) -> Vec<Posted> {
        self.posted().into_iter().filter(|posted| posted.path.ends_with(path) && posted.status == 200).collect()
    }

    /// All spans that were taken, in the order in which they came.
    pub fn spans(&self) -> Vec<Span> {
        let requests = self.taken("/v1/traces").into_iter();
        let requests = requests.map(|posted| ExportTraceServiceRequest::decode(posted.body).expect("trace protobuf"));
        let scopes = requests.flat_map(|request| request.resource_spans).flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    /// Who says it.
    pub fn resource(&self) -> Resource {
        let first = self.taken("/v1/traces").swap_remove(0);
        let request = ExportTraceServiceRequest::decode(first.body).expect("trace protobuf");
        request.resource_spans[0].resource.clone().expect("a resource")
    }

    /// The series of a histogram, as the last reading has it.
    pub fn histogram(&self, name: &str, unit: &str) -> Vec<HistogramDataPoint> {
        let last = self.taken("/v1/metrics").pop().expect("metrics were sent");
        let request = ExportMetricsServiceRequest::decode(last.body).expect("metrics protobuf");
        let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
        let metric = scopes.flat_map(|scope| scope.metrics).find(|metric| metric.name == name).expect("the metric");
        assert_eq!(metric.unit, unit);
        let Some(Data::Histogram(histogram)) = metric.data else { panic!("a histogram") };
        assert_eq!(histogram.aggregation_temporality, 2, "cumulative");
        histogram.data_points
    }

    /// The same once this holds, within ten seconds.
    pub async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        while !holds(self) {
            assert!(tokio::time::Instant::now() < deadline, "{what}: {:?}", self.posted().len());
            tokio::time::sleep(Duration::from_millis(10)).await; // polling with a deadline
        }
    }
}

async fn take(State(shared): State<Shared>, request: Request) -> StatusCode {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 16 << 20).await.expect("a whole body");
    let status = shared.status.load(Ordering::SeqCst);
    let path = head.uri.path().to_owned();
    shared.posted.lock().push(Posted { path, headers: head.headers, body, status });
    StatusCode::from_u16(status).expect("a status")
}

/// Attributes as text.
pub fn attributes(of: &[KeyValue]) -> BTreeMap<&str, String> {
    of.iter().map(|pair| (pair.key.as_str(), pair.value.as_ref().map(text).unwrap_or_default())).collect()
}

fn text(value: &AnyValue) -> String {
    match &value.value {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => format!("{number:?}"),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        Some(Value::ArrayValue(array)) => array.values.iter().map(text).collect::<Vec<_>>().join(","),
        other => panic!("{other:?}"),
    }
}
