//! Somebody whom a login knows.

use super::role::Role;

/// Somebody whom a login knows: the name that the audit has, and what they may do.
///
/// ```
/// use firetime::console::{Role, User};
/// let user = User::new("ann", Role::Operator);
/// assert_eq!((user.name(), user.role()), ("ann", Role::Operator));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    role: Role,
}

impl User {
    /// Somebody of this name, up to 200 characters, who may do what the role may.
    #[must_use]
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self { name: name.into(), role }
    }

    /// The name that the audit has.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What they may do.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }
}
