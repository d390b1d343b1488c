//! A payload as the JSON text a row holds. Names nothing else of the crate, so that it can be tested alone.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A decoder's words may repeat the payload: more of them helps nobody.
const LONGEST_REASON: usize = 300;

pub(crate) fn encode(payload: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string(payload)
}

/// The same JSON with all characters beyond ASCII escaped: a database may have an encoding without them.
pub(crate) fn in_ascii(json: &str) -> String {
    let mut ascii = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            ascii.push(character);
        } else {
            let mut units = [0; 2];
            let units = character.encode_utf16(&mut units).iter();
            ascii.extend(units.map(|unit| format!("\\u{unit:04x}")));
        }
    }
    ascii
}

/// What a handler of `P` is given for this text, or why it cannot be: also asked before the claims of each
/// version of a schedule.
pub(crate) fn decode<P: DeserializeOwned>(text: &str) -> Result<P, String> {
    serde_json::from_str(text).map_err(|error| {
        let said = error.to_string();
        match said.char_indices().nth(LONGEST_REASON) {
            // What is wrong stands first, where it is stands last: keep both.
            Some((end, _)) => format!("{}… at line {} column {}", &said[..end], error.line(), error.column()),
            None => said,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn json_nested_without_end_is_refused_not_followed() {
        for opening in ["[", "{\"a\":", "[{\"a\":"] {
            let deep = opening.repeat(1_000_000);
            assert!(decode::<serde_json::Value>(&deep).unwrap_err().contains("recursion"), "{opening}");
            assert!(decode::<HashMap<String, serde_json::Value>>(&deep).is_err());
            assert!(decode::<()>(&deep).is_err());
        }
    }

    #[test]
    fn json_in_ascii_says_the_same() {
        let json = encode(&["naïve ☕ 🚂", "\\ \"quoted\" \u{7f}"]).unwrap();
        let ascii = in_ascii(&json);
        assert!(ascii.is_ascii() && ascii.contains("\\ud83d\\ude82"), "{ascii}");
        assert_eq!(decode::<Vec<String>>(&ascii), decode::<Vec<String>>(&json));
    }

    #[test]
    fn a_reason_does_not_repeat_a_long_payload() {
        let long = format!("\"{}\"", "x".repeat(5_000_000));
        let reason = decode::<u64>(&long).unwrap_err();
        assert!(reason.starts_with("invalid type: string"), "{reason}");
        assert!(reason.len() < 400 && reason.ends_with("at line 1 column 5000002"), "{reason}");
    }
}
