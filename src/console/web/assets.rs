//! The files that pages refer to, compiled in.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

const STYLE: &str = include_str!("assets/console.css");
const ZONE: &str = include_str!("assets/zone.js");
const LIVE: &str = include_str!("assets/live.js");
const ICON: &str = include_str!("assets/icon.svg");

/// How long browsers keep a file.
const KEPT: &str = "max-age=300";

fn file(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, KEPT)], text).into_response()
}

pub(crate) async fn style() -> Response {
    file("text/css; charset=utf-8", STYLE)
}

pub(crate) async fn zone() -> Response {
    file("text/javascript; charset=utf-8", ZONE)
}

pub(crate) async fn live() -> Response {
    file("text/javascript; charset=utf-8", LIVE)
}

pub(crate) async fn icon() -> Response {
    file("image/svg+xml", ICON)
}
