//! The console: pages for operators on the admin listener, made here, complete without a script.
//!
//! ```text
//! gate      in front of all: other sites, session, forms
//! session   the signed cookie
//! login     in and out
//! page      head, navigation, headers, the page that says why not
//! parts     tables, fields, instants, gauges
//! chart     lines over time
//! assets    stylesheet, script, icon
//! overview  /console: how everything stands
//! requests  /console/requests: what is kept of one request, by its id
//! today     what was used today, by all gateways
//! levels    /console/levels: what is given up, what was and why; pinning
//! desk      /console/desk: the tickets of those who wait for a person
//! customers /console/customers: who there is, why one is served or refused, what is set for one
//! keys      /console/keys: the keys of applications: made, given a new secret, revoked
//! lab       /console/lab: what would happen, for a tier and traffic that are typed in, and for known incidents
//! settings  /console/settings: the configuration in force, and from where each of it comes
//! ```
//!
//! A page is a module with `routes()`, merged below, and a line in the navigation of `page`. What it shows and does goes through the
//! same functions as the admin API, never around them; a change redirects to a page that says what was done, a mistake shows the form
//! again with what was typed. What customers, applications or providers wrote is put in as text, always.

mod assets;
mod chart;
mod customers;
mod desk;
mod gate;
mod keys;
mod lab;
mod levels;
mod login;
mod overview;
mod page;
mod parts;
mod requests;
mod session;
mod settings;
mod today;

pub use session::{COOKIE_NAME, LIFETIME};

use crate::admin::Fault;
use crate::config::policy::Admin;
use crate::stack::Gateway;
use axum::Router;
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Redirect;
use axum::routing::get;
use gate::Gate;
use page::Trouble;
use std::sync::Arc;

/// What the pages share.
#[derive(Clone)]
struct Shared {
    gateway: Arc<Gateway>,
}

/// Everything on the listener for operators: the pages, and the admin API behind them.
pub fn router(gateway: &Arc<Gateway>, settings: &Admin) -> Router {
    let shared = Shared { gateway: Arc::clone(gateway) };
    let gate = Gate::new(settings, shared.clone());
    let pages = Router::new()
        .merge(assets::routes())
        .merge(login::routes(gate.clone()))
        .merge(overview::routes())
        .merge(requests::routes())
        .merge(levels::routes())
        .merge(desk::routes())
        .merge(customers::routes())
        .merge(keys::routes())
        .merge(lab::routes())
        .merge(settings::routes())
        .route("/console/{*rest}", get(|| async { Trouble::Fault(Fault::RouteNotFound) }))
        .method_not_allowed_fallback(|| async { Trouble::Fault(Fault::MethodNotAllowed) })
        .layer(from_fn_with_state(gate, gate::check))
        .layer(map_response(page::harden))
        .with_state(shared);
    pages.route("/", get(|| async { Redirect::to("/console") })).fallback_service(crate::admin::router(gateway))
}
