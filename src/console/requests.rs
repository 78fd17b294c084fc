//! `/console/requests`: what is kept of one request, by our id or the provider's, under the names of the admin API.

use super::Shared;
use super::customers;
use super::gate::Visit;
use super::page::{Page, Section, Trouble};
use super::parts::{self, Head, Table, error_list, foreign};
use crate::admin::Fault;
use crate::records::Entry;
use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use maud::{Markup, html};
use serde_json::Value;

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/console/requests", get(show))
}

/// The box in which an id is typed.
pub(super) fn lookup(id: &str, wrong: Option<&str>) -> Markup {
    let hint = "x-tollgate-request-id of an answer (tg_...), or the provider's id";
    html! {
        form method="get" action="/console/requests" role="search" aria-label="A request" {
            (parts::line("id", "Id of a request", id, Some(hint), wrong))
            button type="submit" { "Look it up" }
        }
    }
}

async fn show(State(shared): State<Shared>, visit: Visit, request: Request) -> Result<Response, Trouble> {
    let query = request.uri().query().unwrap_or_default();
    let id = form_urlencoded::parse(query.as_bytes()).find_map(|(name, value)| (name == "id").then_some(value));
    let id = id.as_deref().unwrap_or_default().trim();
    let found = shared.gateway.records.find(id).await?;
    let (status, words) = match &found {
        Some(_) => (StatusCode::OK, None),
        None => (Fault::RequestNotFound.shape().0, Some(Fault::RequestNotFound.message())),
    };
    let wrong: Vec<(&str, &str)> = words.iter().map(|words| ("id", words.as_str())).collect();
    let page = Page { title: "Request", section: Section::Overview, visit: &visit, refresh: 0 };
    Ok(page.answer(
        status,
        &html! {
            (error_list(&wrong))
            @if let Some(found) = &found { (record(found)) }
            (lookup(id, words.as_deref()))
        },
    ))
}

/// Every field as `GET /admin/requests/{id}` has it; customer and ticket lead to their pages.
fn record(entry: &Entry) -> Markup {
    let fields = match serde_json::to_value(entry) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let row = |(name, value): (&String, &Value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
        let to = match name.as_str() {
            "customer" => Some(customers::path(&text)),
            "ticket" => Some(format!("/console/desk/{text}")),
            _ => None,
        };
        let shown = html! { @if let Some(to) = to { a href=(to) { (foreign(&text)) } } @else { (foreign(&text)) } };
        vec![html! { code { (name) } }, shown]
    };
    let heads = [Head::Text("Field"), Head::Text("Value")];
    let caption = "What is kept of it; times are microseconds, costs billionths of a dollar";
    parts::table(&Table { caption, heads: &heads, rows: fields.iter().map(row).collect(), empty: "Nothing." })
}
