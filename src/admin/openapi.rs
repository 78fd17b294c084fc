//! `/admin/openapi.json`: the document of all routes of this listener (OpenAPI 3.1).
//!
//! Each handler describes what it takes and gives; what all of them may say instead is added here, by the shape of the route.

use super::{Shared, fault::Problem, json};
use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use http::StatusCode;
use std::sync::Arc;
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn, PathItem};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};

/// Where the document is.
pub(super) const PATH: &str = "/admin/openapi.json";

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Tollgate admin API",
        description = "What operators may ask and change while gateways serve. A change is in force with the next request on every gateway of the store, and in the audit trail.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    paths(read_document),
    components(schemas(Problem))
)]
struct Base;

/// The document without the areas.
pub(super) fn base() -> OpenApi {
    let mut base = Base::openapi();
    let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    base.components.get_or_insert_default().add_security_scheme("token", scheme);
    base.security = Some(vec![SecurityRequirement::new::<_, [&str; 0], &str>("token", [])]);
    base
}

/// This document.
#[utoipa::path(
    get, path = "/admin/openapi.json", tag = "document", operation_id = "read_document",
    responses((status = 200, description = "OpenAPI 3.1", body = Object)),
)]
#[expect(dead_code, reason = "the route answers with what was made once; this describes it")]
fn read_document() {}

/// The route that serves the document of the areas.
pub(super) fn route(document: OpenApi) -> Router<Shared> {
    let document = Arc::new(finished(document));
    let text = Bytes::from(serde_json::to_vec(&*document).expect("a document is plain data"));
    let answer = move || {
        let mut response = json(StatusCode::OK, &());
        *response.body_mut() = text.clone().into();
        std::future::ready(response)
    };
    Router::new().route(PATH, get(answer))
}

/// The document with what every route may say.
pub(super) fn finished(mut document: OpenApi) -> OpenApi {
    for (path, item) in &mut document.paths.paths {
        let PathItem { get, put, post, delete, patch, .. } = item;
        for operation in [get, put, post, delete, patch].into_iter().flatten() {
            for (status, what) in faults(path, operation) {
                operation.responses.responses.entry(status.to_owned()).or_insert_with(|| problem(what).into());
            }
        }
    }
    document
}

/// What a route may say instead, by its shape.
fn faults(path: &str, operation: &Operation) -> Vec<(&'static str, &'static str)> {
    let mut faults = vec![
        ("401", "`unauthorized`: no token, or another"),
        (
            "403",
            "`host_not_allowed`, `origin_not_allowed`: without a token only this machine may ask, and never for another page",
        ),
    ];
    let body = operation.request_body.is_some();
    if path != PATH {
        faults.push(("400", "`invalid_request`: a parameter or a body that makes no sense; the message says what is right"));
        faults.push(("503", "`store_unavailable`: the store does not answer"));
    }
    if path.starts_with("/admin/keys") {
        faults.push(("500", "`internal_error`: the system gives no random numbers"));
    }
    if path.contains('{') {
        faults.push(("404", "there is no such thing; `code` says what is missing"));
    }
    if body {
        faults.extend([
            ("408", "`request_timeout`: the body did not arrive in time"),
            ("409", "somebody else was faster: `changed_meanwhile`, `ticket_claimed`, `ticket_ended`, `ticket_resubmitting`; or it cannot be: `request_not_kept`, `key_refused`"),
            ("413", "`request_too_large`: the body is larger than 256 KiB"),
            ("415", "`unsupported_media_type`: the body is not announced as JSON"),
        ]);
    } else if operation.parameters.iter().flatten().any(says_by) {
        faults.push(("409", "`changed_meanwhile`: somebody else was faster; or it cannot be: `key_refused`, `plan_in_use`"));
    }
    faults
}

/// Whether it says who takes something back.
fn says_by(parameter: &RefOr<Parameter>) -> bool {
    matches!(parameter, RefOr::T(Parameter { parameter_in: ParameterIn::Query, name, .. }) if name == "by")
}

fn problem(what: &str) -> Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    ResponseBuilder::new().description(what).content("application/json", content).build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::areas;
    use std::collections::BTreeSet;

    /// What stands in quotes behind `paths`, in how a router shows itself.
    fn registered(router: &Router<Shared>) -> BTreeSet<String> {
        let shown = format!("{router:?}");
        shown.split('"').filter(|text| text.starts_with("/admin")).map(str::to_owned).collect()
    }

    #[test]
    fn every_route_is_in_the_document_and_nothing_else_is() {
        let (router, document) = areas().split_for_parts();
        let router = router.merge(route(document.clone()));
        let documented: BTreeSet<String> = document.paths.paths.keys().cloned().collect();
        let registered = registered(&router);
        assert!(registered.len() > 20, "routers show their paths: {router:?}");
        assert_eq!(registered, documented);
    }

    #[test]
    fn every_operation_has_a_name_of_its_own_and_says_what_may_go_wrong() {
        let (_, document) = areas().split_for_parts();
        let document = serde_json::to_value(finished(document)).expect("plain data");
        assert_eq!(document["openapi"], "3.1.0");
        let mut names = BTreeSet::new();
        for (path, item) in document["paths"].as_object().expect("paths") {
            for (method, operation) in item.as_object().expect("operations") {
                let name = operation["operationId"].as_str().unwrap_or_default().to_owned();
                assert!(!name.is_empty() && names.insert(name), "{method} {path}");
                let responses = operation["responses"].as_object().expect("responses");
                assert!(
                    (responses.contains_key("200") || responses.contains_key("201")) && responses.contains_key("401"),
                    "{method} {path}"
                );
                let names_one = path.contains('{') || path == "/admin/levels/history";
                assert_eq!(responses.contains_key("404"), names_one, "{method} {path}");
                assert_eq!(responses.contains_key("415"), operation.get("requestBody").is_some(), "{method} {path}");
            }
        }
        for status in ["400", "503"] {
            let shown = &document["paths"]["/admin/customers"]["get"]["responses"][status]["content"]["application/json"];
            assert_eq!(shown["schema"]["$ref"], "#/components/schemas/Problem", "{status}");
        }
        assert!(document["components"]["schemas"]["CustomerView"].is_object());
    }
}
