//! What a collector never sees, whose trace it is, and what the provider learns of it.

use crate::collector::{Collector, attributes};
use crate::{bed_of, reply, told};
use tollgate::demo::provider::Script;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn holds(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}

#[tokio::test]
async fn nothing_that_was_said_is_told_and_the_customer_only_if_wanted() {
    for wanted in [false, true] {
        let collector = Collector::new().await;
        let bed = bed_of(&collector, &format!("customer_ids = {wanted}"), "").await;
        bed.provider.script(reply());
        bed.provider.script(Script::json(400, r#"{"error":{"message":"SECRET-ERROR","type":"invalid_request_error"}}"#));
        for stream in ["false", "true"] {
            let body = format!(
                r#"{{"model":"m-big","stream":{stream},"user":"SECRET-BODY","messages":[{{"role":"system","content":"SECRET-SYSTEM"}},{{"role":"user","content":"SECRET-PROMPT"}}]}}"#
            );
            let request = bed.post("/v1/chat/completions", "customer-4711", body);
            let request = request.header("x-user-id", "SECRET-USER").header("x-request-class", "SECRET-CLASS");
            request.send().await.expect("an answer").bytes().await.expect("whole");
        }
        let spans = told(&bed, &collector, 2).await;
        assert_eq!(
            attributes(&spans[0].attributes).get("tollgate.customer").map(String::as_str),
            wanted.then_some("customer-4711")
        );
        let posted = collector.posted();
        assert!(posted.len() >= 2);
        for posted in posted {
            for secret in ["SECRET", "sk-test"] {
                assert!(!holds(&posted.body, secret), "{secret} in {}", posted.path);
            }
            let named = wanted && posted.path.ends_with("/v1/traces");
            assert_eq!(holds(&posted.body, "4711"), named, "{}", posted.path);
        }
        bed.assert_books(&["customer-4711"]).await;
    }
}

#[tokio::test]
async fn a_callers_trace_is_continued_and_told_to_the_provider_only_if_wanted() {
    for wanted in [false, true] {
        let collector = Collector::new().await;
        let bed = bed_of(&collector, "sample = 0", &format!("[telemetry]\npropagate = {wanted}\n")).await;
        let request = bed.chat("t", "m-big", "").header("traceparent", PARENT).header("tracestate", "a=b");
        request.header("baggage", "who=SECRET").send().await.expect("an answer").bytes().await.expect("whole");
        // One that the caller does not sample, and one of our own, of which none are exported.
        let unsampled = PARENT.replace("-01", "-00");
        bed.chat("t", "m-big", "")
            .header("traceparent", unsampled)
            .send()
            .await
            .expect("an answer")
            .bytes()
            .await
            .expect("whole");
        bed.chat("t", "m-big", "").send().await.expect("an answer").bytes().await.expect("whole");
        let spans = told(&bed, &collector, 1).await;
        assert_eq!(spans.iter().filter(|span| span.kind == 2).count(), 1, "only what its caller samples");
        assert_eq!(spans[0].trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes());
        assert_eq!(spans[0].parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
        let seen = bed.provider.log();
        let header = |at: usize, name: &str| Some(seen[at].header(name).to_owned()).filter(|value| !value.is_empty());
        let call = u64::from_be_bytes(spans[2].span_id.clone().try_into().expect("eight bytes"));
        let right = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{call:016x}-01");
        assert_eq!(header(0, "traceparent"), wanted.then_some(right));
        assert_eq!(header(0, "tracestate"), wanted.then_some("a=b".to_owned()));
        assert_eq!((header(0, "baggage"), header(2, "traceparent").is_some()), (None, wanted));
        let durations = collector.histogram("gen_ai.client.operation.duration", "s");
        assert_eq!(durations.iter().map(|point| point.count).sum::<u64>(), 3, "metrics are of all requests");
        bed.assert_books(&["t"]).await;
    }
}

#[tokio::test]
async fn switched_off_nothing_is_sent_and_no_trace_goes_up() {
    let bed = crate::bed::Bed::new().await;
    assert!(bed.gateway.otlp.is_none());
    bed.chat("t", "m-big", "").header("traceparent", PARENT).send().await.expect("an answer").bytes().await.expect("whole");
    assert_eq!(bed.provider.log()[0].header("traceparent"), "");
    assert!(!bed.gateway.metrics.render().contains("tollgate_otlp_exports_total{"));
    bed.assert_books(&["t"]).await;
    // Without a collector of our own, the caller's trace may still go on.
    let bed = crate::bed::Bed::plus("[telemetry]\npropagate = true\n").await;
    bed.chat("t", "m-big", "").header("traceparent", PARENT).send().await.expect("an answer").bytes().await.expect("whole");
    assert_eq!(bed.provider.log()[0].header("traceparent"), PARENT);
    bed.assert_books(&["t"]).await;
}
