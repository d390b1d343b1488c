//! Answers as JSON, and why there is none, as RFC 9457 has it.

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::console::web::trouble::Trouble;

pub(super) fn json(value: &Value) -> Response {
    ([(CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

/// A trouble as `application/problem+json`.
pub(crate) fn problem(trouble: Trouble) -> Response {
    let Trouble { status, title, said } = trouble;
    let body = json!({ "type": "about:blank", "title": title, "status": status.as_u16(), "detail": said });
    let kind = [(CONTENT_TYPE, "application/problem+json")];
    match status {
        StatusCode::UNAUTHORIZED => {
            (status, [(WWW_AUTHENTICATE, "Bearer realm=\"firetime\"")], kind, body.to_string())
                .into_response()
        }
        _ => (status, kind, body.to_string()).into_response(),
    }
}
