//! The stylesheet, the script and the icon: files of the program, under names that change with what they hold, kept by browsers for good.

use super::Shared;
use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::get;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use std::sync::LazyLock;

/// A file.
pub(super) struct Asset {
    /// Where it is served.
    pub(super) path: String,
    kind: &'static str,
    text: &'static str,
}

impl Asset {
    fn new(name: &str, kind: &'static str, text: &'static str) -> Self {
        let hash = &blake3::hash(text.as_bytes()).to_hex()[..12];
        Self { path: format!("/console/assets/{hash}-{name}"), kind, text }
    }

    fn answer(&self) -> Response {
        let mut response = Response::new(Body::from(self.text));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
        response
    }
}

/// One stylesheet, light and dark.
pub(super) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("console.css", "text/css; charset=utf-8", include_str!("assets/console.css")));
/// Renews what is live; pages work without it.
pub(super) static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("console.js", "text/javascript; charset=utf-8", include_str!("assets/console.js")));
/// For the browser's tab.
pub(super) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")));

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route(&STYLE.path, get(|| async { STYLE.answer() }))
        .route(&SCRIPT.path, get(|| async { SCRIPT.answer() }))
        .route(&ICON.path, get(|| async { ICON.answer() }))
}
