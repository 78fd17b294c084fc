use super::*;

/// `day model requests input cached output cost batch` of each row; `-` for what the export does not tell.
fn shown(text: &str) -> (Provider, Vec<String>) {
    let export = read(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let n = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let row = |row: &Theirs| {
        let Theirs { day, model, requests, input, cached, output, cost, batch } = row;
        format!("{day} {model:?} {} {} {} {} {} {batch}", n(*requests), n(*input), n(*cached), n(*output), n(*cost))
    };
    (export.provider, export.rows.iter().map(row).collect())
}

#[test]
fn each_known_export_is_read() {
    let openai_usage = "start_time,end_time,start_time_iso,end_time_iso,project_id,num_model_requests,user_id,api_key_id,model,batch,service_tier,input_tokens,output_tokens,input_cached_tokens\n\
        1796040000,1796126400,2026-11-30T00:00:00+00:00,2026-12-01T00:00:00+00:00,p,5,,,gpt-4o-2024-08-06,False,default,1000,500,800\n\
        1796043600,1796126400,2026-11-30T01:00:00+00:00,2026-12-01T00:00:00+00:00,p,2,,,gpt-4o-2024-08-06,True,,100,50,0\n\
        1796126400,1796212800,2026-12-01T00:00:00+00:00,2026-12-02T00:00:00+00:00,,,,,,,,,,\n";
    let openai_cost = "start_time\tend_time\tstart_time_iso\tend_time_iso\tamount_value\tamount_currency\tline_item\tproject_id\n\
        1796040000\t1\t2026-11-30T00:00:00+00:00\tx\t0.0500\tusd\tgpt-4o-2024-08-06, input\tp\n\
        1796040000\t1\t2026-11-30T00:00:00+00:00\tx\t1e-2\tusd\tgpt-4o-2024-08-06, output\tp\n\
        1796040000\t1\t2026-11-30T00:00:00+00:00\tx\t-5\tusd\tcredit\tp\n\
        1796040000\t1\t2026-11-30T00:00:00+00:00\tx\t\t\t\t\n";
    let anthropic_usage = "\u{feff}usage_date_utc,model_version,api_key,workspace,usage_type,context_window,usage_input_tokens_no_cache,usage_input_tokens_cache_write_5m,usage_input_tokens_cache_write_1h,usage_input_tokens_cache_read,usage_output_tokens,web_search_count\n\
        2026-11-30,claude-haiku-4-5-20251001,k,Default,standard,≤ 200k,100,20,3,400,50,0\n\
        2026-11-30T05:00:00Z,claude-haiku-4-5-20251001,k,Default,batch,≤ 200k,7,0,0,0,1,0\n";
    let anthropic_cost = "usage_date_utc,model,workspace,api_key,usage_type,context_window,token_type,cost_usd,cost_type\n\
        2026-11-30,Claude Haiku 4.5,Default,k,message,≤ 200k,input_no_cache,0.05,token\n\
        2026-11-30,Claude Haiku 4.5,Default,k,message,≤ 200k,output,0.02,token\n";
    let openai_json = r#"{"object":"page","data":[{"object":"bucket","start_time":1796040000,"end_time":1796126400,"results":[
        {"object":"organization.usage.completions.result","input_tokens":1000,"output_tokens":500,"input_cached_tokens":800,"num_model_requests":5,"model":"gpt-4o","batch":null}]}],"has_more":false}
        {"object":"page","data":[{"object":"bucket","start_time":1796126400,"results":[
        {"object":"organization.usage.embeddings.result","input_tokens":9,"num_model_requests":1,"model":"text-embedding-3-small"}]}],"has_more":false}"#;
    let openai_costs_json = r#"{"object":"page","data":[{"object":"bucket","start_time":1796040000,"results":[
        {"object":"organization.costs.result","amount":{"value":0.06,"currency":"usd"},"line_item":null},
        {"object":"organization.costs.result","amount":{"value":"0.0000001","currency":"USD"},"line_item":null}]}],"has_more":false}"#;
    let anthropic_json = r#"[{"data":[{"starting_at":"2026-11-30T00:00:00Z","ending_at":"2026-12-01T00:00:00Z","results":[
        {"uncached_input_tokens":100,"cache_creation":{"ephemeral_1h_input_tokens":3,"ephemeral_5m_input_tokens":20},"cache_read_input_tokens":400,"output_tokens":50,"model":"claude-haiku-4-5-20251001","service_tier":"batch"}]}],"has_more":false}]"#;
    let anthropic_cost_json = r#"{"data":[{"starting_at":"2026-11-30T00:00:00Z","results":[
        {"amount":"123.45","currency":"USD","model":"claude-haiku-4-5","cost_type":"tokens"},{"amount":"-5","currency":"USD"}]}],"has_more":false}"#;
    let (o, a) = (Provider::OpenAi, Provider::Anthropic);
    for (text, provider, rows) in [
        (openai_usage, o, vec![r#"2026-11-30 "gpt-4o-2024-08-06" 7 1100 800 550 - 2"#]),
        (openai_cost, o, vec![r#"2026-11-30 "gpt-4o-2024-08-06" - - - - 60000000 0"#]),
        (anthropic_usage, a, vec![r#"2026-11-30 "claude-haiku-4-5-20251001" - 530 400 51 - 7"#]),
        (anthropic_cost, a, vec![r#"2026-11-30 "Claude Haiku 4.5" - - - - 70000000 0"#]),
        (openai_json, o, vec![r#"2026-11-30 "gpt-4o" 5 1000 800 500 - 0"#, r#"2026-12-01 "text-embedding-3-small" 1 9 - - - 0"#]),
        (openai_costs_json, o, vec![r#"2026-11-30 "" - - - - 60000100 0"#]),
        (anthropic_json, a, vec![r#"2026-11-30 "claude-haiku-4-5-20251001" - 523 400 50 - 523"#]),
        (anthropic_cost_json, a, vec![r#"2026-11-30 "claude-haiku-4-5" - - - - 1234500000 0"#]),
    ] {
        let (whose, found) = shown(text);
        assert_eq!((whose, found), (provider, rows.into_iter().map(str::to_owned).collect()), "{text}");
    }
    assert_eq!(read(openai_cost).expect("read").remarks, ["2 lines without use or amount, or with a credit, were passed over"]);
    assert!(read(&openai_json.replace("\"has_more\":false", "\"has_more\":true")).expect("read").remarks[0].contains("more"));
}

#[test]
fn what_is_not_known_or_damaged_is_said_with_its_place() {
    let usage = "start_time,num_model_requests,model,input_tokens,output_tokens\n";
    for (text, says) in [
        (String::new(), "empty"),
        (" \n".to_owned(), "empty"),
        ("hello\n".to_owned(), "its columns are \"hello\""),
        ("a,b,c\n1,2,3\n".to_owned(), "its columns are \"a,b,c\""),
        (format!("{usage}soon,1,m,1,1\n"), "line 2: start_time is \"soon\""),
        (format!("{usage}1796040000,1,m,many,1\n"), "line 2: input_tokens is \"many\""),
        (format!("{usage}1796040000,1,m,-3,1\n"), "line 2: input_tokens is \"-3\""),
        ("start_time,amount_value,amount_currency,line_item\n1796040000,1,eur,m\n".to_owned(), "line 2: the amount is in \"eur\""),
        ("{}".to_owned(), "page 1 has no list named data"),
        ("{\"data\":[{}]}".to_owned(), "page 1, bucket 1: it has no start_time"),
        ("{\"data\":[{\"start_time\":1,\"results\":[{}]}]}".to_owned(), "page 1, bucket 1 has a result that is neither"),
        ("{\"data\":[".to_owned(), "line 1: it is no JSON"),
        ("{\"data\":[]}".to_owned(), "empty"),
        (
            r#"{"data":[{"start_time":1,"results":[{"object":"organization.usage.completions.result","input_tokens":-1}]}]}"#.to_owned(),
            "input_tokens is -1",
        ),
        (
            r#"{"data":[{"start_time":1,"results":[{"object":"organization.costs.result","amount":{"value":1,"currency":"eur"}}]}]}"#.to_owned(),
            "the amount is in \"eur\"",
        ),
    ] {
        let error = read(&text).map(|_| ()).expect_err(&text).to_string();
        assert!(error.contains(says), "{text:?}: {error}");
    }
}
