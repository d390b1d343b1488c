//! What every request has to pass, and what every answer tells browsers to refuse.

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::api::{self, problem};
use super::known::{Who, who};
use super::live;
use super::peer::Peer;
use super::query::{Query, is_page};
use super::sessions::By;
use super::show::led;
use super::state::Console;
use super::trouble::Trouble;

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
        Err(Refusal::Stream) => live::logged_out(),
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
    known_host(console, &request, is_change)?;
    let (mut parts, body) = request.into_parts();
    let is_stream = live::is_stream(parts.uri.path()) && !is_change;
    let by = if is_stream { By::Page } else { By::Person };
    let who = who(console, &parts, &Peer::of(&parts, console.options()), by)?;
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

/// Refuses hosts that nobody allowed, and forms from elsewhere.
fn known_host(console: &Console, request: &Request, is_change: bool) -> Result<(), Trouble> {
    let authority = authority(request).ok_or_else(|| Trouble::wrong("The request names no host."))?;
    if !is_known(&authority, &console.options().hosts) {
        return Err(Trouble::forbidden(
            "The console does not answer to this host's name. Whoever starts it may allow the name: \
             `firetime console --host NAME`, or `Options::host`.",
        ));
    }
    if is_change && !is_same_origin(request.headers(), &authority) {
        return Err(Trouble::forbidden(
            "Nothing was changed: the form was sent from another site, or through a proxy that changes the Host \
             header.",
        ));
    }
    Ok(())
}

/// The host that a request names, with its port.
fn authority(request: &Request) -> Option<String> {
    let named = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let named = named.or_else(|| request.uri().authority().map(|it| it.as_str()));
    named.filter(|host| !host.is_empty()).map(str::to_ascii_lowercase)
}

/// Whether a host is this machine's, or one of these names.
fn is_known(authority: &str, hosts: &[String]) -> bool {
    let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    let is_loopback = host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback());
    host == "localhost" || is_loopback || hosts.iter().any(|name| name == host)
}

/// Whether a form was sent by a page of this console, as far as the browser tells. The token decides where it
/// tells nothing, as browsers that are old do, and programs.
fn is_same_origin(headers: &HeaderMap, authority: &str) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => site == "same-origin",
        (None, Some(origin)) => {
            origin.split_once("://").is_some_and(|(_, from)| from.eq_ignore_ascii_case(authority))
        }
        (None, None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_known_by_its_name_and_any_port() {
        let hosts = ["ops.example.org".to_owned()];
        for known in ["localhost", "localhost:8088", "127.0.0.1:8088", "127.1.2.3", "[::1]:8088", "[::1]"] {
            assert!(is_known(known, &[]), "{known}");
        }
        assert!(is_known("ops.example.org:443", &hosts) && is_known("ops.example.org", &hosts));
        for other in ["ops.example.org", "evil.example", "localhost.evil.example", "10.0.0.1:8088", "", ":80"]
        {
            assert!(!is_known(other, &[]), "{other}");
        }
    }

    #[test]
    fn a_form_comes_from_a_page_of_the_same_origin() {
        let is_same = |lines: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.insert(*name, HeaderValue::from_static(value));
            }
            is_same_origin(&headers, "localhost:8088")
        };
        assert!(is_same(&[]) && is_same(&[("origin", "http://localhost:8088")]));
        // Something in the browser withholds the origin.
        assert!(is_same(&[("sec-fetch-site", "same-origin"), ("origin", "null")]));
        for other in ["http://localhost:3000", "http://evil.example", "null", ""] {
            assert!(!is_same(&[("origin", other)]), "{other}");
        }
        for site in ["cross-site", "same-site", "none", ""] {
            assert!(!is_same(&[("sec-fetch-site", site), ("origin", "http://localhost:8088")]), "{site}");
        }
    }
}
