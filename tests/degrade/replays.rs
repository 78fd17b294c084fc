//! `tollgate check --replay`: the same questions to a model and its fallback.

use std::process::Output;
use tollgate::demo::{Provider, ProviderOptions};

const CONFIG: &str = r#"
[upstreams.openai]
base_url = "{provider}"
[upstreams.anthropic]
base_url = "{provider}"
dialect = "anthropic"
[models.m-big]
price = { input = 2.50, output = 10.0 }
fallback = { model = "m-small", system = "Be brief." }
[models.m-small]
price = { input = 0.15, output = 0.60 }
max_output_tokens = 5
[models.claude-x]
price = { input = 3.0, output = 15.0 }
fallback = "claude-y"
[models.claude-y]
price = { input = 1.0, output = 5.0 }
[models.dead]
price = { input = 1.0, output = 1.0 }
fallback = "fault-500"
[models.fault-500]
price = { input = 1.0, output = 1.0 }
[classes.general]
fallback = true
"#;

async fn replay(provider: &Provider, questions: &str) -> (Output, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let (config, file) = (directory.path().join("t.toml"), directory.path().join("q.jsonl"));
    std::fs::write(&config, CONFIG.replace("{provider}", &provider.base_url())).expect("written");
    std::fs::write(&file, questions).expect("written");
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(["check", "--config"]).arg(&config).arg("--replay").arg(&file);
    command.env("OPENAI_API_KEY", "sk-one").env("ANTHROPIC_API_KEY", "sk-two");
    let output = command.output().await.expect("the program");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

#[tokio::test]
async fn each_question_is_answered_by_both_with_tokens_and_cost() {
    let provider = Provider::start(ProviderOptions::default()).await.expect("a loopback port");
    let questions = concat!(
        r#"{"model":"m-big","stream":true,"max_tokens":40,"messages":[{"role":"system","content":"Long."},{"role":"user","content":"Where | is it? [20 tokens]"}]}"#,
        "\n\n",
        r#"{"model":"claude-x","max_tokens":9,"messages":[{"role":"user","content":"[6 tokens]"}]}"#,
        "\n",
        r#"{"model":"m-big","input":"[3 tokens]"}"#,
    );
    let (output, table) = replay(&provider, questions).await;
    assert_eq!(output.status.code(), Some(0), "{table} {}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows[0], "| question | model | answer | tokens | cost | fallback | answer | tokens | cost |");
    let log = provider.log();
    let asked: Vec<_> = log.iter().map(|seen| (&*seen.model, &*seen.path)).collect();
    let (chat, messages, responses) = ("/v1/chat/completions", "/v1/messages", "/v1/responses");
    let right = [
        ("m-big", chat),
        ("m-small", chat),
        ("claude-x", messages),
        ("claude-y", messages),
        ("m-big", responses),
        ("m-small", responses),
    ];
    assert_eq!(asked, right);
    let small = String::from_utf8_lossy(&log[1].body).into_owned();
    assert!(small.contains(r#"{"role":"system","content":"Be brief."}"#) && small.contains("\"max_tokens\":5"), "{small}");
    assert!(!small.contains("Long.") && !small.contains("stream"), "{small}");
    assert_eq!((log[0].header("authorization"), log[2].header("x-api-key")), ("Bearer sk-one", "sk-two"));
    // Each number is the provider's own usage at the model's own price.
    let prices = [(2_500, 10_000), (150, 600), (3_000, 15_000), (1_000, 5_000), (2_500, 10_000), (150, 600)];
    for (at, seen) in log.iter().enumerate() {
        let usage = seen.usage.as_ref().expect("stated");
        let nano = usage.input() * prices[at].0 + usage.total_output() * prices[at].1;
        let cost = tollgate::domain::NanoUsd::new(nano);
        let cells = format!("| {} + {} | {cost} |", usage.input(), usage.total_output());
        assert!(rows[2 + at / 2].contains(&cells), "{cells} in {}", rows[2 + at / 2]);
    }
    assert!(rows[2].starts_with("| Where \\| is it? [20 tokens] | m-big | Thank you for writing in."), "{}", rows[2]);
    assert!(rows[2].contains("| m-small | Thank you for writing in |"), "cut at the fallback's own length: {}", rows[2]);
    assert!(table.lines().last().is_some_and(|last| last.starts_with("3 questions; the models cost $")), "{table}");
}

#[tokio::test]
async fn a_plain_question_goes_to_every_model_and_a_failed_call_stands_in_the_table() {
    let provider = Provider::start(ProviderOptions::default()).await.expect("a loopback port");
    let (output, table) = replay(&provider, "\"Where is it?\"\n").await;
    assert_eq!(output.status.code(), Some(1), "a call failed");
    let models: Vec<_> = provider.log().into_iter().map(|seen| seen.model).collect();
    assert_eq!(models, ["claude-x", "claude-y", "dead", "fault-500", "m-big", "m-small"]);
    assert!(table.contains("| fault-500 | **500: "), "{table}");
    for (questions, right) in [
        ("", "holds no question"),
        ("{\"model\":\"m-small\",\"messages\":[]}", "q.jsonl:1: the model \"m-small\" has no fallback to compare with"),
        ("\n[1]", "q.jsonl:2: is neither a request body nor a question"),
        ("{", "q.jsonl:1: is not JSON"),
    ] {
        let before = provider.seen();
        let (output, _) = replay(&provider, questions).await;
        assert_eq!(output.status.code(), Some(64));
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(complaint.contains(right), "{complaint}");
        assert_eq!(provider.seen(), before, "all questions are read before any is asked");
    }
}
