//! The fields of a schedule's definition: which of them differ, and which an operator has changed.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::UnknownWord;

/// A field of a schedule's definition. What an operator has changed of a schedule that lives in code is kept
/// by these: see [`Client::sync`](crate::Client::sync).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ScheduleField {
    /// When it fires, with the window that it is kept to.
    Trigger,
    /// Which job it runs.
    Job,
    /// What its handler is given.
    Payload,
    /// What it is for.
    Description,
    /// Which of the due occurrences of its job goes first.
    Priority,
    /// What becomes of missed occurrences.
    Misfire,
    /// From how late on they are missed.
    MisfireThreshold,
    /// How long its handler may take.
    TimeLimit,
    /// What becomes of occurrences that would overlap.
    Overlap,
    /// After what in a row it pauses itself.
    PauseAfter,
    /// Within what span of its fire time an occurrence is to succeed.
    ExpectedBy,
}

impl ScheduleField {
    /// Every field, in the order of declaration.
    pub const ALL: &'static [Self] = &[
        Self::Trigger,
        Self::Job,
        Self::Payload,
        Self::Description,
        Self::Priority,
        Self::Misfire,
        Self::MisfireThreshold,
        Self::TimeLimit,
        Self::Overlap,
        Self::PauseAfter,
        Self::ExpectedBy,
    ];

    /// Its name, as in the JSON of [`ScheduleDetails`](crate::ScheduleDetails).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trigger => "trigger",
            Self::Job => "job",
            Self::Payload => "payload",
            Self::Description => "description",
            Self::Priority => "priority",
            Self::Misfire => "misfire",
            Self::MisfireThreshold => "misfire_threshold",
            Self::TimeLimit => "time_limit",
            Self::Overlap => "overlap",
            Self::PauseAfter => "pause_after",
            Self::ExpectedBy => "expected_by",
        }
    }
}

impl fmt::Display for ScheduleField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ScheduleField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl FromStr for ScheduleField {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let found = Self::ALL.iter().find(|field| field.as_str() == text);
        found.copied().ok_or_else(|| UnknownWord::new("field of a schedule", text))
    }
}

/// A field of a schedule's definition that another definition has otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Its name, as in the JSON of [`ScheduleDetails`](crate::ScheduleDetails).
    pub field: &'static str,
    /// What it is; empty for nothing.
    pub was: String,
    /// What it would become; empty for nothing.
    pub becomes: String,
}

impl Difference {
    pub(crate) fn new(field: &'static str, was: String, becomes: String) -> Self {
        Self { field, was, becomes }
    }

    /// The field that it is part of: the window belongs to the trigger.
    pub(crate) fn part_of(&self) -> ScheduleField {
        self.field.parse().unwrap_or(ScheduleField::Trigger)
    }
}

/// Some of the fields, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet(Vec<ScheduleField>);

impl FieldSet {
    /// As a column has them: their names, by commas. What is none is left out.
    pub(crate) fn read(text: &str) -> Self {
        text.split(',').filter_map(|name| name.parse().ok()).collect()
    }

    /// As a column has them; none if there are none.
    pub(crate) fn text(&self) -> Option<String> {
        let names: Vec<&str> = self.0.iter().map(|field| field.as_str()).collect();
        (!names.is_empty()).then(|| names.join(","))
    }

    pub(crate) fn has(&self, field: ScheduleField) -> bool {
        self.0.contains(&field)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ScheduleField> {
        self.0.iter().copied()
    }

    /// These without those.
    pub(crate) fn without(&self, others: &Self) -> Self {
        self.iter().filter(|field| !others.has(*field)).collect()
    }
}

impl FromIterator<ScheduleField> for FieldSet {
    fn from_iter<I: IntoIterator<Item = ScheduleField>>(fields: I) -> Self {
        let mut fields: Vec<ScheduleField> = fields.into_iter().collect();
        fields.sort_unstable();
        fields.dedup();
        Self(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_holds_any_of_the_fields() {
        let all: FieldSet = ScheduleField::ALL.iter().copied().collect();
        let text = all.text().unwrap();
        assert!(text.len() <= 200, "{text} does not fit into its column");
        assert_eq!((FieldSet::read(&text), FieldSet::read("").text()), (all.clone(), None));
        let some = FieldSet::read("priority,colour,trigger,priority");
        assert_eq!(some.text().as_deref(), Some("trigger,priority"));
        assert!(some.has(ScheduleField::Trigger) && !some.has(ScheduleField::Job));
        assert_eq!(some.without(&FieldSet::read("trigger")).text().as_deref(), Some("priority"));
        assert!(all.without(&all).is_empty());
        assert_eq!(
            "colour".parse::<ScheduleField>().unwrap_err().to_string(),
            "\"colour\" is not a field of a schedule"
        );
    }

    #[test]
    fn the_window_is_part_of_the_trigger() {
        let of = |field| Difference::new(field, String::new(), String::new()).part_of();
        for field in ["trigger", "starts", "ends"] {
            assert_eq!(of(field), ScheduleField::Trigger);
        }
        assert_eq!(of("overlap"), ScheduleField::Overlap);
    }
}
