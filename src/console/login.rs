//! Logging in with the admin token, and out.

use super::Shared;
use super::gate::{Form, Gate, Visit};
use super::page::{Trouble, bare, redirect};
use super::parts::{self, Field, error_list, hidden_csrf};
use super::session::clear_cookie;
use crate::admin;
use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::SET_COOKIE;
use http::{HeaderValue, StatusCode};
use maud::{Markup, html};

pub(super) fn routes(gate: Gate) -> Router<Shared> {
    Router::new().route("/console/login", get(show).post(enter)).route("/console/logout", post(leave)).with_state(gate)
}

/// What was typed, and what is wrong with it.
#[derive(Default)]
struct Typed<'a> {
    name: &'a str,
    next: &'a str,
    wrong_name: Option<String>,
    wrong_token: Option<String>,
}

async fn show(State(gate): State<Gate>, visit: Visit, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let next = form_urlencoded::parse(query.as_bytes()).find_map(|(name, value)| (name == "next").then_some(value));
    let typed = Typed { next: next.as_deref().unwrap_or_default(), ..Typed::default() };
    bare(StatusCode::OK, "Log in", &form(&gate, &visit, &typed))
}

async fn enter(State(gate): State<Gate>, visit: Visit, form: Form) -> Response {
    let mut typed = Typed { name: form.get("name"), next: form.get("next"), ..Typed::default() };
    // The token as it stands: blanks around it belong to it only by accident.
    if !gate.guard().knows(form.get("token").as_bytes()) {
        typed.wrong_token = Some("This is not the admin token.".to_owned());
    }
    let name = match admin::name("name", typed.name) {
        Ok(name) => name.to_owned(),
        Err(fault) => {
            typed.wrong_name = Some(fault.message().replace("`name`", "Your name"));
            String::new()
        }
    };
    if typed.wrong_name.is_some() || typed.wrong_token.is_some() {
        tracing::warn!(target: "admin", token = typed.wrong_token.is_none(), "a login was refused");
        return bare(StatusCode::FORBIDDEN, "Log in", &self::form(&gate, &visit, &typed));
    }
    let session = gate.sessions().open(Some(&name), gate.shared.gateway.clock.now());
    tracing::info!(target: "admin", operator = name, "logged in to the console");
    let mut response = redirect(inside(typed.next));
    if let Ok(cookie) = HeaderValue::try_from(session.set_cookie(visit.encrypted)) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

async fn leave(_: Visit) -> Response {
    let mut response = redirect("/console/login");
    match HeaderValue::try_from(clear_cookie()) {
        Ok(cookie) => drop(response.headers_mut().append(SET_COOKIE, cookie)),
        Err(_) => return Trouble::NoSession.into_response(),
    }
    response
}

/// A path of the console, or its start: never another site.
fn inside(next: &str) -> &str {
    let path = next.strip_prefix("/console").unwrap_or("x");
    let ours = path.is_empty() || path.starts_with(['/', '?']);
    let plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if ours && plain && !next.starts_with("/console/log") { next } else { "/console" }
}

fn form(gate: &Gate, visit: &Visit, typed: &Typed<'_>) -> Markup {
    let asks = gate.guard().asks_for_token();
    let wrong: Vec<_> = [("name", &typed.wrong_name), ("token", &typed.wrong_token)]
        .into_iter()
        .filter_map(|(id, wrong)| Some((id, wrong.as_deref()?)))
        .collect();
    html! {
        div.login {
            h1 { "Tollgate console" }
            (error_list(&wrong))
            form method="post" action="/console/login" {
                (hidden_csrf(visit))
                input type="hidden" name="next" value=(typed.next);
                (parts::field(&Field {
                    id: "name",
                    label: "Your name",
                    hint: Some("Stands in the log and on tickets beside what you do."),
                    error: typed.wrong_name.as_deref(),
                    control: &|described| html! {
                        input id="name" name="name" autocomplete="username" required maxlength="128" value=(typed.name)
                            aria-describedby=[described] aria-invalid=[typed.wrong_name.as_ref().map(|_| "true")];
                    },
                }))
                @if asks {
                    (parts::field(&Field {
                        id: "token",
                        label: "Admin token",
                        hint: Some("[admin] token of the configuration."),
                        error: typed.wrong_token.as_deref(),
                        control: &|described| html! {
                            input id="token" name="token" type="password" autocomplete="current-password" required
                                aria-describedby=[described] aria-invalid=[typed.wrong_token.as_ref().map(|_| "true")];
                        },
                    }))
                } @else {
                    p.hint { "This listener asks for no token: it serves this machine only." }
                }
                button.main type="submit" { "Log in" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::inside;

    #[test]
    fn after_the_login_only_pages_of_the_console_follow() {
        for next in ["/console", "/console/desk?queue=a%20b", "/console?x=1"] {
            assert_eq!(inside(next), next);
        }
        for next in [
            "",
            "/",
            "//evil.example",
            "https://evil.example/console",
            "/consoles",
            "/console@evil.example",
            "/console\\evil",
            "/console/\u{e4}",
            "/console/a b",
            "/console/logout",
            "/console/login",
            "/admin/triage",
        ] {
            assert_eq!(inside(next), "/console", "{next}");
        }
    }
}
