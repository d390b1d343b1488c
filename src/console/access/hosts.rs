//! Which hosts a console answers to, and whose forms it takes.

use axum::extract::Request;
use axum::http::{HeaderMap, header};

use crate::console::options::Options;
use crate::console::web::trouble::Trouble;

/// Refuses hosts that nobody allowed, and forms from elsewhere.
pub(crate) fn known_host(options: &Options, request: &Request, is_change: bool) -> Result<(), Trouble> {
    let authority = authority(request).ok_or_else(|| Trouble::wrong("The request names no host."))?;
    if !is_known(&authority, &options.hosts) {
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
                headers.insert(*name, axum::http::HeaderValue::from_static(value));
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
