//! The columns that guards compare and changes assign, by their names in SQL.

macro_rules! columns {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A column of one of the tables.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Column { $($(#[$doc])* $variant,)* }

        impl Column {
            #[cfg(test)]
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)*];

            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

columns! {
    Id = "id",
    Application = "application",
    State = "state",
    Reason = "reason",
    // Schedules.
    PrevFireTime = "prev_fire_time",
    NextFireTime = "next_fire_time",
    Version = "version",
    TimeTriggered = "time_triggered",
    PausedBy = "paused_by",
    PausedTime = "paused_time",
    PausedUntil = "paused_until",
    // Executions.
    ClaimToken = "claim_token",
    Node = "node",
    ClaimedTime = "claimed_time",
    StartedTime = "started_time",
    FinishedTime = "finished_time",
    Error = "error",
    // Jobs.
    Recover = "recover",
    MaxAttempts = "max_attempts",
    MaxTries = "max_tries",
    RetryDelay = "retry_delay",
    UpdateTime = "update_time",
    // Nodes and applications.
    Uuid = "uuid",
    Beat = "beat",
    EndedTime = "ended_time",
    EndReason = "end_reason",
    TimeNext = "time_next",
}

impl Column {
    /// `null`, for a column the caller has no value for. A guard that compares it would match no row, and a
    /// change that is never made would look like a lost one: in tests this is a panic.
    pub(crate) fn absent<T>(self, null: T) -> T {
        let in_a_test = cfg!(test);
        assert!(!in_a_test, "a guard compares {}, and there is no value for it", self.name());
        null
    }
}

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
    fn every_column_is_one_of_the_tables() {
        let schema = include_str!("../../migrations/sqlite/0001_tables.sql");
        let words: Vec<_> = schema.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for column in Column::ALL {
            assert!(words.contains(&column.name()), "{column:?}");
        }
    }
}
