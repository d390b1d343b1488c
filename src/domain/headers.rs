//! The headers of an execution: texts by name, which programs on its way read and write.

use std::collections::BTreeMap;

/// Texts by name.
pub(crate) type Headers = BTreeMap<String, String>;

/// The most headers of an execution.
const MOST: usize = 32;
/// The most bytes that their names and texts may have together: polls bring them with the row.
const MOST_BYTES: usize = 4_096;

/// What is wrong with headers, if anything.
pub(crate) fn problem(headers: &Headers) -> Option<String> {
    if headers.len() > MOST {
        return Some(format!("{} headers, {MOST} are possible", headers.len()));
    }
    let bytes: usize = headers.iter().map(|(name, text)| name.len() + text.len()).sum();
    if bytes > MOST_BYTES {
        return Some(format!("its headers have {bytes} bytes, {MOST_BYTES} are possible"));
    }
    headers.iter().find_map(|(name, text)| {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            Some(format!("the name of header {name:?} is to be of printable ASCII without spaces"))
        } else if text.contains(char::is_control) {
            Some(format!("header {name:?} has control characters"))
        } else {
            None
        }
    })
}

/// Headers as an execution's row has them: a JSON object, or none.
pub(crate) fn column(headers: &Headers) -> Option<String> {
    (!headers.is_empty()).then(|| serde_json::json!(headers).to_string())
}

/// The headers that an execution's row has; none if somebody wrote there what nobody can read.
pub(crate) fn read(column: Option<&str>) -> Headers {
    column.and_then(|column| serde_json::from_str(column).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&str, &str)]) -> Headers {
        all.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn headers_are_few_short_texts() {
        let said = |all: &[(&str, &str)]| problem(&headers(all)).unwrap_or_default();
        assert_eq!(said(&[("traceparent", "00-1-2-01"), ("tenant", "Bäckerei \"7\"")]), "");
        assert_eq!(said(&[("a", &"x".repeat(MOST_BYTES - 1))]), "");
        assert_eq!(said(&[("a", &"x".repeat(MOST_BYTES))]), "its headers have 4097 bytes, 4096 are possible");
        for name in ["", "a b", "ä", "a\n"] {
            assert!(said(&[(name, "x")]).ends_with("printable ASCII without spaces"), "{name:?}");
        }
        assert_eq!(said(&[("a", "b\n")]), "header \"a\" has control characters");
        let many = |count: usize| (0..count).map(|n| (n.to_string(), String::new())).collect::<Headers>();
        assert_eq!(problem(&many(MOST)), None);
        assert_eq!(problem(&many(MOST + 1)).unwrap(), "33 headers, 32 are possible");
    }

    #[test]
    fn a_column_holds_what_it_was_made_of() {
        let all = headers(&[("a", "\"ü\""), ("b", "")]);
        assert_eq!(read(column(&all).as_deref()), all);
        assert_eq!((column(&Headers::new()), read(None)), (None, Headers::new()));
        for unreadable in ["", "[]", "{\"a\": 1}", "{"] {
            assert_eq!(read(Some(unreadable)), Headers::new(), "{unreadable}");
        }
    }
}
