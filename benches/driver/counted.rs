//! Counts statements: those of requests, and all of diesel's blocking connections.

use std::sync::atomic::{AtomicUsize, Ordering};

use firetime::driver::{AsyncConnection, Dialect, DriverError, Query, Savepoint, Value};

static STATEMENTS: AtomicUsize = AtomicUsize::new(0);

/// How many there were so far.
pub fn statements() -> usize {
    STATEMENTS.load(Ordering::Relaxed)
}

pub fn count() {
    STATEMENTS.fetch_add(1, Ordering::Relaxed);
}

/// Counts a request's statements on the connection of an async driver.
pub struct Counted<T>(pub T);

impl<C: AsyncConnection> AsyncConnection for Counted<&mut C> {
    type Savepoint<'s>
        = Counted<C::Savepoint<'s>>
    where
        Self: 's;

    fn dialect(&self) -> Dialect {
        self.0.dialect()
    }

    async fn save(&mut self) -> Result<Self::Savepoint<'_>, DriverError> {
        count();
        self.0.save().await.map(Counted)
    }
}

impl<S: Savepoint> Savepoint for Counted<S> {
    async fn execute(&mut self, query: Query) -> Result<u64, DriverError> {
        count();
        self.0.execute(query).await
    }

    async fn rows(&mut self, query: Query) -> Result<Vec<Vec<Value>>, DriverError> {
        count();
        self.0.rows(query).await
    }

    async fn release(self) -> Result<(), DriverError> {
        count();
        self.0.release().await
    }

    async fn roll_back(self) -> Result<(), DriverError> {
        count();
        self.0.roll_back().await
    }
}
