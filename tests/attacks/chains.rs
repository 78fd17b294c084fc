//! Chains of several steps: one request, one place in the customer's limits, one sum of money.

use crate::bed::Bed;
use crate::scene::{Answer, ROUTES, bed, models_seen, tickets};
use tollgate::demo::provider::Script;
use tollgate::domain::NanoUsd;
use tollgate::wire::Usage;

/// One request a second, and a chain that waits for it. The dollars hold one answer of `m-big`, and nothing beside it.
const WAITS: &str = "messages = \"unlimited\"\nrpm = { limit = 60, burst = 1 }\ntpm = 100_000\nmax_output_tokens = 1_000\nspend = { day = 0.011 }\non_tokens = [\"wait\", \"cheaper\"]";

const OPEN: &str = "messages = \"unlimited\"\nrpm = 60\ntpm = 100_000\nmax_output_tokens = 1_000\nspend = { day = 1.0 }";

fn chat(bed: &Bed, customer: &str, plan: &str, model: &str) -> reqwest::RequestBuilder {
    let body = ROUTES[0].body("").replace("m-big", model);
    let request = bed.post("/v1/chat/completions", customer, body).header("x-customer-plan", plan);
    request.header("x-request-class", "general")
}

/// The step before the fallback reached a provider, so the request is counted; and what it held makes room for the fallback.
#[tokio::test]
async fn a_request_is_counted_and_held_once_however_many_of_its_steps_reach_a_provider() {
    let bed = bed(&[("waits", WAITS)], "").await;
    let first = Answer::of(chat(&bed, "c", "waits", "m-small")).await;
    assert_eq!((first.status, first.remaining("rpm")), (200, Some(0)));
    bed.provider.script(Script::json(500, "{}"));
    let second = Answer::of(chat(&bed, "c", "waits", "m-big")).await;
    assert_eq!(models_seen(&bed), ["m-small", "m-big", "m-small"], "{}", second.body);
    assert_eq!((second.status, second.header("x-tollgate-degraded")), (200, "cheaper;cause=tokens"), "{}", second.body);
    assert_eq!(second.header("x-tollgate-model"), "m-small");
    bed.assert_books(&["c"]).await;
}

/// What a failed attempt used is charged, and whoever takes over reads it on the ticket.
#[tokio::test]
async fn a_ticket_tells_what_the_attempts_before_it_cost() {
    let plan = format!("{OPEN}\non_provider = [\"handoff\"]");
    let bed = bed(&[("open", &plan)], "").await;
    let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"c-big\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":1000,\"output_tokens\":0}}}\n\n";
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n";
    let usage = Usage { uncached_input: 1_000, output: 0, ..Usage::default() };
    bed.provider.script(Script::sse().send(start).send(error).used(usage));
    let request = bed.post("/v1/messages", "c", ROUTES[5].body("")).header("x-customer-plan", "open");
    let answer = Answer::of(request).await;
    assert_eq!((answer.status, answer.header("x-tollgate-degraded")), (200, "handoff;cause=provider"), "{}", answer.body);
    let ticket = tickets(&bed, 1).await.remove(0);
    assert_eq!(bed.spent("c").await, NanoUsd::new(2_500_000), "1,000 x $2.50 per million");
    assert_eq!(ticket.requests[0].cost, 2_500_000);
    bed.assert_books(&["c"]).await;
}

/// Everything fails, with half of it charged: the first error comes out, with its wait, and nothing is booked twice.
#[tokio::test]
async fn at_the_end_of_a_chain_stands_the_first_error_and_every_charge_once() {
    let plan = format!("{}\non_provider = [\"cheaper\", \"wait\"]", OPEN.replace("rpm = 60", "rpm = 10"));
    let bed = bed(&[("open", &plan)], "").await;
    bed.provider
        .script(Script::json(429, r#"{"error":{"message":"first"}}"#).header("retry-after", "1").header("x-request-id", "r1"));
    bed.provider.script(Script::json(429, r#"{"error":{"message":"second"}}"#).header("retry-after", "30"));
    bed.provider.script(Script::json(500, r#"{"error":{"message":"third"}}"#));
    let answer = Answer::of(chat(&bed, "c", "open", "m-big")).await;
    assert_eq!(models_seen(&bed), ["m-big", "m-small", "m-big"]);
    assert_eq!((answer.status, answer.header("retry-after"), answer.header("x-request-id")), (429, "1", "r1"));
    assert_eq!(answer.json()["error"]["message"], "first");
    assert_eq!((answer.header("x-tollgate-degraded"), answer.header("x-tollgate-model")), ("", ""));
    let next = Answer::of(chat(&bed, "c", "open", "m-small")).await;
    assert_eq!(next.remaining("rpm"), Some(8), "three attempts were one request");
    bed.assert_books(&["c"]).await;
}
