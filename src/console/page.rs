//! What every page has: head, navigation, headers; and the page that says why something is not done.
//!
//! Pages are built by maud: checked when compiled, and what is put into them is escaped unless it is markup itself, which only this
//! module tree makes. The content policy lets a page load nothing but our stylesheet and script, run nothing inline and be framed by
//! nobody, so that even a mistake here would show text and no more.

use super::assets;
use super::gate::Visit;
use super::parts::hidden_csrf;
use crate::admin::Fault;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderName, HeaderValue, StatusCode};
use maud::{DOCTYPE, Markup, html};

/// Nothing from elsewhere, nothing inline. Inline SVG is markup and needs no leave.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A part of the console, in the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    /// How everything stands.
    Overview,
    /// What is given up, and was.
    Levels,
    /// The triage desk.
    Desk,
    /// Who is served.
    Customers,
    /// What applications call with.
    Keys,
    /// What would happen.
    Lab,
    /// The configuration.
    Settings,
}

/// The navigation. A new part of the console adds its line here.
const SECTIONS: [(Section, &str, &str); 7] = [
    (Section::Overview, "/console", "Overview"),
    (Section::Levels, "/console/levels", "Levels"),
    (Section::Desk, "/console/desk", "Desk"),
    (Section::Customers, "/console/customers", "Customers"),
    (Section::Keys, "/console/keys", "Keys"),
    (Section::Lab, "/console/lab", "Lab"),
    (Section::Settings, "/console/settings", "Settings"),
];

/// What a page is called, where it stands, and whether it renews itself.
pub(super) struct Page<'a> {
    /// Its heading, and the title of the window.
    pub(super) title: &'a str,
    /// The part of the console it belongs to.
    pub(super) section: Section,
    /// Who looks.
    pub(super) visit: &'a Visit,
    /// After so many seconds the script fetches the page again and replaces what is marked `data-live`; zero = never.
    pub(super) refresh: u32,
}

impl Page<'_> {
    /// The whole page.
    pub(super) fn show(&self, body: &Markup) -> Response {
        self.answer(StatusCode::OK, body)
    }

    /// The whole page, with another status: a form that was not accepted, say.
    pub(super) fn answer(&self, status: StatusCode, body: &Markup) -> Response {
        let Page { title, section, visit, refresh } = self;
        let markup = html! {
            (DOCTYPE)
            html lang="en" {
                (head(title))
                body data-refresh=[(*refresh > 0).then_some(refresh)] {
                    a.skip href="#main" { "Skip to the content" }
                    header {
                        a.brand href="/console" { "Tollgate" }
                        nav aria-label="Console" {
                            ul {
                                @for (part, path, label) in &SECTIONS {
                                    li { a href=(path) aria-current=[(part == section).then_some("page")] { (label) } }
                                }
                            }
                        }
                        form.who method="post" action="/console/logout" {
                            (hidden_csrf(visit))
                            span { "You are " strong { (visit.operator()) } }
                            button type="submit" { "Log out" }
                        }
                    }
                    main id="main" tabindex="-1" {
                        h1 { (title) }
                        (body)
                    }
                    footer {
                        p { "Tollgate " (env!("CARGO_PKG_VERSION")) ". Times are in UTC." }
                        // The script puts its switch and says here what it does.
                        div #live {}
                    }
                }
            }
        };
        respond(status, markup)
    }
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " - Tollgate" }
            link rel="icon" href=(assets::ICON.path) type="image/svg+xml";
            link rel="stylesheet" href=(assets::STYLE.path);
            script src=(assets::SCRIPT.path) defer {}
        }
    }
}

/// A page without navigation, for whoever is not logged in.
pub(super) fn bare(status: StatusCode, title: &str, body: &Markup) -> Response {
    let markup = html! {
        (DOCTYPE)
        html lang="en" { (head(title)) body { main id="main" { (body) } } }
    };
    respond(status, markup)
}

fn respond(status: StatusCode, markup: Markup) -> Response {
    let mut response = Response::new(Body::from(markup.into_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response
}

/// The address of a page with these parameters.
pub(super) fn address(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::for_suffix(format!("{path}?"), path.len() + 1);
    query.extend_pairs(parameters).finish()
}

/// To another page, by `GET`.
pub(super) fn redirect(to: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let to = HeaderValue::try_from(to).unwrap_or_else(|_| HeaderValue::from_static("/console"));
    response.headers_mut().insert(LOCATION, to);
    response
}

/// The headers of every answer below `/console`.
pub(super) async fn harden(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert("content-security-policy", HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Not `no-referrer`: browsers then send forms without their origin.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin"));
    headers.insert(HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Why there is no such page, or nothing was done.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Nobody is logged in (any more).
    NoSession,
    /// A form that none of our pages made for this session.
    NotOurForm,
    /// A form that is too large, or did not arrive.
    TooLarge,
    /// What the admin API says, too.
    Fault(Fault),
}

impl<T: Into<Fault>> From<T> for Trouble {
    fn from(fault: T) -> Self {
        Self::Fault(fault.into())
    }
}

impl Trouble {
    /// The status and a sentence.
    pub(super) fn words(&self) -> (StatusCode, String) {
        match self {
            Self::NoSession => {
                (StatusCode::UNAUTHORIZED, "You are not logged in any more; what was sent is not done.".to_owned())
            }
            Self::NotOurForm => (
                StatusCode::FORBIDDEN,
                "This form was not made for your session; nothing is done. Open the page again and repeat it.".to_owned(),
            ),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "The form is too large, or did not arrive whole.".to_owned()),
            Self::Fault(Fault::RouteNotFound) => (StatusCode::NOT_FOUND, "There is no such page.".to_owned()),
            Self::Fault(Fault::MethodNotAllowed) => (StatusCode::METHOD_NOT_ALLOWED, "This page takes no forms.".to_owned()),
            Self::Fault(fault) => (fault.shape().0, fault.message()),
        }
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let (status, words) = self.words();
        let body = html! {
            h1 { (status.canonical_reason().unwrap_or("Not done")) }
            p role="alert" { (words) }
            p { a href="/console" { "To the console" } }
        };
        bare(status, "Not done", &body)
    }
}
