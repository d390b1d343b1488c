//! What is done to each of many.

/// The change that each item gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BulkVerb {
    /// Of executions.
    Cancel,
    /// Of executions.
    Retry,
    /// Of schedules.
    Pause,
    /// Of schedules.
    Resume,
}

impl BulkVerb {
    pub(crate) const ALL: [Self; 4] = [Self::Cancel, Self::Retry, Self::Pause, Self::Resume];

    /// The word of an address and of the audit.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry => "retry",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }

    pub(crate) fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.word() == word)
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Cancel => "Cancel",
            Self::Retry => "Try again",
            Self::Pause => "Pause",
            Self::Resume => "Resume",
        }
    }

    /// What each of them is.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Cancel | Self::Retry => "execution",
            Self::Pause | Self::Resume => "schedule",
        }
    }

    /// The page that lists them.
    pub(crate) fn list(self) -> &'static str {
        match self {
            Self::Cancel | Self::Retry => "executions",
            Self::Pause | Self::Resume => "schedules",
        }
    }

    /// The fields of a filter of them.
    pub(crate) fn filter(self) -> &'static [&'static str] {
        match self {
            Self::Cancel | Self::Retry => &[
                "schedule", "job", "key", "group", "tag", "state", "reason", "cause", "node", "since",
                "until",
            ],
            Self::Pause | Self::Resume => &["q", "job", "state", "owner"],
        }
    }
}
