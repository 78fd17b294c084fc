//! What is read of each API's bodies.

use super::*;

#[test]
fn chat_is_read_whole() {
    let body = r#" {"messages" : [{"role":"system","content":"s"}, {"role":"user","content":[{"type":"text","text":"u"}]}],
        "tools":[{"type":"function","function":{"name":"f"}}],"functions":[{"name":"g","type":"old"}],"function_call":"auto",
        "response_format":{"type":"json_schema","json_schema":{}},"tool_choice":"none","prediction":{"type":"content","content":"p"},
        "model":"gpt-4o","stream":true,"stream_options":{"include_usage":false,"x":1},"n":3,"max_tokens":10,"max_completion_tokens":20,
        "service_tier":"flex","reasoning_effort":"low","modalities":["text","audio"],"web_search_options":{},
        "metadata":{"user_id":"m"},"user":"u","safety_identifier":"s","temperature":0.70} "#;
    let request = read(Api::Chat, body);
    assert_eq!(
        segments(&request, body),
        [
            (SegmentKind::ChatMessage, r#"{"role":"system","content":"s"}"#),
            (SegmentKind::ChatMessage, r#"{"role":"user","content":[{"type":"text","text":"u"}]}"#),
            (SegmentKind::ChatTools, r#"[{"type":"function","function":{"name":"f"}}]"#),
            (SegmentKind::ChatFunctions, r#"[{"name":"g","type":"old"}]"#),
            (SegmentKind::ToolChoice, r#""auto""#),
            (SegmentKind::ResponseFormat, r#"{"type":"json_schema","json_schema":{}}"#),
            (SegmentKind::ToolChoice, r#""none""#),
            (SegmentKind::Prediction, r#"{"type":"content","content":"p"}"#),
        ]
    );
    let Request { api, model, stream, output_cap, choices, service_tier, include_usage, features, .. } = request;
    assert_eq!((api, &*model, stream, output_cap, choices), (Api::Chat, "gpt-4o", true, Some(20), 3));
    assert_eq!((service_tier.as_deref(), include_usage), (Some("flex"), Some(false)));
    let user_ids = UserIds { metadata_user_id: Some("m".into()), safety_identifier: Some("s".into()), user: Some("u".into()) };
    let right = Features {
        tools: true,
        json_schema: true,
        server_tools: vec![ServerTool::WebSearch],
        audio_output: true,
        reasoning_effort: Some("low".into()),
        user_ids,
        ..Features::default()
    };
    assert_eq!(features, right);
}

#[test]
fn null_is_the_same_as_absent() {
    let bare = read(Api::Chat, &chat(""));
    let body = chat(
        r#""tools":null,"functions":null,"function_call":null,"tool_choice":null,"response_format":null,"prediction":null,"stream":null,
        "stream_options":null,"n":null,"max_tokens":null,"max_completion_tokens":null,"service_tier":null,"reasoning_effort":null,
        "modalities":null,"audio":null,"web_search_options":null,"metadata":null,"user":null,"safety_identifier":null"#,
    );
    let nulls = read(Api::Chat, &body);
    assert_eq!(Request { places: bare.places.clone(), ..nulls }, bare);
    assert_eq!((bare.output_cap, bare.choices, bare.stream, bare.features), (None, 1, false, Features::default()));
}

#[test]
fn responses_are_read_whole() {
    let body = r#"{"model":"gpt-5","instructions":"be nice","input":[{"role":"user","content":"hi"},{"type":"item_reference","id":"i"}],
        "tools":[{"type":"function","name":"f"},{"type":"web_search_preview"},{"type":"mcp"},{"type":"web_search"}],"tool_choice":{"type":"mcp"},
        "text":{"verbosity":"low","format":{"type":"json_object"}},"reasoning":{"effort":"high","summary":"auto"},"max_output_tokens":16,
        "background":true,"stream":true,"stream_options":{"include_obfuscation":false},"n":5}"#;
    let request = read(Api::Responses, body);
    assert_eq!(
        segments(&request, body),
        [
            (SegmentKind::Instructions, r#""be nice""#),
            (SegmentKind::ResponsesItem, r#"{"role":"user","content":"hi"}"#),
            (SegmentKind::ResponsesItem, r#"{"type":"item_reference","id":"i"}"#),
            (
                SegmentKind::ResponsesTools,
                r#"[{"type":"function","name":"f"},{"type":"web_search_preview"},{"type":"mcp"},{"type":"web_search"}]"#
            ),
            (SegmentKind::ToolChoice, r#"{"type":"mcp"}"#),
            (SegmentKind::ResponsesFormat, r#"{"type":"json_object"}"#),
        ]
    );
    assert_eq!((request.output_cap, request.choices, request.stream), (Some(16), 1, true));
    let right = Features {
        tools: true,
        json_schema: true,
        background: true,
        stored_context: true,
        server_tools: vec![ServerTool::WebSearch, ServerTool::Mcp],
        reasoning_effort: Some("high".into()),
        ..Features::default()
    };
    assert_eq!(request.features, right);
}

#[test]
fn context_that_the_provider_adds_is_noticed() {
    for (members, right) in [
        (r#""input":"hi""#, false),
        (r#""input":"hi","previous_response_id":null,"conversation":null,"prompt":null"#, false),
        (r#""input":"hi","previous_response_id":"resp_1""#, true),
        (r#""input":"hi","conversation":{"id":"c"}"#, true),
        (r#""prompt":{"id":"p"}"#, true),
        (r#""input":[{"type":"message","role":"user","content":"item_reference"}]"#, false),
        (r#""input":[{"type":"item_reference","id":"i"}]"#, true),
    ] {
        assert_eq!(read(Api::Responses, &format!("{{\"model\":\"m\",{members}}}")).features.stored_context, right, "{members}");
    }
    assert!(!read(Api::Chat, &chat(r#""previous_response_id":"r""#)).features.stored_context, "not a field of chat");
}

#[test]
fn messages_are_read_whole() {
    let body = r#"{"model":"claude","max_tokens":1024,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"hi"}],
        "tools":[{"name":"f","input_schema":{}},{"type":"web_search_20250305","name":"w","max_uses":2}],"tool_choice":{"type":"any"},
        "thinking":{"type":"enabled","budget_tokens":16000},"output_config":{"effort":"max","format":{"type":"json_schema"}},
        "mcp_servers":[{"type":"url"}],"speed":"fast","inference_geo":"us","metadata":{"user_id":"u1"},"service_tier":"auto"}"#;
    let request = read(Api::Messages, body);
    let kinds: Vec<_> = request.segments.iter().map(|segment| segment.kind).collect();
    let right = [
        SegmentKind::System,
        SegmentKind::Message,
        SegmentKind::AnthropicTools,
        SegmentKind::ToolChoice,
        SegmentKind::ResponseFormat,
    ];
    assert_eq!(kinds, right);
    assert_eq!((request.output_cap, request.output_bound(), request.choices), (Some(1_024), Some(16_000), 1));
    let right = Features {
        tools: true,
        json_schema: true,
        server_tools: vec![ServerTool::WebSearch, ServerTool::Mcp],
        reasoning_effort: Some("max".into()),
        thinking_budget: Some(16_000),
        speed: Some("fast".into()),
        inference_geo: Some("us".into()),
        user_ids: UserIds { metadata_user_id: Some("u1".into()), ..UserIds::default() },
        ..Features::default()
    };
    assert_eq!(request.features, right);
    assert_eq!(
        segments(&read(Api::CountTokens, r#"{"model":"m","system":"s","messages":[]}"#), body).len(),
        1,
        "no cap needed to count"
    );
    let warm =
        read(Api::Messages, r#"{"model":"m","max_tokens":0,"messages":[],"thinking":{"type":"adaptive"},"mcp_servers":[]}"#);
    assert_eq!((warm.output_bound(), &warm.features), (Some(0), &Features::default()), "0 warms the cache");
}

#[test]
fn plain_prompts_come_in_four_shapes() {
    for (api, field, kind) in [(Api::Completions, "prompt", SegmentKind::Prompt), (Api::Embeddings, "input", SegmentKind::Input)]
    {
        for (value, prompts) in
            [(r#""""#, 1), (r#""one""#, 1), (r#"["one", "two"]"#, 2), ("[1, 2, 3]", 1), ("[[1,2],[],[3]]", 3), ("[]", 1)]
        {
            let body = format!("{{\"model\":\"m\",\"{field}\":{value},\"n\":2,\"best_of\":3}}");
            let request = read(api, &body);
            assert_eq!(segments(&request, &body), [(kind, value)]);
            let each = if api == Api::Completions { 3 } else { 1 };
            assert_eq!(request.choices, each * if api == Api::Completions { prompts } else { 1 }, "{body}");
        }
        for value in ["7", "{}", "true", r#"["a",1]"#, r#"[1,"a"]"#, r#"[["a"]]"#, "[{}]", "[null]", "[[[1]]]"] {
            let body = format!("{{\"model\":\"m\",\"{field}\":{value}}}");
            assert_eq!(refused(api, body.as_bytes()), ("invalid_type", Some(field.to_owned())), "{value}");
        }
    }
}

#[test]
fn outputs_are_multiplied_by_choices_candidates_and_prompts() {
    for (members, right) in [
        (r#""prompt":"p""#, 1),
        (r#""prompt":"p","n":5"#, 5),
        (r#""prompt":"p","best_of":20"#, 20),
        (r#""prompt":"p","best_of":0"#, 1),
        (r#""prompt":"p","n":3,"best_of":2"#, 3),
        (r#""prompt":["p","q"],"n":3"#, 6),
        (r#""n":3,"prompt":[[1],[2]],"best_of":4"#, 8),
    ] {
        assert_eq!(read(Api::Completions, &format!("{{\"model\":\"m\",{members}}}")).choices, right, "{members}");
    }
    assert_eq!(read(Api::Chat, &chat(r#""n":1000000000"#)).choices, 1_000_000_000);
    assert_eq!(read(Api::Chat, &chat(r#""best_of":4"#)).choices, 4, "compatible servers");
    let many = br#"{"model":"m","prompt":["p","q"],"n":4294967295}"#;
    assert_eq!(refused(Api::Completions, many), ("integer_above_max_value", Some("n".to_owned())));
    assert_eq!(read(Api::Completions, r#"{"model":"m","prompt":"p","suffix":"s","max_tokens":0}"#).output_cap, Some(0));
}

#[test]
fn the_required_fields_are_named_when_they_are_missing_or_of_another_type() {
    const MISSING: &str = "missing_required_parameter";
    for (api, members, code, param) in [
        (Api::Chat, "", MISSING, "messages"),
        (Api::Chat, r#","messages":null"#, MISSING, "messages"),
        (Api::Chat, r#","messages":"hi""#, "invalid_type", "messages"),
        (Api::Chat, r#","messages":{}"#, "invalid_type", "messages"),
        (Api::Chat, r#","messages":[{},"hi"]"#, "invalid_type", "messages[1]"),
        (Api::Chat, r#","messages":[],"tools":{}"#, "invalid_type", "tools"),
        (Api::Chat, r#","messages":[],"tools":[7]"#, "invalid_type", "tools"),
        (Api::Chat, r#","messages":[],"response_format":"json""#, "invalid_type", "response_format"),
        (Api::Chat, r#","messages":[],"stream_options":true"#, "invalid_type", "stream_options"),
        (Api::Chat, r#","messages":[],"stream_options":{"include_usage":1}"#, "invalid_type", "stream_options.include_usage"),
        (Api::Chat, r#","messages":[],"service_tier":1"#, "invalid_type", "service_tier"),
        (Api::Responses, "", MISSING, "input"),
        (Api::Responses, r#","input":7"#, "invalid_type", "input"),
        (Api::Responses, r#","input":["hi"]"#, "invalid_type", "input[0]"),
        (Api::Responses, r#","input":"","instructions":[]"#, "invalid_type", "instructions"),
        (Api::Responses, r#","input":"","background":"true""#, "invalid_type", "background"),
        (Api::Completions, "", MISSING, "prompt"),
        (Api::Completions, r#","prompt":null"#, MISSING, "prompt"),
        (Api::Embeddings, "", MISSING, "input"),
        (Api::Messages, r#","max_tokens":1"#, MISSING, "messages"),
        (Api::Messages, r#","messages":[]"#, MISSING, "max_tokens"),
        (Api::Messages, r#","messages":[],"max_tokens":null"#, MISSING, "max_tokens"),
        (Api::Messages, r#","messages":[],"max_tokens":-1"#, "integer_below_min_value", "max_tokens"),
        (Api::Messages, r#","messages":[1],"max_tokens":1"#, "invalid_type", "messages[0]"),
        (Api::Messages, r#","messages":[],"max_tokens":1,"system":{}"#, "invalid_type", "system"),
        (
            Api::Messages,
            r#","messages":[],"max_tokens":1,"thinking":{"budget_tokens":1.5}"#,
            "invalid_type",
            "thinking.budget_tokens",
        ),
        (Api::CountTokens, "", MISSING, "messages"),
    ] {
        let body = format!("{{\"model\":\"m\"{members}}}");
        assert_eq!(refused(api, body.as_bytes()), (code, Some(param.to_owned())), "{api:?} {body}");
    }
}

#[test]
fn odd_members_of_things_we_look_into_are_the_providers_business() {
    let body = chat(
        r#""modalities":[1,{},"text"],"response_format":{"type":7},"tools":[{"type":null,"function":{}}],"metadata":{"a":[1]},
        "tool_choice":7"#,
    );
    let features = read(Api::Chat, &body).features;
    assert_eq!(features, Features { tools: true, ..Features::default() });
    assert_eq!(read(Api::Chat, &chat(r#""tools":[]"#)).features, Features::default(), "no tools at all");
    assert!(read(Api::Chat, &chat(r#""response_format":{"type":"text"}"#)).segments.len() == 2, "counted, but free text");
}
