//! TLS to MariaDB: what the `ssl_` options of a URL mean, and how its client is told.
//!
//! diesel hands `ssl_mode` to an option that MariaDB's client does not have: without an error, the session is
//! neither encrypted nor verified. With `ssl_ca` alone the client verifies the certificate but no host name,
//! and goes on without TLS if the server offers none. It does what it should where it is told to by a
//! connection string, which it takes in the place of a host: `host=db;ssl-verify-server-cert=1`.

use crate::store::sql::session::Session;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{single, sql};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Disabled,
    /// TLS without verification if the server offers it.
    Preferred,
    /// TLS, a certificate of the authority, and the host's name in it.
    Verified,
}

/// A URL as diesel is given it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub text: String,
    /// Whether a session without TLS is an error.
    pub needs_tls: bool,
}

/// The address that makes MariaDB's client do what a URL asks for.
pub(super) fn address(url: &str) -> Step<Address> {
    let (server, query) = url.split_once('?').unwrap_or((url, ""));
    let options: Vec<&str> = query.split('&').filter(|option| !option.is_empty()).collect();
    let Some(mode) = asked(&options)? else {
        return Ok(Address { text: url.to_owned(), needs_tls: false });
    };
    let server = with_connection_string(server, mode)?;
    let others: Vec<&str> = options.into_iter().filter(|option| name(option) != "ssl_mode").collect();
    let mark = if others.is_empty() { "" } else { "?" };
    let text = format!("{server}{mark}{}", others.join("&"));
    Ok(Address { text, needs_tls: mode == Mode::Verified })
}

/// Fails if the session is not encrypted.
pub(super) fn prove(session: &mut dyn Session) -> Step<()> {
    let question = sql("SELECT COUNT(*) AS encrypted FROM information_schema.SESSION_STATUS \
         WHERE VARIABLE_NAME = 'Ssl_cipher' AND VARIABLE_VALUE <> ''");
    if single(session.rows(&question)?)? == 1 {
        return Ok(());
    }
    Err(senseless(
        "the MariaDB client library opened a session without TLS, though the URL asks for it: install \
         another release of it (firetime is tested with that of MariaDB 10.11) and build again",
    ))
}

fn name(option: &str) -> &str {
    option.split_once('=').map_or(option, |(name, _)| name)
}

/// The mode that the options ask for, if they say anything of TLS. An unknown one is refused: diesel would
/// pass over it.
fn asked(options: &[&str]) -> Step<Option<Mode>> {
    let mut mode = None;
    let mut has_files = false;
    for option in options {
        match option.split_once('=') {
            Some(("unix_socket", _)) => {}
            Some(("ssl_ca" | "ssl_cert" | "ssl_key", _)) => has_files = true,
            Some(("ssl_mode", value)) => mode = Some(parsed(value)?),
            _ => {
                return Err(senseless(
                    "an option of the URL is not known: for MariaDB there are unix_socket, ssl_mode, ssl_ca, \
                     ssl_cert and ssl_key",
                ));
            }
        }
    }
    match mode {
        Some(Mode::Disabled) if has_files => {
            Err(senseless("the URL disables TLS by ssl_mode and names certificates: leave one of these out"))
        }
        None if has_files => Ok(Some(Mode::Verified)),
        mode => Ok(mode),
    }
}

/// The client cannot insist on TLS without verifying the server: who asks for less gets more.
fn parsed(value: &str) -> Step<Mode> {
    match value.to_lowercase().as_str() {
        "disabled" => Ok(Mode::Disabled),
        "preferred" => Ok(Mode::Preferred),
        "required" | "verify_ca" | "verify_identity" => Ok(Mode::Verified),
        _ => Err(senseless(
            "ssl_mode is disabled, preferred, or verify_identity (which required and verify_ca mean, too)",
        )),
    }
}

/// The part of a URL before its options, with a connection string for its host.
fn with_connection_string(server: &str, mode: Mode) -> Step<String> {
    let (scheme, rest) = server.split_once("://").unwrap_or(("mysql", server));
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let (login, place) = authority.rfind('@').map_or(("", authority), |at| authority.split_at(at + 1));
    let (host, port) = place.find(':').map_or((place, ""), |at| place.split_at(at));
    let host = if host.is_empty() { "localhost" } else { host };
    if !host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)) {
        return Err(senseless(
            "with an ssl_ option in the URL, MariaDB's client takes the host as a name or an IPv4 address \
             only",
        ));
    }
    let (enforced, verified) = match mode {
        Mode::Disabled => (0, 0),
        Mode::Preferred => (1, 0),
        Mode::Verified => (1, 1),
    };
    Ok(format!(
        "{scheme}://{login}host={host};ssl-enforce={enforced};ssl-verify-server-cert={verified}{port}{path}"
    ))
}

fn senseless(message: &str) -> Fault {
    Fault::new(FaultKind::Senseless, message)
}

#[cfg(test)]
mod tests;
