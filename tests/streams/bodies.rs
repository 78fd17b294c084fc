//! Pieces of replies and requests in the three formats.

/// The prompt of [`ask`] and [`STREAM`], counted as a chat of an OpenAI model.
pub const HI: u64 = 8;
/// What `m-big` costs, nano-dollars per token.
pub const IN: u64 = 2_500;
pub const OUT: u64 = 10_000;

/// Further members of a chat: a stream whose client wants the usage, so that it gets every byte of the provider's.
pub const STREAM: &str = r#","stream":true,"stream_options":{"include_usage":true}"#;

pub const FINISH: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
pub const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":99}}\n\n";
pub const DONE: &str = "data: [DONE]\n\n";
/// What 10 tokens in and 99 out cost.
pub const USAGE_COST: u64 = 10 * IN + 99 * OUT;

/// Three tokens of output in three events.
pub fn three() -> String {
    delta(" this").repeat(3)
}

/// One piece of text of a chat stream.
pub fn delta(text: &str) -> String {
    format!("data: {}\n\n", serde_json::json!({"choices": [{"index": 0, "delta": {"content": text}}]}))
}

/// A route with streams: a streaming request, and the events of its form.
pub struct Route {
    pub path: &'static str,
    pub request: &'static str,
    pub begin: &'static str,
    pub piece: &'static str,
    /// How an error event of ours begins.
    pub our_error: &'static str,
    /// An error event of the provider's.
    pub their_error: &'static str,
}

pub const ROUTES: [Route; 3] = [
    Route {
        path: "/v1/chat/completions",
        request: r#"{"model":"m-big","messages":[{"role":"user","content":"hi"}],"stream":true}"#,
        begin: "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
        piece: "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" this\"}}]}\n\n",
        our_error: "\n\ndata: {\"error\":{",
        their_error: "data: {\"error\":{\"message\":\"The server had an error\",\"type\":\"server_error\",\"code\":null}}\n\n",
    },
    Route {
        path: "/v1/responses",
        request: r#"{"model":"m-big","input":"hi","stream":true}"#,
        begin: "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"model\":\"m-big\"}}\n\n",
        piece: "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\" this\"}\n\n",
        our_error: "\n\nevent: error\ndata: {\"type\":\"error\",",
        their_error: "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"usage\":null,\
            \"error\":{\"code\":\"server_error\",\"message\":\"m\"}}}\n\n",
    },
    Route {
        path: "/v1/messages",
        request: r#"{"model":"c-big","max_tokens":100,"messages":[{"role":"user","content":"hi"}],"stream":true}"#,
        begin: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"c-big\",\
            \"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n",
        piece: "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\
            \"delta\":{\"type\":\"text_delta\",\"text\":\" this\"}}\n\n",
        our_error: "\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{",
        their_error: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
    },
];

impl Route {
    /// The stream as far as its third piece of text.
    pub fn half(&self) -> String {
        format!("{}{}", self.begin, self.piece.repeat(3))
    }
}
