//! The two histograms of the GenAI conventions: how long calls of providers take, and how many tokens they use. Cumulative, and bounded:
//! models are named only when they have a price, and beyond a number of series all else is one.

use super::names::{self, Attributes};
use super::spans::{Request, error_of};
use super::steps::Kind;
use crate::domain::Timestamp;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Histogram, HistogramDataPoint, Metric};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Series of both together.
const MOST_SERIES: usize = 2_000;
/// Bounds in seconds and in tokens, as the conventions advise.
const SECONDS: [f64; 14] = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
/// What stands for a model without a price, and for all that is too much.
const OTHER: &str = "other";

/// See the module.
#[derive(Debug)]
pub struct Meters {
    since: Timestamp,
    series: Mutex<BTreeMap<Key, Points>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// `input` or `output`; `None` for durations.
    tokens: Option<&'static str>,
    operation: &'static str,
    provider: &'static str,
    model: Arc<str>,
    error: Option<String>,
}

#[derive(Debug, Default)]
struct Points {
    count: u64,
    sum: f64,
    buckets: [u64; 15],
}

impl Meters {
    /// Counts from now on.
    #[must_use]
    pub fn new(since: Timestamp) -> Self {
        Self { since, series: Mutex::default() }
    }

    /// A request has ended.
    pub fn ended(&self, request: &Request<'_>) {
        let Some(operation) = names::operation(request.api) else { return };
        let mut last = None;
        for step in request.steps {
            let Kind::Attempt { model, known, upstream } = &step.kind else { continue };
            let model = if *known { model.clone() } else { OTHER.into() };
            let key = Key { tokens: None, operation, provider: names::provider(upstream), model, error: error_of(step) };
            let took = step.ended.unwrap_or(request.took).saturating_sub(step.began);
            last = Some(key.clone());
            self.observe(key, took.as_secs_f64());
        }
        let (Some(key), Some(usage)) = (last, &request.facts.usage) else { return };
        for (tokens, count) in [("input", usage.input()), ("output", usage.total_output())] {
            // Counts beyond 2⁵³ are none.
            #[expect(clippy::cast_precision_loss, reason = "histograms are of floats")]
            self.observe(Key { tokens: Some(tokens), error: None, ..key.clone() }, count as f64);
        }
    }

    fn observe(&self, mut key: Key, value: f64) {
        let bounds = if key.tokens.is_some() { &TOKENS } else { &SECONDS };
        let bucket = bounds.partition_point(|bound| *bound < value);
        let mut series = self.series.lock();
        if series.len() >= MOST_SERIES && !series.contains_key(&key) {
            key = Key { model: OTHER.into(), error: key.error.map(|_| "_OTHER".to_owned()), ..key };
        }
        let points = series.entry(key).or_default();
        points.count += 1;
        points.sum += value;
        points.buckets[bucket] += 1;
    }

    /// How they stand; empty before anything was observed.
    #[must_use]
    pub fn read(&self, now: Timestamp) -> Vec<Metric> {
        let nanos = |at: Timestamp| at.micros().saturating_mul(1_000);
        let (mut tokens, mut durations) = (Vec::new(), Vec::new());
        for (key, points) in &*self.series.lock() {
            let mut attributes = Attributes::default();
            attributes.text("gen_ai.operation.name", key.operation);
            attributes.text("gen_ai.provider.name", key.provider);
            attributes.text("gen_ai.request.model", &key.model);
            attributes.maybe("gen_ai.token.type", key.tokens);
            attributes.maybe("error.type", key.error.as_deref());
            let bounds = if key.tokens.is_some() { TOKENS } else { SECONDS };
            let into = if key.tokens.is_some() { &mut tokens } else { &mut durations };
            into.push(HistogramDataPoint {
                attributes: attributes.0,
                start_time_unix_nano: nanos(self.since),
                time_unix_nano: nanos(now),
                count: points.count,
                sum: Some(points.sum),
                bucket_counts: points.buckets.to_vec(),
                explicit_bounds: bounds.to_vec(),
                ..HistogramDataPoint::default()
            });
        }
        let histogram = |name: &str, unit: &str, description: &str, data_points: Vec<HistogramDataPoint>| {
            let aggregation_temporality = AggregationTemporality::Cumulative.into();
            let data = Some(Data::Histogram(Histogram { data_points, aggregation_temporality }));
            let (name, unit, description) = (name.to_owned(), unit.to_owned(), description.to_owned());
            Metric { name, unit, description, data, ..Metric::default() }
        };
        let mut metrics = Vec::new();
        if !durations.is_empty() {
            metrics.push(histogram("gen_ai.client.operation.duration", "s", "GenAI operation duration", durations));
        }
        if !tokens.is_empty() {
            metrics.push(histogram("gen_ai.client.token.usage", "{token}", "Input and output tokens used", tokens));
        }
        metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(model: &str, error: Option<&str>) -> Key {
        let (operation, provider) = ("chat", "openai");
        Key { tokens: None, operation, provider, model: model.into(), error: error.map(str::to_owned) }
    }

    #[test]
    fn a_value_is_in_the_bucket_that_ends_with_it() {
        let meters = Meters::new(Timestamp(1));
        for value in [0.0, 0.01, 0.011, 81.92, 100.0] {
            meters.observe(key("m", None), value);
        }
        let [metric] = &meters.read(Timestamp(2))[..] else { panic!("one metric") };
        let Some(Data::Histogram(histogram)) = &metric.data else { panic!("a histogram") };
        let [point] = &histogram.data_points[..] else { panic!("one series") };
        assert_eq!((metric.name.as_str(), metric.unit.as_str()), ("gen_ai.client.operation.duration", "s"));
        assert_eq!((point.count, point.start_time_unix_nano, point.time_unix_nano), (5, 1_000, 2_000));
        assert_eq!(point.bucket_counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(point.explicit_bounds.len() + 1, point.bucket_counts.len());
    }

    #[test]
    fn series_are_bounded_and_nothing_is_lost() {
        let meters = Meters::new(Timestamp(1));
        for n in 0..3 * MOST_SERIES {
            meters.observe(key(&format!("m{n}"), (n % 2 == 0).then_some("500")), 1.0);
        }
        let series = meters.series.lock();
        assert_eq!(series.len(), MOST_SERIES + 2);
        assert_eq!(series.values().map(|points| points.count).sum::<u64>(), 3 * MOST_SERIES as u64);
        assert_eq!(series[&key(OTHER, Some("_OTHER"))].count, MOST_SERIES as u64);
    }
}
