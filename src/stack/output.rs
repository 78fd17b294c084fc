//! The output cap of a call: the smaller of what it asks and what its plan allows, not under what the model needs to say anything.

use super::call::{Output, Target, Who};
use crate::config::policy::Model;
use crate::pricing::Price;
use crate::wire::Api;
use crate::wire::request::Request;

/// Legacy completions put out at most this much unless told otherwise: the API's own default.
const COMPLETIONS_DEFAULT: u64 = 16;
/// The smallest cap the Responses API takes, and a sensible one elsewhere.
const FLOOR: u64 = 16;
/// Reasoning models spend output before they say anything.
const REASONING_FLOOR: u64 = 1_024;
/// What a model may put out when nothing says how much.
const UNKNOWN_MODEL_MAX: u64 = 16_384;

/// Names of models that reason before they answer, or always do.
const REASONING: [&str; 6] = ["o1", "o3", "o4", "gpt-5", "gpt-6", "gpt-oss"];

/// The bound of a call's output. `expected` is left at the cap; experience lowers it.
#[must_use]
pub fn bound_output(who: &Who, target: &Target, request: &Request) -> Output {
    if !who.api.generates() {
        return Output::default();
    }
    let model = who.policy.models.get(&target.model);
    let floor = model.and_then(|model| model.output_floor).unwrap_or_else(|| floor_of(&target.model));
    let most = most_of(model, target.price.as_deref());
    let planned = who.customer.plan.max_output_tokens.map(|plan| plan.max(floor));
    let cap = cap(who.api, request.output_cap, planned, most);
    let choices = request.choices;
    // A thinking budget must stay under the cap, or the provider refuses what was granted here.
    let floor = request.features.thinking_budget.map_or(floor, |budget| floor.max(budget.saturating_add(1)));
    Output { cap, floor: floor.min(cap), choices, expected: cap.saturating_mul(choices) }
}

fn cap(api: Api, asked: Option<u64>, planned: Option<u64>, most: u64) -> u64 {
    match (asked, planned) {
        (Some(asked), Some(planned)) => asked.min(planned),
        (Some(asked), None) => asked,
        (None, _) if api == Api::Completions => COMPLETIONS_DEFAULT,
        (None, Some(planned)) => planned.min(most),
        (None, None) => most,
    }
}

/// The most that a model can put out.
#[must_use]
pub fn most_of(model: Option<&Model>, price: Option<&Price>) -> u64 {
    let configured = model.and_then(|model| model.max_output_tokens);
    configured.or_else(|| price.and_then(|price| price.max_output_tokens)).unwrap_or(UNKNOWN_MODEL_MAX)
}

/// The smallest output cap worth having, unless the model's configuration says otherwise.
#[must_use]
pub fn floor_of(model: &str) -> u64 {
    let name = model.strip_prefix("ft:").unwrap_or(model);
    let name = name.rsplit('/').next().unwrap_or(name);
    if REASONING.iter().any(|prefix| name.starts_with(prefix)) { REASONING_FLOOR } else { FLOOR }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cap_is_the_smaller_of_the_requests_and_the_plans() {
        for (api, asked, planned, right) in [
            (Api::Chat, Some(500), Some(1_024), 500),
            (Api::Chat, Some(5_000), Some(1_024), 1_024),
            (Api::Chat, Some(5_000), None, 5_000),
            (Api::Chat, None, Some(1_024), 1_024),
            (Api::Chat, None, Some(100_000), 8_192),
            (Api::Responses, None, None, 8_192),
            (Api::Completions, None, Some(1_024), 16),
            (Api::Messages, Some(0), Some(1_024), 0),
        ] {
            assert_eq!(cap(api, asked, planned, 8_192), right, "{api:?} {asked:?} {planned:?}");
        }
    }

    #[test]
    fn reasoning_models_need_room() {
        for (model, floor) in
            [("gpt-4o", 16), ("o3", 1_024), ("gpt-5-mini", 1_024), ("ft:o4-mini:org::1", 1_024), ("claude-haiku-4-5", 16)]
        {
            assert_eq!(floor_of(model), floor, "{model}");
        }
    }
}
