//! One request through the whole stack, and what the books say afterwards.

#[path = "support/bed.rs"]
#[expect(dead_code, reason = "the bed serves several tests; none uses all of it")]
mod bed;

use bed::Bed;
use std::sync::atomic::Ordering;

#[tokio::test]
async fn a_request_costs_one_store_call_and_its_books_balance() {
    let bed = Bed::new().await;
    for (path, body) in [
        ("/v1/chat/completions", r#"{"model":"m-big","messages":[{"role":"user","content":"hi"}]}"#),
        ("/v1/chat/completions", r#"{"model":"m-big","stream":true,"messages":[{"role":"user","content":"hi"}]}"#),
        ("/v1/responses", r#"{"model":"m-big","input":"hi"}"#),
        ("/v1/responses", r#"{"model":"m-big","stream":true,"input":"hi"}"#),
        ("/v1/completions", r#"{"model":"m-small","prompt":"hi"}"#),
        ("/v1/embeddings", r#"{"model":"emb","input":"hi"}"#),
        ("/v1/messages", r#"{"model":"c-big","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}"#),
        ("/v1/messages", r#"{"model":"c-big","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#),
    ] {
        let before = bed.ledger.admits.load(Ordering::SeqCst);
        let reply = bed.post(path, "t", body).send().await.expect("an answer");
        assert_eq!(reply.status(), 200, "{path}: {}", reply.text().await.unwrap_or_default());
        assert!(reply.headers().contains_key("x-tollgate-request-id"), "{path}");
        reply.bytes().await.expect("a whole body");
        assert_eq!(bed.ledger.admits.load(Ordering::SeqCst) - before, 1, "{path}: one call before the provider's");
        bed.quiet().await;
        assert!(bed.spent("t").await.get() > 0, "{path} is not free");
        bed.assert_books(&["t"]).await;
    }
}
