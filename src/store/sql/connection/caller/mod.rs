//! Connections of the application's own, whose transaction a request joins.

#[cfg(any(all(feature = "sqlx", feature = "postgres"), feature = "tokio-postgres"))]
mod binary;
mod blocking;
#[cfg(all(feature = "diesel-async", any(feature = "postgres", feature = "mysql")))]
mod diesel_async;
#[cfg(feature = "tokio")]
pub mod driver;
#[cfg(feature = "tokio")]
mod relay;
#[cfg(feature = "sqlx")]
mod sqlx;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;

use crate::domain::{Error, ErrorKind};
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::{Session, Work};

/// A database connection of the application's own.
///
/// What a request changes on it, such as an execution that it enqueues, belongs to the transaction open on
/// it: it appears with everything else the transaction does, or not at all. The connection must lead to the
/// database firetime uses, with firetime's tables found without a prefix.
///
/// Implemented for
/// * diesel's `SqliteConnection`, `PgConnection` and `MysqlConnection`, and for these in diesel's own pool
///   (`diesel::r2d2`). Without an open transaction the request has one of its own. Begin yours with diesel's
///   `transaction`: a request refuses one that diesel does not know of, as `BEGIN` in a text or
///   `autocommit = 0` make one, with [`ErrorKind::Config`], and leaves it open.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no database connection that firetime can work on",
    label = "not a connection of a driver that is switched on",
    note = "give it diesel's `SqliteConnection`, `PgConnection` or `MysqlConnection`, `&mut *transaction` \
            of SQLx (feature `sqlx`), a transaction of tokio-postgres (feature `tokio-postgres`) or a \
            connection of diesel-async (feature `diesel-async`), and switch its database on: `sqlite`, \
            `postgres`, `mysql`"
)]
#[cfg_attr(
    feature = "tokio",
    doc = "* every [`AsyncConnection`](crate::driver::AsyncConnection), such as those of SQLx, where `run_in`
  answers with a future. A connection without an open transaction is refused with [`ErrorKind::Config`]."
)]
pub trait CallerConnection {
    /// What a request answers with: a `Result`; with an async driver, a future of it.
    type Outcome<'c, T>
    where
        Self: 'c,
        T: 'c;

    #[doc(hidden)]
    fn join<'c, T: Send + 'static>(
        &'c mut self,
        work: impl FnOnce(&mut dyn Session) -> Result<T, Error> + Send + 'static,
    ) -> Self::Outcome<'c, T>;
}

type Pooled<C> = diesel::r2d2::PooledConnection<diesel::r2d2::ConnectionManager<C>>;

impl<C: CallerConnection + diesel::r2d2::R2D2Connection + 'static> CallerConnection for Pooled<C> {
    type Outcome<'c, T>
        = C::Outcome<'c, T>
    where
        T: 'c;

    fn join<'c, T: Send + 'static>(
        &'c mut self,
        work: impl FnOnce(&mut dyn Session) -> Result<T, Error> + Send + 'static,
    ) -> C::Outcome<'c, T> {
        (**self).join(work)
    }
}

/// Runs the work of a request between the begin and the end of its part of a transaction, as `within` does;
/// it is undone if the work fails.
fn answered<T>(
    within: impl FnOnce(Work<'_>) -> Step<()>,
    work: impl FnOnce(&mut dyn Session) -> Result<T, Error>,
) -> Result<T, Error> {
    let (mut work, mut answer) = (Some(work), None);
    let ended = within(&mut |session| {
        let Some(work) = work.take() else { return Ok(()) };
        let result = work(session);
        let failed = result.as_ref().err().map(|error| Fault::new(FaultKind::Refused, error.to_string()));
        answer = Some(result);
        failed.map_or(Ok(()), Err)
    });
    match (answer, ended) {
        (Some(Ok(answer)), Ok(())) => Ok(answer),
        (Some(Err(error)), _) => Err(error),
        (_, Err(fault)) => Err(told(fault)),
        (None, Ok(())) => Err(told(Fault::new(FaultKind::Refused, "the transaction did not run"))),
    }
}

/// What a caller is told of a fault in a transaction of theirs. A deadlock has rolled all of it back: the
/// request alone, made again, would be committed without what came before it.
pub(crate) fn told(fault: Fault) -> Error {
    let (kind, follows) = match fault.kind {
        FaultKind::Conflict | FaultKind::Deadlock | FaultKind::Ended => {
            (ErrorKind::Conflict, "a row has changed since your transaction began; roll back and try again")
        }
        FaultKind::TakenId => {
            let advice =
                "an id that the database drew is taken; set the table's sequence above its highest id";
            (FaultKind::TakenId.error_kind(), advice)
        }
        kind => (kind.error_kind(), kind.follows()),
    };
    fault.error(kind, &format!("in your transaction: {follows}"))
}
