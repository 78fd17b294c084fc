//! `/console/keys`: what applications call with: made, given a new secret, revoked. A secret is shown on the page that answers the form,
//! which no cache keeps, and never again.

use super::Shared;
use super::gate::{Form, Visit};
use super::page::{Page, Section, Trouble, redirect};
use super::parts::{self, Head, Table, error_list, foreign, hidden_csrf, line};
use crate::admin::Fault;
use crate::admin::keys::{ends, overlap};
use crate::directory::keys::{Issued, KeySource, KeyState, KeyView};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

/// The fields of a new key: name, label, hint.
const FIELDS: [(&str, &str, &str); 8] = [
    ("name", "Name", "1 to 64 letters, digits, - and _"),
    ("plans", "Plans it may name", "with commas; empty: none"),
    ("customers", "Customers it may act for", "ids or beginnings with *, with commas; empty: all"),
    ("models", "Models it may use", "names or beginnings with *, with commas; empty: all"),
    ("routes", "Paths it may call", "such as /v1/chat/completions, with commas; empty: all"),
    ("rpm", "Requests per minute", "a number; empty: no limit"),
    ("tpm", "Tokens per minute", "a number; empty: no limit"),
    ("for", "For", "such as 90days; empty: no end"),
];

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/console/keys", get(show).post(create))
        .route("/console/keys/{name}/rotate", post(rotate))
        .route("/console/keys/{name}/revoke", get(ask).post(revoke))
}

/// A form that was not accepted.
#[derive(Default)]
struct Refused {
    typed: Form,
    wrong: Vec<(String, String)>,
    status: StatusCode,
}

async fn show(State(shared): State<Shared>, visit: Visit, request: Request) -> Result<Response, Trouble> {
    let done = request.uri().query() == Some("done=revoke");
    page(&shared, &visit, done, &Refused::default()).await
}

async fn page(shared: &Shared, visit: &Visit, done: bool, refused: &Refused) -> Result<Response, Trouble> {
    let keys = shared.gateway.directory.keys().await.map_err(Fault::from)?;
    let page = Page { title: "Keys", section: Section::Keys, visit, refresh: 0 };
    let wrong: Vec<_> = refused.wrong.iter().map(|(field, words)| (field.as_str(), words.as_str())).collect();
    let of = |field: &str| wrong.iter().find(|(name, _)| *name == field).map(|(_, words)| *words);
    Ok(page.answer(
        refused.status,
        &html! {
            @if done { (parts::done("Revoked, from the next request on every gateway.")) }
            (error_list(&wrong))
            (table(&keys, visit, refused))
            form method="post" action="/console/keys" aria-labelledby="new-title" {
                (hidden_csrf(visit))
                h2 #new-title { "Make a key" }
                p.hint { "In force with the next request on every gateway. The secret is shown once." }
                div.grid {
                    @for (name, label, hint) in &FIELDS { (line(name, label, refused.typed.get(name), Some(hint), of(name))) }
                }
                button.main type="submit" { "Make the key" }
            }
        },
    ))
}

fn table(keys: &[KeyView], visit: &Visit, refused: &Refused) -> Markup {
    let row = |key: &KeyView| {
        let mut state = match key.state {
            KeyState::Active => "active".to_owned(),
            KeyState::Expired => "expired".to_owned(),
            KeyState::Revoked => "revoked".to_owned(),
        };
        if let Some(by) = &key.revoked_by {
            state = format!("{state} by {by}");
        }
        let made = matches!(key.source, KeySource::Stored);
        vec![
            html! { (foreign(&key.name)) },
            html! { (foreign(&state)) },
            html! { @if made { "made here" @if let Some(by) = &key.created_by { " by " (foreign(by)) } } @else { "configuration" } },
            html! { @for (name, value) in &key.set { (name) ": " (foreign(&said(value))) br; } @if key.set.is_empty() { "everything" } },
            html! {
                @for secret in &key.secrets {
                    code { (secret.prefix) "…" } @if let Some(until) = secret.until { " until " (parts::instant(until)) } br;
                }
            },
            html! { @match key.expires { Some(at) => (parts::instant(at)), None => "never" } },
            html! { @match key.last_used { Some(at) => (parts::instant(at)), None => @if made { "never" } @else { "not noted" } } },
            html! { @if made && matches!(key.state, KeyState::Active) { (acts(key, visit, refused)) } },
        ]
    };
    let heads = [
        Head::Text("Name"),
        Head::Text("State"),
        Head::Text("From"),
        Head::Text("May"),
        Head::Text("Secrets"),
        Head::Text("Ends"),
        Head::Text("Last used"),
        Head::Text("Change"),
    ];
    parts::table(&Table { caption: "Keys", heads: &heads, rows: keys.iter().map(row).collect(), empty: "There is no key." })
}

fn acts(key: &KeyView, visit: &Visit, refused: &Refused) -> Markup {
    let name = &key.name;
    let id = format!("overlap-{name}");
    let wrong = refused.wrong.iter().any(|(field, _)| *field == id);
    html! {
        form.row method="post" action={ "/console/keys/" (name) "/rotate" } {
            (hidden_csrf(visit))
            div.field {
                label for=(id) { "Old secret opens for" }
                input id=(id) name="overlap" autocomplete="off" size="8" aria-invalid=[wrong.then_some("true")]
                    value=(if wrong { refused.typed.get("overlap") } else { "1day" });
            }
            button type="submit" aria-label={ "New secret for " (name) } { "New secret" }
        }
        a href={ "/console/keys/" (name) "/revoke" } aria-label={ "Revoke " (name) } { "Revoke" }
    }
}

fn said(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(said).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

async fn create(State(shared): State<Shared>, visit: Visit, form: Form) -> Result<Response, Trouble> {
    let mut set = Map::new();
    for field in ["plans", "customers", "models", "routes"] {
        let all: Vec<_> = form.get(field).split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
        if !all.is_empty() {
            set.insert(field.to_owned(), json!(all));
        }
    }
    for field in ["rpm", "tpm"] {
        if !form.get(field).is_empty() {
            set.insert(field.to_owned(), super::customers::value(form.get(field)));
        }
    }
    let lasts = Some(form.get("for")).filter(|text| !text.is_empty());
    let ends = match ends(&shared.gateway, lasts) {
        Ok(ends) => ends,
        Err(fault) => return again(&shared, &visit, form, fault, "for").await,
    };
    match shared.gateway.directory.create_key(visit.operator(), form.get("name"), &set, ends).await.map_err(Fault::from) {
        Ok(issued) => Ok(secret(&visit, &issued, "The key is made.")),
        Err(fault) => again(&shared, &visit, form, fault, "name").await,
    }
}

async fn rotate(State(shared): State<Shared>, visit: Visit, Path(name): Path<String>, form: Form) -> Result<Response, Trouble> {
    let field = format!("overlap-{name}");
    let given = Some(form.get("overlap")).filter(|text| !text.is_empty());
    let overlap = match overlap(given) {
        Ok(overlap) => overlap,
        Err(fault) => return again(&shared, &visit, form, fault, &field).await,
    };
    match shared.gateway.directory.rotate_key(visit.operator(), &name, overlap).await.map_err(Fault::from) {
        Ok(issued) => Ok(secret(&visit, &issued, "The key has a new secret.")),
        Err(fault @ (Fault::InvalidRequest(_) | Fault::KeyRefused(_))) => again(&shared, &visit, form, fault, &field).await,
        Err(fault) => Err(fault.into()),
    }
}

/// The page with what was typed, where it is the form that is wrong. `field` has what no other is blamed for.
async fn again(shared: &Shared, visit: &Visit, typed: Form, fault: Fault, field: &str) -> Result<Response, Trouble> {
    let (Fault::InvalidRequest(words) | Fault::KeyRefused(words)) = &fault else { return Err(fault.into()) };
    let blamed = |line: &str| {
        let named = |name: &&str| line.contains(&format!(".{name}")) || line.contains(&format!("{name} holds"));
        let known = FIELDS.iter().map(|(name, _, _)| *name).filter(|name| !matches!(*name, "name" | "for"));
        known.clone().find(named).unwrap_or(field).to_owned()
    };
    let words = words.replace("`for`", "The time").replace("`overlap`", "The time");
    let wrong = words.lines().map(|line| (blamed(line), line.to_owned())).collect();
    page(shared, visit, false, &Refused { typed, wrong, status: fault.shape().0 }).await
}

/// The only time a secret is shown.
fn secret(visit: &Visit, issued: &Issued, words: &str) -> Response {
    let page = Page { title: "The secret", section: Section::Keys, visit, refresh: 0 };
    page.show(&html! {
        (parts::done(words))
        p { "What " strong { (foreign(&issued.key.name)) } " sends. Copy it now: it is not shown again." }
        pre.said #secret tabindex="0" role="region" aria-label="The secret" { (issued.secret) }
        p { a href="/console/keys" { "To the keys" } }
    })
}

/// Asks before it is done: what is revoked stays so.
async fn ask(State(shared): State<Shared>, visit: Visit, Path(name): Path<String>) -> Result<Response, Trouble> {
    let key = shared.gateway.directory.key(&name).await.map_err(Fault::from)?.ok_or(Fault::KeyNotFound)?;
    let page = Page { title: "Revoke a key", section: Section::Keys, visit: &visit, refresh: 0 };
    Ok(page.show(&html! {
        p { "Whoever calls with " strong { (foreign(&key.name)) } " is refused from the next request on. This cannot be taken back." }
        @if let Some(at) = key.last_used { p { "It was last used " (parts::instant(at)) "." } }
        form.row method="post" action={ "/console/keys/" (key.name) "/revoke" } {
            (hidden_csrf(&visit))
            button.main type="submit" { "Revoke " (foreign(&key.name)) }
            a href="/console/keys" { "Leave it" }
        }
    }))
}

async fn revoke(State(shared): State<Shared>, visit: Visit, Path(name): Path<String>) -> Result<Response, Trouble> {
    shared.gateway.directory.revoke_key(visit.operator(), &name).await.map_err(Fault::from)?;
    Ok(redirect("/console/keys?done=revoke"))
}
