//! In the place of the databases, in a build without any.

use std::sync::Arc;

use super::{Result, Store};
use crate::clock::Clock;
use crate::error::{Error, Kind};
use crate::model::Millis;

#[derive(Clone, Copy, Debug, Default)]
#[expect(dead_code, reason = "the scheduler fills them in; there is no database to read them")]
pub(crate) struct Limits {
    pub call: Millis,
    pub connections: u32,
}

/// What a migration did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationReport {
    /// The schema's version now.
    pub version: i64,
    /// The versions this run added, with their names; empty if there was nothing to do.
    pub applied: Vec<(i64, String)>,
}

fn refuse() -> Error {
    Error::new(
        Kind::Config,
        "this build of firetime speaks to no database: switch on its feature `sqlite`, `postgres` or `mysql`",
    )
}

pub(crate) fn open(_url: &str, _limits: Limits, _clock: Arc<Clock>) -> Result<Arc<dyn Store>> {
    Err(refuse())
}

/// Refuses: this build knows no database.
///
/// # Errors
/// [`Kind::Config`], always.
pub fn migrate(_url: &str) -> Result<MigrationReport> {
    Err(refuse())
}

pub(crate) fn check_schema(_url: &str) -> Result<()> {
    Err(refuse())
}
