//! Whole requests: the golden vectors, and what each place in a request must cost.

use super::*;
use SegmentKind::*;

fn count(model: &str, api: Api, pieces: &[(SegmentKind, &str)]) -> InputCount {
    try_count(model, api, pieces).expect("well-formed pieces")
}

fn try_count(model: &str, api: Api, pieces: &[(SegmentKind, &str)]) -> Result<InputCount, CountError> {
    let pieces: Vec<_> = pieces.iter().map(|(kind, json)| Piece { kind: *kind, json: json.as_bytes() }).collect();
    Estimator::new(100).count(model, api, &pieces)
}

fn chat(model: &str, messages: &[&str]) -> u64 {
    let pieces: Vec<_> = messages.iter().map(|json| (ChatMessage, *json)).collect();
    count(model, Api::Chat, &pieces).best
}

const HI: &str = r#"{"role":"user","content":"hi"}"#;

const JARGON: [&str; 6] = [
    r#"{"role":"system","content":"You are a helpful, pattern-following assistant that translates corporate jargon into plain English."}"#,
    r#"{"role":"system","name":"example_user","content":"New synergies will help drive top-line growth."}"#,
    r#"{"role":"system","name":"example_assistant","content":"Things working well together will increase revenue."}"#,
    r#"{"role":"system","name":"example_user","content":"Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage."}"#,
    r#"{"role":"system","name":"example_assistant","content":"Let's talk later when we're less busy about how to do better."}"#,
    r#"{"role":"user","content":"This late pivot means we don't have time to boil the ocean for the client deliverable."}"#,
];

#[test]
fn chat_framing_reproduces_the_providers_own_numbers() {
    assert_eq!((chat("gpt-4o", &[HI]), chat("gpt-4", &[HI])), (8, 8));
    assert_eq!((chat("gpt-4o", &JARGON), chat("gpt-4", &JARGON), chat("gpt-3.5-turbo", &JARGON)), (124, 129, 129));
    let named = JARGON.len() as u64 - 2;
    assert_eq!(chat("gpt-3.5-turbo-0301", &JARGON), 129 + 6 - 2 * named, "a token more a message, two less a name");
}

#[test]
fn tools_reproduce_the_providers_own_numbers() {
    let tools = r#"[{"type":"function","function":{"name":"get_current_weather","description":"Get the current weather in a given location","parameters":{
        "type":"object","properties":{"location":{"type":"string","description":"The city and state, e.g. San Francisco, CA"},
        "unit":{"type":"string","description":"The unit of temperature to return","enum":["celsius","fahrenheit"]}},"required":["location"]}}}]"#;
    let pieces = [
        (
            ChatMessage,
            r#"{"role":"system","content":"You are a helpful assistant that can answer to questions about the weather."}"#,
        ),
        (ChatMessage, r#"{"role":"user","content":"What's the weather like in San Francisco?"}"#),
        (ChatTools, tools),
    ];
    assert_eq!(count("gpt-4o", Api::Chat, &pieces).best, 101);
    assert_eq!(count("gpt-4", Api::Chat, &pieces).best, 105);
}

#[test]
fn content_parts_add_their_text() {
    let parts = r#"{"role":"user","content":[{"type":"text","text":"hello world"},{"type":"text","text":"hi"}]}"#;
    assert_eq!(chat("gpt-4o", &[parts]), 3 + 3 + 1 + 2 + 1);
    let escaped = r#"{"role":"user","content":"\u0068\u0069"}"#;
    assert_eq!(chat("gpt-4o", &[escaped]), 8, "escapes are decoded first");
    for empty in
        [r#"{"role":"assistant","content":null,"name":null}"#, r#"{"role":"assistant","content":[]}"#, r#"{"role":"assistant"}"#]
    {
        assert_eq!(chat("gpt-4o", &[empty]), 3 + 3 + 1, "{empty}");
    }
}

/// `lorem ipsum dolor sit amet ` 400 times is about 2,036 tokens.
#[test]
fn long_text_counts_wherever_it_stands() {
    let long = "lorem ipsum dolor sit amet ".repeat(400);
    let places: &[(Api, SegmentKind, &str)] = &[
        (Api::Chat, ChatTools, r#"[{"type":"function","function":{"name":"f","description":"@"}}]"#),
        (Api::Chat, ChatFunctions, r#"[{"name":"f","description":"@","parameters":{}}]"#),
        (
            Api::Chat,
            ResponseFormat,
            r#"{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object","description":"@"}}}"#,
        ),
        (Api::Chat, ResponseFormat, r#"{"type":"json_object","more":"@"}"#),
        (
            Api::Chat,
            ChatMessage,
            r#"{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"@"}}]}"#,
        ),
        (Api::Chat, ChatMessage, r#"{"role":"assistant","function_call":{"name":"f","arguments":"@"}}"#),
        (Api::Chat, ChatMessage, r#"{"role":"tool","tool_call_id":"c","content":"@"}"#),
        (Api::Chat, ChatMessage, r#"{"role":"assistant","reasoning_content":"@"}"#),
        (Api::Chat, ChatMessage, r#"{"role":"assistant","refusal":"@"}"#),
        (Api::Chat, ChatMessage, r#"{"role":"user","something_new":{"deep":["@"]}}"#),
        (Api::Chat, ChatMessage, r#"{"role":"user","content":"a","content":"@"}"#),
        (Api::Chat, ChatMessage, r#"{"role":"user","content":"@","content":"a"}"#),
        (Api::Chat, ChatMessage, r#""@""#),
        (Api::Responses, Instructions, r#""@""#),
        (Api::Responses, ResponsesText, r#""@""#),
        (Api::Responses, ResponsesItem, r#"{"role":"user","content":[{"type":"input_text","text":"@"}]}"#),
        (
            Api::Responses,
            ResponsesItem,
            r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"@","annotations":[]}]}"#,
        ),
        (Api::Responses, ResponsesItem, r#"{"type":"function_call","call_id":"c","name":"f","arguments":"@"}"#),
        (Api::Responses, ResponsesItem, r#"{"type":"function_call_output","call_id":"c","output":"@"}"#),
        (
            Api::Responses,
            ResponsesItem,
            r#"{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"@"}]}"#,
        ),
        (Api::Responses, ResponsesItem, r#"{"type":"custom_tool_call","call_id":"c","name":"f","input":"@"}"#),
        (Api::Responses, ResponsesItem, r#"{"type":"shell_call","call_id":"c","action":{"commands":["@"]}}"#),
        (Api::Responses, ResponsesItem, r#"{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"@"}]}"#),
        (Api::Responses, ResponsesItem, r#"{"type":"file_search_call","results":[{"text":"@"}]}"#),
        (Api::Responses, ResponsesTools, r#"[{"type":"function","name":"f","description":"@"}]"#),
        (Api::Responses, ResponsesFormat, r#"{"format":{"type":"json_schema","name":"s","schema":{"description":"@"}}}"#),
        (Api::Responses, ResponsesFormat, r#"{"type":"json_schema","name":"s","schema":{"description":"@"}}"#),
        (Api::Messages, System, r#""@""#),
        (Api::Messages, System, r#"[{"type":"text","text":"@","cache_control":{"type":"ephemeral"}}]"#),
        (Api::Messages, Message, r#"{"role":"user","content":"@"}"#),
        (Api::Messages, Message, r#"{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"q":"@"}}]}"#),
        (Api::Messages, Message, r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"@"}]}"#),
        (
            Api::Messages,
            Message,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"@"}]}]}"#,
        ),
        (Api::Messages, Message, r#"{"role":"assistant","content":[{"type":"thinking","thinking":"@","signature":"s"}]}"#),
        (
            Api::Messages,
            Message,
            r#"{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"@"}}]}"#,
        ),
        (
            Api::Messages,
            Message,
            r#"{"role":"user","content":[{"type":"document","source":{"type":"content","content":[{"type":"text","text":"@"}]}}]}"#,
        ),
        (
            Api::Messages,
            Message,
            r#"{"role":"user","content":[{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"@"}]}]}"#,
        ),
        (Api::Messages, AnthropicTools, r#"[{"name":"f","description":"@","input_schema":{"type":"object"}}]"#),
        (Api::Completions, Prompt, r#""@""#),
        (Api::Completions, Prompt, r#"["a","@"]"#),
        (Api::Embeddings, Input, r#"["@"]"#),
        (Api::Embeddings, Input, r#"[{"type":"text","text":"@"}]"#),
    ];
    for (api, kind, template) in places {
        let model = if api.dialect() == crate::wire::Dialect::Anthropic { "c-big" } else { "m-big" };
        let json = template.replace('@', &long);
        let got = count(model, *api, &[(*kind, &json)]);
        assert!((1_900..4_500).contains(&got.best), "{} in {template}", got.best);
        assert!(got.upper >= long.len() as u64, "{} in {template}", got.upper);
        assert!(got.upper <= long.len() as u64 + 2_500, "{} in {template}", got.upper);
    }
}

/// 75,000 bytes of media are 100,000 characters, which as text would be about 68,400 tokens.
#[test]
fn base64_media_is_not_text() {
    let mut random = fastrand::Rng::with_seed(1);
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let data: String = (0..100_000).map(|_| alphabet[random.usize(0..64)] as char).collect();
    let places: &[(Api, SegmentKind, &str)] = &[
        (
            Api::Chat,
            ChatMessage,
            r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,@"}}]}"#,
        ),
        (
            Api::Chat,
            ChatMessage,
            r#"{"role":"user","content":[{"type":"input_audio","input_audio":{"format":"mp3","data":"@"}}]}"#,
        ),
        (
            Api::Chat,
            ChatMessage,
            r#"{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,@"}}]}"#,
        ),
        (
            Api::Chat,
            ChatMessage,
            r#"{"role":"tool","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,@"}}]}"#,
        ),
        (
            Api::Responses,
            ResponsesItem,
            r#"{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,@"}]}"#,
        ),
        (
            Api::Responses,
            ResponsesItem,
            r#"{"role":"user","content":[{"type":"input_file","filename":"a.pdf","file_data":"@"}]}"#,
        ),
        (
            Api::Responses,
            ResponsesItem,
            r#"{"type":"function_call_output","output":[{"type":"input_image","image_url":"data:image/png;base64,@"}]}"#,
        ),
        (
            Api::Responses,
            ResponsesItem,
            r#"{"type":"computer_call_output","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,@"}}"#,
        ),
        (Api::Responses, ResponsesItem, r#"{"type":"image_generation_call","id":"i","result":"@"}"#),
        (
            Api::Messages,
            Message,
            r#"{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"@"}}]}"#,
        ),
        (
            Api::Messages,
            Message,
            r#"{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"@"}}]}"#,
        ),
        (
            Api::Messages,
            Message,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"@"}}]}]}"#,
        ),
    ];
    for (api, kind, template) in places {
        for model in ["m-big", "gpt-4o", "claude-opus-5"] {
            let got = count(model, *api, &[(*kind, &template.replace('@', &data))]);
            assert!((85..9_900).contains(&got.best), "{model}: {} in {template}", got.best);
            assert!(got.fixed >= 85 && got.upper >= got.best, "{model}: {got:?} in {template}");
        }
    }
    let text = format!(r#"{{"role":"user","content":[{{"type":"text","text":"data:image/png;base64,{data}"}}]}}"#);
    assert!(chat("gpt-4o", &[&text]) > 60_000, "the same characters in a text part are text");
}

#[test]
fn hostile_text_is_counted_as_ordinary_text() {
    for (text, tokens) in [("<|endoftext|>".to_owned(), 7), ("<|im_start|>".to_owned(), 6), ("a".repeat(1_000_000), 125_000)] {
        assert_eq!(chat("gpt-4o", &[&format!(r#"{{"role":"user","content":"{text}"}}"#)]), 7 + tokens);
    }
}

#[test]
fn token_arrays_count_their_length_and_lists_are_summed() {
    for (json, tokens) in [
        ("[1,2,3]", 3),
        ("[[1,2,3],[4,5]]", 5),
        (r#"["hello world","hi"]"#, 3),
        (r#""hello world""#, 2),
        (r#"["hi",[1,2],7]"#, 4),
        ("[]", 0),
        ("null", 0),
    ] {
        assert_eq!(count("text-embedding-3-small", Api::Embeddings, &[(Input, json)]).best, tokens, "{json}");
        assert_eq!(count("davinci-002", Api::Completions, &[(Prompt, json)]).best, tokens, "{json}");
    }
    let many = format!("[{}1]", "1,".repeat(1_999_999));
    assert_eq!(count("text-embedding-3-small", Api::Embeddings, &[(Input, &many)]).best, 2_000_000);
}

#[test]
fn malformed_pieces_name_their_place_and_not_their_content() {
    for bad in [r#"{"role":"user","content":"secret \ud83d"}"#, r#"{"role":"user","content":"secret \ude00"}"#] {
        let error = try_count("gpt-4o", Api::Chat, &[(ChatMessage, HI), (ChatMessage, bad)]).expect_err("a lone surrogate");
        assert_eq!(error.piece, 1);
        assert!(error.reason.contains("surrogate") || error.reason.contains("escape"), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    for (kind, bad) in [
        (Prompt, r#"["\ud83d"]"#),
        (Input, r#""\ude00""#),
        (System, r#"[{"text":"\ud83d"}]"#),
        (ChatTools, r#"[{"name":"\ud83d"}]"#),
    ] {
        assert!(try_count("gpt-4o", Api::Chat, &[(kind, bad)]).is_err(), "{kind:?}");
    }
    assert_eq!(chat("gpt-4o", &[r#"{"role":"user","content":"\ud83d\ude00"}"#]), 7 + 1, "a pair is one character");
}

#[test]
fn a_value_of_too_many_parts_is_counted_as_text_in_bounded_memory() {
    let wide = format!(r#"{{"role":"user","content":[{}0]}}"#, "[],".repeat(200_000));
    let got = count("gpt-4o", Api::Chat, &[(ChatMessage, &wide)]);
    assert!(got.best > 10_000 && got.upper >= wide.len() as u64);
}

#[test]
fn every_kind_survives_every_shape() {
    let kinds = [
        ChatMessage,
        ChatTools,
        ChatFunctions,
        ResponseFormat,
        ToolChoice,
        Instructions,
        ResponsesText,
        ResponsesItem,
        ResponsesTools,
        ResponsesFormat,
        System,
        Message,
        AnthropicTools,
        Prompt,
        Input,
    ];
    let shapes = [
        "null",
        "true",
        "7",
        "-1.5e9",
        r#""""#,
        "[]",
        "{}",
        "[null]",
        "[[[]]]",
        r#"{"type":null}"#,
        r#"{"type":"image_url"}"#,
        r#"{"type":"file","file":7}"#,
        r#"{"type":"image","source":[]}"#,
        r#"{"type":"document"}"#,
        r#"{"content":[{"type":"input_audio"}],"tool_calls":[7,{}],"role":[]}"#,
        r#"[{"type":"function","function":{"name":"f","parameters":{"properties":[],"x":1}}}]"#,
        r#"{"format":null}"#,
        r#"[{"function":null}]"#,
    ];
    for kind in kinds {
        for shape in shapes {
            for (model, api) in [("gpt-4o", Api::Chat), ("c-big", Api::Messages), ("gemini-3-pro", Api::Responses)] {
                let got = count(model, api, &[(kind, shape)]);
                assert!(got.best <= got.upper, "{kind:?} {shape}: {got:?}");
            }
        }
    }
}

#[test]
fn content_that_only_the_provider_has_costs_a_floor_and_is_reported() {
    for (kind, json) in [
        (ResponsesItem, r#"{"type":"item_reference","id":"msg_1"}"#),
        (ResponsesItem, r#"{"role":"user","content":[{"type":"input_file","file_id":"file_1"}]}"#),
        (ChatMessage, r#"{"role":"user","content":[{"type":"file","file":{"file_id":"file_1"}}]}"#),
        (Message, r#"{"role":"user","content":[{"type":"document","source":{"type":"url","url":"https://example.com/a.pdf"}}]}"#),
        (Message, r#"{"role":"user","content":[{"type":"container_upload","file_id":"f"}]}"#),
    ] {
        let got = count("gpt-4o", Api::Chat, &[(kind, json)]);
        assert_eq!(got.unseen, 1, "{json}");
        assert!(got.best >= 1_000 && got.upper >= 10_000, "{json}: {got:?}");
    }
    let remote =
        r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png","detail":"low"}}]}"#;
    let got = count("gpt-4o", Api::Chat, &[(ChatMessage, remote)]);
    assert_eq!((got.fixed, got.unseen), (85, 0), "a remote image has a price; `detail` is read");
}

#[test]
fn sealed_text_costs_about_what_was_sealed() {
    let sealed = "A".repeat(16_000);
    for (api, kind, template) in [
        (Api::Responses, ResponsesItem, r#"{"type":"reasoning","id":"r","summary":[],"encrypted_content":"@"}"#),
        (Api::Messages, Message, r#"{"role":"assistant","content":[{"type":"redacted_thinking","data":"@"}]}"#),
        (
            Api::Messages,
            Message,
            r#"{"role":"user","content":[{"type":"web_search_tool_result","content":[{"type":"web_search_result","encrypted_content":"@"}]}]}"#,
        ),
    ] {
        let got = count("gpt-4o", api, &[(kind, &template.replace('@', &sealed))]);
        assert!((3_000..3_050).contains(&got.best), "{} in {template}", got.best);
        assert!(got.upper >= 16_000, "{} in {template}", got.upper);
    }
    let spoken = count("gpt-4o", Api::Chat, &[(ChatMessage, r#"{"role":"assistant","audio":{"id":"audio_1"}}"#)]);
    assert_eq!(spoken.fixed, 300, "an earlier spoken answer is fed again");
}

#[test]
fn claude_counts_more_than_the_encoding_and_its_hidden_prompts() {
    let message = format!(r#"{{"role":"user","content":"{}"}}"#, "hello world ".repeat(500));
    let pieces = [(Message, message.as_str())];
    let old = count("claude-sonnet-4-5", Api::Messages, &pieces);
    assert_eq!(old.best, (old.raw * 12).div_ceil(10));
    assert_eq!(count("claude-opus-4-7", Api::Messages, &pieces).best, (old.raw * 156).div_ceil(100));
    let tools = r#"[{"name":"f","input_schema":{"type":"object"}}]"#;
    for (choice, prompt) in
        [(r#"{"type":"auto"}"#, 286), (r#"{"type":"any"}"#, 406), (r#"{"type":"tool","name":"f"}"#, 406), ("null", 286)]
    {
        let got = count("claude-opus-5", Api::Messages, &[(Message, HI), (AnthropicTools, tools), (ToolChoice, choice)]);
        assert_eq!(got.fixed, prompt, "{choice}");
    }
    assert_eq!(count("claude-opus-5", Api::Messages, &[(Message, HI), (AnthropicTools, "[]")]).fixed, 0);
    let bash = r#"[{"type":"bash_20250124","name":"bash"},{"type":"text_editor_20250728","name":"e"}]"#;
    assert_eq!(count("claude-opus-4-8", Api::Messages, &[(AnthropicTools, bash)]).fixed, 290 + 325 + 700);
    assert_eq!(count("claude-sonnet-4-6", Api::Messages, &[(AnthropicTools, bash)]).fixed, 497 + 244 + 700);
}

#[test]
fn the_factor_is_learned_for_other_providers_only() {
    let estimator = Estimator::new(100);
    let json = format!(r#"{{"role":"user","content":"{}"}}"#, "hello world ".repeat(500));
    let pieces = [Piece { kind: Message, json: json.as_bytes() }];
    let before = estimator.count("c-big", Api::Messages, &pieces).expect("well-formed pieces");
    for _ in 0..100 {
        estimator.learn("c-big", Api::Messages, &before, before.raw * 2);
        estimator.learn("gpt-4o", Api::Chat, &before, before.raw * 2);
        estimator.learn("unseen", Api::Chat, &InputCount { unseen: 1, ..before }, before.raw * 2);
        estimator.learn("media", Api::Chat, &InputCount { fixed: before.raw + 1, ..before }, before.raw * 3);
    }
    let after = estimator.count("c-big", Api::Messages, &pieces).expect("well-formed pieces");
    assert!(after.best.abs_diff(before.raw * 2) <= before.raw / 100, "{after:?}");
    assert_eq!((after.raw, after.upper), (before.raw, before.upper), "only the best estimate moves");
    let factors = ["gpt-4o", "unseen", "media"].map(|model| estimator.factor_permille(model, Api::Chat));
    assert_eq!(factors, [1_000, 1_000, 1_000]);
    assert!(estimator.count_text("c-big", Api::Messages, "hello world, how are you") > 8);
    assert_eq!(estimator.count_text("gpt-4o", Api::Chat, "hello world"), 2);
}

#[test]
fn the_best_estimate_never_passes_the_bound() {
    let letters: String = std::iter::repeat_n("\u{12000}", 400).collect();
    let got = count("claude-opus-5", Api::Messages, &[(Message, &format!(r#"{{"role":"user","content":"{letters}"}}"#))]);
    assert!(got.best <= got.upper && got.upper <= 1_600 + 400, "{got:?}");
}

#[test]
fn a_long_new_text_is_left_to_a_blocking_thread_until_it_is_remembered() {
    let estimator = Estimator::new(100);
    let long = format!(r#"{{"role":"user","content":"{}"}}"#, "lorem ipsum ".repeat(5_000));
    let pieces = [Piece { kind: ChatMessage, json: HI.as_bytes() }, Piece { kind: ChatMessage, json: long.as_bytes() }];
    assert_eq!(estimator.count_if_quick("gpt-4o", Api::Chat, &pieces[..1]).map(|count| count.best), Some(8));
    assert_eq!(estimator.count_if_quick("gpt-4o", Api::Chat, &pieces), None);
    let counted = estimator.count("gpt-4o", Api::Chat, &pieces).expect("well-formed pieces");
    assert_eq!(estimator.count_if_quick("gpt-4o", Api::Chat, &pieces), Some(counted));
    assert_eq!(estimator.count_if_quick("gpt-4", Api::Chat, &pieces), None, "another encoding was not counted yet");
    let bad = Piece { kind: ChatMessage, json: br#""\ud83d""# };
    assert_eq!(estimator.count_if_quick("gpt-4o", Api::Chat, &[bad]), None, "the error comes from `count`");
}

#[test]
fn what_is_remembered_is_what_would_be_counted() {
    let estimator = Estimator::new(100);
    let tools = format!(r#"[{{"name":"f","description":"{}"}}]"#, "lorem ipsum ".repeat(20));
    let pieces = [Piece { kind: AnthropicTools, json: tools.as_bytes() }];
    for model in ["claude-opus-5", "claude-opus-4-7", "gpt-4o", "gpt-4"] {
        let fresh = Estimator::new(0).count(model, Api::Messages, &pieces);
        assert_eq!(estimator.count(model, Api::Messages, &pieces), fresh, "{model}");
        assert_eq!(estimator.count(model, Api::Messages, &pieces), fresh, "{model} again");
    }
}

#[test]
fn an_estimator_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Estimator>();
    Estimator::warm_up();
}
