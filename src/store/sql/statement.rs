//! SQL text with its binds, and the rows that come back: the whole vocabulary between store code and diesel.
//!
//! A statement's text never contains a value, so the same question always has the same text and its
//! prepared form is found again. PostgreSQL takes a whole column of a batch as one bind and MariaDB the whole
//! batch as one text of JSON, whatever its size, with what is the same for all rows beside it; lists, and
//! SQLite's batches, are padded to a few sizes ([`padded`]).

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;
use serde::ser::Serializer;

use super::connection::Dialect;
use super::session::Fault;
use crate::domain::NodeId;
use crate::store::columns::{Cell, Column, Spec};
use crate::store::guard::Guard;

/// A value that is bound or read. Ids and times are always `Int`, which every database binds as BIGINT:
/// another type than the column's would make it scan the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Int(i64),
    Text(String),
    Null,
    /// A column of a batch, on PostgreSQL.
    Ints(Arc<Vec<i64>>),
    /// A column of a batch, on PostgreSQL.
    Texts(Arc<Vec<String>>),
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

impl From<NodeId> for Value {
    fn from(value: NodeId) -> Self {
        Self::Text(value.to_string())
    }
}

impl From<Cell> for Value {
    fn from(cell: Cell) -> Self {
        match cell {
            Cell::Int(value) => Self::Int(value),
            Cell::Text(text) => Self::Text(text),
            Cell::Null => Self::Null,
        }
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

    /// `column = ?`
    pub(super) fn equals(self, column: Column, value: impl Into<Value>) -> Self {
        self.push(column.name()).push(" = ?").bind(value)
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
        self.binds.extend(want.same.iter().map(|(_, value)| value.clone()));
        match dialect {
            Dialect::Postgres => {
                self.text.push_str(&want.unnested());
                self.binds.extend(want.each.iter().map(|(_, column)| column.whole()));
            }
            Dialect::Mysql => {
                self.text.push_str(&want.parsed());
                self.binds.push(want.json());
            }
            Dialect::Sqlite => {
                self.text.push_str(&want.derived());
                self.binds.extend(want.padded_rows());
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

/// Rows to join with, such as the claims wanted, column by column.
#[derive(Clone, Debug)]
pub(super) struct Want {
    rows: usize,
    /// What differs from row to row; the first column is an id.
    each: Vec<(&'static str, Values)>,
    /// What is the same for all rows, and bound once.
    same: Vec<(&'static str, Value)>,
}

/// A column's values, one for each row.
#[derive(Clone, Debug)]
enum Values {
    Ints(Arc<Vec<i64>>),
    Texts(Arc<Vec<String>>),
}

impl Want {
    pub(super) fn new(ids: impl Iterator<Item = i64>) -> Self {
        let ids: Vec<i64> = ids.collect();
        Self { rows: ids.len(), each: vec![("id", Values::Ints(Arc::new(ids)))], same: Vec::new() }
    }

    /// So many rows, whose columns follow; the first names the row.
    pub(super) fn of_length(rows: usize) -> Self {
        Self { rows, each: Vec::new(), same: Vec::new() }
    }

    pub(super) fn ints(mut self, name: &'static str, values: impl Iterator<Item = i64>) -> Self {
        self.each.push((name, Values::Ints(Arc::new(values.collect()))));
        self
    }

    pub(super) fn texts(mut self, name: &'static str, values: impl Iterator<Item = String>) -> Self {
        self.each.push((name, Values::Texts(Arc::new(values.collect()))));
        self
    }

    pub(super) fn same(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.same.push((name, value.into()));
        self
    }

    /// Values that are mostly all alike: then one is bound.
    pub(super) fn alike<V>(mut self, name: &'static str, values: impl Iterator<Item = V>) -> Self
    where
        V: Into<Value> + PartialEq,
    {
        let mut values: Vec<V> = values.collect();
        if values.windows(2).all(|pair| pair.first() == pair.last())
            && let Some(value) = values.pop()
        {
            return self.same(name, value);
        }
        self.each.push((name, Values::of(values.into_iter().map(Into::into).collect())));
        self
    }

    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// Only the rows whose id is one of `ids`.
    pub(super) fn only(mut self, ids: &[i64]) -> Self {
        if let (Some((_, Values::Ints(mine))), true) = (self.each.first(), ids.len() < self.rows) {
            let ids: HashSet<i64> = ids.iter().copied().collect();
            let stays: Vec<bool> = mine.iter().map(|id| ids.contains(id)).collect();
            self.rows = stays.iter().filter(|stays| **stays).count();
            self.each.iter_mut().for_each(|(_, values)| values.retain(&stays));
        }
        self
    }

    /// The same rows with only these columns: what a statement does not read need not be bound and parsed.
    pub(super) fn of(&self, columns: &[&'static str]) -> Self {
        let mut want = self.clone();
        want.each.retain(|(name, _)| columns.contains(name));
        want.same.retain(|(name, _)| columns.contains(name));
        want
    }

    /// Padding rows have the id -1, which no row has.
    fn padded_rows(&self) -> impl Iterator<Item = Value> {
        (0..padded(self.rows)).flat_map(move |row| {
            let value = move |(place, (_, values)): (usize, &(_, Values))| match row < self.rows {
                true => values.at(row).into(),
                false if place == 0 => Value::Int(-1),
                false => values.at(0).into(),
            };
            self.each.iter().enumerate().map(value)
        })
    }

    fn derived(&self) -> String {
        let names = |(index, (name, _)): (usize, &(&str, _))| format!("column{} AS {name}", index + 1);
        let marks = format!("({})", vec!["?"; self.each.len()].join(", "));
        format!(
            "(SELECT {}{} FROM (VALUES {})) AS w",
            self.each.iter().enumerate().map(names).collect::<Vec<String>>().join(", "),
            self.marked(),
            vec![marks; padded(self.rows)].join(", ")
        )
    }

    /// What is the same for all rows, with its mark.
    fn marked(&self) -> String {
        self.same.iter().map(|(name, _)| format!(", ? AS {name}")).collect()
    }

    /// A text too long for its column is an error: JSON_TABLE would make it NULL.
    fn parsed(&self) -> String {
        let column = |(index, (name, values)): (usize, &(&str, Values))| {
            let kind = match values {
                Values::Ints(_) => "BIGINT",
                Values::Texts(_) => "MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin",
            };
            format!("{name} {kind} PATH '$[{index}]' NULL ON EMPTY ERROR ON ERROR")
        };
        let columns: Vec<String> = self.each.iter().enumerate().map(column).collect();
        let table = format!("JSON_TABLE(?, '$[*]' COLUMNS ({}))", columns.join(", "));
        match self.marked().as_str() {
            "" => format!("{table} AS w"),
            same => format!("(SELECT v.*{same} FROM {table} AS v) AS w"),
        }
    }

    fn json(&self) -> Value {
        let rows: Vec<JsonRow<'_>> = (0..self.rows).map(|row| JsonRow { want: self, row }).collect();
        // Numbers and texts: there is nothing that JSON cannot say.
        serde_json::to_string(&rows).map_or(Value::Null, Value::Text)
    }

    /// What is the same for all is asked for by a question of its own: as a plain parameter PostgreSQL would
    /// know it when it plans, and take a partial index for a state that it believes to be rare. Columns are
    /// unnested side by side: among what is selected they are read row by row, in FROM each would be stored
    /// first.
    fn unnested(&self) -> String {
        let same = self.same.iter().map(|(name, _)| format!("(SELECT ?) AS {name}"));
        let each = self.each.iter().map(|(name, _)| format!("unnest(?) AS {name}"));
        format!("(SELECT {}) AS w", same.chain(each).collect::<Vec<_>>().join(", "))
    }
}

impl Values {
    fn of(values: Vec<Value>) -> Self {
        let number = |value: &Value| if let Value::Int(value) = value { Some(*value) } else { None };
        if let Some(numbers) = values.iter().map(number).collect() {
            return Self::Ints(Arc::new(numbers));
        }
        let text = |value| if let Value::Text(text) = value { text } else { String::new() };
        Self::Texts(Arc::new(values.into_iter().map(text).collect()))
    }

    fn retain(&mut self, stays: &[bool]) {
        fn stay<T: Clone>(values: &mut Arc<Vec<T>>, stays: &[bool]) {
            let mut stays = stays.iter();
            Arc::make_mut(values).retain(|_| stays.next() == Some(&true));
        }
        match self {
            Self::Ints(values) => stay(values, stays),
            Self::Texts(values) => stay(values, stays),
        }
    }

    fn at(&self, row: usize) -> BatchCell<'_> {
        match self {
            Self::Ints(values) => BatchCell::Int(values.get(row).copied()),
            Self::Texts(values) => BatchCell::Text(values.get(row).map(String::as_str)),
        }
    }

    fn whole(&self) -> Value {
        match self {
            Self::Ints(values) => Value::Ints(Arc::clone(values)),
            Self::Texts(values) => Value::Texts(Arc::clone(values)),
        }
    }
}

/// A column's value in one row; none where there is no such row.
#[derive(Serialize)]
#[serde(untagged)]
enum BatchCell<'a> {
    Int(Option<i64>),
    Text(Option<&'a str>),
}

impl From<BatchCell<'_>> for Value {
    fn from(cell: BatchCell<'_>) -> Self {
        match cell {
            BatchCell::Int(value) => value.map_or(Self::Null, Self::from),
            BatchCell::Text(value) => value.map_or(Self::Null, Self::from),
        }
    }
}

/// A row of a batch as JSON: a list of what differs from row to row.
struct JsonRow<'a> {
    want: &'a Want,
    row: usize,
}

impl Serialize for JsonRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.want.each.iter().map(|(_, values)| values.at(self.row)))
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
    match dialect {
        Dialect::Mysql => sql("UPDATE ").want(dialect, want).push(&format!(
            " STRAIGHT_JOIN {table} AS {alias} ON {condition} SET {}",
            assigned(&format!("{alias}."), sets)
        )),
        _ => sql(format!("UPDATE {table} AS {alias} SET {} FROM ", assigned("", sets)))
            .want(dialect, want)
            .push(&format!(" WHERE {condition}")),
    }
}

/// `DELETE FROM table` of the rows that meet the condition with one of `w`, in the dialect's words.
pub(super) fn delete(
    dialect: Dialect,
    (table, alias): (&str, &str),
    want: &Want,
    condition: &str,
) -> Statement {
    match dialect {
        Dialect::Mysql => sql(format!("DELETE {alias} FROM "))
            .want(dialect, want)
            .push(&format!(" STRAIGHT_JOIN {table} AS {alias} ON {condition}")),
        Dialect::Postgres => sql(format!("DELETE FROM {table} AS {alias} USING "))
            .want(dialect, want)
            .push(&format!(" WHERE {condition}")),
        // Nobody else writes meanwhile: what the condition finds is what is removed.
        Dialect::Sqlite => sql(format!("DELETE FROM {table} WHERE rowid IN (SELECT {alias}.rowid FROM "))
            .want(dialect, want)
            .push(&format!(" CROSS JOIN {table} AS {alias} ON {condition})")),
    }
}

/// `a, b, c`, each behind `prefix`.
pub(super) fn listed(prefix: &str, columns: &[Spec]) -> String {
    columns.iter().map(|column| format!("{prefix}{}", column.name)).collect::<Vec<_>>().join(", ")
}

/// `a = ?, b = ?, c = ?`
pub(super) fn set_all(statement: Statement, columns: &[Spec], cells: Vec<Cell>) -> Statement {
    columns.iter().zip(cells).fold(statement, |statement, (column, cell)| {
        statement.push(&format!(", {} = ?", column.name)).bind(cell)
    })
}

/// What follows SET, each column behind `prefix`.
pub(super) fn assigned(prefix: &str, sets: &[(&str, &str)]) -> String {
    sets.iter().map(|(column, value)| format!("{prefix}{column} = {value}")).collect::<Vec<_>>().join(", ")
}

/// A guard's columns compared with those of the same names in `w`.
pub(super) fn guarded(dialect: Dialect, guard: &Guard, alias: &str) -> String {
    let compare = |column: Column| {
        let (seen, wanted) = (format!("{alias}.{}", column.name()), format!("w.{}", column.name()));
        if column == Column::Id { seek(dialect, &seen, &wanted) } else { format!("{seen} = {wanted}") }
    };
    guard.columns().map(compare).collect::<Vec<_>>().join(" AND ")
}

/// Appends a guard to a statement that changes one row; `compare` appends the condition on a column.
pub(super) fn guarded_by(
    statement: Statement,
    guard: &Guard,
    compare: impl Fn(Statement, Column) -> Statement,
) -> Statement {
    let condition =
        |(statement, and): (Statement, &str), column| (compare(statement.push(and), column), " AND ");
    guard.columns().fold((statement, " WHERE "), condition).0
}

/// That a column is the wanted row's, which leads to its index. As an equation it would let PostgreSQL read
/// the whole index in its order and compare each row with all that are wanted: for a plan made while the
/// table is empty no worse.
pub(super) fn seek(dialect: Dialect, column: &str, wanted: &str) -> String {
    match dialect {
        Dialect::Postgres => format!("{column} BETWEEN {wanted} AND {wanted}"),
        Dialect::Mysql | Dialect::Sqlite => format!("{column} = {wanted}"),
    }
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

    /// The next column, for a list of columns to read.
    pub(super) fn cell(&mut self) -> Result<Cell, Fault> {
        Ok(match self.next()? {
            Value::Int(value) => Cell::Int(value),
            Value::Text(text) => Cell::Text(text),
            _ => Cell::Null,
        })
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
