//! Customers whose limits are narrow: each must be admitted, and then refused by the very limit it has.

use super::gateway::{Gateway, KEY};
use super::http;
use super::nginx::USED;
use std::time::{Duration, Instant};

/// The model whose pool has a narrow ceiling.
pub const TIGHT: &str = "gpt-4.1-mini";
/// Requests after which a limit must have bound.
const MOST: u64 = 12;
/// How long a settlement may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// One of them.
pub struct Probe {
    /// Customer and plan.
    pub customer: &'static str,
    /// The limits of the plan.
    pub limit: &'static str,
    model: &'static str,
    status: u16,
    /// What the refusal must name.
    code: &'static str,
}

/// All of them.
pub const PROBES: [Probe; 5] = [
    Probe {
        customer: "few-messages",
        limit: "messages = { rate = \"1/h\", burst = 3 }",
        model: "gpt-4o-mini",
        status: 429,
        code: "rate_limit_exceeded",
    },
    Probe { customer: "few-requests", limit: "rpm = 3", model: "gpt-4o-mini", status: 429, code: "rate_limit_exceeded" },
    Probe { customer: "few-tokens", limit: "tpm = 2_000", model: "gpt-4o-mini", status: 429, code: "rate_limit_exceeded" },
    Probe { customer: "poor", limit: "spend = { day = 0.0005 }", model: "gpt-4o-mini", status: 402, code: "spend_cap_exceeded" },
    Probe { customer: "narrow-ceiling", limit: "rpm = 60_000", model: TIGHT, status: 503, code: "overloaded" },
];

/// Sends the probes through a gateway; how many of each customer were admitted.
pub async fn all(gateway: &Gateway) -> Result<Vec<(&'static str, u64)>, String> {
    let mut admitted = Vec::new();
    for probe in &PROBES {
        let (mut passed, until) = (0, Instant::now() + PATIENCE);
        loop {
            let (status, body) = ask(gateway, probe).await?;
            if status == 429 && body.contains("budget_in_flight") && Instant::now() < until {
                // The settlement of the one before is still on its way.
                tokio::time::sleep(Duration::from_millis(20)).await;
            } else if status == 200 && passed < MOST {
                passed += 1;
            } else if status == probe.status && body.contains(probe.code) && passed > 0 {
                break;
            } else {
                return Err(format!("{}: after {passed} admitted {status} {body}", probe.customer));
            }
        }
        admitted.push((probe.customer, passed));
    }
    Ok(admitted)
}

async fn ask(gateway: &Gateway, probe: &Probe) -> Result<(u16, String), String> {
    // About as many tokens as the upstream will say, so that no customer is surprised.
    let text = "word ".repeat(usize::try_from(USED.0).unwrap_or_default());
    let body = format!(
        r#"{{"model":"{}","max_tokens":64,"messages":[{{"role":"user","content":"{}"}}]}}"#,
        probe.model,
        text.trim_end()
    );
    let headers = [format!("authorization: Bearer {KEY}"), format!("x-customer-id: {}", probe.customer)];
    http::post(gateway.address, "/v1/chat/completions", &headers, &body).await
}
