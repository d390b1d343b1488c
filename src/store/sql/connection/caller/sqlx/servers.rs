//! Sessions of servers, whose savepoints are SQLx's own: dropped, they queue their rollback.

use std::mem::forget;
use std::pin::Pin;
use std::task::{Context, Poll};

use sqlx::Transaction;

/// A savepoint of a server's session.
pub struct Client<'s, Db: sqlx::Database>(pub(super) Transaction<'s, Db>);

/// A `begin` that is never dropped halfway. SQLx would roll back the transaction around it, whose `commit`
/// then does nothing and reports success. Its memory is leaked instead, and a savepoint stays that has
/// nothing under it.
pub(super) struct Whole<F>(pub(super) Option<F>);

impl<F: Future + Unpin> Future for Whole<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Some(future) = &mut self.0 else { return Poll::Pending };
        let polled = Pin::new(future).poll(context);
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

impl<F> Drop for Whole<F> {
    fn drop(&mut self) {
        forget(self.0.take());
    }
}

/// Makes the connection to a server an async connection: `$bound`, `$value` and `$code` are those of its
/// [`statements`](super::statements).
macro_rules! client {
    ($Connection:ty, $Db:ty, $database:ident, $bound:path, $value:path, $code:path) => {
        impl AsyncConnection for $Connection {
            type Savepoint<'s> = Client<'s, $Db>;

            fn dialect(&self) -> Dialect {
                Dialect::$database
            }

            async fn save(&mut self) -> Result<Client<'_, $Db>, DriverError> {
                begun(self.is_in_transaction())?;
                let transaction = Whole(Some(self.begin())).await;
                transaction.map(Client).map_err(|error| told(error, $code))
            }
        }

        transactions!($Db, $database);

        impl Client<'_, $Db> {
            fn connection(&mut self) -> &mut $Connection {
                &mut self.0
            }
        }

        impl Savepoint for Client<'_, $Db> {
            statements!($bound, $value, $code);

            async fn release(self) -> Result<(), DriverError> {
                self.0.commit().await.map_err(|error| told(error, $code))
            }

            async fn roll_back(self) -> Result<(), DriverError> {
                self.0.rollback().await.map_err(|error| told(error, $code))
            }
        }
    };
}

pub(super) use client;
