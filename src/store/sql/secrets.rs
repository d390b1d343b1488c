//! What of a URL may not be repeated.

use super::dialect::Dialect;

/// What no message may repeat, longest first: a server's URL, and what stands where a password does, raw and
/// decoded, however the URL is mistyped.
pub(super) fn secrets(dialect: Dialect, url: &str) -> Vec<String> {
    let rest = url.split_once(':').map_or("", |(_, rest)| rest).trim_start_matches('/');
    let authority = rest.split('/').next().unwrap_or(rest);
    let of_login = |text: &'_ str| -> Option<String> {
        let (login, _) = text.rsplit_once('@')?;
        login.split_once(':').map(|(_, password)| password.to_owned())
    };
    // With a `/` of its own, not encoded, it reaches beyond what drivers take for the authority.
    let mut passwords: Vec<String> = [authority, rest].into_iter().filter_map(of_login).collect();
    let options = rest.split(['?', '&']).filter_map(|option| option.split_once('='));
    passwords.extend(options.filter(|(name, _)| name.contains("pass")).map(|(_, value)| value.to_owned()));
    // A driver that reads a part of it as host or port repeats that part.
    let parts = passwords.iter().flat_map(|password| password.split(['/', '?', '#', '@', ':']));
    let parts: Vec<String> = parts.filter(|part| part.len() > 1).map(str::to_owned).collect();
    passwords.extend(parts);
    let mut secrets: Vec<String> = passwords.iter().map(|password| decoded(password)).collect();
    secrets.extend(passwords);
    if !dialect.is_file() {
        secrets.push(url.to_owned());
    }
    secrets.retain(|secret| !secret.is_empty());
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.dedup();
    secrets
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = (*first == b'%').then(|| tail.get(..2)).flatten();
        let code = code.and_then(|code| u8::from_str_radix(str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use crate::store::sql::target::Target;

    #[test]
    #[cfg(feature = "postgres")]
    fn no_part_of_a_password_gets_into_a_message() {
        let target = Target::parse("postgres://me:s%40crit@host/db?password=other").unwrap();
        let clean = target.redact("cannot log in with s@crit or s%40crit or other at host");
        assert_eq!(clean, "cannot log in with *** or *** or *** at host");
    }

    #[test]
    fn a_mistyped_url_keeps_its_password_to_itself() {
        for url in [
            "postgres://me:hun/ter2@host/db",
            "postgres:/me:hun%2Fter2@host/db",
            "postgres:me:hun/ter2@host/db",
            "sqlite://me:hun/ter2@host/db",
            "mysql://host/db?user=me&password=hun/ter2",
            "postgres://host/db?sslpassword=hun/ter2",
        ] {
            let Ok(target) = Target::parse(url) else { continue };
            let clean = target.redact(&format!("{url} is wrong: bad port \"hun/ter2\""));
            assert!(!clean.contains("hun/ter2") && !clean.contains("hun%2F"), "{url}: {clean}");
            let part = target.redact("bad port \"hun\"");
            assert!(!part.contains("hun") || url.contains("%2F"), "{url}: {part}");
        }
        let target = Target::parse("sqlite://me:hun/ter2@host/db").unwrap();
        let file = target.missing_file().unwrap();
        assert!(file.ends_with("/me:hun/ter2@host/db"), "{file}");
        assert!(target.redact(file).ends_with("/me:***@host/db"));
        assert_eq!(target.redact("no file me:hun/ter2@host/db"), "no file me:***@host/db");
        assert_eq!(Target::parse("sqlite:shop.db").unwrap().redact("no shop.db"), "no shop.db");
    }
}
