//! Handlers that write into a table of the application's and complete in the same transaction.

use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use firetime::{Answer, CallerConnection, Context, Error, HandlerError, Receipt};

use super::job::true_time;
use crate::support::node::URL;

/// How a handler goes on behind its completion.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Honest,
    /// It has committed, and says that it has failed.
    Fails,
    /// It has committed, and answers as if there had been no transaction.
    Done,
    /// It rolls back, and answers with the receipt.
    RollsBack,
    /// It makes its transaction anew, as if it had heard nothing of the first one's end.
    Again,
}

impl Way {
    const ALL: [Self; 5] = [Self::Honest, Self::Fails, Self::Done, Self::RollsBack, Self::Again];
}

pub fn pay(context: &Context, step: Duration) -> Result<Answer, HandlerError> {
    let url = std::env::var(URL)?;
    let place = usize::try_from(context.execution().get())? % Way::ALL.len();
    let way = Way::ALL[place];
    #[cfg(feature = "sqlite")]
    if let Some(file) = url.strip_prefix("sqlite:") {
        let mut connection = SqliteConnection::establish(file)?;
        connection.batch_execute("PRAGMA busy_timeout = 10000")?;
        return paid(&mut connection, context, way, step);
    }
    #[cfg(feature = "postgres")]
    if url.starts_with("postgres") {
        return paid(&mut PgConnection::establish(&url)?, context, way, step);
    }
    #[cfg(feature = "mysql")]
    if url.starts_with("mysql") {
        return paid(&mut MysqlConnection::establish(&url)?, context, way, step);
    }
    Err(format!("no driver for {url}").into())
}

fn paid<C>(connection: &mut C, context: &Context, way: Way, step: Duration) -> Result<Answer, HandlerError>
where
    C: Connection + 'static + for<'c> CallerConnection<Outcome<'c, Receipt> = Result<Receipt, Error>>,
{
    let receipt = transaction(connection, context, way == Way::RollsBack, step)?;
    if way == Way::Again {
        drop(transaction(connection, context, false, step)?);
    }
    match way {
        Way::Fails => Err("after its commit".into()),
        Way::Done => Ok(Answer::Done),
        Way::Honest | Way::RollsBack | Way::Again => Ok(receipt.into()),
    }
}

/// A process may be killed before and behind each statement: the sleeps stand for a handler's own work.
fn transaction<C>(
    connection: &mut C,
    context: &Context,
    rolls_back: bool,
    step: Duration,
) -> Result<Receipt, HandlerError>
where
    C: Connection + 'static + for<'c> CallerConnection<Outcome<'c, Receipt> = Result<Receipt, Error>>,
{
    let mut receipt = None;
    let ended = connection.transaction(|connection| {
        let (execution, fence, at) = (context.execution(), context.fence(), true_time());
        let values = format!("({execution}, {fence}, {at})");
        connection
            .batch_execute(&format!("INSERT INTO chaos_effect (execution, fence, at) VALUES {values}"))?;
        std::thread::sleep(step);
        receipt = Some(context.complete_in(connection)?);
        std::thread::sleep(step);
        if rolls_back { Err(HandlerError::from("rolled back")) } else { Ok(()) }
    });
    std::thread::sleep(step);
    if !rolls_back {
        ended?;
    }
    receipt.ok_or_else(|| "it has not completed".into())
}
