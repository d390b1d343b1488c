use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;
use crate::domain::ErrorKind;
use crate::store::StoreLimits;
use crate::store::sql::connection::target::Target;
use crate::store::sql::migrate;
use crate::store::sql::tests::server;

const LIMITS: StoreLimits = StoreLimits { call: 3_000, connections: 1, spare: 1 };

#[test]
fn a_client_is_told_by_a_connection_string() {
    let text = |url: &str| address(url).map(|address| address.text).unwrap();
    let verified = |url: &str| {
        let address = address(url).unwrap();
        assert!(address.needs_tls, "{address:?}");
        address.text
    };
    for plain in ["mysql://me:a%40b@db:3307/x", "mysql://[::1]/x", "mysql:///x?unix_socket=/run/s"] {
        assert_eq!(address(plain).unwrap(), Address { text: plain.to_owned(), needs_tls: false });
    }
    let told = "host=db.example;ssl-enforce=1;ssl-verify-server-cert=1";
    for mode in ["required", "verify_ca", "verify_identity", "VERIFY_IDENTITY"] {
        let url = format!("mysql://me:a%40b@db.example:3307/x?ssl_mode={mode}&ssl_ca=/etc/ca.pem");
        assert_eq!(verified(&url), format!("mysql://me:a%40b@{told}:3307/x?ssl_ca=/etc/ca.pem"));
    }
    assert_eq!(verified("mysql://db.example/x?ssl_ca=/c"), format!("mysql://{told}/x?ssl_ca=/c"));
    assert_eq!(verified("mysql://db.example?ssl_mode=required"), format!("mysql://{told}"));
    let local = "mysql://host=localhost;ssl-enforce=1;ssl-verify-server-cert=1/x?unix_socket=/s";
    assert_eq!(verified("mysql:///x?unix_socket=/s&ssl_mode=required"), local);
    let preferred = "mysql://host=db;ssl-enforce=1;ssl-verify-server-cert=0/x";
    assert_eq!(text("mysql://db/x?ssl_mode=preferred"), preferred);
    assert_eq!(text("mysql://db/x?ssl_mode=disabled"), preferred.replace("enforce=1", "enforce=0"));
}

#[test]
fn an_option_that_would_do_nothing_is_refused() {
    for url in [
        "mysql://db/x?sslmode=verify-full",
        "mysql://db/x?ssl-mode=required",
        "mysql://db/x?ssl_mode=verify_full",
        "mysql://db/x?ssl_mode",
        "mysql://db/x?ssl_mode=disabled&ssl_ca=/c",
        "mysql://[::1]/x?ssl_mode=required",
        "mysql://host=db;ssl-enforce=0/x?ssl_mode=required",
        "mysql://db/x?nonsense=1",
    ] {
        assert_eq!(address(url).unwrap_err().kind, FaultKind::Senseless, "{url}");
    }
}

/// A greeting of MariaDB's that offers no TLS, as somebody in between would send it.
fn greeting() -> Vec<u8> {
    let mut greeting = b"\x0a5.5.5-10.11.0-MariaDB\0\x01\0\0\0scramble\0".to_vec();
    // Capabilities, all but CLIENT_SSL; the charset; the status; the scramble's length.
    greeting.extend(b"\xff\xf7\x2d\x02\0\xff\x81\x15");
    greeting.extend([0; 10]);
    greeting.extend(b"andtwelvemor\0mysql_native_password\0");
    let mut packet = vec![u8::try_from(greeting.len()).unwrap(), 0, 0, 0];
    packet.extend(greeting);
    packet
}

/// What a client sends to a server that greets so, and how its connecting ends.
fn sent(options: &str) -> (Vec<u8>, String) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&greeting()).unwrap();
        let mut sent = vec![0; 1_000];
        let length = stream.read(&mut sent).unwrap_or_default();
        sent.truncate(length);
        sent
    });
    let target = Target::parse(&format!("mysql://me:secret@127.0.0.1:{port}/x{options}")).unwrap();
    let fault = target.connect_first(LIMITS).err().unwrap();
    (server.join().unwrap(), fault.to_string())
}

/// Without TLS the answer to the greeting has the user's name, and what proves the password.
#[test]
fn whoever_takes_tls_back_hears_no_name_and_no_password() {
    let (plain, _) = sent("");
    assert!(plain.windows(3).any(|it| it == b"me\0"), "{plain:?}");
    for options in ["?ssl_mode=required", "?ssl_ca=/etc/ssl/certs/ca-certificates.crt"] {
        let (sent, message) = sent(options);
        assert_eq!(sent, b"", "{options}");
        assert!(message.contains("SSL is required"), "{message}");
    }
}

fn url(options: &str) -> String {
    format!("{}{options}", server("FIRETIME_TEST_MARIADB_URL"))
}

fn authority(name: &str) -> String {
    format!("?ssl_ca={}/{name}.pem", server("FIRETIME_TEST_TLS"))
}

#[test]
fn a_session_is_encrypted_if_and_only_if_the_url_asks_for_it() {
    let proved = |options: &str| {
        let mut session = Target::parse(&url(options)).unwrap().connect(LIMITS).unwrap();
        prove(session.as_mut())
    };
    assert!(proved("").unwrap_err().to_string().contains("without TLS"));
    assert!(proved("?ssl_mode=disabled").is_err());
    for options in ["?ssl_mode=preferred".to_owned(), authority("ca"), authority("ca") + "&ssl_mode=required"]
    {
        proved(&options).unwrap();
    }
}

#[test]
fn a_server_that_cannot_be_verified_is_refused() {
    // The certificate has the address, not this way of writing it.
    let elsewhere = |options: &str| url(options).replace("@127.0.0.1:", "@127.1:");
    migrate(&elsewhere("")).unwrap();
    migrate(&url(&authority("ca"))).unwrap();
    for url in [
        elsewhere(&authority("ca")),
        elsewhere(&(authority("ca") + "&ssl_mode=verify_ca")),
        url(&authority("other")),
        url("?ssl_mode=verify_identity"),
    ] {
        let error = migrate(&url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(format!("{error:#}").contains("TLS/SSL error"), "{error:#}");
    }
}
