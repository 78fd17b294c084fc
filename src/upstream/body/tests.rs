use super::*;
use crate::upstream::Tasks;
use crate::wire::meter::MeterOptions;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc::{Sender, channel};

const TEXT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"one two\"}}]}\n\n";
const FINISH: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":99}}\n\n";
const DONE: &str = "data: [DONE]\n\n";
const JSON: &str = r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":99}}"#;
const SECOND: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(10);

/// A provider's end of a reply; dropping it ends the reply.
struct Provider(Sender<io::Result<Frame<Bytes>>>);

impl Provider {
    fn send(&self, text: &str) {
        // Nobody listens once the reply was cancelled.
        let _ = self.0.try_send(Ok(Frame::data(Bytes::copy_from_slice(text.as_bytes()))));
    }

    fn breaks(self) {
        let _ = self.0.try_send(Err(io::Error::other("reset")));
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_closed()
    }
}

/// What was reported; `None` stands for an `on_end` that was dropped unasked.
type Ends = Arc<Mutex<Vec<Option<End>>>>;

struct Report(Ends, bool);

impl Drop for Report {
    fn drop(&mut self) {
        if !self.1 {
            self.0.lock().push(None);
        }
    }
}

struct Reply<F: FnOnce(End) + Send + 'static> {
    provider: Provider,
    body: MeteredBody<F>,
    ends: Ends,
    tasks: Tasks,
}

fn reply(events: bool) -> Reply<impl FnOnce(End) + Send + 'static> {
    reply_with(events, false, |text| text.split_whitespace().count() as u64)
}

fn reply_with(
    events: bool,
    drains_streams: bool,
    count: impl Fn(&str) -> u64 + Send + Sync + 'static,
) -> Reply<impl FnOnce(End) + Send + 'static> {
    let (provider, mut frames) = channel(64);
    let upstream = reqwest::Body::wrap(StreamBody::new(stream::poll_fn(move |cx| frames.poll_recv(cx))));
    let content_type = if events { "text/event-stream" } else { "application/json" };
    let options = MeterOptions { api: Api::Chat, hide_usage_chunk: false, count: Arc::new(count) };
    let tasks = Tasks::default();
    let treatment = Treatment {
        api: Api::Chat,
        events,
        must_end: true,
        alters: false,
        idle: IDLE,
        orphans: Orphans::new(tasks.clone(), 100, 100),
        customer: "t".into(),
        drains_streams,
        request_id: RequestId::new(1),
    };
    let ends = Ends::default();
    let mut report = Report(ends.clone(), false);
    let on_end = move |end| {
        report.1 = true;
        report.0.lock().push(Some(end));
    };
    let body = MeteredBody::new(upstream, Meter::for_reply(options, Some(content_type)), treatment, on_end);
    Reply { provider: Provider(provider), body, ends, tasks }
}

/// All that the client still gets, and whether the reply broke.
async fn rest<B: Body<Data = Bytes> + Unpin>(body: &mut B) -> (String, bool) {
    let mut text = String::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return (text, true) };
        text.push_str(std::str::from_utf8(&frame.into_data().expect("data")).expect("text"));
    }
    (text, false)
}

/// The one end that was reported.
fn only(ends: &Ends) -> End {
    let mut ends = ends.lock();
    assert_eq!(ends.len(), 1, "reported once: {ends:?}");
    ends.pop().flatten().expect("called, not dropped")
}

#[tokio::test(start_paused = true)]
async fn every_way_to_end_is_reported_once_and_only_a_whole_stream_ends_cleanly() {
    for (events, pieces, breaks, broke, clean, output) in [
        (true, &[TEXT, FINISH, USAGE, DONE][..], false, None, true, Some(99)),
        (true, &[TEXT, FINISH, USAGE], false, None, true, Some(99)),
        (true, &[TEXT, USAGE], false, None, true, Some(99)),
        (true, &[TEXT, FINISH], false, None, true, None),
        (true, &[TEXT], false, Some(Broke::Unfinished), false, None),
        (true, &[], false, Some(Broke::Unfinished), false, None),
        (true, &["data: {\"error\":{\"message\":\"m\"}}\n\n"], false, None, true, None),
        (true, &[TEXT], true, Some(Broke::Upstream), false, None),
        (true, &[TEXT, FINISH, USAGE, DONE], true, None, true, Some(99)),
        (false, &[JSON], false, None, true, Some(99)),
        (false, &[], false, None, true, None),
        (false, &[&JSON[..20]], true, Some(Broke::Upstream), false, None),
    ] {
        let Reply { provider, mut body, ends, .. } = reply(events);
        pieces.iter().for_each(|piece| provider.send(piece));
        if breaks {
            provider.breaks();
        } else {
            drop(provider);
        }
        let (text, broken) = rest(&mut body).await;
        let case = format!("{pieces:?}, breaks: {breaks}");
        assert_eq!(broken, !clean, "{case}");
        let error_event = events && !clean;
        let passed = pieces.concat();
        assert!(text.starts_with(&passed), "{case}: {text}");
        assert_eq!(text[passed.len()..].starts_with("\n\ndata: {\"error\":"), error_event, "{case}: {text}");
        assert_eq!(text.len() > passed.len(), error_event, "{case}: {text}");
        drop(body);
        let end = only(&ends);
        assert_eq!((end.broke, end.client_left), (broke, false), "{case}");
        assert_eq!(end.summary.usage.filter(|_| end.summary.output_known).map(|usage| usage.output), output, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_cancelled_when_its_client_leaves_and_reports_what_it_delivered() {
    for polled in [false, true] {
        let Reply { provider, mut body, ends, .. } = reply(true);
        provider.send(TEXT);
        if polled {
            body.frame().await.expect("a frame").expect("data");
        }
        drop(body);
        assert!(provider.is_cancelled());
        let end = only(&ends);
        assert_eq!((end.broke, end.client_left), (Some(Broke::ClientGone), true));
        assert_eq!(end.summary.delivered.text, if polled { "one two" } else { "" });
    }
    let Reply { provider, mut body, ends, .. } = reply(true);
    provider.send(DONE);
    body.frame().await.expect("a frame").expect("data");
    drop(body);
    assert!(provider.is_cancelled(), "nothing is missing, so nobody waits");
    assert_eq!(only(&ends).broke, None, "the client left after the end");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_stream_is_read_on_without_its_client() {
    // By what the reply is, not by what it calls itself; a stream only where that is wanted.
    for (events, drains, pieces, whole) in [
        (false, false, &[&JSON[..20], &JSON[20..]], true),
        (true, false, &[&JSON[..20], &JSON[20..]], true),
        (true, true, &[TEXT, USAGE], true),
        (false, false, &[TEXT, USAGE], false),
    ] {
        let Reply { provider, mut body, ends, tasks } = reply_with(events, drains, |_| 7);
        provider.send(pieces[0]);
        body.frame().await.expect("a frame").expect("data");
        drop(body);
        assert_eq!(provider.is_cancelled(), !whole, "{pieces:?}");
        provider.send(pieces[1]);
        drop(provider);
        assert!(tasks.end(IDLE).await);
        let end = only(&ends);
        assert!(end.client_left);
        assert_eq!(end.broke, (!whole).then_some(Broke::ClientGone));
        assert_eq!(end.summary.usage.map(|usage| usage.output), whole.then_some(99), "{pieces:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn reading_on_ends_with_the_providers_silence_or_with_the_shutdown() {
    for (patience, broke) in [(IDLE * 2, Broke::Silence), (SECOND, Broke::ClientGone)] {
        let Reply { provider, mut body, ends, tasks } = reply(false);
        provider.send(&JSON[..20]);
        body.frame().await.expect("a frame").expect("data");
        drop(body);
        assert_eq!(tasks.end(patience).await, patience > IDLE);
        let end = only(&ends);
        assert_eq!((end.broke, end.client_left), (Some(broke), true));
        assert!(provider.is_cancelled());
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_last_event_the_socket_gets_half_a_second_and_no_more() {
    let Reply { provider, mut body, ends, .. } = reply(true);
    provider.send("data: [DONE]\r\n\r");
    body.frame().await.expect("a frame").expect("data");
    only(&ends); // settled at [DONE], whatever follows
    provider.send("\n");
    let began = Instant::now();
    let trickle = tokio::spawn(async move {
        while !provider.is_cancelled() {
            tokio::time::sleep(Duration::from_millis(100)).await;
            provider.send(": still here\n\n");
        }
    });
    let (text, broken) = rest(&mut body).await;
    assert!(text.starts_with('\n'), "the rest of the line end belongs to the event: {text:?}");
    assert!(!broken);
    assert_eq!(began.elapsed(), LINGER);
    drop(body);
    trickle.await.expect("the provider is let go");
    assert!(ends.lock().is_empty(), "no second report");
}

#[tokio::test(start_paused = true)]
async fn the_idle_timer_runs_only_while_we_wait_for_the_provider() {
    let Reply { provider, mut body, ends, .. } = reply(true);
    // A slow client: the data is there, nobody asks for it.
    provider.send(TEXT);
    tokio::time::sleep(IDLE * 100).await;
    assert!(body.frame().await.expect("a frame").is_ok());
    tokio::time::sleep(IDLE * 100).await;
    // A slow provider: a comment in time is a sign of life, however often it takes one.
    for _ in 0..20 {
        let (sender, comment) = (provider.0.clone(), Frame::data(Bytes::from_static(b": wait\n\n")));
        tokio::spawn(async move {
            tokio::time::sleep(IDLE - SECOND).await;
            let _ = sender.try_send(Ok(comment));
        });
        assert!(body.frame().await.expect("a frame").is_ok());
    }
    let began = Instant::now();
    let (text, broken) = rest(&mut body).await;
    assert_eq!(began.elapsed(), IDLE + BEFORE_BREAK, "silence is cut after the idle time");
    assert!(broken && text.contains("upstream_broke"), "{text}");
    let end = only(&ends);
    assert_eq!(end.broke, Some(Broke::Silence));
    assert_eq!(end.summary.delivered.text, "one two");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_meter_ends_the_account_once_and_is_not_repeated() {
    for events in [true, false] {
        let Reply { provider, mut body, ends, tasks } = reply_with(events, true, |_| panic!("a counter that panics"));
        let long = "word ".repeat(4_000); // counted as it passes
        let usage_missing = format!("{{\"choices\":[{{\"message\":{{\"content\":\"{long}\"}}}}]}}");
        let event = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{long}\"}}}}]}}\n\n");
        provider.send(if events { &event } else { &usage_missing });
        drop(provider);
        let polled = AssertUnwindSafe(rest(&mut body));
        assert!(futures_util::FutureExt::catch_unwind(polled).await.is_err(), "the panic barrier is further up");
        assert!(matches!(ends.lock()[..], [None]), "the account is dropped, and books by its own drop");
        drop(body);
        assert!(tasks.end(SECOND).await);
        assert_eq!(ends.lock().len(), 1, "and only once");
    }
}

#[tokio::test]
async fn only_what_passes_unchanged_has_the_providers_length() {
    let length = |events, alters| {
        let upstream: reqwest::Body = Bytes::from_static(b"0123456789").into();
        let options = MeterOptions { api: Api::Chat, hide_usage_chunk: alters, count: Arc::new(|_| 0) };
        let treatment = Treatment {
            api: Api::Chat,
            events,
            must_end: true,
            alters,
            idle: IDLE,
            orphans: Orphans::new(Tasks::default(), 0, 0),
            customer: "t".into(),
            drains_streams: false,
            request_id: RequestId::new(1),
        };
        MeteredBody::new(upstream, Meter::for_reply(options, None), treatment, |_| {}).size_hint().exact()
    };
    assert_eq!(length(false, false), Some(10));
    assert_eq!(length(true, false), None, "an error event may have to be added");
    assert_eq!(length(true, true), None);
}
