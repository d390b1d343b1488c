//! Guards as values: the columns an UPDATE compares before it changes anything.
//!
//! The SQL stores render a guard, the in-memory store evaluates it, so both always ask the same question; and
//! a test that blinds one column of a guard blinds it in both.

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

    /// `null`, for a column the caller has no value for. A guard that compares it would match no row, and a
    /// change that is never made would look like a lost one: in tests this is a panic.
    pub(crate) fn absent<T>(self, null: T) -> T {
        let in_a_test = cfg!(test);
        assert!(!in_a_test, "a guard compares {}, and there is no value for it", self.name());
        null
    }
}

/// What one kind of change compares.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    name: &'static str,
    columns: &'static [Column],
}

impl Guard {
    const fn new(name: &'static str, columns: &'static [Column]) -> Self {
        Self { name, columns }
    }

    pub(crate) fn columns(&self) -> impl Iterator<Item = Column> {
        let columns = self.columns.iter().copied();
        #[cfg(test)]
        let columns = columns.filter(|column| self.sees(*column));
        columns
    }
}

/// The row is exactly where the decision saw it.
const CURSOR: &[Column] =
    &[Column::Id, Column::State, Column::PrevFireTime, Column::NextFireTime, Column::Version];
/// An execution is still whose it was: PENDING as seen, or somebody's by token.
const EXECUTION: &[Column] = &[Column::Id, Column::State, Column::ClaimToken];

/// A planned claim.
pub(crate) const CLAIM: Guard = Guard::new("claim", CURSOR);
/// A misfire repair, or a resume.
pub(crate) const REPAIR: Guard = Guard::new("repair", CURSOR);
/// A one-shot that ended long ago is removed.
pub(crate) const REMOVE: Guard = Guard::new("remove", CURSOR);
/// A client's edit that moves the cursor.
pub(crate) const RETIME: Guard = Guard::new("retime", CURSOR);
/// Any other change a client makes to a schedule's row.
pub(crate) const EDIT: Guard = Guard::new("edit", &[Column::Id, Column::State, Column::Version]);
/// The claim of a PENDING execution.
pub(crate) const TAKE: Guard = Guard::new("take", EXECUTION);
/// CLAIMED becomes RUNNING.
pub(crate) const START: Guard = Guard::new("start", EXECUTION);
/// An outcome, or a hand-back, of one's own execution.
pub(crate) const OUTCOME: Guard = Guard::new("outcome", EXECUTION);
/// An unstarted execution gives way to a later repair's.
pub(crate) const SUPERSEDE: Guard = Guard::new("supersede", EXECUTION);
/// An execution is taken from a node.
pub(crate) const REVOKE: Guard = Guard::new("revoke", EXECUTION);
/// The execution an attempt follows on, as the same transaction has just left it.
pub(crate) const SETTLED: Guard = Guard::new("settled", EXECUTION);
/// A node that has not moved since it was seen.
pub(crate) const BEAT: Guard = Guard::new("beat", &[Column::Uuid, Column::Beat]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic = "a guard compares beat"]
    fn a_column_nobody_has_a_value_for_is_not_compared_with_null() {
        Column::Beat.absent(());
    }

    /// A misspelt column would fail on a database only.
    #[test]
    fn a_guard_compares_columns_the_tables_have() {
        let schema = include_str!("../../migrations/sqlite/0001_tables.sql");
        let words: Vec<_> = schema.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for guard in [&CLAIM, &EDIT, &TAKE, &BEAT] {
            for column in guard.columns() {
                assert!(!column.name().is_empty() && words.contains(&column.name()), "{column:?}");
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod blind {
    //! A guard that looks away: what the simulator must then notice.

    use std::cell::RefCell;

    use super::{Column, Guard};

    thread_local! {
        static BLIND: RefCell<Vec<(&'static str, Column)>> = const { RefCell::new(Vec::new()) };
    }

    impl Guard {
        pub(super) fn sees(&self, column: Column) -> bool {
            BLIND.with_borrow(|blind| !blind.contains(&(self.name, column)))
        }
    }

    /// Runs `work` while these guards do not compare these columns on this thread.
    pub(crate) fn to<T>(columns: &[(&Guard, Column)], work: impl FnOnce() -> T) -> T {
        BLIND.set(columns.iter().map(|(guard, column)| (guard.name, *column)).collect());
        let result = work();
        BLIND.take();
        result
    }
}
