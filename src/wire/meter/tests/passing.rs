//! How bytes are passed on: at once, uncopied, bounded.

use super::{options, pass, sse, tokens};
use crate::wire::Api;
use crate::wire::meter::stream::{MAX_EVENT, MAX_HIDDEN};
use crate::wire::meter::{Form, Meter};
use bytes::Bytes;
use std::collections::VecDeque;

const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n";
const DELTA: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";

fn feed(meter: &mut Meter, piece: &str) -> Vec<Bytes> {
    let mut out = VecDeque::new();
    meter.feed(Bytes::copy_from_slice(piece.as_bytes()), &mut out);
    out.into()
}

#[test]
fn pieces_go_on_as_they_came_and_uncopied() {
    for (hide, text) in [(false, "data: {\"choi"), (false, USAGE), (true, DELTA), (true, ": comment\n\n")] {
        let piece = Bytes::copy_from_slice(text.as_bytes());
        let mut out = VecDeque::new();
        sse(Api::Chat, hide).feed(piece.clone(), &mut out);
        assert_eq!(out, [&piece], "hide {hide}: {text}");
        assert_eq!(out[0].as_ptr(), piece.as_ptr(), "hide {hide}: {text}");
    }
}

#[test]
fn the_neighbours_of_a_hidden_chunk_are_slices_of_the_piece() {
    let piece = Bytes::from([DELTA, USAGE, "data: [DONE]\n\n"].concat());
    let mut out = VecDeque::new();
    sse(Api::Chat, true).feed(piece.clone(), &mut out);
    assert_eq!(out, [piece.slice(..DELTA.len()), piece.slice(DELTA.len() + USAGE.len()..)]);
    assert_eq!(out[0].as_ptr(), piece.as_ptr());
}

#[test]
fn only_a_part_of_an_event_is_held_back_and_only_until_it_is_whole() {
    let mut meter = sse(Api::Chat, true);
    let (head, tail) = DELTA.split_at(20);
    assert_eq!(feed(&mut meter, head), [""; 0], "no client can use a part of an event");
    assert_eq!(feed(&mut meter, tail), [DELTA]);
    assert_eq!(feed(&mut meter, &[DELTA, head].concat()), [DELTA]);
    assert_eq!(feed(&mut meter, tail), [DELTA]);
    assert_eq!(feed(&mut meter, ": keep"), [": keep"], "a comment is no usage chunk");
    assert_eq!(feed(&mut meter, "-alive\r"), ["-alive\r"]);
    assert_eq!(feed(&mut meter, "\ndata: [DO"), ["\n"]);
    let mut out = VecDeque::new();
    meter.cut(&mut out);
    assert_eq!(out, ["data: [DO"], "nothing stays held back");
    assert!(!meter.is_over());
}

#[test]
fn what_is_too_large_for_a_usage_chunk_is_not_held_back() {
    let padded = |padding: usize| {
        format!("data: {{\"choices\":[],\"pad\":\"{}\",\"usage\":{{\"completion_tokens\":4}}}}", "x".repeat(padding))
    };
    let padding = MAX_HIDDEN - padded(0).len();
    for (padding, hidden) in [(padding, true), (padding + 1, false)] {
        for end in ["\n\n", "\r\n\r\n", "\r\r"] {
            let event = [padded(padding).as_str(), end].concat();
            for cut in [0, 1, 100, MAX_HIDDEN, event.len() - 3, event.len() - 2, event.len() - 1] {
                let (head, tail) = event.as_bytes().split_at(cut);
                let (out, meter) = pass(sse(Api::Chat, true), [head, tail]);
                assert_eq!(out.is_empty(), hidden, "{end:?} cut at {cut}");
                assert!(hidden || out == event.as_bytes(), "{end:?} cut at {cut}");
                assert_eq!(meter.summary().usage, tokens(0, 4));
            }
        }
    }
    let mut meter = sse(Api::Chat, true);
    assert_eq!(feed(&mut meter, "data: {\"choices\":[").len(), 0);
    let passed: usize = feed(&mut meter, &"x".repeat(MAX_HIDDEN)).iter().map(Bytes::len).sum();
    assert_eq!(passed, 18 + MAX_HIDDEN, "all of it goes on as soon as it is known");
}

#[test]
fn only_chat_and_completions_have_a_chunk_to_hide() {
    for (api, hidden) in [(Api::Chat, true), (Api::Completions, true), (Api::Responses, false), (Api::Messages, false)] {
        let (out, _) = pass(sse(api, true), [USAGE.as_bytes()]);
        assert_eq!(out.is_empty(), hidden, "{api:?}");
    }
}

#[test]
fn a_legal_event_of_8_megabytes_is_read() {
    let image = "A".repeat(8 * 1024 * 1024);
    let event = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{image}\"}}}}],\"usage\":{{\"prompt_tokens\":3,\"completion_tokens\":4}}}}\n\n"
    );
    for hide in [false, true] {
        let (out, meter) = pass(sse(Api::Chat, hide), event.as_bytes().chunks(16 * 1024));
        assert!(out == event.as_bytes());
        assert_eq!(meter.summary().usage, tokens(3, 4));
        assert!(!meter.summary().anomalies.oversized_event);
    }
}

#[test]
fn an_event_without_end_costs_bounded_memory_and_the_stream_goes_on() {
    for hide in [false, true] {
        let mut meter = sse(Api::Chat, hide);
        let mut out = VecDeque::new();
        meter.feed(Bytes::from_static(DELTA.as_bytes()), &mut out);
        meter.feed(Bytes::from_static(b"data: {\"choices\":[{\"delta\":{\"content\":\""), &mut out);
        let piece = Bytes::from(vec![b'x'; 1024 * 1024]);
        let mut passed: usize = out.drain(..).map(|piece| piece.len()).sum();
        for _ in 0..256 {
            meter.feed(piece.clone(), &mut out);
            passed += out.drain(..).map(|piece| piece.len()).sum::<usize>();
            let Form::Stream(stream) = &meter.form else { panic!("a stream") };
            assert!(stream.room() <= 2 * MAX_EVENT);
        }
        meter.feed(Bytes::from([b"\n\n", USAGE.as_bytes()].concat()), &mut out);
        passed += out.drain(..).map(|piece| piece.len()).sum::<usize>();
        meter.finish(&mut out);
        let shown = if hide { 0 } else { USAGE.len() };
        assert_eq!(passed, DELTA.len() + 39 + 256 * 1024 * 1024 + 2 + shown, "hide {hide}");
        let summary = meter.summary();
        assert!(summary.anomalies.oversized_event);
        assert_eq!(summary.usage, tokens(3, 4), "what follows is read again");
        let Form::Stream(stream) = &meter.form else { panic!("a stream") };
        assert!(stream.room() <= 4 * 1024, "the room of a large event is given back");
    }
}

#[test]
fn an_event_too_large_to_read_is_so_in_one_piece_too() {
    let event = format!("data: {{\"usage\":{{\"prompt_tokens\":3}},\"x\":\"{}\"}}\n\n", "x".repeat(MAX_EVENT));
    let (_, meter) = pass(sse(Api::Chat, false), [event.as_bytes()]);
    assert!(meter.summary().anomalies.oversized_event);
    assert_eq!(meter.summary().usage, None);
}

#[test]
fn the_request_is_over_at_the_terminal_event() {
    for (api, before, terminal) in [
        (Api::Chat, USAGE, "data: [DONE]\n\n"),
        (Api::Responses, "event: response.created\ndata: {}\n\n", "event: response.incomplete\ndata: {\"response\":{}}\n\n"),
        (
            Api::Messages,
            "event: message_delta\ndata: {\"type\":\"message_delta\"}\n\n",
            "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        ),
    ] {
        let mut meter = sse(api, false);
        feed(&mut meter, before);
        assert!(!meter.is_over(), "{api:?}");
        feed(&mut meter, terminal);
        assert!(meter.is_over() && meter.summary().complete, "{api:?}: the socket may stay open");
    }
}

#[test]
fn content_begins_with_text_a_tool_call_or_a_comment() {
    for (api, silent, content) in [
        (Api::Chat, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n", DELTA),
        (Api::Chat, "data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n", ": OPENROUTER PROCESSING\n"),
        (Api::Chat, "\n\n", "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]}}]}\n\n"),
        (
            Api::Responses,
            "event: response.created\ndata: {\"response\":{\"output\":[]}}\n\n",
            "event: response.reasoning_text.delta\ndata: {\"delta\":\"hm\"}\n\n",
        ),
        (
            Api::Responses,
            "event: response.in_progress\ndata: {}\n\n",
            "event: response.audio.delta\ndata: {\"delta\":\"AAAA\"}\n\n",
        ),
        (
            Api::Messages,
            "event: ping\ndata: {\"type\":\"ping\"}\n\n",
            "event: content_block_delta\ndata: {\"delta\":{\"thinking\":\"hm\"}}\n\n",
        ),
        (Api::Chat, "", "{"),
    ] {
        let mut meter = Meter::for_reply(options(api, false), None);
        feed(&mut meter, silent);
        assert!(!meter.has_content(), "{silent}");
        feed(&mut meter, content);
        assert!(meter.has_content(), "{content}");
    }
}

#[test]
fn long_streams_are_known_in_bounded_memory() {
    let mut meter = sse(Api::Chat, false);
    for _ in 0..50_000 {
        feed(&mut meter, DELTA);
    }
    let summary = meter.summary();
    assert_eq!(summary.delivered.tokens(|text| text.len() as u64), 50_000);
    assert!(summary.delivered.text.len() <= 8 * 1024);
}
