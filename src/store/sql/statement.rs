//! SQL text with its binds, and the rows that come back: the whole vocabulary between store code and diesel.
//!
//! A statement's text never contains a value, so the same question always has the same text and its
//! prepared form is found again. Lists are padded to a few sizes for the same reason ([`padded`]).

use super::connection::Dialect;
use super::session::Fault;
use crate::store::guard::{Column, Guard};

/// A value that is bound or read. Ids and times are always `Int`, which every database binds as BIGINT:
/// another type than the column's would make it scan the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Int(i64),
    Text(String),
    Null,
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

    /// The rows of `want` as a derived table called `w`. To be compared with and inserted from, never
    /// selected: MariaDB announces a bind's type as NULL when it prepares, and diesel takes that for good.
    pub(super) fn want(mut self, dialect: Dialect, want: &Want) -> Self {
        self.text.push_str(&want.derived(dialect));
        self.binds.extend(want.rows.iter().flatten().cloned());
        self
    }
}

/// The sizes batches are padded to.
const SIZES: [usize; 5] = [1, 4, 16, 64, 256];

/// The most rows one statement is given.
pub(super) const BATCH: usize = SIZES[SIZES.len() - 1];

/// The size a batch of `count` is padded to.
pub(super) fn padded(count: usize) -> usize {
    SIZES.into_iter().find(|size| count <= *size).unwrap_or(count)
}

/// Rows to join with, such as the claims wanted. The first column is an id; padding rows have the id -1,
/// which no row has.
#[derive(Clone, Debug)]
pub(super) struct Want {
    columns: &'static [&'static str],
    rows: Vec<Vec<Value>>,
    real: usize,
}

impl Want {
    pub(super) fn new(columns: &'static [&'static str], mut rows: Vec<Vec<Value>>) -> Self {
        let real = rows.len();
        if let Some(mut filler) = rows.first().cloned() {
            if let Some(id) = filler.first_mut() {
                *id = Value::Int(-1);
            }
            rows.resize(padded(real), filler);
        }
        Self { columns, rows, real }
    }

    /// How many rows it has, padding not counted.
    pub(super) fn len(&self) -> usize {
        self.real
    }

    /// Only the rows whose first column is one of `ids`.
    pub(super) fn only(&self, ids: &[i64]) -> Self {
        let wanted = |row: &&Vec<Value>| matches!(row.first(), Some(Value::Int(id)) if ids.contains(id));
        Self::new(self.columns, self.rows.iter().take(self.real).filter(wanted).cloned().collect())
    }

    fn derived(&self, dialect: Dialect) -> String {
        let marks = vec!["?"; self.columns.len()].join(", ");
        let rows = vec![format!("({marks})"); self.rows.len()].join(", ");
        match dialect {
            Dialect::Postgres => format!("(VALUES {rows}) AS w({})", self.columns.join(", ")),
            Dialect::Sqlite => {
                let names = |(index, name)| format!("column{} AS {name}", index + 1);
                let names: Vec<String> = self.columns.iter().enumerate().map(names).collect();
                format!("(SELECT {} FROM (VALUES {rows})) AS w", names.join(", "))
            }
            Dialect::Mysql => {
                let first: Vec<String> = self.columns.iter().map(|name| format!("? AS {name}")).collect();
                let rest = format!(" UNION ALL SELECT {marks}").repeat(self.rows.len() - 1);
                format!("(SELECT {}{rest}) AS w", first.join(", "))
            }
        }
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
