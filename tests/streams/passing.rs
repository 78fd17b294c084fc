//! Whole streams: every byte passes, and the usage is found in it however it is written.

use crate::bodies::{DONE, FINISH, HI, IN, OUT, STREAM, USAGE, USAGE_COST, delta, three};
use crate::rig::{Rig, complete, read, read_some};
use tollgate::demo::provider::{End, Gate, Script};

#[tokio::test]
async fn every_spelling_of_a_stream_passes_unchanged_and_its_usage_is_read() {
    let rig = Rig::new().await;
    let plain = format!("{}{FINISH}{USAGE}{DONE}", delta("北京👍"));
    let crlf = plain.replace('\n', "\r\n");
    let cr = plain.replace('\n', "\r");
    let (body, end) = plain.split_at(plain.len() - DONE.len());
    let around = |event: &str| format!("{}{event}{FINISH}{USAGE}{DONE}", delta(" this"));
    let streams = [
        ("plain", plain.clone()),
        ("CRLF", crlf.clone()),
        ("CR", cr),
        ("mixed line ends", format!("{}{}", body.replacen('\n', "\r\n", 3), end.replace('\n', "\r"))),
        ("no space behind data:", plain.replace("data: ", "data:")),
        ("a byte order mark", format!("\u{feff}{plain}")),
        ("JSON over two data lines", plain.replace("\"usage\":{\"prompt", "\"usage\":\ndata: {\"prompt")),
        ("other fields", plain.replace("data: {\"choices\":[]", "event: x\nid: 7\nretry: 10\nfoo: 1\ndata: {\"choices\":[]")),
        ("data before event", plain.replace("99}}\n", "99}}\nevent: x\n")),
        ("comments", around(": OPENROUTER PROCESSING\n\n: again\n\n")),
        ("a keepalive as data", around("data: : keepalive\n\n")),
        ("empty data", around("data:\n\n")),
        ("bad JSON", around("data: {bad json\n\n")),
        ("a number", around("data: 1\n\n")),
        ("usage null in every chunk", plain.replace("{\"choices\":[{", "{\"usage\":null,\"choices\":[{")),
        ("usage without choices", plain.replace("\"choices\":[],", "")),
        ("a first chunk about the prompt", format!("data: {{\"choices\":[],\"prompt_filter_results\":[{{}}]}}\n\n{plain}")),
        ("no [DONE]", body.to_owned()),
        ("the last event without its blank line", plain.trim_end().to_owned()),
        ("usage in each chunk", {
            let usage = |n: u64| USAGE.replace("99", &n.to_string()).replace("[]", "[{\"delta\":{\"content\":\"x\"}}]");
            format!("{}{}{}{}{FINISH}{DONE}", usage(1), usage(4), usage(5), usage(99))
        }),
    ];
    for (name, stream) in streams {
        for bytewise in [false, true] {
            let script = Script::sse();
            let script = if bytewise { script.send_bytewise(stream.clone()) } else { script.send(stream.clone()) };
            rig.bed.provider.script(script);
            let mut reply = rig.chat(STREAM).send().await.expect("an answer");
            assert_eq!(reply.headers()["content-type"], "text/event-stream", "{name}");
            assert_eq!(reply.headers()["cache-control"], "no-cache", "{name}");
            assert!(!reply.headers().contains_key("content-length"), "{name}");
            assert_eq!(read(&mut reply).await, (stream.clone(), true), "{name}, bytewise: {bytewise}");
            assert_eq!(rig.outcome().await, complete(109, USAGE_COST), "{name}, bytewise: {bytewise}");
            assert_eq!(rig.last_seen().end, End::Complete, "{name}");
        }
    }
    assert_eq!(rig.metric("tollgate_estimated_usage_total", ""), 0);
    assert_eq!(rig.metric("tollgate_upstream_calls_total", "result=\"ok\""), rig.bed.provider.seen());
}

#[tokio::test]
async fn a_stream_without_usage_is_charged_by_our_own_count() {
    let rig = Rig::new().await;
    for (name, end) in
        [("[DONE]", format!("{FINISH}{DONE}")), ("a finish reason", FINISH.to_owned()), ("only [DONE]", DONE.to_owned())]
    {
        let stream = format!("{}{end}", delta(" this").repeat(200));
        rig.bed.provider.script(Script::sse().send(stream.clone()));
        let mut reply = rig.chat(STREAM).send().await.expect("an answer");
        assert_eq!(read(&mut reply).await, (stream, true), "{name}: no end is invented");
        assert_eq!(rig.outcome().await, complete(HI + 200, HI * IN + 200 * OUT).estimated(), "{name}");
    }
    assert_eq!(rig.metric("tollgate_estimated_usage_total", "model=\"m-big\""), 3);
}

#[tokio::test]
async fn nothing_is_held_back() {
    let rig = Rig::new().await;
    let gates: Vec<_> = (0..4).map(|_| Gate::new()).collect();
    let parts = [": OPENROUTER PROCESSING\n\n".to_owned(), delta(" this"), delta(" and").replace("\n\n", ""), "\n\n".to_owned()];
    let script = parts.iter().zip(&gates).fold(Script::sse(), |script, (part, gate)| script.send(part.clone()).until(gate));
    rig.bed.provider.script(script.send(format!("{FINISH}{USAGE}{DONE}")));
    let mut reply = rig.chat(STREAM).header("accept-encoding", "gzip").send().await.expect("an answer");
    assert!(!reply.headers().contains_key("content-encoding"), "nothing collects events to compress them");
    for (part, gate) in parts.iter().zip(&gates) {
        // The provider sends the next part only when this one is here.
        read_some(&mut reply, part).await;
        gate.open();
    }
    assert_eq!(read(&mut reply).await, (format!("{FINISH}{USAGE}{DONE}"), true));
    assert_eq!(rig.outcome().await, complete(109, USAGE_COST));
}

#[tokio::test]
async fn after_done_the_request_is_over_whatever_the_socket_does() {
    let rig = Rig::new().await;
    let stream = format!("{}{FINISH}{USAGE}{DONE}", three());
    rig.bed.provider.script(Script::sse().send(stream.clone()).silence());
    let mut reply = rig.chat(STREAM).send().await.expect("an answer");
    read_some(&mut reply, &stream).await;
    crate::rig::until("the settlement, while the stream is still open", || {
        (rig.bed.gateway.settler.status().settled == 1).then_some(())
    })
    .await;
    let end = tokio::time::timeout(crate::rig::SOON, read(&mut reply)).await.expect("the end within a second or so");
    assert_eq!(end, (String::new(), true));
    assert_eq!(rig.outcome().await, complete(109, USAGE_COST));
    rig.provider_saw("its connection let go", |seen| seen[0].client_left()).await;
}

#[tokio::test]
async fn compressed_replies_reach_the_client_as_they_were_before() {
    let rig = Rig::with("", "[models.fault-gzip]\nprice = { input = 2.50, output = 10.0 }").await;
    for more in ["", STREAM] {
        let body = format!(r#"{{"model":"fault-gzip","messages":[{{"role":"user","content":"[5 tokens]"}}]{more}}}"#);
        let mut reply = rig.post("/v1/chat/completions", body).header("accept-encoding", "gzip").send().await.expect("an answer");
        assert_eq!(reply.status(), 200);
        assert!(!reply.headers().contains_key("content-encoding"));
        let (text, whole) = read(&mut reply).await;
        assert!(whole && text.contains("\"completion_tokens\":5"), "{text}");
        assert_eq!(rig.last_seen().header("accept-encoding"), "identity");
        let used = rig.last_seen().usage.expect("a usage");
        let outcome = rig.outcome().await;
        assert_eq!(outcome, complete(used.input() + 5, used.input() * IN + 5 * OUT), "{more}");
    }
}

#[tokio::test]
async fn an_event_of_8_mb_passes_and_is_read_and_a_larger_one_passes_unread() {
    let rig = Rig::new().await;
    let filler = |bytes: usize| format!("data: {{\"filler\":\"{}\",\"choices\":[]}}\n\n", "x".repeat(bytes));
    let stream = format!("{}{FINISH}{}{DONE}", filler(8 << 20), USAGE);
    rig.bed.provider.script(Script::sse().send(stream.clone()));
    let mut reply = rig.chat(STREAM).send().await.expect("an answer");
    let (text, whole) = read(&mut reply).await;
    assert!(whole && text == stream, "{} of {} bytes", text.len(), stream.len());
    assert_eq!(rig.outcome().await, complete(109, USAGE_COST));

    // The usage is in the event that is too large to be looked at.
    let stream =
        format!("{}{FINISH}{}{DONE}", three(), USAGE.replace("[]", &format!("[],\"filler\":\"{}\"", "x".repeat(24 << 20))));
    let pieces = stream.as_bytes().chunks(64 << 10).fold(Script::sse(), |script, piece| script.send(piece.to_vec()));
    rig.bed.provider.script(pieces);
    let mut reply = rig.chat(STREAM).send().await.expect("an answer");
    let (text, whole) = read(&mut reply).await;
    assert!(whole && text == stream, "{} of {} bytes", text.len(), stream.len());
    assert_eq!(rig.outcome().await, complete(HI + 3, HI * IN + 3 * OUT).estimated());
    assert_eq!(rig.metric("tollgate_usage_anomalies_total", "event_oversized"), 1);
}
