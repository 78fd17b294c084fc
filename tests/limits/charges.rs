//! What a reply costs: its usage at the price of the served tier, rounded once, and of the moment of admission.

use crate::bed::Bed;
use crate::fixture::{answer, reload, reply, used};
use tollgate::demo::provider::{Gate, Script};
use tollgate::wire::Usage;

#[tokio::test]
async fn cached_tokens_cost_what_the_cache_costs() {
    let bed = Bed::new().await;
    let chat = r#"{"id":"c","object":"chat.completion","choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":100,"prompt_tokens_details":{"cached_tokens":800}}}"#;
    let responses = r#"{"id":"r","object":"response","status":"completed","output":[],"usage":{"input_tokens":1000,"output_tokens":100,"input_tokens_details":{"cached_tokens":800}}}"#;
    let message = |usage: &str| format!(r#"{{"id":"m","type":"message","role":"assistant","content":[],"usage":{{{usage}}}}}"#);
    let written =
        message(r#""input_tokens":3,"cache_creation_input_tokens":12304,"cache_read_input_tokens":0,"output_tokens":550"#);
    let read = message(r#""input_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":12304,"output_tokens":550"#);
    let cached = Usage { uncached_input: 200, cache_read: 800, output: 100, ..Usage::default() };
    let of = |cache_write, cache_read| Usage { uncached_input: 3, cache_write, cache_read, output: 550, ..Usage::default() };
    for (path, model, body, usage, nano) in [
        ("/v1/chat/completions", "m-big", chat.to_owned(), cached.clone(), 2_500_000),
        ("/v1/responses", "m-big", responses.to_owned(), cached, 2_500_000),
        ("/v1/messages", "c-big", written, of(12_304, 0), 54_399_000),
        ("/v1/messages", "c-big", read, of(0, 12_304), 11_950_200),
    ] {
        let before = bed.spent("o").await.get();
        bed.provider.script(Script::json(200, body).used(usage));
        let request =
            format!(r#"{{"model":"{model}","max_tokens":16,"messages":[{{"role":"user","content":"hi"}}],"input":"hi"}}"#);
        let answer = answer(bed.post(path, "o", request)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(bed.spent("o").await.get() - before, nano, "{path}");
    }
    bed.assert_books(&["o"]).await;
}

#[tokio::test]
async fn the_tier_that_served_is_the_tier_that_is_paid() {
    let file = tempfile::Builder::new().suffix(".json").tempfile().expect("a file");
    let prices = r#"{"m-tier":{"litellm_provider":"openai","mode":"chat","max_output_tokens":1000,
        "input_cost_per_token":1e-06,"output_cost_per_token":2e-06,
        "input_cost_per_token_priority":3e-06,"output_cost_per_token_priority":4e-06}}"#;
    std::fs::write(file.path(), prices).expect("written");
    let more = format!(
        "[pricing]\nfile = {:?}\n[models.m-long]\nprice = {{ input = 1.0, output = 2.0, long_context = {{ above = 200_000, input = 2.0, output = 3.0 }} }}\n",
        file.path()
    );
    let bed = Bed::plus(&more).await;
    for (model, asked, served, prompt, nano) in [
        ("m-tier", "priority", "priority", 100, 100 * 3_000 + 10 * 4_000),
        ("m-tier", "priority", "default", 100, 100 * 1_000 + 10 * 2_000),
        ("m-tier", "auto", "priority", 100, 100 * 3_000 + 10 * 4_000),
        ("m-tier", "default", "default", 100, 100 * 1_000 + 10 * 2_000),
        ("m-long", "default", "default", 200_000, 200_000 * 1_000 + 10 * 2_000),
        ("m-long", "default", "default", 250_000, 250_000 * 2_000 + 10 * 3_000),
    ] {
        let before = bed.spent("o").await.get();
        let usage = format!(r#"{{"prompt_tokens":{prompt},"completion_tokens":10}},"service_tier":"{served}""#);
        let stated = Usage { uncached_input: prompt, output: 10, service_tier: Some(served.into()), ..Usage::default() };
        bed.provider.script(reply(&usage).used(stated));
        let answer = answer(bed.chat("o", model, &format!(r#","max_tokens":16,"service_tier":"{asked}""#))).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(bed.spent("o").await.get() - before, nano, "{model}: {asked} asked, {served} served");
    }
    let calls = bed.provider.log().len();
    for (model, tier) in [("m-tier", "flex"), ("m-big", "priority"), ("m-big", "flex")] {
        let refused = answer(bed.chat("o", model, &format!(r#","service_tier":"{tier}""#))).await;
        assert_eq!(refused.outcome(), (400, "service_tier_not_priced"), "{refused:?}");
    }
    assert_eq!(bed.provider.log().len(), calls, "never at the base price in silence");
    bed.assert_books(&["o"]).await;
}

#[tokio::test]
async fn a_thousand_tiny_costs_add_up_exactly() {
    let bed = Bed::new().await;
    for _ in 0..1_000 {
        bed.provider.script(used(1, 1));
        assert_eq!(answer(bed.chat("o", "m-small", r#","max_tokens":1"#)).await.status, 200);
    }
    assert_eq!(bed.spent("o").await.get(), 750_000, "750 nano-dollars each");
    bed.assert_books(&["o"]).await;
}

#[tokio::test]
async fn background_responses_are_refused_before_they_cost() {
    let bed = Bed::new().await;
    let refused = answer(bed.post("/v1/responses", "t", r#"{"model":"m-big","background":true,"input":"hi"}"#)).await;
    assert_eq!(refused.outcome(), (400, "background_not_supported"), "{refused:?}");
    assert_eq!((bed.provider.log().len(), bed.balances("t").await.len()), (0, 0));
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn the_price_of_the_admission_holds_to_the_end_of_the_stream() {
    let bed = Bed::plus("[models.m-moving]\nprice = { input = 1.0, output = 2.0 }\n").await;
    let gate = Gate::new();
    let stream = || {
        let chunk = r#"data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"ok"}}]}"#;
        let usage = r#"data: {"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100}}"#;
        let usage = format!("{usage}\n\ndata: [DONE]\n\n");
        Script::sse().send(format!("{chunk}\n\n")).until(&gate).send(usage)
    };
    let ask = || answer(bed.chat("o", "m-moving", r#","max_tokens":200,"stream":true"#));
    bed.provider.script(stream());
    let running = tokio::spawn(ask());
    bed.provider.wait_until(|seen| seen.len() == 1 && seen[0].status == 200).await;
    let held = bed.balances("o").await[0].held;
    reload(&bed, "[models.m-moving]\nprice = { input = 10.0, output = 20.0 }\n");
    gate.open();
    assert_eq!(running.await.expect("no panic").status, 200);
    assert_eq!(bed.spent("o").await.get(), 1_000 * 1_000 + 100 * 2_000);
    assert!((200 * 2_000..200 * 20_000).contains(&held), "claimed at the same price: {held}");
    bed.provider.script(stream());
    assert_eq!(ask().await.status, 200);
    assert_eq!(bed.spent("o").await.get(), 11 * (1_000 * 1_000 + 100 * 2_000), "the next one pays ten times as much");
}
