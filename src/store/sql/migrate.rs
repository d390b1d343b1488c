//! The schema's versions: numbered SQL files, run in order, one booting node at a time.
//!
//! PostgreSQL and SQLite run them in one transaction. MariaDB commits at every DDL statement, so there
//! each statement can be repeated, and a version's row in QRTZ_SCHEMA is written last: a crash in between
//! is mended by the next run.
//!
//! On PostgreSQL a version that changes a table begins with the statement that takes the strongest lock on
//! it (ALTER TABLE). Taken later, that lock could wait for a running node's transaction, which waits for a
//! weaker lock that the migration has.

use super::dialect::Dialect;
use super::fault::{Fault, FaultKind, Step};
use super::session::Session;
use super::statement::{single, sql};
use super::target::Target;
use crate::domain::{Error, ErrorKind};
use crate::store::{Result, StoreLimits};

/// A version of the schema, and for each database the SQL that makes it out of the version before: an empty
/// text if nothing changes there.
#[derive(Clone, Copy)]
pub(super) struct Migration<'a> {
    version: i64,
    name: &'a str,
    sqlite: &'a str,
    postgres: &'a str,
    mysql: &'a str,
}

/// In the order of their versions.
pub(super) const MIGRATIONS: &[Migration<'_>] = &[Migration {
    version: 1,
    name: "tables",
    sqlite: include_str!("../../../migrations/sqlite/0001_tables.sql"),
    postgres: include_str!("../../../migrations/postgres/0001_tables.sql"),
    mysql: include_str!("../../../migrations/mysql/0001_tables.sql"),
}];

const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS QRTZ_SCHEMA (version BIGINT NOT NULL PRIMARY KEY, \
     name VARCHAR(100) NOT NULL, applied_time BIGINT NOT NULL)";

/// The schema version this build works with.
pub(crate) const VERSION: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// How long opening a connection and reading the schema's version may take. A migration's own statements have
/// no limit.
const LIMITS: StoreLimits = StoreLimits { call: 60_000, connections: 1, spare: 0 };

/// How often a migration is repeated that met another member's.
const TRIES: usize = 5;

/// What a migration did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationReport {
    /// The schema's version now.
    pub version: i64,
    /// The versions this run added, with their names; empty if there was nothing to do.
    pub applied: Vec<(i64, String)>,
}

impl<'a> Migration<'a> {
    fn statements(&self, dialect: Dialect) -> impl Iterator<Item = &'a str> + use<'a> {
        let text = dialect.choose(self.sqlite, self.postgres, self.mysql);
        text.split(";\n").map(str::trim).filter(|statement| !statement.is_empty())
    }
}

/// Brings the database's schema to this build's version. Several nodes may do so at once.
///
/// # Errors
/// [`ErrorKind::Schema`] if the schema is newer than this build; it is then left as it is.
/// [`ErrorKind::Config`] behind a pooler whose clients share sessions.
pub fn migrate(url: &str) -> Result<MigrationReport> {
    migrate_by(url, MIGRATIONS)
}

fn migrate_by(url: &str, migrations: &[Migration<'_>]) -> Result<MigrationReport> {
    let target = Target::parse(url)?;
    let mut session = target.connect_first(LIMITS).map_err(|fault| failed(&fault))?;
    bring_up(session.as_mut(), migrations).map_err(|fault| failed(&target.clean(fault)))
}

/// Whether the database's schema is the one this build works with.
///
/// # Errors
/// [`ErrorKind::Schema`] if it is missing, older or newer; says which and what to do.
/// [`ErrorKind::Config`] behind a pooler whose clients share sessions.
pub(crate) fn check_schema(url: &str) -> Result<()> {
    let target = Target::parse(url)?;
    if let Some(file) = target.missing_file().map(|file| target.redact(file)) {
        let message =
            format!("there is no database file {file:?}: run `firetime migrate` if it is to be made");
        return Err(Error::new(ErrorKind::Schema, message));
    }
    let mut session = target.connect_first(LIMITS).map_err(|fault| failed(&fault))?;
    let version = installed(session.as_mut()).map_err(|fault| failed(&target.clean(fault)))?;
    fits(version, VERSION).map_err(|message| Error::new(ErrorKind::Schema, message))
}

/// Whether the installed version is the needed one; the error says what to do if not.
fn fits(installed: Option<i64>, needed: i64) -> std::result::Result<(), String> {
    let hint =
        "run `firetime migrate`, call firetime::migrate(url), or let the scheduler migrate at its start";
    match installed {
        Some(version) if version == needed => Ok(()),
        Some(version) if version > needed => Err(newer(version, needed)),
        Some(version) => {
            Err(format!("the database's schema is version {version}, this firetime needs {needed}: {hint}"))
        }
        None => Err(format!(
            "the database has no firetime tables yet, or none that this role may see: {hint}; a role that does \
             not own them has the grants of docs/deployments.md"
        )),
    }
}

fn newer(installed: i64, needed: i64) -> String {
    format!(
        "the database's schema is version {installed}, newer than this firetime's {needed}: use a newer firetime"
    )
}

fn failed(fault: &Fault) -> Error {
    let kind = match fault.kind {
        FaultKind::Lost | FaultKind::Busy => ErrorKind::Unavailable,
        FaultKind::Senseless => return Error::new(ErrorKind::Config, fault.message.as_str()),
        _ => ErrorKind::Schema,
    };
    Error::new(kind, format!("the schema of the database: {}", fault.message))
}

/// Brings a session's database to the last of these versions, under a lock that only one session holds at a
/// time.
pub(super) fn bring_up(session: &mut dyn Session, migrations: &[Migration<'_>]) -> Step<MigrationReport> {
    let database = session.dialect().database();
    database.lift_limits(session)?;
    database.lock_schema(session)?;
    let mut report = apply(session, migrations);
    // The lock is the member's own: on another member of a Galera cluster somebody may do the same.
    for _ in 0..TRIES {
        report = match report {
            Err(fault) if session.certifies() && meets_another(&fault) => apply(session, migrations),
            ended => ended,
        };
    }
    let unlocked = database.unlock_schema(session, report.is_ok());
    report.and_then(|report| unlocked.map(|()| report))
}

/// Whether another session's migration may be in the way, which can be repeated.
fn meets_another(fault: &Fault) -> bool {
    fault.kind.passes() || fault.kind == FaultKind::Duplicate
}

fn apply(session: &mut dyn Session, migrations: &[Migration<'_>]) -> Step<MigrationReport> {
    let dialect = session.dialect();
    let last = migrations.last().map_or(0, |migration| migration.version);
    let before = installed(session)?.unwrap_or(0);
    if before > last {
        return Err(Fault::new(FaultKind::Refused, newer(before, last)));
    }
    if before < last {
        session.wait();
        session.batch(VERSIONS).map_err(may_not)?;
    }
    let mut applied = Vec::new();
    for migration in migrations.iter().filter(|migration| migration.version > before) {
        for statement in migration.statements(dialect) {
            session.batch(statement).map_err(may_not)?;
        }
        let insert = format!(
            "INSERT INTO QRTZ_SCHEMA (version, name, applied_time) VALUES (?, ?, {})",
            dialect.clock()
        );
        session.execute(&sql(insert).bind(migration.version).bind(migration.name))?;
        applied.push((migration.version, migration.name.to_owned()));
    }
    Ok(MigrationReport { version: last, applied })
}

/// A refusal of what changes the schema, with its likely reason: the database's words may be in any language.
fn may_not(fault: Fault) -> Fault {
    if fault.kind != FaultKind::Refused {
        return fault;
    }
    let message = format!(
        "{} (if this role may not change the schema, run `firetime migrate` as the role that owns the tables)",
        fault.message
    );
    Fault::new(fault.kind, message)
}

/// The version in QRTZ_SCHEMA; `None` without that table or a row in it.
fn installed(session: &mut dyn Session) -> Step<Option<i64>> {
    let exists = sql(session.dialect().schema_table());
    if single(session.rows(&exists)?)? == 0 {
        return Ok(None);
    }
    let version =
        single(session.rows(&sql("SELECT COALESCE(MAX(version), 0) AS version FROM QRTZ_SCHEMA"))?)?;
    Ok((version > 0).then_some(version))
}

#[cfg(test)]
mod tests;
