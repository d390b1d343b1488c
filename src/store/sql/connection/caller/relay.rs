//! A request on the connection of an async driver: it is decided on the blocking pool, and hands each of its
//! statements to the future that awaits it, which runs it on the connection.

use std::pin::Pin;
use std::sync::mpsc::{SyncSender, sync_channel};

use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::driver::{AsyncConnection, Dialect, DriverError, Query, Savepoint};
use super::{CallerConnection, answered, told};
use crate::domain::{Error, ErrorKind};
use crate::store::columns::Cell;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Row, Statement, Value, sql};

// What is no connection is told of `CallerConnection`, not of this trait.
#[diagnostic::do_not_recommend]
impl<C: AsyncConnection> CallerConnection for C {
    type Outcome<'c, T>
        = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'c>>
    where
        C: 'c,
        T: 'c;

    fn join<'c, T: Send + 'static>(
        &'c mut self,
        work: impl FnOnce(&mut dyn Session) -> Result<T, Error> + Send + 'static,
    ) -> Self::Outcome<'c, T> {
        Box::pin(join(self, work))
    }
}

/// Runs `work` under a savepoint of the transaction that is open on the connection.
async fn join<C: AsyncConnection, T: Send + 'static>(
    connection: &mut C,
    work: impl FnOnce(&mut dyn Session) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let Ok(runtime) = Handle::try_current() else {
        let message = "a request on an async connection was awaited outside of a tokio runtime";
        return Err(Error::new(ErrorKind::Config, message));
    };
    let dialect = connection.dialect();
    let mut savepoint = connection.save().await.map_err(|error| told(error.fault(dialect)))?;
    let (asks, mut asked) = unbounded_channel();
    let mut relay = Relay { dialect, asks };
    let decision =
        runtime.spawn_blocking(move || answered(|body| dialect.database().within(&mut relay, body), work));
    while let Some(ask) = asked.recv().await {
        run(&mut savepoint, ask, dialect).await;
    }
    match decision.await {
        Ok(Ok(answer)) => {
            savepoint.release().await.map_err(|error| told(error.fault(dialect)))?;
            Ok(answer)
        }
        Ok(Err(error)) => {
            // If that fails the transaction is lost, which the error may say, or the caller's next statement.
            savepoint.roll_back().await.ok();
            Err(error)
        }
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::new(ErrorKind::Unavailable, "the tokio runtime was shut down meanwhile")),
        },
    }
}

/// Runs a statement. Nobody takes the answer of one that was given up.
async fn run(savepoint: &mut impl Savepoint, ask: Ask, dialect: Dialect) {
    let fault = |error: DriverError| error.fault(dialect);
    match ask {
        Ask::Execute(query, answer) => {
            let matched = savepoint.execute(query).await.map_err(fault);
            answer.send(matched.map(|matched| usize::try_from(matched).unwrap_or(usize::MAX))).ok();
        }
        Ask::Rows(query, answer) => {
            let rows = savepoint.rows(query).await.map_err(fault);
            let row = |values: Vec<Value>| Row::new(values.into_iter().map(Cell::from).collect());
            answer.send(rows.map(|rows| rows.into_iter().map(row).collect())).ok();
        }
    }
}

/// A statement, and where its answer goes.
enum Ask {
    Execute(Query, SyncSender<Step<usize>>),
    Rows(Query, SyncSender<Step<Vec<Row>>>),
}

/// The connection, as the decision sees it from its own thread.
struct Relay {
    dialect: Dialect,
    asks: UnboundedSender<Ask>,
}

impl Relay {
    fn ask<A>(&self, statement: &Statement, ask: impl FnOnce(Query, SyncSender<Step<A>>) -> Ask) -> Step<A> {
        let gone = || Fault::new(FaultKind::Lost, "the request was dropped");
        let (answer, answered) = sync_channel(1);
        let query = Query { statement: statement.clone(), dialect: self.dialect };
        self.asks.send(ask(query, answer)).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?
    }
}

impl Session for Relay {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn execute(&mut self, statement: &Statement) -> Step<usize> {
        self.ask(statement, Ask::Execute)
    }

    fn rows(&mut self, statement: &Statement) -> Step<Vec<Row>> {
        self.ask(statement, Ask::Rows)
    }

    fn each(&mut self, question: &Statement, see: &mut dyn FnMut(Row) -> Step<()>) -> Step<()> {
        self.rows(question)?.into_iter().try_for_each(see)
    }

    fn batch(&mut self, text: &str) -> Step<()> {
        self.execute(&sql(text)).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Knows whether its savepoint was released.
    #[derive(Default)]
    struct Connection {
        is_released: AtomicBool,
    }

    impl AsyncConnection for Connection {
        type Savepoint<'s> = Saved<'s>;

        fn dialect(&self) -> Dialect {
            Dialect::Postgres
        }

        async fn save(&mut self) -> Result<Saved<'_>, DriverError> {
            Ok(Saved(self))
        }
    }

    struct Saved<'s>(&'s Connection);

    impl Savepoint for Saved<'_> {
        async fn execute(&mut self, query: Query) -> Result<u64, DriverError> {
            assert_eq!((query.text().as_ref(), query.values()), ("UPDATE t SET a = $1, b = $2", &BINDS[..]));
            Ok(7)
        }

        async fn rows(&mut self, _: Query) -> Result<Vec<Vec<Value>>, DriverError> {
            Err(DriverError::database("40P01", None, "who waits for whom"))
        }

        async fn release(self) -> Result<(), DriverError> {
            self.0.is_released.store(true, Ordering::Relaxed);
            Ok(())
        }

        async fn roll_back(self) -> Result<(), DriverError> {
            Ok(())
        }
    }

    const BINDS: [Value; 2] = [Value::Int(3), Value::NoNumber];

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn statements_run_on_the_connection_and_are_released() {
        let mut connection = Connection::default();
        let update = |session: &mut dyn Session| {
            let update = sql("UPDATE t SET a = ?, b = ?").bind(3_i64).bind(Value::NoNumber);
            session.execute(&update).map_err(told)
        };
        assert_eq!(block_on(join(&mut connection, update)).unwrap(), 7);
        assert!(connection.is_released.load(Ordering::Relaxed));
    }

    #[test]
    fn what_fails_is_rolled_back_and_known_by_its_code() {
        let mut connection = Connection::default();
        let ask = |session: &mut dyn Session| session.rows(&sql("SELECT 1")).map(|_| ()).map_err(told);
        let error = block_on(join(&mut connection, ask)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error:#}");
        assert!(format!("{error:#}").contains("who waits for whom") && !connection.is_released.into_inner());
    }

    #[test]
    fn a_panic_in_a_request_is_its_callers() {
        let mut connection = Connection::default();
        let request =
            join(&mut connection, |_: &mut dyn Session| -> Result<(), Error> { panic!("as asked") });
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| block_on(request)));
        assert!(panicked.is_err() && !connection.is_released.into_inner());
    }

    #[test]
    fn outside_of_a_runtime_nothing_is_done() {
        let mut connection = Connection::default();
        let mut request = pin!(join(&mut connection, |_: &mut dyn Session| Ok(())));
        match request.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Err(error)) => assert_eq!(error.kind(), ErrorKind::Config),
            other => panic!("{other:?}"),
        }
    }
}
