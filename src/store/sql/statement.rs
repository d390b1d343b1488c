//! SQL text with its binds, and the rows that come back: the whole vocabulary between store code and diesel.
//!
//! A statement's text never contains a value, so the same question always has the same text and its
//! prepared form is found again. PostgreSQL takes a whole column of a batch as one bind and MariaDB the whole batch as
//! one text of JSON, whatever its size; lists, and SQLite's batches, are padded to a few sizes ([`padded`]).

use std::collections::HashSet;
use std::rc::Rc;

use serde::Serialize;

use super::connection::Dialect;
use super::session::Fault;
use crate::store::guard::{Column, Guard};

/// A value that is bound or read. Ids and times are always `Int`, which every database binds as BIGINT:
/// another type than the column's would make it scan the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    Int(i64),
    Text(String),
    Null,
    /// A column of a batch, on PostgreSQL.
    Ints(Vec<i64>),
    /// A column of a batch, on PostgreSQL.
    Texts(Vec<Option<String>>),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

/// `None` is stored as -1: times, and nothing else.
impl From<Option<i64>> for Value {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value.unwrap_or(-1))
    }
}

/// SQL text with a `?` for each bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub(super) text: String,
    pub(super) binds: Vec<Value>,
}

/// Starts a statement.
pub(super) fn sql(text: impl Into<String>) -> Statement {
    Statement { text: text.into(), binds: Vec::new() }
}

impl Statement {
    pub(super) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.binds.push(value.into());
        self
    }

    pub(super) fn push(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self
    }

    /// `(?, ?, …)` over the values, padded with the last one; matches nothing if there are none.
    pub(super) fn list<V: Into<Value>>(mut self, values: impl IntoIterator<Item = V>) -> Self {
        let mut values: Vec<Value> = values.into_iter().map(Into::into).collect();
        let last = values.last().cloned().unwrap_or(Value::Null);
        values.resize(padded(values.len()), last);
        self.text.push('(');
        self.text.push_str(&vec!["?"; values.len()].join(", "));
        self.text.push(')');
        self.binds.append(&mut values);
        self
    }

    /// The rows of `want` as a derived table called `w`.
    pub(super) fn want(mut self, dialect: Dialect, want: &Want) -> Self {
        match dialect {
            Dialect::Postgres => {
                self.text.push_str(&want.unnested());
                self.binds.extend(want.by_column());
            }
            Dialect::Mysql => {
                self.text.push_str(&want.parsed());
                self.binds.push(want.json());
            }
            Dialect::Sqlite => {
                let rows = want.padded_rows();
                self.text.push_str(&want.derived(rows.len()));
                self.binds.extend(rows.into_iter().flatten());
            }
        }
        self
    }
}

/// The sizes batches are padded to.
const SIZES: [usize; 6] = [1, 4, 16, 64, 256, 1_024];

/// The most rows one statement is given.
pub(super) fn batch(dialect: Dialect) -> usize {
    match dialect {
        Dialect::Postgres | Dialect::Mysql => 1_000,
        Dialect::Sqlite => 256,
    }
}

/// The size a batch of `count` is padded to.
pub(super) fn padded(count: usize) -> usize {
    SIZES.into_iter().find(|size| count <= *size).unwrap_or(count)
}

/// Rows to join with, such as the claims wanted. The first column is an id.
#[derive(Clone, Debug)]
pub(super) struct Want {
    columns: &'static [&'static str],
    /// Where in a row these columns are.
    places: Vec<usize>,
    rows: Rc<Vec<Vec<Value>>>,
}

impl Want {
    pub(super) fn new(columns: &'static [&'static str], rows: Vec<Vec<Value>>) -> Self {
        Self { columns, places: (0..columns.len()).collect(), rows: Rc::new(rows) }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Only the rows whose first column is one of `ids`.
    pub(super) fn only(mut self, ids: &[i64]) -> Self {
        let ids: HashSet<i64> = ids.iter().copied().collect();
        let is_wanted = |row: &Vec<Value>| matches!(row.first(), Some(Value::Int(id)) if ids.contains(id));
        Rc::make_mut(&mut self.rows).retain(is_wanted);
        self
    }

    /// The same rows with only these columns, the id first: what a statement does not read need not be bound and parsed.
    pub(super) fn of(&self, columns: &'static [&'static str]) -> Self {
        let place = |column: &&str| self.columns.iter().position(|name| name == column);
        let places = columns.iter().filter_map(place).filter_map(|place| self.places.get(place).copied());
        Self { columns, places: places.collect(), rows: Rc::clone(&self.rows) }
    }

    fn column(&self, place: usize) -> impl Iterator<Item = &Value> {
        self.rows.iter().map(move |row| row.get(place).unwrap_or(&Value::Null))
    }

    fn row<'a>(&'a self, row: &'a [Value]) -> impl Iterator<Item = &'a Value> {
        self.places.iter().map(|place| row.get(*place).unwrap_or(&Value::Null))
    }

    /// Padding rows have the id -1, which no row has.
    fn padded_rows(&self) -> Vec<Vec<Value>> {
        let mut rows: Vec<Vec<Value>> =
            self.rows.iter().map(|row| self.row(row).cloned().collect()).collect();
        if let Some(mut filler) = rows.first().cloned() {
            if let Some(id) = filler.first_mut() {
                *id = Value::Int(-1);
            }
            rows.resize(padded(rows.len()), filler);
        }
        rows
    }

    fn derived(&self, rows: usize) -> String {
        let marks = vec!["?"; self.columns.len()].join(", ");
        let names = |(index, name)| format!("column{} AS {name}", index + 1);
        let names: Vec<String> = self.columns.iter().enumerate().map(names).collect();
        format!(
            "(SELECT {} FROM (VALUES {})) AS w",
            names.join(", "),
            vec![format!("({marks})"); rows].join(", ")
        )
    }

    /// A text too long for its column is an error: JSON_TABLE would make it NULL.
    fn parsed(&self) -> String {
        let column = |(index, (name, place)): (usize, (&&str, &usize))| {
            let kind = if self.are_numbers(*place) {
                "BIGINT"
            } else {
                "MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
            };
            format!("{name} {kind} PATH '$[{index}]' NULL ON EMPTY ERROR ON ERROR")
        };
        let columns: Vec<String> = self.columns.iter().zip(&self.places).enumerate().map(column).collect();
        format!("JSON_TABLE(?, '$[*]' COLUMNS ({})) AS w", columns.join(", "))
    }

    fn json(&self) -> Value {
        let rows: Vec<Vec<&Value>> = self.rows.iter().map(|row| self.row(row).collect()).collect();
        // Numbers and texts: there is nothing that JSON cannot say.
        serde_json::to_string(&rows).map_or(Value::Null, Value::Text)
    }

    fn are_numbers(&self, place: usize) -> bool {
        self.column(place).all(|value| matches!(value, Value::Int(_)))
    }

    fn unnested(&self) -> String {
        format!("unnest({}) AS w({})", vec!["?"; self.columns.len()].join(", "), self.columns.join(", "))
    }

    fn by_column(&self) -> impl Iterator<Item = Value> {
        self.places.iter().map(|place| {
            if self.are_numbers(*place) {
                let int = |value: &Value| if let Value::Int(value) = value { Some(*value) } else { None };
                return Value::Ints(self.column(*place).filter_map(int).collect());
            }
            let text = |value: &Value| if let Value::Text(text) = value { Some(text.clone()) } else { None };
            Value::Texts(self.column(*place).map(text).collect())
        })
    }
}

/// `UPDATE table AS alias SET … ` for the rows of `w` that meet the condition, in the dialect's words.
pub(super) fn update(
    dialect: Dialect,
    (table, alias): (&str, &str),
    sets: &[(&str, &str)],
    want: &Want,
    condition: &str,
) -> Statement {
    let qualified = |(column, value): &(&str, &str)| match dialect {
        Dialect::Mysql => format!("{alias}.{column} = {value}"),
        _ => format!("{column} = {value}"),
    };
    let sets = sets.iter().map(qualified).collect::<Vec<_>>().join(", ");
    match dialect {
        Dialect::Mysql => sql("UPDATE ")
            .want(dialect, want)
            .push(&format!(" STRAIGHT_JOIN {table} AS {alias} ON {condition} SET {sets}")),
        _ => sql(format!("UPDATE {table} AS {alias} SET {sets} FROM "))
            .want(dialect, want)
            .push(&format!(" WHERE {condition}")),
    }
}

/// A guard's columns compared with those of the same names in `w`.
pub(super) fn guarded(guard: &Guard, alias: &str) -> String {
    let compare = |column: Column| format!("{alias}.{name} = w.{name}", name = column.name());
    guard.columns().map(compare).collect::<Vec<_>>().join(" AND ")
}

/// How a table is joined to `w`, so that `w` is always read first.
pub(super) fn join(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Mysql => "STRAIGHT_JOIN",
        Dialect::Sqlite => "CROSS JOIN",
        Dialect::Postgres => "JOIN",
    }
}

/// One row, read from left to right.
#[derive(Debug)]
pub struct Row(std::vec::IntoIter<Value>);

impl Row {
    pub(super) fn new(values: Vec<Value>) -> Self {
        Self(values.into_iter())
    }

    /// The next column, an integer.
    pub(super) fn int(&mut self) -> Result<i64, Fault> {
        match self.next()? {
            Value::Int(value) => Ok(value),
            other => Err(Fault::undecodable(format!("an integer was expected, not {other:?}"))),
        }
    }

    /// The next column, a text; NULL is the empty text.
    pub(super) fn text(&mut self) -> Result<String, Fault> {
        match self.next()? {
            Value::Text(value) => Ok(value),
            Value::Null => Ok(String::new()),
            other => Err(Fault::undecodable(format!("a text was expected, not {other:?}"))),
        }
    }

    /// The next column, an integer; NULL and anything else read as none.
    pub(super) fn maybe_int(&mut self) -> Result<Option<i64>, Fault> {
        Ok(match self.next()? {
            Value::Int(value) => Some(value),
            _ => None,
        })
    }

    /// The next column, a text; NULL and anything else read as none.
    pub(super) fn maybe_text(&mut self) -> Result<Option<String>, Fault> {
        Ok(match self.next()? {
            Value::Text(value) => Some(value),
            _ => None,
        })
    }

    /// The next column, a text; NULL and anything else read as the empty text.
    pub(super) fn loose_text(&mut self) -> Result<String, Fault> {
        Ok(self.maybe_text()?.unwrap_or_default())
    }

    /// The next column, an integer; NULL and anything else read as -1.
    pub(super) fn loose_int(&mut self) -> Result<i64, Fault> {
        Ok(self.maybe_int()?.unwrap_or(-1))
    }

    /// The next column, a time: -1, NULL and anything else are none.
    pub(super) fn time(&mut self) -> Result<Option<i64>, Fault> {
        Ok(self.maybe_int()?.filter(|time| *time != -1))
    }

    /// The next column, a word of an enum or a number in text form.
    pub(super) fn word<T: std::str::FromStr>(&mut self) -> Result<T, Fault> {
        let text = self.text()?;
        text.parse()
            .map_err(|_| Fault::undecodable(format!("{text:?} is not a {}", std::any::type_name::<T>())))
    }

    /// The next column as it is.
    pub(super) fn next(&mut self) -> Result<Value, Fault> {
        self.0.next().ok_or_else(|| Fault::undecodable("a column is missing".to_owned()))
    }
}

/// The only row's only integer.
pub(super) fn single(rows: Vec<Row>) -> Result<i64, Fault> {
    match rows.into_iter().next() {
        Some(mut row) => row.int(),
        None => Err(Fault::undecodable("a row was expected".to_owned())),
    }
}
