//! `tollgate check --replay FILE`: asks models and their fallbacks the same questions, the fallbacks with their own system prompts, and prints
//! the answers side by side, with tokens and cost, as a Markdown table.
//!
//! It calls the configured upstreams directly, one call at a time, outside every limit: it is the operator's own money. The key is the
//! upstream's, in passthrough mode that of `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`.

mod answer;

use super::{BAD_CONFIG, fail};
use crate::config::policy::{Fallback, Policy};
use crate::domain::NanoUsd;
use crate::upstream::{Client, Outgoing};
use crate::wire::edit::Edits;
use crate::wire::{Api, Dialect, request};
use answer::{Answer, read_answer};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request};
use serde_json::{Value, json};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Questions of one file at most: each is two calls that cost money.
const MOST_QUESTIONS: usize = 1_000;
/// The longest line, bytes.
const LONGEST_LINE: usize = 4 << 20;
/// The output cap of questions that are only a text.
const CAP: u64 = 1_024;

/// Asks the questions of a file and prints the table.
pub fn run(policy: &Policy, file: &Path) -> ExitCode {
    let questions = match questions(policy, file) {
        Ok(questions) => questions,
        Err(problem) => return fail(&problem, BAD_CONFIG),
    };
    let client = match Client::new(policy) {
        Ok(client) => client,
        Err(error) => return fail(&error.to_string(), 1),
    };
    let runtime = match super::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.to_string(), 1),
    };
    match runtime.block_on(table(policy, &client, &questions, &mut io::stdout().lock())) {
        Ok(true) => ExitCode::SUCCESS,
        // A call that failed stands in the table; whoever closed the pipe did not want to know more.
        Ok(false) | Err(_) => ExitCode::FAILURE,
    }
}

/// One question, to one model and its fallback.
#[derive(Debug)]
struct Question {
    api: Api,
    model: Arc<str>,
    fallback: Arc<Fallback>,
    /// What the model is sent, and the fallback.
    bodies: [Bytes; 2],
    /// What stands in the table.
    text: String,
}

/// Reads the file: on each line a request body, or a question as a JSON string, which goes to every model with a fallback.
fn questions(policy: &Policy, file: &Path) -> Result<Vec<Question>, String> {
    let name = file.display();
    let opened = std::fs::File::open(file).map_err(|error| format!("{name} cannot be read: {error}"))?;
    let mut questions = Vec::new();
    for (at, line) in io::BufReader::new(opened).lines().enumerate() {
        let line = line.map_err(|error| format!("{name} cannot be read: {error}"))?;
        let at = at + 1;
        if line.trim().is_empty() {
            continue;
        }
        if line.len() > LONGEST_LINE {
            return Err(format!("{name}:{at}: is longer than {LONGEST_LINE} bytes"));
        }
        let value: Value = serde_json::from_str(&line).map_err(|error| format!("{name}:{at}: is not JSON: {error}"))?;
        let asked = match value {
            Value::String(text) => of_text(policy, &text),
            Value::Object(_) => of_body(policy, value).map(|question| vec![question]),
            _ => Err("is neither a request body nor a question as a JSON string".to_owned()),
        };
        questions.extend(asked.map_err(|problem| format!("{name}:{at}: {problem}"))?);
        if questions.len() > MOST_QUESTIONS {
            return Err(format!("{name}: has more than {MOST_QUESTIONS} questions, counted once for each model"));
        }
    }
    if questions.is_empty() { Err(format!("{name}: holds no question")) } else { Ok(questions) }
}

fn of_text(policy: &Policy, text: &str) -> Result<Vec<Question>, String> {
    let mut models: Vec<&Arc<str>> =
        policy.models.iter().filter(|(_, model)| model.fallback.is_some()).map(|(name, _)| name).collect();
    models.sort_unstable();
    if models.is_empty() {
        return Err("no model has a fallback to compare with; write [models.NAME] fallback = ..".to_owned());
    }
    let body = |model: &str| match dialect_of(policy, model) {
        Dialect::Anthropic => json!({ "model": model, "max_tokens": CAP, "messages": [{ "role": "user", "content": text }] }),
        Dialect::OpenAi => json!({ "model": model, "messages": [{ "role": "user", "content": text }] }),
    };
    models.into_iter().map(|model| of_body(policy, body(model))).collect()
}

fn of_body(policy: &Policy, mut value: Value) -> Result<Question, String> {
    let model: Arc<str> = value["model"].as_str().ok_or("names no model")?.into();
    let fallback = policy.models.get(&model).and_then(|model| model.fallback.clone());
    let fallback = fallback.ok_or_else(|| format!("the model {model:?} has no fallback to compare with"))?;
    let api = match () {
        () if !value["input"].is_null() => Api::Responses,
        () if !value["prompt"].is_null() => Api::Completions,
        () if dialect_of(policy, &model) == Dialect::Anthropic => Api::Messages,
        () => Api::Chat,
    };
    // Whole answers are compared, however the app reads them.
    if let Some(body) = value.as_object_mut() {
        body.remove("stream");
        body.remove("stream_options");
    }
    let body = Bytes::from(value.to_string());
    let parsed = request::parse(api, &body).map_err(|error| error.to_string())?;
    let most = policy.models.get(&fallback.model).and_then(|model| model.max_output_tokens);
    let most = most.or_else(|| policy.prices.get(&fallback.model).and_then(|price| price.max_output_tokens));
    let edits = Edits {
        model: Some(fallback.model.as_ref().into()),
        system: fallback.system.clone(),
        output_cap: parsed.output_cap.zip(most).filter(|(asked, most)| asked > most).map(|(_, most)| most),
        ..Edits::default()
    };
    let bodies = [body.clone(), parsed.apply(&body, &edits)];
    let text = answer::last_words(&value);
    Ok(Question { api, model, fallback, bodies, text })
}

/// What a model speaks: its pool's upstream says so; a model in no pool, its name.
fn dialect_of(policy: &Policy, model: &str) -> Dialect {
    match policy.pool_of(model) {
        Some(pool) => pool.upstream.dialect,
        None if model.contains("claude") => Dialect::Anthropic,
        None => Dialect::OpenAi,
    }
}

/// Prints the table row by row, as the answers come. Whether every call was answered.
async fn table(policy: &Policy, client: &Client, questions: &[Question], out: &mut impl Write) -> io::Result<bool> {
    writeln!(out, "| question | model | answer | tokens | cost | fallback | answer | tokens | cost |")?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|")?;
    let (mut sums, mut sound) = ([NanoUsd::ZERO; 2], true);
    for question in questions {
        write!(out, "| {} ", answer::cell(&question.text))?;
        for (at, model) in [&question.model, &question.fallback.model].into_iter().enumerate() {
            match ask(policy, client, question, model, question.bodies[at].clone()).await {
                Ok(answer) => {
                    sums[at] = sums[at].saturating_add(answer.cost);
                    let Answer { text, input, output, cost } = answer;
                    write!(out, "| {} | {} | {input} + {output} | {cost} ", answer::cell(model), answer::cell(&text))?;
                }
                Err(problem) => {
                    sound = false;
                    write!(out, "| {} | **{}** | | ", answer::cell(model), answer::cell(&problem))?;
                }
            }
        }
        writeln!(out, "|")?;
        out.flush()?;
    }
    writeln!(out, "\n{} questions; the models cost {}, the fallbacks {}", questions.len(), sums[0], sums[1])?;
    Ok(sound)
}

async fn ask(policy: &Policy, client: &Client, question: &Question, model: &str, body: Bytes) -> Result<Answer, String> {
    let dialect = question.api.dialect();
    let upstream = policy.upstream_of(model, dialect).ok_or("no upstream speaks its format")?;
    let path = match question.api {
        Api::Responses => "/v1/responses",
        Api::Completions => "/v1/completions",
        Api::Messages => "/v1/messages",
        _ => "/v1/chat/completions",
    };
    let request = Request::builder().method(Method::POST).uri(path).header(CONTENT_TYPE, "application/json");
    let request = if dialect == Dialect::Anthropic { request.header("anthropic-version", "2023-06-01") } else { request };
    let (head, ()) = request.body(()).map_err(|error| error.to_string())?.into_parts();
    let own = if upstream.api_key.is_none() { key_of_environment(dialect) } else { None };
    let credential = own.as_ref().map(|(name, value)| (name, value));
    let outgoing =
        Outgoing { upstream, head: &head, credential, customer: "", model: "", trace: None, body: Some(body), fresh: false };
    let reply = client.send(outgoing).await.map_err(|no_reply| format!("no reply: {}", no_reply.as_str()))?;
    let price = policy.prices.get(model);
    read_answer(question.api, reply, price.as_deref(), upstream.idle_timeout).await
}

/// The key in the variable that the vendor's own SDK reads.
fn key_of_environment(dialect: Dialect) -> Option<(HeaderName, HeaderValue)> {
    let (variable, name, prefix) = match dialect {
        Dialect::OpenAi => ("OPENAI_API_KEY", AUTHORIZATION, "Bearer "),
        Dialect::Anthropic => ("ANTHROPIC_API_KEY", HeaderName::from_static("x-api-key"), ""),
    };
    let key = std::env::var(variable).ok()?;
    let mut value = HeaderValue::try_from(format!("{prefix}{}", key.trim())).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}
