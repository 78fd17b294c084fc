//! Properties over random and over damaged bodies.

use super::*;
use proptest::prelude::*;

const APIS: [Api; 8] = [
    Api::Chat,
    Api::Responses,
    Api::Completions,
    Api::Embeddings,
    Api::Messages,
    Api::CountTokens,
    Api::Models,
    Api::AnthropicModels,
];

/// Fields of a chat body, spelled in unusual ways; each group holds alternatives.
fn body() -> impl Strategy<Value = String> {
    let one_of = |spellings: &'static [&'static str]| proptest::option::of(proptest::sample::select(spellings));
    let fields = (
        one_of(&[r#""max_tokens":50"#, r#""max_tokens" : null"#, r#""max_t\u006fkens":17"#]),
        one_of(&[r#""max_completion_tokens":60"#, r#""max_completion_tokens":null"#]),
        one_of(&[r#""stream":true"#, r#""stream": false"#]),
        one_of(&[
            r#""stream_options":null"#,
            r#""stream_options":{ }"#,
            r#""stream_options":{"x":[1],"include_usage":false}"#,
            r#""stream_options":{"include_usage":true}"#,
        ]),
        one_of(&[r#""safety_identifier":"s""#, r#""safety_identifier" :null"#]),
        one_of(&[r#""metadata":{"user_id":"\u0041"}"#, r#""metadata":null"#]),
        one_of(&[r#""x":[1.50e+01,-0,"\ud83d\ude00",{"model":"no"}]"#, "\"é\\/\":\"\\\"}\""]),
        one_of(&["\"tools\":[{\"type\":\"function\"}]", "\"tools\":[ ]"]),
    );
    let blanks = proptest::sample::select(&["", " ", "\n\t", "\r\n  "][..]);
    let joined = (fields, blanks).prop_flat_map(|(fields, blank)| {
        let (a, b, c, d, e, f, g, h) = fields;
        let mut all: Vec<&str> = [a, b, c, d, e, f, g, h].into_iter().flatten().collect();
        all.extend([r#""model" :"old""#, r#""messages":[{"role":"user","content":"h\u0069 \n"},{}]"#]);
        (Just(all).prop_shuffle(), Just(blank))
    });
    joined.prop_map(|(fields, blank)| {
        let fields = fields.join(&format!("{blank},{blank}"));
        format!("{blank}{{{blank}{fields}{blank}}}{blank}")
    })
}

/// Every range that a request gives out lies inside the body and holds a JSON value.
fn ranges_are_values(request: &Request, body: &[u8]) {
    for segment in &request.segments {
        let value = body.get(segment.range.clone()).expect("inside the body");
        assert!(serde_json::from_slice::<&serde_json::value::RawValue>(value).is_ok(), "{:?}", String::from_utf8_lossy(value));
        assert_eq!(value.trim_ascii().len(), value.len(), "no blanks around it");
    }
}

proptest! {
    #[test]
    fn an_edit_reads_back_and_changes_nothing_else(
        text in body(), model in "[a-zA-Z\"\\\\é]{1,8}", cap in 1_u64..1_000, user in "\\PC{1,8}", include_usage: bool,
    ) {
        let original = Bytes::from(text.clone());
        let before = parse(Api::Chat, &original).expect("valid");
        ranges_are_values(&before, &original);
        let edits = Edits { model: Some(model.clone()), output_cap: Some(cap), include_usage, user_id: Some(user.clone()), ..Edits::default() };
        let changed = before.apply(&original, &edits);
        let after = parse(Api::Chat, &changed).expect("still valid");
        ranges_are_values(&after, &changed);

        prop_assert_eq!(&after.model, &model);
        prop_assert_eq!(after.output_cap, Some(cap));
        let usage = if include_usage && before.stream { Some(true) } else { before.include_usage };
        prop_assert_eq!(after.include_usage, usage);
        let safety_identifier = before.features.user_ids.safety_identifier.clone().or(Some(user));
        let user_ids = UserIds { safety_identifier, ..before.features.user_ids.clone() };
        prop_assert_eq!(&after.features, &Features { user_ids, ..before.features.clone() });
        let pieces = |request: &Request, body: &Bytes| -> Vec<Bytes> { request.segments.iter().map(|s| body.slice(s.range.clone())).collect() };
        prop_assert_eq!(pieces(&after, &changed), pieces(&before, &original));

        // The members are the same byte for byte, but for the edited ones.
        let edited = ["model", "max_tokens", "max_completion_tokens", "stream_options", "safety_identifier"];
        let others = |body: &Bytes| -> Vec<(String, String)> {
            let text = std::str::from_utf8(body).expect("UTF-8");
            let mut members = Vec::new();
            let member = |cursor: &mut Cursor<'_>, key: std::borrow::Cow<'_, str>| {
                let range = cursor.skip()?;
                if !edited.contains(&&*key) {
                    members.push((key.into_owned(), text[range].to_owned()));
                }
                Ok(())
            };
            Cursor::new(text, 0).object(member).expect("an object");
            members
        };
        prop_assert_eq!(others(&changed), others(&original));
    }

    #[test]
    fn editing_back_gives_the_original_bytes(text in body(), cap in 1_u64..1_000) {
        let original = Bytes::from(text.replace("\"safety", "\"other"));
        let before = parse(Api::Chat, &original).expect("valid");
        // Both caps present would be set to one value; a cap that is absent cannot be taken away again.
        prop_assume!(before.places.caps.len() == 1 && before.output_cap.is_some());
        let edits = Edits { model: Some("other".into()), output_cap: Some(cap), ..Edits::default() };
        let changed = before.apply(&original, &edits);
        let back = Edits { model: Some("old".into()), output_cap: before.output_cap, ..Edits::default() };
        prop_assert_eq!(parse(Api::Chat, &changed).expect("valid").apply(&changed, &back), original);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        for api in APIS {
            let _ = parse(api, &bytes);
        }
    }

    #[test]
    fn damaged_bodies_never_panic_nor_give_ranges_outside(
        text in body(), damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>(), 0..3_u8), 1..4),
    ) {
        let mut bytes = text.replace("\"messages\"", "\"input\":[{}],\"prompt\":[1],\"messages\"").into_bytes();
        for (index, byte, what) in damage {
            if bytes.is_empty() {
                break;
            }
            let at = index.index(bytes.len());
            match what {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        for api in APIS {
            if let Ok(request) = parse(api, &bytes) {
                ranges_are_values(&request, &bytes);
                let edits = Edits { model: Some("x".into()), output_cap: Some(1), include_usage: true, user_id: Some("u".into()), ..Edits::default() };
                let changed = request.apply(&Bytes::from(bytes.clone()), &edits);
                prop_assert_eq!(parse(api, &changed).map(|r| r.model), Ok("x".to_owned()));
            }
        }
    }
}
