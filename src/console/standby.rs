//! Whether the database takes changes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::trouble::Trouble;
use crate::Client;

/// An answer counts for so long: a standby may be promoted.
const COUNTS: Duration = Duration::from_secs(5);

/// What the database said last, and when.
#[derive(Debug, Default)]
pub(super) struct Standby(Mutex<Option<(Duration, bool)>>);

impl Standby {
    /// Whether the database is a standby, or read-only.
    pub(super) fn is_on(&self, client: &Client, now: Duration) -> Result<bool, Trouble> {
        let known = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, is_on)) = known.filter(|(at, _)| now.saturating_sub(*at) < COUNTS) {
            return Ok(is_on);
        }
        let is_on = client.is_read_only()?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, is_on));
        Ok(is_on)
    }
}
