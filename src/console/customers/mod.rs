//! `/console/customers`: who there is, why one of them is served or refused, and what is set for one.
//!
//! ```text
//! list    customers of today by what they spent, or all by id
//! view    one customer: plan, limits, holds, refusals, what is set
//! charts  its days: money against the cap, and what became of its requests
//! forms   what can be set, with what was typed
//! acts    setting it, through the functions of the admin API
//! ```

mod acts;
mod charts;
mod forms;
mod list;
mod view;

pub(super) use acts::value;

use super::Shared;
use crate::admin::{Fault, customers};
use crate::domain::CustomerId;
use axum::Router;
use axum::routing::{get, post};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/console/customers", get(list::show))
        .route("/console/customers/{id}", get(view::show))
        .route("/console/customers/{id}/override", post(acts::set))
        .route("/console/customers/{id}/unset", post(acts::unset))
        .route("/console/customers/{id}/suspend", post(acts::suspend))
        .route("/console/customers/{id}/lift", post(acts::lift))
        .route("/console/customers/{id}/clear", post(acts::clear))
        .route("/console/customers/{id}/credit", post(acts::credit))
}

/// The address of a customer's page. A blank is no plus in a path.
pub(super) fn path(id: &str) -> String {
    let segment: String = form_urlencoded::byte_serialize(id.as_bytes()).collect();
    format!("/console/customers/{}", segment.replace('+', "%20"))
}

/// A customer from a path. Anonymous callers have ids with a blank, which nobody can send.
fn id(shared: &Shared, text: &str) -> Result<CustomerId, Fault> {
    if text.starts_with("anonymous ") { Ok(CustomerId::from_trusted(text)) } else { customers::id(&shared.gateway, text) }
}
