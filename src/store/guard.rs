//! Guards as values: the columns an UPDATE compares before it changes anything.
//!
//! The SQL stores render a guard, the in-memory store evaluates it, so both always ask the same question.

/// A column a guard may compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Id,
    State,
    PrevFireTime,
    NextFireTime,
    Version,
    ClaimToken,
    /// A node's key.
    Uuid,
    Beat,
}

impl Column {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::State => "state",
            Self::PrevFireTime => "prev_fire_time",
            Self::NextFireTime => "next_fire_time",
            Self::Version => "version",
            Self::ClaimToken => "claim_token",
            Self::Uuid => "uuid",
            Self::Beat => "beat",
        }
    }
}

/// A planned claim and a repair: the row is exactly where the decision saw it.
pub(crate) const CURSOR: &[Column] =
    &[Column::Id, Column::State, Column::PrevFireTime, Column::NextFireTime, Column::Version];

/// An execution is still whose it was: PENDING as seen, or one's own by token.
pub(crate) const EXECUTION: &[Column] = &[Column::Id, Column::State, Column::ClaimToken];

/// A schedule's row changed by a client.
pub(crate) const EDIT: &[Column] = &[Column::Id, Column::State, Column::Version];

/// A node that has not moved since it was seen.
pub(crate) const BEAT: &[Column] = &[Column::Uuid, Column::Beat];
