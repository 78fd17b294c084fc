//! What was delivered is never taken for nothing.

use crate::bodies::{DONE, FINISH, HI, IN, OUT, STREAM, delta, three};
use crate::pace::paced;
use crate::rig::{complete, read};
use tollgate::demo::provider::Script;

#[tokio::test]
async fn a_usage_that_came_before_the_content_is_not_the_last_word() {
    let (rig, _waits) = paced("", "", "").await;
    let usage =
        |output: u64| format!("data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":10,\"completion_tokens\":{output}}}}}\n\n");
    let late = complete(10 + 52, 10 * IN + 52 * OUT).estimated();
    for (how, stream, outcome) in [
        ("stated too early and too low", format!("{}{}{FINISH}{DONE}", usage(1), delta(" this").repeat(52)), late.clone()),
        ("stated in the middle", format!("{}{}{}{DONE}", delta(" this").repeat(50), usage(50), delta(" this").repeat(2)), late),
        (
            "stated higher than what came",
            format!("{}{}{DONE}", usage(99), three()),
            complete(109, 10 * IN + 99 * OUT).estimated(),
        ),
        ("stated at the end", format!("{}{}{FINISH}{DONE}", three(), usage(99)), complete(109, 10 * IN + 99 * OUT)),
        ("corrected at the end", format!("{}{}{}{DONE}", usage(1), three(), usage(99)), complete(109, 10 * IN + 99 * OUT)),
    ] {
        rig.bed.provider.script(Script::sse().send(stream.clone()));
        let mut reply = rig.chat(STREAM).send().await.expect("an answer");
        assert_eq!(read(&mut reply).await, (stream, true), "{how}");
        assert_eq!(rig.outcome().await, outcome, "{how}");
    }
}

#[tokio::test]
async fn delivered_sound_counts_by_its_length() {
    let (rig, _waits) = paced("", "", "").await;
    // A second of sound is 48,000 bytes, 64,000 characters of base64 and 20 tokens.
    let sound = format!("data: {{\"choices\":[{{\"delta\":{{\"audio\":{{\"data\":\"{}\"}}}}}}]}}\n\n", "A".repeat(64_000));
    rig.bed.provider.script(Script::sse().send(sound.repeat(2)).reset());
    let mut reply = rig.chat(STREAM).send().await.expect("an answer");
    assert!(!read(&mut reply).await.1);
    let outcome = complete(HI + 40, HI * IN + 40 * OUT).estimated();
    assert_eq!(rig.outcome().await, outcome.ending("upstream_broke").cause("upstream_failed"));

    let event = format!(
        "event: response.audio.delta\ndata: {{\"type\":\"response.audio.delta\",\"delta\":\"{}\"}}\n\n",
        "A".repeat(64_000)
    );
    rig.bed.provider.script(Script::sse().send(event).reset());
    let mut reply = rig.post("/v1/responses", r#"{"model":"m-big","input":"hi","stream":true}"#).send().await.expect("an answer");
    assert!(!read(&mut reply).await.1);
    let outcome = complete(HI + 20, HI * IN + 20 * OUT).estimated();
    assert_eq!(rig.outcome().await, outcome.ending("upstream_broke").cause("upstream_failed"));
}

#[tokio::test]
async fn half_a_reply_that_the_client_has_counts_by_its_bytes_and_no_more_than_its_cap() {
    let (rig, _waits) = paced("", "", "").await;
    let half = format!("{{\"choices\":[{{\"message\":{{\"content\":\"{}", "x".repeat(40_000));
    for (max_tokens, tokens) in [(1_000, 1_000), (20, 20)] {
        let script = Script::raw().send(format!("HTTP/1.1 200 OK\r\ncontent-length: 50000\r\n\r\n{half}"));
        rig.bed.provider.script(script.close());
        let mut reply = rig.chat(&format!(r#","max_tokens":{max_tokens}"#)).send().await.expect("an answer");
        assert_eq!(reply.headers()["content-length"], "50000");
        assert_eq!(read(&mut reply).await, (half.clone(), false), "too long to be held back");
        let outcome = complete(HI + tokens, HI * IN + tokens * OUT).estimated();
        assert_eq!(rig.outcome().await, outcome.ending("upstream_broke").cause("upstream_failed"));
    }
    assert_eq!(rig.bed.provider.seen(), 2);
}
