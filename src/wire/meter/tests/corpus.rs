//! The table of streams.

use super::{Usage, pass, sse, tokens};
use crate::wire::Api;
use crate::wire::meter::{Anomalies, ReplyError, Summary};
use proptest::prelude::*;

struct Case {
    name: &'static str,
    api: Api,
    stream: String,
    /// What is left out when the usage chunk is hidden.
    hidden: String,
    usage: Option<Usage>,
    output_known: bool,
    text: &'static str,
    complete: bool,
    error: Option<(&'static str, &'static str)>,
    anomalies: Anomalies,
}

/// Spells a stream out: `'` for a quote, and `<usage>` for the chunk that is hidden.
fn spell(stream: &str) -> String {
    stream.replace("<usage>", "data: {'choices':[],'usage':{'prompt_tokens':3,'completion_tokens':4}}").replace('\'', "\"")
}

impl Case {
    fn chat(name: &'static str, stream: &str) -> Self {
        Self {
            name,
            api: Api::Chat,
            stream: spell(stream),
            hidden: String::new(),
            usage: None,
            output_known: false,
            text: "",
            complete: true,
            error: None,
            anomalies: Anomalies::default(),
        }
    }

    fn of(api: Api, name: &'static str, stream: &str) -> Self {
        Self { api, ..Self::chat(name, stream) }
    }

    fn used(self, input: u64, output: u64) -> Self {
        Self { usage: tokens(input, output), output_known: true, ..self }
    }

    fn text(self, text: &'static str) -> Self {
        Self { text, ..self }
    }

    fn hiding(self, hidden: &str) -> Self {
        Self { hidden: spell(hidden), ..self }
    }

    fn cut(self) -> Self {
        Self { complete: false, ..self }
    }

    fn error(self, code: &'static str, kind: &'static str) -> Self {
        Self { error: Some((code, kind)), ..self }
    }

    fn check(&self, summary: &Summary) {
        let name = self.name;
        assert_eq!(summary.usage, self.usage, "{name}");
        assert_eq!(summary.output_known, self.output_known, "{name}");
        assert_eq!(summary.delivered.text, self.text, "{name}");
        assert_eq!(summary.complete, self.complete, "{name}");
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let error = self.error.map(|(code, kind)| ReplyError { code: some(code), kind: some(kind) });
        assert_eq!(summary.error, error, "{name}");
        assert_eq!(summary.anomalies, self.anomalies, "{name}");
    }
}

const DOCUMENTED_CHAT: &str = r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764450000,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_x","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}

data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}

data: [DONE]

"#;

const DOCUMENTED_USAGE_CHUNK: &str = r#"data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}

"#;

const RESPONSES: &str = r#"event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","model":"gpt-5.4","output":[],"error":null,"usage":null}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"Hi","logprobs":[]}

event: response.completed
data: {"type":"response.completed","sequence_number":8,"response":{"id":"resp_1","status":"completed","service_tier":"flex","output":[{"type":"web_search_call"},{"type":"message","content":[{"type":"output_text","text":"Hi"}]}],"usage":{"input_tokens":37,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":11,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":48}}}

"#;

const MESSAGES: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-haiku-4-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":1,"service_tier":"standard"}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}

event: message_stop
data: {"type":"message_stop"}

"#;

fn corpus() -> Vec<Case> {
    let standard =
        |input, output| Some(Usage { uncached_input: input, output, service_tier: Some("standard".into()), ..Usage::default() });
    vec![
        Case {
            usage: Some(Usage { uncached_input: 9, output: 1, service_tier: Some("default".into()), ..Usage::default() }),
            output_known: true,
            ..Case::chat("the documented chat stream", DOCUMENTED_CHAT).hiding(DOCUMENTED_USAGE_CHUNK)
        },
        // Characters and line ends.
        Case::chat("characters of several bytes", "data: {'choices':[{'delta':{'content':'北京👍'}}]}\n\ndata: [DONE]\n\n").text("北京👍"),
        Case::chat("CRLF", "data: {'choices':[{}]}\r\n\r\n<usage>\r\n\r\ndata: [DONE]\r\n\r\n")
            .used(3, 4)
            .hiding("<usage>\r\n\r\n"),
        Case::chat("CR", "data: {'choices':[{}]}\r\r<usage>\r\rdata: [DONE]\r\r")
            .used(3, 4)
            .hiding("<usage>\r\r"),
        Case::chat("mixed line ends", "data: {'choices':[{}]}\r\n\n<usage>\n\r\ndata: [DONE]\r\r\n")
            .used(3, 4)
            .hiding("<usage>\n\r\n"),
        // Corners of the grammar.
        Case::chat("no space after the colon", "data:{'usage':{'prompt_tokens':3,'completion_tokens':4}}\n\ndata:[DONE]\n\n").used(3, 4),
        Case::chat("JSON over two data lines", "data: {'choices':[],\ndata: 'usage':{'prompt_tokens':3,'completion_tokens':4}}\n\ndata: [DONE]\n\n")
            .used(3, 4)
            .hiding("data: {'choices':[],\ndata: 'usage':{'prompt_tokens':3,'completion_tokens':4}}\n\n"),
        Case::chat("a byte order mark", "\u{feff}<usage>\n\ndata: [DONE]\n\n")
            .used(3, 4)
            .hiding("<usage>\n\n"),
        Case::chat("other fields, and data before event", "retry: 5\n\nid: 1\nfoo: 1\ndata: {'choices':[ ], 'usage': {'prompt_tokens':3,'completion_tokens':4}}\nevent: x\n\ndata: [DONE]\n\n")
            .used(3, 4)
            .hiding("id: 1\nfoo: 1\ndata: {'choices':[ ], 'usage': {'prompt_tokens':3,'completion_tokens':4}}\nevent: x\n\n"),
        Case::chat("comments", ": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\r\n\r\n:\ndata: {'choices':[{'delta':{'content':'a'},'finish_reason':'stop'}]}\n: in between\n\n: before\n<usage>\n\n: bye\r\n")
            .used(3, 4)
            .hiding("<usage>\n\n"),
        Case::chat("data that is not JSON", "data: : keepalive\n\ndata: {'choices':[{'delta':{'content':'a'}}]}\n\ndata:\n\ndata: {bad json\n\ndata: 1\n\ndata: {'choices':[],'usage':{'prompt_tokens':3\n\ndata: {'usage':{'prompt_tokens':3,'completion_tokens':4}}\n\ndata: [DONE]\n\n")
            .used(3, 4),
        // Ends.
        Case::chat("no [DONE] after the usage", "data: {'choices':[{'delta':{'content':'a'},'finish_reason':'stop'}]}\n\n<usage>")
            .used(3, 4)
            .hiding("<usage>"),
        Case::chat("no usage and no [DONE]", "data: {'choices':[{'delta':{'content':'a'},'finish_reason':null}]}\n\ndata: {'choices':[{'delta':{},'finish_reason':'stop'}]}\n\n")
            .text("a"),
        Case::chat("cut in the middle", "data: {'choices':[{'delta':{'content':'a'},'finish_reason':null}]}\n\ndata: {'choices':[{'delta':{'content':'b")
            .text("a")
            .cut(),
        Case::chat("nothing but an empty reason", "data: {'choices':[{'delta':{'content':'a'},'finish_reason':''}]}\n\n").text("a").cut(),
        Case::chat("no usage at all", "data: {'choices':[{'delta':{'reasoning_content':'hm '}}]}\n\ndata: {'choices':[{'delta':{'content':'yes'}}]}\n\ndata: [DONE]\n\n")
            .text("hm yes"),
        // Where usage is.
        Case::chat("usage null, without choices, and filter results", "data: {'choices':[],'prompt_filter_results':[{}],'model':''}\n\ndata: {'choices':[{'delta':{'content':'a'}}],'usage':null}\n\ndata: {'choices':[],'usage':null}\n\ndata: {'usage':{'prompt_tokens':3,'completion_tokens':4}}\n\ndata: [DONE]\n\n")
            .used(3, 4),
        Case::chat("usage on every chunk", "data: {'choices':[{'delta':{'content':'a'}}],'usage':{'prompt_tokens':10,'completion_tokens':1}}\n\ndata: {'choices':[{'delta':{'content':'b'}}],'usage':{'prompt_tokens':10,'completion_tokens':4}}\n\ndata: {'choices':[{'delta':{'content':'c'}}],'usage':{'prompt_tokens':10,'completion_tokens':5}}\n\ndata: {'choices':[{'delta':{}}],'usage':{'prompt_tokens':10,'completion_tokens':99}}\n\ndata: [DONE]\n\n")
            .used(10, 99),
        Case {
            anomalies: Anomalies { usage_decreased: 1, ..Anomalies::default() },
            ..Case::chat("usage that decreases", "data: {'choices':[{}],'usage':{'prompt_tokens':10,'completion_tokens':9}}\n\ndata: {'choices':[{}],'usage':{'prompt_tokens':10,'completion_tokens':5}}\n\ndata: [DONE]\n\n")
                .used(10, 5)
        },
        Case::chat("usage a level deeper", "data: {'choices':[{'delta':{},'finish_reason':'stop'}],'x_groq':{'id':'r','usage':{'queue_time':0.1,'prompt_tokens':3,'completion_tokens':4}}}\n\ndata: [DONE]\n\n")
            .used(3, 4),
        Case {
            anomalies: Anomalies { garbage_usage: true, ..Anomalies::default() },
            usage: tokens(3, 0),
            ..Case::chat("an output that is garbage", "data: {'choices':[{'delta':{'content':'a'}}]}\n\ndata: {'choices':[],'usage':{'prompt_tokens':3,'completion_tokens':-4}}\n\ndata: [DONE]\n\n")
                .hiding("data: {'choices':[],'usage':{'prompt_tokens':3,'completion_tokens':-4}}\n\n")
                .text("a")
        },
        Case::of(Api::Completions, "legacy completions", "data: {'choices':[{'text':'once','finish_reason':null}]}\n\n<usage>\n\ndata: [DONE]\n\n")
            .used(3, 4)
            .hiding("<usage>\n\n"),
        // Errors.
        Case::chat("an error after content", "data: {'choices':[{'delta':{'content':'a'}}]}\n\ndata: {'error':{'message':'m','type':'server_error','param':null,'code':502}}\n\n")
            .text("a")
            .error("502", "server_error")
            .cut(),
        Case::of(Api::Messages, "an overloaded provider", "event: content_block_delta\ndata: {'type':'content_block_delta','delta':{'type':'text_delta','text':'a'}}\n\nevent: error\ndata: {'type':'error','error':{'type':'overloaded_error','message':'Overloaded'}}\n\n")
            .text("a")
            .error("", "overloaded_error")
            .cut(),
        Case::of(Api::Responses, "a flat error event", "event: error\ndata: {'type':'error','code':'server_error','message':'m','param':null,'sequence_number':3}\n\n")
            .error("server_error", "")
            .cut(),
        // The other APIs.
        Case {
            usage: Some(Usage { uncached_input: 37, output: 11, web_searches: 1, service_tier: Some("flex".into()), ..Usage::default() }),
            output_known: true,
            ..Case::of(Api::Responses, "the documented responses stream", RESPONSES)
        },
        Case::of(Api::Responses, "an incomplete response", "data: {'type':'response.incomplete','response':{'usage':{'input_tokens':1000,'output_tokens':100}}}\n\n")
            .used(1_000, 100),
        Case::of(Api::Responses, "a failed response", "event: response.output_text.delta\ndata: {'delta':'Hi'}\n\nevent: response.failed\ndata: {'response':{'error':{'code':'server_error','message':'m'},'usage':{'input_tokens':1000,'output_tokens':100}}}\n\n")
            .used(1_000, 100)
            .error("server_error", ""),
        Case::of(Api::Responses, "a response cancelled without usage", "event: response.function_call_arguments.delta\ndata: {'delta':'{}'}\n\nevent: response.audio.delta\ndata: {'delta':'AAAA'}\n\nevent: response.cancelled\ndata: {'response':{'usage':null}}\n\n")
            .text("{}"),
        Case::of(Api::Responses, "a response without deltas", "event: response.completed\ndata: {'response':{'output':[{'content':[{'text':'all'}]}],'usage':null}}\n\n")
            .text("all"),
        Case { usage: standard(25, 15), output_known: true, ..Case::of(Api::Messages, "the documented messages stream", MESSAGES) },
        Case::of(Api::Messages, "a delta that restates the input", "data: {'type':'message_start','message':{'usage':{'input_tokens':25,'output_tokens':1}}}\n\ndata: {'type':'message_delta','usage':{'input_tokens':25,'output_tokens':15}}\n\ndata: {'type':'message_stop'}\n\n")
            .used(25, 15),
        Case {
            usage: tokens(25, 1),
            ..Case::of(Api::Messages, "a message that is cut", "event: message_start\ndata: {'type':'message_start','message':{'usage':{'input_tokens':25,'output_tokens':1}}}\n\nevent: content_block_start\ndata: {'type':'content_block_start','content_block':{'type':'tool_use','name':'f','input':{}}}\n\nevent: content_block_delta\ndata: {'type':'content_block_delta','delta':{'type':'input_json_delta','partial_json':'{}'}}\n\n")
                .text("f{}")
                .cut()
        },
    ]
}

#[test]
fn streams_are_read_and_passed_on_the_same_however_they_are_split() {
    for case in corpus() {
        let stream = case.stream.as_bytes();
        for hide in [false, true] {
            let shown = if hide { case.stream.replacen(&case.hidden, "", 1) } else { case.stream.clone() };
            let (out, meter) = pass(sse(case.api, hide), [stream]);
            assert_eq!(String::from_utf8(out).as_ref(), Ok(&shown), "{}, hide {hide}", case.name);
            let whole = meter.summary();
            case.check(&whole);
            for cut in 0..=stream.len() {
                let (out, meter) = pass(sse(case.api, hide), [&stream[..cut], &stream[cut..]]);
                assert_eq!(out, shown.as_bytes(), "{}, hide {hide}, cut at {cut}", case.name);
                assert_eq!(meter.summary(), whole, "{}, hide {hide}, cut at {cut}", case.name);
            }
            let (out, meter) = pass(sse(case.api, hide), stream.chunks(1));
            assert_eq!(out, shown.as_bytes(), "{}, hide {hide}, byte by byte", case.name);
            assert_eq!(meter.summary(), whole, "{}, hide {hide}, byte by byte", case.name);
        }
    }
}

#[test]
fn the_model_that_answered_and_the_id_are_known_from_the_first_events() {
    let (anthropic, openai) = (("msg_1", "claude-haiku-4-5"), ("chatcmpl-1", "gpt-4o-2024-08-06"));
    for (api, stream, (id, model)) in [
        (Api::Chat, DOCUMENTED_CHAT, openai),
        (Api::Responses, RESPONSES, ("resp_1", "gpt-5.4")),
        (Api::Messages, MESSAGES, anthropic),
    ] {
        let first = stream.find("\n\n").expect("an event") + 2;
        for end in [first, stream.len()] {
            let summary = pass(sse(api, false), [&stream.as_bytes()[..end]]).1.summary();
            assert_eq!((summary.reply_id.as_deref(), summary.model.as_deref()), (Some(id), Some(model)), "{api:?}");
        }
    }
}

proptest! {
    #[test]
    fn random_pieces_change_nothing(
        which in 0..corpus().len(),
        hide: bool,
        mut cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let case = &corpus()[which];
        let stream = case.stream.as_bytes();
        let mut at: Vec<_> = cuts.drain(..).map(|cut| cut.index(stream.len() + 1)).chain([0, stream.len()]).collect();
        at.sort_unstable();
        let (whole_out, whole) = pass(sse(case.api, hide), [stream]);
        let (out, meter) = pass(sse(case.api, hide), at.windows(2).map(|ends| &stream[ends[0]..ends[1]]));
        prop_assert_eq!(out, whole_out);
        prop_assert_eq!(meter.summary(), whole.summary());
    }

    #[test]
    fn any_bytes_pass_unchanged(
        pieces in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..40),
                proptest::sample::select(vec![
                    "\n", "\r", "\r\n", ":", "data", "data:", "data: {", "}", "event: error\n", "[DONE]", "{\"usage\":", "{\"prompt_tokens\":1}",
                    "\"choices\":[", "]", "\u{feff}", "message_delta", "{\"type\":\"message_start\",\"message\":", ",", "null",
                ]).prop_map(|text| text.as_bytes().to_vec()),
            ],
            0..24,
        ),
        api in proptest::sample::select(vec![
            Api::Chat, Api::Responses, Api::Completions, Api::Embeddings, Api::Messages, Api::CountTokens, Api::Models,
        ]),
        declared: bool,
    ) {
        let all = pieces.concat();
        let meter = || super::Meter::for_reply(super::options(api, false), declared.then_some("text/event-stream"));
        let (out, split) = pass(meter(), pieces.iter().map(Vec::as_slice));
        prop_assert_eq!(&out, &all);
        let (out, whole) = pass(meter(), [&*all]);
        prop_assert_eq!(out, all);
        prop_assert_eq!(split.summary(), whole.summary());
    }

    #[test]
    fn hiding_leaves_the_same_out_wherever_any_bytes_are_split(
        pieces in proptest::collection::vec(
            proptest::sample::select(vec![
                "\n", "\r", "\r\n", "\n\n", ": c\n", "x", "data: ", "{\"choices\":[],\"usage\":{\"prompt_tokens\":1}}",
                "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n", "data: [DONE]\n\n", "event: e\n", " ",
            ]),
            0..24,
        ),
    ) {
        let all = pieces.concat();
        let (whole_out, whole) = pass(sse(Api::Chat, true), [all.as_bytes()]);
        let (out, split) = pass(sse(Api::Chat, true), pieces.iter().map(|piece| piece.as_bytes()));
        prop_assert_eq!(out, &*whole_out);
        prop_assert_eq!(split.summary(), whole.summary());
        let (out, bytes) = pass(sse(Api::Chat, true), all.as_bytes().chunks(1));
        prop_assert_eq!(out, whole_out);
        prop_assert_eq!(bytes.summary(), whole.summary());
    }
}
