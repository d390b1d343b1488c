//! Names of rows, nodes and claims as types.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

use super::states::UnknownWord;

/// The row id of a schedule. As JSON a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ScheduleId(pub(crate) i64);

/// The row id of an execution: one attempt at one occurrence. As JSON a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExecutionId(pub(crate) i64);

/// The row id of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct JobId(pub(crate) i64);

impl ScheduleId {
    /// The number stored in `QRTZ_EXECUTE.id`.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl ExecutionId {
    /// The number stored in `QRTZ_RUN.id`.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

/// Lets an id be stored in a column of the application's own, and read from there.
macro_rules! is_a_number {
    ($Id:ident, $column:literal) => {
        #[doc = concat!("The number stored in `", $column, "`, for a column of your own.")]
        impl From<$Id> for i64 {
            fn from(id: $Id) -> Self {
                id.0
            }
        }

        /// A number from a listing or a log.
        impl From<i64> for $Id {
            fn from(id: i64) -> Self {
                Self(id)
            }
        }
    };
}

is_a_number!(ScheduleId, "QRTZ_EXECUTE.id");
is_a_number!(ExecutionId, "QRTZ_RUN.id");

/// One running incarnation of a node: fresh for every start, never reused. As JSON a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) Uuid);

impl NodeId {
    pub(crate) fn fresh() -> Self {
        Self(Uuid::new_v4())
    }

    /// The name a process goes on under once this one is over: one more, so that its descent can be seen.
    pub(crate) fn next_incarnation(self) -> Self {
        Self(Uuid::from_u128(self.0.as_u128().wrapping_add(1)))
    }
}

impl FromStr for NodeId {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Uuid::parse_str(text).map(Self).map_err(|_| UnknownWord::new("NodeId", text))
    }
}

impl Serialize for NodeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A claim token: made before a claim's transaction, it answers "who won?" when a commit's fate is unknown.
/// It is no secret: who draws a fresh one may count on from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Token(pub(crate) Uuid);

impl Token {
    pub(crate) fn fresh() -> Self {
        Self(Uuid::new_v4())
    }

    pub(crate) fn next(self) -> Self {
        Self(Uuid::from_u128(self.0.as_u128().wrapping_add(1)))
    }
}

/// Displays each id as its value: a number, or a hyphenated UUID.
macro_rules! shown {
    ($($id:ident),*) => {$(
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

shown!(ScheduleId, ExecutionId, JobId, NodeId, Token);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_shown_as_its_row_holds_it() {
        assert_eq!((ScheduleId(7).get(), ExecutionId(8).get()), (7, 8));
        assert_eq!(format!("{} {}", ScheduleId(7), ExecutionId(8)), "7 8");
        let text = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        let node: NodeId = text.parse().unwrap();
        assert_eq!((node.to_string().as_str(), Token(node.0).to_string().as_str()), (text, text));
        assert_eq!(node.next_incarnation().to_string(), text.replace("0c8", "0c9"));
    }
}
