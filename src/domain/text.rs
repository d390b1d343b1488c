//! Texts from elsewhere on their way to a log or a terminal. Names nothing else of the crate, so that the
//! program can include this file too.

/// Control characters, and those that are invisible or turn the direction of writing.
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// The text with everything escaped that could steer a terminal, begin a line or hide in one.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// The beginning of a long text.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_or_hides_in_it_is_escaped() {
        assert_eq!(escaped("a\u{1b}[2J\r\n\u{9b}1m\u{202e}é☕"), r"a\u{1b}[2J\r\n\u{9b}1m\u{202e}é☕");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shortened("äöü", 3), "äöü");
    }
}
