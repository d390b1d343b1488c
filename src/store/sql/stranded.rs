//! Executions of nodes that are dead or missing, and how their rows are read.

use super::dialect::Dialect;
use super::fault::Step;
use super::session::Session;
use super::statement::Statement;
use super::under_way::Whose;
use crate::domain::ExecutionId;
use crate::store::StrandedPage;

pub(super) fn stranded(
    session: &mut dyn Session,
    application: &str,
    after: ExecutionId,
    limit: usize,
) -> Step<StrandedPage> {
    session.dialect().database().sweep(session, application, Whose::Nobody)?;
    let (mut stranded, mut brought, mut last) = (Vec::new(), 0, None);
    for mut row in session.rows(&page(session.dialect(), application, after, limit))? {
        (brought, last) = (brought + 1, Some(ExecutionId(row.int()?)));
        stranded.extend(super::node::stranded(&mut row).ok());
    }
    Ok(StrandedPage { stranded, next: last.filter(|_| brought == limit) })
}

/// The id leads the row, so that the page goes on even behind one that cannot be read.
pub(super) fn page(dialect: Dialect, application: &str, after: ExecutionId, limit: usize) -> Statement {
    let all = dialect.database().under_way(application, Whose::Nobody);
    let text = format!(
        "SELECT o.id AS place, o.* FROM ({}) AS o WHERE o.id + 0 > ? ORDER BY o.id + 0 LIMIT ?",
        all.text
    );
    Statement { text, ..all }.bind(after.0).bind(limit)
}
