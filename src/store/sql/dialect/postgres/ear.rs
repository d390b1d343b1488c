//! Listening to notifications.

use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::pg::PgNotification;
use diesel::{PgConnection, QueryResult};

use super::driver::establish;
use super::faults::fault;
use crate::domain::{Error, Millis};
use crate::store::news::{Ear, Ends, News};
use crate::store::sql::connection::target::Target;
use crate::store::sql::dialect::STAYS_WHILE_IDLE;
use crate::store::sql::poll::news::{CHANNEL, note_ends, notified};
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::{Result, StoreLimits};
use crate::time::span;

/// libpq tells of what has arrived, and offers nothing to wait on.
const LOOKS_EVERY: Millis = 10;

pub(super) struct PgEar {
    connection: PgConnection,
    target: Target,
    application: String,
    ends: Ends,
}

/// An ear that has heard a notification of its own.
pub(super) fn listen(target: &Target, limits: StoreLimits, application: &str) -> Step<Box<dyn Ear>> {
    // Before the call is given up with its thread.
    let wait = span(limits.call / 4 * 3);
    target.hosts.first(wait, |address, wait, _| {
        let (target, address, application) = (target.clone(), address.to_owned(), application.to_owned());
        target.reach.clone().open(None, wait, move || {
            let mut connection = establish(&target, &address)?;
            prove(&mut connection, limits.call).map_err(|fault| target.clean(fault))?;
            let ends = Ends::default();
            Ok(Box::new(PgEar { connection, target, application, ends }) as Box<dyn Ear>)
        })
    })
}

fn prove(connection: &mut PgConnection, call: Millis) -> Step<()> {
    let own = format!("hello:{}", uuid::Uuid::new_v4());
    connection
        .batch_execute(&format!(
            "SET statement_timeout = {}; {STAYS_WHILE_IDLE}; LISTEN {CHANNEL}; \
             SELECT pg_notify('{CHANNEL}', '{own}')",
            call.max(1)
        ))
        .map_err(fault)?;
    let notified: Vec<PgNotification> =
        connection.notifications_iter().collect::<QueryResult<_>>().map_err(fault)?;
    if notified.iter().any(|it| it.payload == own) {
        return Ok(());
    }
    Err(Fault::new(FaultKind::Refused, "a notification to ourselves did not arrive: is there a pooler?"))
}

impl PgEar {
    fn error(&self, fault: Fault) -> Error {
        let (kind, follows) = (fault.kind.error_kind(), fault.kind.follows());
        self.target.clean(fault).error(kind, follows)
    }

    fn arrived(&mut self) -> Step<News> {
        let Self { connection, application, ends, .. } = self;
        connection.notifications_iter().try_fold(News::default(), |news, it| {
            let payload = it.map_err(fault)?.payload;
            note_ends(&payload, application, ends);
            Ok(news.and(notified(&payload, application)))
        })
    }
}

impl Ear for PgEar {
    #[expect(clippy::disallowed_methods, reason = "nobody can wake it sooner: a call ends within `wait`")]
    fn hear(&mut self, wait: Millis) -> Result<News> {
        for _ in 0..=wait / LOOKS_EVERY {
            let news = self.arrived().map_err(|fault| self.error(fault))?;
            if !news.is_none() || !self.ends.is_none() {
                return Ok(news);
            }
            std::thread::sleep(Duration::from_millis(LOOKS_EVERY.unsigned_abs()));
        }
        Ok(News::default())
    }

    fn take_ends(&mut self) -> Ends {
        std::mem::take(&mut self.ends)
    }

    fn check(&mut self) -> Result<()> {
        self.connection.batch_execute("SELECT 1").map_err(|error| self.error(fault(error)))
    }
}
