//! Words that rows hold, as far as this release knows them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Activity, ExecutionState, MisfirePolicy, ScheduleState};

/// A word of a row: a value that this release knows, or the text of one that it does not, which a newer
/// release has written, or somebody by hand. Lists show such rows, too.
///
/// It is displayed, and written as JSON, as its text. It compares with the value itself:
///
/// ```
/// use firetime::{ExecutionState, Word};
///
/// let state: Word<ExecutionState> = ExecutionState::Failed.into();
/// assert!(state == ExecutionState::Failed && state != ExecutionState::Succeeded);
/// assert_eq!((state.known(), state.to_string().as_str()), (Some(ExecutionState::Failed), "FAILED"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Word<T> {
    /// This release knows it.
    Known(T),
    /// It does not.
    Unknown(String),
}

impl<T: Copy> Word<T> {
    /// The value, if this release knows it.
    #[must_use]
    pub fn known(&self) -> Option<T> {
        if let Self::Known(value) = self { Some(*value) } else { None }
    }
}

impl<T: FromStr> Word<T> {
    /// What a column holds.
    pub(crate) fn read(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Unknown(text.to_owned()), Self::Known)
    }
}

impl Word<ScheduleState> {
    /// What a schedule's column `state` holds.
    pub(crate) fn of_row(stored: &str) -> Self {
        ScheduleState::read(stored).map_or_else(|_| Self::Unknown(stored.to_owned()), Self::Known)
    }
}

impl<T> From<T> for Word<T> {
    fn from(value: T) -> Self {
        Self::Known(value)
    }
}

impl<T: PartialEq> PartialEq<T> for Word<T> {
    fn eq(&self, value: &T) -> bool {
        matches!(self, Self::Known(known) if known == value)
    }
}

impl<T: fmt::Display> fmt::Display for Word<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(value) => value.fmt(f),
            Self::Unknown(text) => f.pad(text),
        }
    }
}

impl<T: fmt::Display> Serialize for Word<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'a> Deserialize<'a> for Word<ExecutionState> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::read(&text))
    }
}

/// The text of a word, for values whose texts are fixed.
macro_rules! has_text {
    ($($Known:ty),*) => {$(
        impl Word<$Known> {
            /// Its text, as it is displayed.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    Self::Known(value) => value.as_str(),
                    Self::Unknown(text) => text,
                }
            }
        }

        impl fmt::Display for $Known {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    )*};
}

has_text!(ExecutionState, ScheduleState, MisfirePolicy);

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Activity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_not_known_is_shown_as_it_is() {
        let newer = Word::<ExecutionState>::read("HELD");
        assert_eq!((newer.known(), newer.as_str(), newer.to_string().as_str()), (None, "HELD", "HELD"));
        assert!(ExecutionState::ALL.iter().all(|state| newer != *state));
        assert_eq!(serde_json::to_string(&newer).unwrap(), "\"HELD\"");
        let known = Word::<ExecutionState>::read("FAILED");
        assert_eq!((known.known(), known), (Some(ExecutionState::Failed), ExecutionState::Failed.into()));
    }

    #[test]
    fn a_schedules_word_is_read_from_its_row() {
        let active = Word::of_row("EXECUTING");
        assert!(active == ScheduleState::Active);
        assert_eq!(
            (active.as_str(), serde_json::to_string(&active).unwrap().as_str()),
            ("active", "\"active\"")
        );
    }
}
