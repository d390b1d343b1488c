//! Cookies: what a browser holds for the console.

use axum::http::HeaderMap;
use axum::http::header::COOKIE;

/// The header that makes a browser hold a cookie until it is closed, out of reach of scripts, and where it
/// asked by HTTPS for requests by that alone.
pub(crate) fn set_cookie(name: &str, value: &str, same_site: &str, is_https: bool) -> String {
    let secure = if is_https { "; Secure" } else { "" };
    format!("{name}={value}; HttpOnly; SameSite={same_site}{secure}")
}

/// The header that makes a browser drop a cookie.
pub(crate) fn end_cookie(name: &str, is_https: bool) -> String {
    set_cookie(name, "", "Strict", is_https) + "; Max-Age=0"
}

/// The value of a cookie.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find_map(|(it, value)| (it == name).then_some(value))
}
