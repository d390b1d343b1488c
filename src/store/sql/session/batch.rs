//! A batch: rows that a statement joins with, bound in one of three forms.
//!
//! PostgreSQL takes a whole column as one bind, and MariaDB the whole batch as one text of JSON, whatever its
//! size; SQLite's batches are padded to a few sizes ([`padded`]). So their statements are found prepared
//! again. What is the same for all rows is bound beside them, once.

use crate::domain::Timestamp;
use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

use super::statement::{Bindable, Statement, Value, padded, sql};
use crate::store::columns::{Column, NO_TIME};
use crate::store::guard::Guard;
use crate::store::sql::dialect::{BatchForm, Dialect};

impl Statement {
    /// The rows of `want` as a derived table called `w`.
    pub(crate) fn want(mut self, dialect: Dialect, want: &BatchRows) -> Self {
        self.binds.extend(want.same.iter().map(|(_, value)| value.clone()));
        match dialect.batch_form() {
            BatchForm::Columns => {
                self.text.push_str(&want.unnested());
                self.binds.extend(want.each.iter().map(|(_, column)| column.whole()));
            }
            BatchForm::Json => {
                self.text.push_str(&want.parsed());
                self.binds.push(want.json());
            }
            BatchForm::Values => {
                self.text.push_str(&want.derived());
                self.binds.extend(want.padded_rows());
            }
        }
        self
    }
}

/// Rows to join with, such as the claims wanted, column by column.
#[derive(Clone, Debug)]
pub(crate) struct BatchRows {
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

impl BatchRows {
    pub(crate) fn new(ids: impl Iterator<Item = i64>) -> Self {
        let ids: Vec<i64> = ids.collect();
        Self { rows: ids.len(), each: vec![("id", Values::Ints(Arc::new(ids)))], same: Vec::new() }
    }

    /// A batch of this many rows, whose columns are added one by one; the first is the row's id.
    pub(crate) fn of_length(rows: usize) -> Self {
        Self { rows, each: Vec::new(), same: Vec::new() }
    }

    pub(crate) fn ints(mut self, name: &'static str, values: impl Iterator<Item = i64>) -> Self {
        self.each.push((name, Values::Ints(Arc::new(values.collect()))));
        self
    }

    pub(crate) fn times<T: Into<Option<Timestamp>>>(
        self,
        name: &'static str,
        values: impl Iterator<Item = T>,
    ) -> Self {
        self.ints(name, values.map(|at| at.into().unwrap_or(NO_TIME).millis()))
    }

    pub(crate) fn texts(mut self, name: &'static str, values: impl Iterator<Item = String>) -> Self {
        self.each.push((name, Values::Texts(Arc::new(values.collect()))));
        self
    }

    pub(crate) fn same(mut self, name: &'static str, value: impl Bindable) -> Self {
        self.same.push((name, value.value()));
        self
    }

    /// Values that are mostly all alike: then one is bound.
    pub(crate) fn alike<V>(mut self, name: &'static str, values: impl Iterator<Item = V> + Clone) -> Self
    where
        V: Bindable + PartialEq,
    {
        let mut rest = values.clone();
        match rest.next() {
            Some(first) if rest.all(|value| value == first) => return self.same(name, first),
            _ => self.each.push((name, Values::of(values.map(Bindable::value).collect()))),
        }
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Whether it has this column.
    pub(crate) fn has(&self, column: &str) -> bool {
        self.each.iter().any(|(name, _)| *name == column) || self.same.iter().any(|(name, _)| *name == column)
    }

    /// Only the rows whose id is one of `ids`.
    pub(crate) fn only(mut self, ids: &[i64]) -> Self {
        if let (Some((_, Values::Ints(mine))), true) = (self.each.first(), ids.len() < self.rows) {
            let ids: HashSet<i64> = ids.iter().copied().collect();
            let stays: Vec<bool> = mine.iter().map(|id| ids.contains(id)).collect();
            self.rows = stays.iter().filter(|stays| **stays).count();
            self.each.iter_mut().for_each(|(_, values)| values.retain(&stays));
        }
        self
    }

    /// The same rows with only these columns: what a statement does not read need not be bound and parsed.
    pub(crate) fn of(&self, columns: &[&'static str]) -> Self {
        let mut want = self.clone();
        want.each.retain(|(name, _)| columns.contains(name));
        want.same.retain(|(name, _)| columns.contains(name));
        want
    }

    /// Padding rows have the id -1, which no row has.
    fn padded_rows(&self) -> impl Iterator<Item = Value> {
        (0..padded(self.rows)).flat_map(move |row| {
            let value = move |(place, (_, values)): (usize, &(_, Values))| match row < self.rows {
                true => values.at(row),
                false if place == 0 => Value::Int(-1),
                false => values.at(0),
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

    /// Binds a common value in a subquery: PostgreSQL would use a plain parameter when planning and might
    /// choose a partial index for a state it believes rare. Columns are unnested in the SELECT list, where
    /// they are read row by row; in FROM each would be stored first.
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

    /// The value of one row; NULL where there is no such row.
    fn at(&self, row: usize) -> Value {
        match self {
            Self::Ints(values) => values.get(row).map_or(Value::Null, |value| Value::Int(*value)),
            Self::Texts(values) => values.get(row).map_or(Value::Null, |text| Value::Text(text.clone())),
        }
    }

    fn whole(&self) -> Value {
        match self {
            Self::Ints(values) => Value::Ints(Arc::clone(values)),
            Self::Texts(values) => Value::Texts(Arc::clone(values)),
        }
    }
}

/// A row of a batch as JSON: a list of what differs from row to row.
struct JsonRow<'a> {
    want: &'a BatchRows,
    row: usize,
}

impl Serialize for JsonRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut cells = serializer.serialize_seq(Some(self.want.each.len()))?;
        for (_, values) in &self.want.each {
            match values {
                Values::Ints(values) => cells.serialize_element(&values.get(self.row))?,
                Values::Texts(values) => cells.serialize_element(&values.get(self.row))?,
            }
        }
        cells.end()
    }
}

/// Updates the rows of a table that meet the condition with one of `w`.
pub(crate) fn update(
    dialect: Dialect,
    table: (&str, &str),
    sets: &[(&str, impl AsRef<str>)],
    want: &BatchRows,
    condition: &str,
) -> Statement {
    let (before, behind) = dialect.update(table, sets, condition);
    sql(before).want(dialect, want).push(&behind)
}

/// Deletes the rows of a table that meet the condition with one of `w`.
pub(crate) fn delete(dialect: Dialect, table: (&str, &str), want: &BatchRows, condition: &str) -> Statement {
    let (before, behind) = dialect.delete(table, condition);
    sql(before).want(dialect, want).push(&behind)
}

/// A guard's columns compared with those of the same names in `w`.
pub(crate) fn guarded(dialect: Dialect, guard: &Guard, alias: &str) -> String {
    let compare = |column: Column| {
        let (seen, wanted) = (format!("{alias}.{}", column.name()), format!("w.{}", column.name()));
        if column == Column::Id { dialect.seek(&seen, &wanted) } else { format!("{seen} = {wanted}") }
    };
    guard.columns().map(compare).collect::<Vec<_>>().join(" AND ")
}
