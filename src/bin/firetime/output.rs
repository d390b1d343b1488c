//! Tables for people, JSON for scripts.

use std::io::Write;

use comfy_table::{Table, presets};
use serde::Serialize;

use crate::failure::Failure;

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// Columns for people; instants are UTC.
    #[default]
    Table,
    /// One JSON document; instants are epoch milliseconds UTC.
    Json,
}

/// Writes rows under headings.
pub(crate) fn table<const N: usize>(
    out: &mut dyn Write,
    headings: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(headings);
    table.add_rows(rows.into_iter().map(|row| row.map(|cell| escaped(&cell))));
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
    writeln!(out, "{}", table.trim_fmt())?;
    Ok(())
}

/// Writes one JSON document on a line of its own.
pub(crate) fn json(out: &mut dyn Write, value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value)?;
    // Unsafe characters occur inside strings only, where JSON may write them as escapes.
    let (mut rest, mut units) = (text.as_str(), [0; 2]);
    while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_unsafe(*c)) {
        out.write_all(&rest.as_bytes()[..at])?;
        for unit in c.encode_utf16(&mut units) {
            write!(out, "\\u{unit:04x}")?;
        }
        rest = &rest[at + c.len_utf8()..];
    }
    out.write_all(rest.as_bytes())?;
    writeln!(out)?;
    Ok(())
}

/// The text with everything escaped that could steer a terminal or hide in it.
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

/// Control characters, and those that are invisible or turn the direction of writing.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_a_terminal_from_inside_a_table() {
        let mut out = Vec::new();
        let nasty = "red\u{1b}[31m\u{9b}2J\u{202e}gnp.exe\r\nnext\tcell";
        table(&mut out, ["NAME", "OTHER"], [[nasty.to_owned(), "x".to_owned()]]).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(!text.contains(|c: char| c != '\n' && is_unsafe(c)), "{text:?}");
        assert!(text.contains(r"red\u{1b}[31m\u{9b}2J\u{202e}gnp.exe\r\nnext\tcell"), "{text}");
    }

    #[test]
    fn json_reads_back_and_steers_nothing() {
        let mut out = Vec::new();
        let nasty = "a\u{9b}\u{202e}\u{1b}\u{e0041}\n\"é";
        json(&mut out, &[nasty]).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.trim_end_matches('\n').contains(is_unsafe), "{text:?}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), [nasty]);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shortened("äöü", 3), "äöü");
    }

    #[test]
    fn a_table_has_no_trailing_blanks() {
        let mut out = Vec::new();
        table(&mut out, ["A", "LONG HEADING"], [["1".to_owned(), "2".to_owned()]]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "A  LONG HEADING\n1  2\n");
    }
}
