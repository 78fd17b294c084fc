//! The books afterwards, read as any customer may: under a cap of next to nothing the refusal says what is spent and held.

use super::gateway::{Gateway, KEY};
use super::http;
use serde_json::Value;

/// Customers that are asked one by one; of more, so many of them.
const ASKED: usize = 300;

/// What ought to be in them.
#[derive(Clone, Debug)]
pub enum Expected {
    /// Nano-dollars of these customers together.
    Together(Vec<String>, u64),
    /// Nano-dollars of each of so many customers, `PREFIX0` and so on.
    Each(String, u64, u64),
}

/// Compares the books of a gateway in which everybody's cap is next to nothing.
pub async fn compare(gateway: &Gateway, expected: &[Expected]) -> Result<(), String> {
    for part in expected {
        match part {
            Expected::Together(customers, right) => {
                let mut all = 0;
                for customer in customers {
                    all += spent(gateway, customer).await?;
                }
                if all != *right {
                    return Err(format!("{} customers spent {all} nano-dollars, {right} are right", customers.len()));
                }
            }
            Expected::Each(prefix, count, right) => {
                for number in (0..*count).step_by((*count as usize).div_ceil(ASKED).max(1)) {
                    let spent = spent(gateway, &format!("{prefix}{number}")).await?;
                    if spent != *right {
                        return Err(format!("{prefix}{number} spent {spent} nano-dollars, {right} are right"));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Nano-dollars that a customer has spent today. Fails when it holds any.
async fn spent(gateway: &Gateway, customer: &str) -> Result<u64, String> {
    let body = r#"{"model":"gpt-4o-mini","max_tokens":64,"messages":[{"role":"user","content":"how much?"}]}"#;
    let headers = [format!("authorization: Bearer {KEY}"), format!("x-customer-id: {customer}")];
    let (status, text) = http::post(gateway.address, "/v1/chat/completions", &headers, body).await?;
    let refusal: Value = serde_json::from_str(&text).unwrap_or_default();
    let dollars = |name: &str| refusal.pointer(&format!("/error/limit/{name}")).and_then(Value::as_f64);
    match (status, dollars("used"), dollars("held")) {
        (402, Some(used), Some(0.0)) => Ok((used * 1e9).round() as u64),
        _ => Err(format!("customer {customer} ought to be told what it spent, and to hold nothing: {status} {text}")),
    }
}
