//! Tables for people, JSON and CSV for scripts.

use std::io::Write;

use comfy_table::{Table, presets};
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::text::{escaped, is_unsafe};

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// Text for people; instants are UTC.
    #[default]
    Table,
    /// One JSON document; instants are epoch milliseconds UTC.
    Json,
}

/// How a listing is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ListOutput {
    /// The columns that are needed most; instants are UTC.
    #[default]
    Table,
    /// All columns.
    Wide,
    /// One JSON document; instants are epoch milliseconds UTC.
    Json,
    /// One JSON object a line.
    Jsonl,
    /// All columns, comma-separated, with a line of headings.
    Csv,
}

impl ListOutput {
    pub(crate) fn is_table(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }
}

/// A column of a listing.
pub(crate) struct Column<T> {
    heading: &'static str,
    cell: fn(&T) -> String,
    is_wide: bool,
}

impl<T> Column<T> {
    pub(crate) const fn new(heading: &'static str, cell: fn(&T) -> String) -> Self {
        Self { heading, cell, is_wide: false }
    }

    /// One that only wide tables, and CSV, have.
    pub(crate) const fn wide(heading: &'static str, cell: fn(&T) -> String) -> Self {
        Self { is_wide: true, ..Self::new(heading, cell) }
    }
}

/// Writes items, as tables of these columns, or as JSON.
pub(crate) fn list<T: Serialize>(
    out: &mut dyn Write,
    output: ListOutput,
    columns: &[Column<T>],
    items: &[T],
) -> Result {
    let columns = columns.iter().filter(|column| !column.is_wide || output != ListOutput::Table);
    let columns: Vec<&Column<T>> = columns.collect();
    let headings = columns.iter().map(|column| column.heading);
    let cells = |item: &T| columns.iter().map(|column| (column.cell)(item)).collect::<Vec<_>>();
    match output {
        ListOutput::Json => json(out, &items),
        ListOutput::Jsonl => items.iter().try_for_each(|item| json(out, item)),
        ListOutput::Table | ListOutput::Wide => table(out, headings, items.iter().map(cells)),
        ListOutput::Csv => csv(out, headings, items.iter().map(cells)),
    }
}

/// Writes rows under headings, comma-separated.
fn csv<'a>(
    out: &mut dyn Write,
    headings: impl Iterator<Item = &'a str>,
    rows: impl Iterator<Item = Vec<String>>,
) -> Result {
    let mut writer = csv::Writer::from_writer(out);
    let failed = |error: csv::Error| match error.into_kind() {
        csv::ErrorKind::Io(error) => Failure::from(error),
        other => Failure::Failed(format!("CSV: {other:?}")),
    };
    writer.write_record(headings).map_err(failed)?;
    for row in rows {
        writer.write_record(row.iter().map(|cell| plain(cell))).map_err(failed)?;
    }
    Ok(writer.flush()?)
}

/// A cell that no spreadsheet takes for a formula. A single `-` says that there is nothing.
fn plain(cell: &str) -> String {
    let cell = escaped(cell);
    match cell.chars().next() {
        Some('=' | '+' | '-' | '@') if cell != "-" => format!("'{cell}"),
        _ => cell.to_string(),
    }
}

/// Writes rows under headings.
pub(crate) fn table<'a>(
    out: &mut dyn Write,
    headings: impl IntoIterator<Item = &'a str>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Result {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(headings);
    let shown = |row: Vec<String>| row.into_iter().map(|cell| escaped(&cell).to_string()).collect::<Vec<_>>();
    table.add_rows(rows.into_iter().map(shown));
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
    writeln!(out, "{}", table.trim_fmt())?;
    Ok(())
}

/// Writes one thing: a line for each of its properties that says something.
pub(crate) fn properties(out: &mut dyn Write, properties: &[(&str, String)]) -> Result {
    let shown = || properties.iter().filter(|(_, value)| !value.is_empty() && value != "-");
    let width = shown().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in shown() {
        writeln!(out, "{name:width$}  {}", escaped(value))?;
    }
    Ok(())
}

/// Writes one JSON document on a line of its own.
pub(crate) fn json(out: &mut dyn Write, value: &impl Serialize) -> Result {
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
        table(&mut out, ["NAME", "OTHER"], [vec![nasty.to_owned(), "x".to_owned()]]).unwrap();
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
        table(&mut out, ["A", "LONG HEADING"], [vec!["1".to_owned(), "2".to_owned()]]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "A  LONG HEADING\n1  2\n");
    }

    #[derive(Serialize)]
    struct Item {
        name: &'static str,
        note: &'static str,
    }

    const COLUMNS: [Column<Item>; 2] =
        [Column::new("NAME", |item| item.name.to_owned()), Column::wide("NOTE", |item| item.note.to_owned())];

    fn listed(output: ListOutput) -> String {
        let items = [
            Item { name: "=1+1", note: "a, \"b\"\nc" },
            Item { name: "-", note: "-1" },
            Item { name: "@x\u{1b}[2J", note: "\t=1" },
        ];
        let mut out = Vec::new();
        list(&mut out, output, &COLUMNS, &items).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn only_wide_tables_have_all_columns() {
        assert!(!listed(ListOutput::Table).contains("NOTE"));
        assert!(listed(ListOutput::Wide).starts_with("NAME         NOTE"), "{}", listed(ListOutput::Wide));
    }

    #[test]
    fn no_cell_of_a_csv_is_a_formula_or_steers_a_terminal() {
        let csv = listed(ListOutput::Csv);
        assert_eq!(csv, "NAME,NOTE\n'=1+1,\"a, \"\"b\"\"\\nc\"\n-,'-1\n'@x\\u{1b}[2J,\\t=1\n");
    }

    #[test]
    fn json_lines_are_one_object_each() {
        let lines = listed(ListOutput::Jsonl);
        let names: Vec<String> = lines
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["name"].to_string())
            .collect();
        assert_eq!((names.len(), names[1].as_str()), (3, "\"-\""));
        let all: Vec<serde_json::Value> = serde_json::from_str(&listed(ListOutput::Json)).unwrap();
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn properties_without_a_value_are_left_out() {
        let mut out = Vec::new();
        let shown = [("name", "nightly".to_owned()), ("ends", "-".to_owned()), ("paused by", String::new())];
        properties(&mut out, &shown).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "name  nightly\n");
    }
}
