//! In front of every page: no other site's page, a session, and on every change the session's own form.
//!
//! Forms are read here, so that no handler can forget to check where they come from: a `POST` has to say by `Origin` (or
//! `Sec-Fetch-Site`) that one of our pages sends it, and to bring back what only that session's pages hold.

use super::Shared;
use super::page::{Trouble, address, bare, redirect};
use super::session::{Session, Sessions};
use crate::admin::Guard;
use crate::config::policy::Admin;
use crate::stack::router::Peer;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, ORIGIN, SET_COOKIE};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use maud::html;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The largest form, bytes: an answer at the desk, three bytes for each of its own.
const LARGEST: usize = 128 << 10;
/// Fields of a form.
const FIELDS: usize = 100;
/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The field that every form has.
pub(super) const CSRF: &str = "csrf";

/// What the gate knows.
#[derive(Clone)]
pub(super) struct Gate {
    at_start: Admin,
    /// Those of a console that asks for no token.
    drawn: Sessions,
    pub(super) shared: Shared,
}

impl Gate {
    pub(super) fn new(settings: &Admin, shared: Shared) -> Self {
        let drawn = Sessions::new(&Admin { token: None, ..settings.clone() });
        Self { at_start: settings.clone(), drawn, shared }
    }

    /// The settings of the moment: the token may change while the console is open.
    fn settings(&self) -> Admin {
        self.shared.gateway.policy.load().admin.clone().unwrap_or_else(|| self.at_start.clone())
    }

    /// What has to be shown now.
    pub(super) fn guard(&self) -> Guard {
        Guard::new(&self.settings())
    }

    /// Whose sessions hold now.
    pub(super) fn sessions(&self) -> Sessions {
        let settings = self.settings();
        if settings.token.is_some() { Sessions::new(&settings) } else { self.drawn.clone() }
    }
}

/// A request of somebody at a browser.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    /// Whose.
    pub(super) session: Session,
    /// Whether the browser reaches us encrypted, as far as it has said.
    pub(super) encrypted: bool,
}

impl Visit {
    /// The operator's name. The gate lets nobody else in.
    pub(super) fn operator(&self) -> &str {
        self.session.operator.as_deref().unwrap_or_default()
    }
}

/// What a form says.
#[derive(Clone, Debug, Default)]
pub(super) struct Form(Arc<Vec<(String, String)>>);

impl Form {
    /// A field, without the blanks around it; empty when it is not there.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.trim())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Visit {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Trouble> {
        parts.extensions.get().cloned().ok_or(Trouble::NoSession)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Form {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// Pages for whoever is not logged in.
fn is_open(path: &str) -> bool {
    path == "/console/login" || path.starts_with("/console/assets/")
}

/// Lets a request pass, or answers it.
pub(super) async fn check(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0.ip());
    if is_link_from_elsewhere(&request) {
        return come_again();
    }
    if let Err(fault) = gate.guard().admits_page(&request) {
        tracing::warn!(target: "admin", ?peer, cause = fault.shape().1, "refused");
        return Trouble::Fault(fault).into_response();
    }
    let now = gate.shared.gateway.clock.now();
    let (path, method) = (request.uri().path().to_owned(), request.method().clone());
    let session = gate.sessions().of(request.headers(), now);
    let known = session.as_ref().is_some_and(|session| session.operator.is_some());
    if !known && !is_open(&path) {
        return if matches!(method, Method::GET | Method::HEAD) {
            to_login(&request)
        } else {
            Trouble::NoSession.into_response()
        };
    }
    // Somebody new gets a session to log in with: its form is bound to this browser too.
    let new = session.is_none() && path == "/console/login" && method == Method::GET;
    let session = session.or_else(|| new.then(|| gate.sessions().open(None, now)));
    if !matches!(method, Method::GET | Method::HEAD) {
        let Some(session) = &session else { return Trouble::NoSession.into_response() };
        match form(&mut request, session).await {
            Ok(form) => drop(request.extensions_mut().insert(form)),
            Err(trouble) => {
                tracing::warn!(target: "admin", ?peer, path, "refused a form");
                return trouble.into_response();
            }
        }
    }
    let encrypted = request.headers().get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    let cookie = new.then(|| session.as_ref().map(|session| session.set_cookie(encrypted))).flatten();
    let operator = session.as_ref().and_then(|session| session.operator.clone());
    if let Some(session) = session {
        request.extensions_mut().insert(Visit { session, encrypted });
    }
    let mut response = next.run(request).await;
    if let Some(cookie) = cookie.and_then(|cookie| HeaderValue::try_from(cookie).ok()) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    if !matches!(method, Method::GET | Method::HEAD) {
        let path: String = path.chars().take(200).collect();
        tracing::info!(target: "admin", ?peer, path, operator, status = response.status().as_u16(), "sent a form");
    }
    response
}

/// Reads a form and who made it.
async fn form(request: &mut Request, session: &Session) -> Result<Form, Trouble> {
    let headers = request.headers();
    // That a given origin is ours was checked; a browser that says neither may not send forms.
    let ours = headers.contains_key(ORIGIN) || headers.get("sec-fetch-site").is_some_and(|site| site == "same-origin");
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !ours || !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(Trouble::NotOurForm);
    }
    let body = std::mem::replace(request.body_mut(), Body::empty());
    let bytes = timeout(PATIENCE, Limited::new(body, LARGEST).collect()).await;
    let bytes = bytes.ok().and_then(Result::ok).ok_or(Trouble::TooLarge)?.to_bytes();
    let fields = form_urlencoded::parse(&bytes).take(FIELDS).map(|(name, value)| (name.into_owned(), value.into_owned()));
    let form = Form(Arc::new(fields.collect()));
    if session.made(form.get(CSRF)) { Ok(form) } else { Err(Trouble::NotOurForm) }
}

/// To the login page, and from there on to what was asked for.
fn to_login(request: &Request) -> Response {
    let wanted = request.uri().path_and_query().map_or("/console", http::uri::PathAndQuery::as_str);
    redirect(&address("/console/login", &[("next", wanted)]))
}

/// Whether somebody follows a link on another site, or in a mail. Browsers do not send our cookie with that.
fn is_link_from_elsewhere(request: &Request) -> bool {
    let says = |name: &str, values: &[&str]| {
        request.headers().get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| values.contains(&value))
    };
    request.method() == Method::GET
        && says("sec-fetch-site", &["cross-site", "same-site"])
        && says("sec-fetch-mode", &["navigate"])
        && says("sec-fetch-dest", &["document"])
}

/// Nothing but the same page once more: this time it is one of ours that asks, and the cookie comes along.
fn come_again() -> Response {
    let body = html! {
        meta http-equiv="refresh" content="0";
        p { "One moment: " a href="" { "go on" } "." }
    };
    bare(StatusCode::OK, "One moment", &body)
}
