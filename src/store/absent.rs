//! What a build without any database can do: say so.

use std::sync::Arc;

use super::{Limits, Result, Store};
use crate::clock::Clock;
use crate::error::{Error, Kind};

fn refuse<T>() -> Result<T> {
    let message = "this build has no database: enable one of the features sqlite, postgres, mysql";
    Err(Error::new(Kind::Config, message))
}

pub(crate) fn open(_url: &str, _limits: Limits, _clock: Arc<Clock>) -> Result<Arc<dyn Store>> {
    refuse()
}

pub(crate) fn migrate(_url: &str) -> Result<()> {
    refuse()
}

pub(crate) fn check_schema(_url: &str) -> Result<()> {
    refuse()
}
