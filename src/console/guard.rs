//! What every request has to pass, and what every answer tells browsers to refuse.

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::access::hosts::known_host;
use super::access::known::Who;
use super::access::sessions::By;
use super::api::{self, problem};
use super::live::stream;
use super::show::led;
use super::state::Console;
use super::web::query::{Query, is_page};
use super::web::trouble::Trouble;

/// The most bytes of a form.
const LONGEST_FORM: usize = 16 * 1_024;

/// No script or style but the console's own files, no frames around it, and nothing from elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // With `no-referrer` browsers would withhold the origin of the console's own forms.
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Lets a request through to its page, or refuses it.
pub(super) async fn guard(State(console): State<Console>, request: Request, next: Next) -> Response {
    let is_api = api::is_below(request.uri().path());
    let mut response = match passed(&console, request).await {
        Ok(request) => next.run(request).await,
        Err(Refusal::LogIn(_)) if is_api => {
            let said =
                "Send `Authorization: Bearer TOKEN`: `firetime console new-token` makes one; or log in.";
            problem(Trouble::unauthorized(said))
        }
        Err(Refusal::LogIn(to)) => led(to, []),
        Err(Refusal::Stream) => stream::logged_out(),
        Err(Refusal::Trouble(trouble)) if is_api => problem(trouble),
        Err(Refusal::Trouble(Trouble { status, said, .. })) => (status, said).into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Why a request does not reach its page.
enum Refusal {
    /// First they have to log in, on this page.
    LogIn(String),
    /// The same of the stream of an open page.
    Stream,
    Trouble(Trouble),
}

impl From<Trouble> for Refusal {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// A request that may go on to its page: a form is read first, so that one that never ends holds nothing.
async fn passed(console: &Console, request: Request) -> Result<Request, Refusal> {
    let is_change = is_change(request.method());
    known_host(console.options(), &request, is_change)?;
    let (mut parts, body) = request.into_parts();
    let is_stream = stream::is_stream(parts.uri.path()) && !is_change;
    let by = if is_stream { By::Page } else { By::Person };
    let who = console.who(&parts, by)?;
    if matches!(who, Who::LoggedOut) && !is_open(parts.uri.path()) {
        return Err(if is_stream { Refusal::Stream } else { logged_out(&parts, is_change) });
    }
    parts.extensions.insert(who);
    if !is_change {
        return Ok(Request::from_parts(parts, body));
    }
    match tokio::time::timeout(console.options().patience, to_bytes(body, LONGEST_FORM)).await {
        Ok(Ok(form)) => Ok(Request::from_parts(parts, Body::from(form))),
        Ok(Err(_)) => {
            let said = "Nothing was changed: the form is too long, or was cut off.";
            Err(Trouble::not_taken(StatusCode::PAYLOAD_TOO_LARGE, said).into())
        }
        Err(_) => {
            let said = "Nothing was changed: the form did not come in time.";
            Err(Trouble::not_taken(StatusCode::REQUEST_TIMEOUT, said).into())
        }
    }
}

fn is_change(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD)
}

/// What people who have not logged in may ask for.
pub(super) fn is_open(path: &str) -> bool {
    path == "/login" || path.starts_with("/assets/")
}

/// Leads people who have not logged in to where they do, and from there to the page that they want.
fn logged_out(parts: &Parts, is_change: bool) -> Refusal {
    let path = parts.uri.path().trim_start_matches('/');
    if is_change && !api::is_below(parts.uri.path()) {
        let said =
            "Nothing was changed: you are not logged in any more. Go back, load the page again, and log in.";
        return Trouble::forbidden(said).into();
    }
    let root = "../".repeat(path.matches('/').count());
    let to = Query::read(parts.uri.query().unwrap_or_default()).of(path);
    let wanted = if is_page(&to) { Query::default().with("to", to) } else { Query::default() };
    Refusal::LogIn(root + &wanted.of("login"))
}
