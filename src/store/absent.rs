//! A build without any database: each call says so.

use std::convert::Infallible;
use std::sync::Arc;

use super::{Result, Store, StoreLimits};
use crate::domain::{Error, ErrorKind};
use crate::time::Clock;

fn refuse<T>() -> Result<T> {
    let message = "this build has no database: enable one of the features sqlite, postgres, mysql";
    Err(Error::new(ErrorKind::Config, message))
}

/// A database that a URL names: there is none.
pub(crate) struct Target(Infallible);

impl Target {
    pub(crate) fn parse(_url: &str) -> Result<Self> {
        refuse()
    }

    pub(crate) fn open(&self, _limits: StoreLimits, _clock: Arc<Clock>) -> Result<Arc<dyn Store>> {
        match self.0 {}
    }
}

pub(crate) fn open(_url: &str, _limits: StoreLimits, _clock: Arc<Clock>) -> Result<Arc<dyn Store>> {
    refuse()
}

pub(crate) fn migrate(_url: &str) -> Result<()> {
    refuse()
}

pub(crate) fn check_schema(_url: &str) -> Result<()> {
    refuse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_a_database_says_so_and_what_to_do() {
        let clock = Arc::new(Clock::default());
        let refused = [
            open("sqlite:x", StoreLimits::default(), clock).err(),
            Target::parse("sqlite:x").err(),
            migrate("sqlite:x").err(),
            check_schema("sqlite:x").err(),
        ];
        for error in refused {
            assert!(error.is_some_and(|error| error.to_string().contains("enable one of the features")));
        }
    }
}
