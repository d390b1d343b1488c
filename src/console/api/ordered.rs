//! Whether somebody has sent an order themselves.

use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;

use crate::console::asked::Asked;
use crate::console::web::trouble::Trouble;

/// The header in which a client that a cookie or a proxy identifies repeats the value of the cookie
/// `firetime_token`.
pub(super) const TOKEN_HEADER: &str = "x-firetime-token";

/// Refuses what a page elsewhere could have made a browser send.
pub(super) fn is_ordered(asked: &Asked, headers: &HeaderMap) -> Result<(), Trouble> {
    let text = |name| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default();
    // A page elsewhere cannot send this kind unasked.
    if !text(CONTENT_TYPE.as_str()).starts_with("application/json") {
        return Err(Trouble::wrong("Nothing was changed: an order is JSON, of the type application/json."));
    }
    if !asked.is_program && !asked.token.is(text(TOKEN_HEADER)) {
        return Err(Trouble::forbidden(format!(
            "Send the header {TOKEN_HEADER} with what the cookie firetime_token holds; or ask with a token of the \
             users file (`firetime console new-token`)."
        )));
    }
    Ok(())
}

/// The fields of an order; a field that it does not have is refused.
pub(super) fn fields<T: DeserializeOwned>(body: &[u8]) -> Result<T, Trouble> {
    let said = |error| format!("Nothing was changed: the order cannot be read: {error}.");
    serde_json::from_slice(body).map_err(|error| Trouble::wrong(said(error)))
}
