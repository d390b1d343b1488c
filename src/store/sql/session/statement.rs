//! SQL text with its binds, and the rows that come back: the whole vocabulary between store code and diesel.
//!
//! A statement's text never contains a value, so the same question always has the same text and its prepared
//! form is found again. Lists are padded to a few sizes ([`padded`]).

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;

use super::fault::{Fault, Step};
use crate::domain::{JobId, NodeId, ScheduleId, ScheduleState, Timestamp, Token};
use crate::store::columns::{Cell, Column, Datum, NO_TIME, Spec, Stored};
use crate::store::guard::Guard;

/// A value that is bound, or that a database answers with. An adapter that is given one it does not know
/// answers [`DriverError::unreadable`](crate::driver::DriverError::unreadable).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// A BIGINT. Ids and times are always bound as such: another type than the column's would make a database
    /// scan the table.
    Int(i64),
    /// A text.
    Text(String),
    /// NULL, bound as a text.
    Null,
    /// NULL, bound as a BIGINT.
    NoNumber,
    /// A column of a batch, bound as an array of BIGINT. On PostgreSQL alone.
    Ints(Arc<Vec<i64>>),
    /// A column of a batch, bound as an array of TEXT. On PostgreSQL alone.
    Texts(Arc<Vec<String>>),
}

#[cfg(feature = "tokio")]
impl From<Value> for Cell {
    fn from(value: Value) -> Self {
        match value {
            Value::Int(value) => Self::Int(value),
            Value::Text(text) => Self::Text(text),
            Value::Null | Value::NoNumber | Value::Ints(_) | Value::Texts(_) => Self::Null,
        }
    }
}

/// What statements bind. Adapters of drivers make values by their variants.
pub(crate) trait Bindable {
    fn value(self) -> Value;
}

macro_rules! bindable {
    ($($From:ty: $it:pat => $value:expr;)*) => {$(
        impl Bindable for $From {
            fn value(self) -> Value {
                let $it = self;
                $value
            }
        }
    )*};
}

bindable! {
    Value: value => value;
    i64: value => Value::Int(value);
    Timestamp: at => Value::Int(at.millis());
    Option<Timestamp>: at => at.unwrap_or(NO_TIME).value();
    JobId: id => Value::Int(id.0);
    ScheduleId: id => Value::Int(id.0);
    usize: value => Value::Int(i64::try_from(value).unwrap_or(i64::MAX));
    &str: value => Value::Text(value.to_owned());
    String: value => Value::Text(value);
    Cow<'_, str>: value => Value::Text(value.into_owned());
    NodeId: value => Value::Text(value.to_string());
    Datum<'_>: value => match value {
        Datum::Number(value) => Value::Int(value),
        Datum::Text(text) => text.value(),
        Datum::Uuid(id) => Value::Text(id.to_string()),
        Datum::Null => Value::Null,
    };
    Cell: cell => match cell {
        Cell::Int(value) => Value::Int(value),
        Cell::Text(text) => Value::Text(text),
        Cell::Null => Value::Null,
        Cell::NoNumber => Value::NoNumber,
    };
}

/// SQL text with a `?` for each bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub(crate) text: String,
    pub(crate) binds: Vec<Value>,
}

/// Starts a statement.
pub(crate) fn sql(text: impl Into<String>) -> Statement {
    Statement { text: text.into(), binds: Vec::new() }
}

impl Statement {
    pub(crate) fn bind(mut self, value: impl Bindable) -> Self {
        self.binds.push(value.value());
        self
    }

    /// Binds a tuple of values, in their order.
    pub(crate) fn bind_all(mut self, values: impl Bound) -> Self {
        values.append(&mut self.binds);
        self
    }

    pub(crate) fn push(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self
    }

    /// Appends another statement.
    pub(crate) fn and(mut self, mut other: Self) -> Self {
        self.text.push_str(&other.text);
        self.binds.append(&mut other.binds);
        self
    }

    /// `column = ?`
    pub(crate) fn equals(self, column: Column, value: impl Bindable) -> Self {
        self.push(column.name()).push(" = ?").bind(value)
    }

    /// Appends a condition on a value, if there is one.
    pub(crate) fn given(self, condition: &str, value: Option<impl Bindable>) -> Self {
        match value {
            Some(value) => self.push(condition).bind(value),
            None => self,
        }
    }

    /// `(?, ?, …)` over the values, padded with the last one; matches nothing if there are none.
    pub(crate) fn list<V: Bindable>(mut self, values: impl IntoIterator<Item = V>) -> Self {
        let mut values: Vec<Value> = values.into_iter().map(Bindable::value).collect();
        let last = values.last().cloned().unwrap_or(Value::Null);
        values.resize(padded(values.len()), last);
        self.text.push('(');
        self.text.push_str(&vec!["?"; values.len()].join(", "));
        self.text.push(')');
        self.binds.append(&mut values);
        self
    }
}

/// Values that are bound together.
pub(crate) trait Bound {
    fn append(self, binds: &mut Vec<Value>);
}

macro_rules! bound {
    () => {};
    ($First:ident $($Value:ident)*) => {
        impl<$First: Bindable, $($Value: Bindable),*> Bound for ($First, $($Value,)*) {
            #[allow(non_snake_case, reason = "a value is called as its type")]
            fn append(self, binds: &mut Vec<Value>) {
                let ($First, $($Value,)*) = self;
                binds.extend([$First.value(), $($Value.value()),*]);
            }
        }

        bound! { $($Value)* }
    };
}

bound! { A B C D E F G H }

/// Appends a guard to a statement that changes one row; `compare` appends the condition on a column.
pub(crate) fn guarded_by(
    statement: Statement,
    guard: &Guard,
    compare: impl Fn(Statement, Column) -> Statement,
) -> Statement {
    let condition =
        |(statement, and): (Statement, &str), column| (compare(statement.push(and), column), " AND ");
    guard.columns().fold((statement, " WHERE "), condition).0
}

/// `a, b, c`, each behind `prefix`.
pub(crate) fn listed(prefix: &str, columns: &[Spec]) -> String {
    columns.iter().map(|column| format!("{prefix}{}", column.name)).collect::<Vec<_>>().join(", ")
}

/// Appends `, a = ?, b = ?, c = ?`.
pub(crate) fn set_all(statement: Statement, columns: &[Spec], cells: Vec<Cell>) -> Statement {
    columns.iter().zip(cells).fold(statement, |statement, (column, cell)| {
        statement.push(&format!(", {} = ?", column.name)).bind(cell)
    })
}

/// The sizes batches are padded to.
const SIZES: [usize; 6] = [1, 4, 16, 64, 256, 1_024];

/// The size a batch of `count` is padded to.
pub(crate) fn padded(count: usize) -> usize {
    SIZES.into_iter().find(|size| count <= *size).unwrap_or(count)
}

/// One row, read from left to right.
#[derive(Debug)]
pub struct Row(std::vec::IntoIter<Cell>);

impl Row {
    pub(crate) fn new(cells: Vec<Cell>) -> Self {
        Self(cells.into_iter())
    }

    /// The values of its columns.
    #[cfg(all(feature = "diesel-async", any(feature = "postgres", feature = "mysql")))]
    pub(crate) fn into_values(self) -> Vec<Value> {
        self.0.map(Bindable::value).collect()
    }

    /// The next column as it is.
    pub(crate) fn next(&mut self) -> Step<Cell> {
        self.0.next().ok_or_else(|| Fault::undecodable("a column is missing".to_owned()))
    }

    /// The next columns as this reads them.
    pub(crate) fn by<T>(&mut self, read: impl FnOnce(&mut Self) -> Step<T>) -> Step<T> {
        read(self)
    }

    /// The next column, an integer.
    pub(crate) fn int(&mut self) -> Step<i64> {
        match self.next()? {
            Cell::Int(value) => Ok(value),
            other => Err(Fault::undecodable(format!("an integer was expected, not {other:?}"))),
        }
    }

    /// The next column, a text; NULL is the empty text.
    pub(crate) fn text(&mut self) -> Step<String> {
        match self.next()? {
            Cell::Text(value) => Ok(value),
            Cell::Null | Cell::NoNumber => Ok(String::new()),
            other => Err(Fault::undecodable(format!("a text was expected, not {other:?}"))),
        }
    }

    /// The next column, an integer; NULL and anything else read as none.
    pub(crate) fn maybe_int(&mut self) -> Step<Option<i64>> {
        self.next().map(Stored::read)
    }

    /// The next column, a text; NULL and anything else read as none.
    pub(crate) fn maybe_text(&mut self) -> Step<Option<String>> {
        self.next().map(Stored::read)
    }

    /// The next column, a text; NULL and anything else read as the empty text.
    pub(crate) fn loose_text(&mut self) -> Step<String> {
        self.next().map(Stored::read)
    }

    /// The next column, an integer; NULL and anything else read as -1.
    pub(crate) fn loose_int(&mut self) -> Step<i64> {
        Ok(self.maybe_int()?.unwrap_or(-1))
    }

    /// The next column, whether it is 1.
    pub(crate) fn flag(&mut self) -> Step<bool> {
        Ok(self.int()? == 1)
    }

    /// The next column, a word of ours; none if it is another.
    pub(crate) fn word<T: FromStr>(&mut self) -> Step<Option<T>> {
        Ok(self.loose_text()?.parse().ok())
    }

    /// The next column, the state of a schedule; none for a word that is not known.
    pub(crate) fn state(&mut self) -> Step<Option<ScheduleState>> {
        Ok(ScheduleState::read(&self.loose_text()?).ok())
    }

    /// The next column, a token; none where somebody wrote something else there by hand.
    pub(crate) fn token(&mut self) -> Step<Option<Token>> {
        Ok(uuid::Uuid::parse_str(&self.loose_text()?).ok().map(Token))
    }

    /// The next column, a time: -1, NULL and anything else are none.
    pub(crate) fn time(&mut self) -> Step<Option<Timestamp>> {
        Ok(self.maybe_instant()?.filter(|time| *time != NO_TIME))
    }

    /// The next column, an instant; NULL and anything else read as none.
    pub(crate) fn maybe_instant(&mut self) -> Step<Option<Timestamp>> {
        Ok(self.maybe_int()?.map(Timestamp::at))
    }

    /// The next column, an instant.
    pub(crate) fn instant(&mut self) -> Step<Timestamp> {
        self.int().map(Timestamp::at)
    }

    /// The next column, an instant; NULL and anything else read as [`NO_TIME`].
    pub(crate) fn loose_instant(&mut self) -> Step<Timestamp> {
        self.loose_int().map(Timestamp::at)
    }
}

/// The columns of an answer's row with their readers, in one list: `columns` names them to the question, and
/// `read` reads a row of its answer. It may define the row's type, too.
macro_rules! answer {
    (
        $(#[$doc:meta])* $vis:vis struct $Row:ident($($arg:ident: $Arg:ty)?) {
            $($(#[$field_doc:meta])* $field_vis:vis $field:ident: $type:ty = $columns:expr, $read:expr;)*
        }
    ) => {
        $(#[$doc])*
        $vis struct $Row { $($(#[$field_doc])* $field_vis $field: $type,)* }

        answer! { $Row($($arg: $Arg)?) { $($field = $columns, $read;)* } }
    };
    ($Row:ident($($arg:ident: $Arg:ty)?) { $($field:ident = $columns:expr, $read:expr;)* }) => {
        impl $Row {
            pub(crate) fn columns($($arg: $Arg)?) -> String {
                [$(std::borrow::Cow::<str>::from($columns)),*].join(", ")
            }

            pub(crate) fn read(row: &mut Row) -> Step<Self> {
                Ok(Self { $($field: row.by($read)?,)* })
            }
        }
    };
}

pub(crate) use answer;

/// The only row's only integer.
pub(crate) fn single(rows: Vec<Row>) -> Step<i64> {
    match rows.into_iter().next() {
        Some(mut row) => row.int(),
        None => Err(Fault::undecodable("a row was expected".to_owned())),
    }
}
