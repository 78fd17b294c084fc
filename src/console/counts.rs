//! What this gateway has counted since it started, read from its own metrics, so that the console and `/metrics` never differ.

use crate::telemetry::Metrics;
use std::collections::BTreeMap;

/// Sums of a counter by one of its labels.
pub(super) type Sums = BTreeMap<String, u64>;

/// The metrics at an instant.
pub(super) struct Counts(String);

impl Counts {
    pub(super) fn of(metrics: &Metrics) -> Self {
        Self(metrics.render())
    }

    /// The sums of a counter by these labels, joined with a space; zeros and empty labels left out.
    pub(super) fn by(&self, counter: &str, labels: &[&str]) -> Sums {
        let mut sums = Sums::new();
        for line in self.0.lines() {
            let Some(rest) = line.strip_prefix(counter).and_then(|rest| rest.strip_prefix('{')) else { continue };
            let Some((said, value)) = sample(rest) else { continue };
            let named = |wanted: &&str| said.iter().find(|(name, _)| name == *wanted).map(|(_, value)| value.as_str());
            let key: Vec<&str> = labels.iter().filter_map(named).filter(|value| !value.is_empty()).collect();
            if !key.is_empty() && value > 0 {
                let sum = sums.entry(key.join(" ")).or_default();
                *sum = sum.saturating_add(value);
            }
        }
        sums
    }
}

/// The labels and the value of a line, from behind the opening brace on.
fn sample(line: &str) -> Option<(Vec<(String, String)>, u64)> {
    let (mut labels, mut rest) = (Vec::new(), line);
    while let Some((name, after)) = rest.split_once("=\"") {
        let (mut value, mut chars) = (String::new(), after.char_indices());
        let end = loop {
            match chars.next()? {
                (at, '"') => break at,
                (_, '\\') => match chars.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.push((name.trim_start_matches(',').to_owned(), value));
        rest = &after[end + 1..];
        if let Some(number) = rest.strip_prefix('}') {
            return Some((labels, number.trim().parse().ok()?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::{ModelLabels, Name, RefusalLabels};

    #[test]
    fn sums_are_those_of_the_counters() {
        let metrics = Metrics::default();
        for (scope, limit, count) in [("customer", "rpm", 2), ("customer", "tpm", 3), ("pool", "tpm", 4)] {
            metrics.refusals.get_or_create(&RefusalLabels { scope, limit }).inc_by(count);
        }
        let odd = "a\"b\\c\nd{}=,";
        metrics.spent.get_or_create(&ModelLabels { model: Name(odd.into()) }).inc_by(7);
        let counts = Counts::of(&metrics);
        let sums = |pairs: &[(&str, u64)]| pairs.iter().map(|(name, sum)| ((*name).to_owned(), *sum)).collect::<Sums>();
        assert_eq!(counts.by("tollgate_refusals_total", &["limit"]), sums(&[("rpm", 2), ("tpm", 7)]));
        assert_eq!(
            counts.by("tollgate_refusals_total", &["scope", "limit"]),
            sums(&[("customer rpm", 2), ("customer tpm", 3), ("pool tpm", 4)])
        );
        assert_eq!(counts.by("tollgate_spent_nano_usd_total", &["model"]), sums(&[(odd, 7)]));
        assert_eq!(counts.by("tollgate_refusals_total", &["nope"]), Sums::new());
        assert_eq!(counts.by("tollgate_nope_total", &["limit"]), Sums::new());
    }
}
