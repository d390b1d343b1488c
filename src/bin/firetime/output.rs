//! Tables for people, JSON for scripts.

use std::io::Write;

use comfy_table::{Table, presets};
use serde::Serialize;

use crate::failure::Failure;
use crate::text::{escaped, is_unsafe};

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// Columns for people; instants are UTC.
    #[default]
    Table,
    /// One JSON document; instants are epoch milliseconds UTC.
    Json,
}

/// A column of a list: its heading, and its cell for an item.
pub(crate) type Column<T> = (&'static str, fn(&T) -> String);

/// Writes items: as a table of these columns, or as JSON.
pub(crate) fn list<T: Serialize, const N: usize>(
    out: &mut dyn Write,
    output: Output,
    columns: [Column<T>; N],
    items: &[T],
) -> Result<(), Failure> {
    match output {
        Output::Json => json(out, &items),
        Output::Table => {
            let headings = columns.map(|(heading, _)| heading);
            table(out, headings, items.iter().map(|item| columns.map(|(_, cell)| cell(item))))
        }
    }
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
    fn a_table_has_no_trailing_blanks() {
        let mut out = Vec::new();
        table(&mut out, ["A", "LONG HEADING"], [["1".to_owned(), "2".to_owned()]]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "A  LONG HEADING\n1  2\n");
    }
}
