//! Glances, and the notifications of PostgreSQL.

use crate::domain::ExecutionId;
use crate::store::audit::{ASKED_TO_CANCEL, CANCEL};
use crate::store::news::{Ends, Glance, GlanceQuery, Marks, News};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::{Fault, Step};
use crate::store::sql::session::statement::{Statement, sql};

/// The channel of all applications of a database. A notification's payload is what it is about, and the
/// application.
pub(crate) const CHANNEL: &str = "firetime";

const WORK_WORD: &str = "work";
const CANCEL_WORD: &str = "cancel";
const MEMBERS_WORD: &str = "members";
/// The trigger of QRTZ_REQUEST says it.
const REQUEST_WORD: &str = "request";
const AWAIT_WORD: &str = "await";
const ENDED_WORD: &str = "ended";

/// Ends the list of columns that an INSERT or UPDATE returns: its commit tells the application's nodes of
/// this, if commits of its session tell.
pub(crate) fn tell(tells: bool, news: News, change: Statement, application: &str) -> Statement {
    let word = match news {
        News { members: true, .. } => MEMBERS_WORD,
        News { cancel: true, .. } => CANCEL_WORD,
        _ => WORK_WORD,
    };
    if !tells || news.is_none() {
        return change;
    }
    change
        .push(&format!(", CAST(pg_notify('{CHANNEL}', ?) AS TEXT) AS told"))
        .bind(format!("{word}:{application}"))
}

/// Tells of a change that is no INSERT.
pub(crate) fn tell_of(session: &mut dyn Session, news: News, application: &str) -> Step<()> {
    if session.tells() && !news.is_none() {
        session.rows(&tell(true, news, sql("SELECT 1 AS one"), application))?;
    }
    Ok(())
}

/// The most executions of one notification, whose payload has less than 8,000 bytes.
const IDS: usize = 300;

/// Tells the application's nodes that somebody waits for the ends of these.
pub(crate) fn tell_awaited(
    session: &mut dyn Session,
    application: &str,
    executions: &[ExecutionId],
) -> Step<()> {
    tell_ids(session, executions, |ids| format!("{AWAIT_WORD}:{ids}:{application}"))
}

/// Tells those who wait that runs of these have ended.
pub(crate) fn tell_ended(session: &mut dyn Session, executions: &[ExecutionId]) -> Step<()> {
    tell_ids(session, executions, |ids| format!("{ENDED_WORD}:{ids}"))
}

fn tell_ids(
    session: &mut dyn Session,
    executions: &[ExecutionId],
    payload: impl Fn(&str) -> String,
) -> Step<()> {
    if !session.dialect().notifies() {
        return Ok(());
    }
    for some in executions.chunks(IDS) {
        let ids: Vec<String> = some.iter().map(ToString::to_string).collect();
        let notify = format!("SELECT CAST(pg_notify('{CHANNEL}', ?) AS TEXT) AS told");
        session.rows(&sql(notify).bind(payload(&ids.join(","))))?;
    }
    Ok(())
}

/// Adds what a notification says of executions that somebody waits for.
#[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only PostgreSQL notifies"))]
pub(crate) fn note_ends(payload: &str, application: &str, ends: &mut Ends) {
    let ids =
        |text: &str| text.split(',').filter_map(|id| id.parse().ok().map(ExecutionId)).collect::<Vec<_>>();
    match payload.split_once(':') {
        Some((ENDED_WORD, ended)) => ends.ended.extend(ids(ended)),
        Some((AWAIT_WORD, rest)) => match rest.split_once(':') {
            Some((awaited, name)) if name == application => ends.awaited.extend(ids(awaited)),
            _ => {}
        },
        _ => {}
    }
}

/// What a notification says to this application's nodes.
#[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only PostgreSQL notifies"))]
pub(crate) fn notified(payload: &str, application: &str) -> News {
    let is = |word: &str| payload.split_once(':') == Some((word, application));
    News {
        work: is(WORK_WORD),
        cancel: is(CANCEL_WORD),
        members: is(MEMBERS_WORD),
        request: is(REQUEST_WORD),
    }
}

pub(crate) fn glance(session: &mut dyn Session, query: &GlanceQuery) -> Step<Glance> {
    let row = session.rows(&question(session.dialect(), query))?.pop();
    let mut row = row.ok_or_else(|| Fault::undecodable("a glance without an answer".to_owned()))?;
    let (run, audit, request) = (row.int()?, row.int()?, row.int()?);
    let marks = Marks { run, audit, request, told: row.loose_instant()? };
    let (work, cancel, request) = (row.int()? == 1, row.int()? == 1, row.int()? == 1);
    Ok(Glance { marks, news: News { work, cancel, request, members: marks.told > query.after.told } })
}

/// The marks, and whether there is news behind the last ones.
pub(crate) fn question(dialect: Dialect, query: &GlanceQuery) -> Statement {
    let (application, Marks { run, audit, request, .. }) = (query.application.as_str(), query.after);
    let (runs, changes) = (dialect.behind("QRTZ_RUN", "r"), dialect.behind("QRTZ_AUDIT", "a"));
    let requests = dialect.behind("QRTZ_REQUEST", "q");
    sql(format!(
        "SELECT COALESCE((SELECT MAX(r.id) FROM QRTZ_RUN r), 0) AS run, \
         COALESCE((SELECT MAX(a.id) FROM QRTZ_AUDIT a), 0) AS audit, \
         COALESCE((SELECT MAX(q.id) FROM QRTZ_REQUEST q), 0) AS request, \
         COALESCE((SELECT MAX(n.told_time) FROM QRTZ_NODE n WHERE n.application = ?), -1) AS told, \
         CASE WHEN EXISTS (SELECT 1 FROM {runs} AND r.application = ? AND r.state = 'PENDING' \
         AND r.attempt = 1 AND r.due_time < ?) OR EXISTS (SELECT 1 FROM {changes} AND a.application = ? \
         AND a.verb <> '{CANCEL}') THEN 1 ELSE 0 END AS work, \
         CASE WHEN EXISTS (SELECT 1 FROM {changes} AND a.application = ? AND a.verb = '{CANCEL}' \
         AND a.became = '{ASKED_TO_CANCEL}') THEN 1 ELSE 0 END AS cancel, \
         CASE WHEN EXISTS (SELECT 1 FROM {requests} AND q.application = ? AND q.state = 'REQUESTED') \
         THEN 1 ELSE 0 END AS asked"
    ))
    .bind(application)
    .bind_all((run, application, query.until, audit, application, audit, application))
    .bind_all((request, application))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_is_for_the_nodes_of_its_application() {
        let news = |payload: &str| notified(payload, "shop");
        assert_eq!(news("work:shop"), News { work: true, ..News::default() });
        assert_eq!(news("cancel:shop"), News { cancel: true, ..News::default() });
        assert_eq!(news("members:shop"), News { members: true, ..News::default() });
        for other in ["work:shop2", "work:", "hello:shop", "shop", "", "work:shop:x"] {
            assert!(news(other).is_none(), "{other}");
        }
        assert_eq!(notified("work:a:b", "a:b"), News { work: true, ..News::default() });
    }

    #[test]
    fn who_waits_and_what_has_ended_is_read_from_notifications() {
        let mut ends = Ends::default();
        for payload in
            ["await:1,2:shop:x", "await:3:shop", "ended:4,5", "ended:", "await:6", "ended:x,7", "work:shop:x"]
        {
            note_ends(payload, "shop:x", &mut ends);
        }
        let ids = |ids: &[i64]| ids.iter().map(|id| ExecutionId(*id)).collect::<Vec<_>>();
        assert_eq!(ends, Ends { awaited: ids(&[1, 2]), ended: ids(&[4, 5, 7]) });
    }
}
