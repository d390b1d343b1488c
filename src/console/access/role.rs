//! What somebody may do.

use std::fmt;
use std::str::FromStr;

use crate::UnknownWord;

/// What somebody may do in a console. Each role may do what those before it may.
///
/// ```
/// use firetime::console::Role;
/// assert!(Role::Viewer < Role::Operator && Role::Operator < Role::Admin);
/// assert_eq!("operator".parse(), Ok(Role::Operator));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Role {
    /// Look at everything, and change nothing.
    Viewer,
    /// Also pause, resume, run, skip, rerun, cancel and retry, and drain nodes.
    Operator,
    /// Also what cannot be undone by its opposite: edit and remove schedules.
    Admin,
}

impl Role {
    /// All of them, from the least on.
    pub const ALL: &'static [Self] = &[Self::Viewer, Self::Operator, Self::Admin];

    /// Its word: `viewer`, `operator` or `admin`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Role {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let unknown = || UnknownWord::new("role (viewer, operator or admin)", word);
        Self::ALL.iter().copied().find(|role| role.as_str() == word).ok_or_else(unknown)
    }
}
