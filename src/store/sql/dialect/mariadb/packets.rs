//! A session that sends no statement larger than the server takes. The server closes the connection for one,
//! and its reason mostly does not arrive: it would look like a server that cannot be reached.

use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Row, Statement, Value};

pub(super) struct PacketSession<S> {
    pub(super) session: S,
    /// The server's `max_allowed_packet`, which stays as it is while the session lasts.
    pub(super) most: usize,
}

impl<S> PacketSession<S> {
    fn fits(&self, statement: &Statement) -> Step<()> {
        let size = packet(statement);
        if size <= self.most {
            return Ok(());
        }
        let message = format!(
            "a statement of {size} bytes is more than the server's max_allowed_packet of {}: raise that, or \
             ask for less at once",
            self.most
        );
        Err(Fault::new(FaultKind::Row, message))
    }
}

/// The size of the larger packet of a prepared statement: one has its text, the other its values, each with
/// its type and its length.
fn packet(statement: &Statement) -> usize {
    const HEAD: usize = 16;
    let value = |value: &Value| match value {
        Value::Text(text) => text.len() + HEAD,
        _ => HEAD,
    };
    statement.text.len().max(statement.binds.iter().map(value).sum()) + HEAD
}

impl<S: Session> Session for PacketSession<S> {
    fn dialect(&self) -> Dialect {
        self.session.dialect()
    }

    fn execute(&mut self, statement: &Statement) -> Step<usize> {
        self.fits(statement)?;
        self.session.execute(statement)
    }

    fn rows(&mut self, statement: &Statement) -> Step<Vec<Row>> {
        self.fits(statement)?;
        self.session.rows(statement)
    }

    fn each(&mut self, question: &Statement, see: &mut dyn FnMut(Row) -> Step<()>) -> Step<()> {
        self.fits(question)?;
        self.session.each(question, see)
    }

    fn batch(&mut self, text: &str) -> Step<()> {
        self.session.batch(text)
    }
}
