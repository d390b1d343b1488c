//! A session whose statements are given up after a time.
//!
//! MariaDB's client waits for ever on a network that has gone silent, PostgreSQL's behind a proxy that is
//! still there. So the session lives on a thread of its own and is left behind with it: the caller goes on,
//! and so does the pool, with another connection. A node's loops need no such session: they give up whole
//! store calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam::channel::{RecvTimeoutError, Sender, bounded};

use super::reach::spawn;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Row, Statement};

/// Sessions left behind at once. The kernel gives most of them up within a quarter of an hour.
const MOST_GIVEN_UP: usize = 512;

type Errand = Box<dyn FnOnce(&mut dyn Session) + Send>;

pub(crate) struct Watched {
    dialect: Dialect,
    certifies: bool,
    /// None once a statement was given up: nobody waits for the session any more.
    errands: Option<Sender<Errand>>,
    /// How long a statement may take; [`Duration::MAX`] for ever.
    limit: Duration,
    given_up: Arc<AtomicUsize>,
}

impl Watched {
    /// `given_up` counts the sessions left behind. With too many of them none is taken in any more.
    pub(crate) fn over(
        mut session: Box<dyn Session + Send>,
        limit: Duration,
        given_up: &Arc<AtomicUsize>,
    ) -> Step<Self> {
        if given_up.load(Ordering::Relaxed) >= MOST_GIVEN_UP {
            let message =
                format!("{MOST_GIVEN_UP} statements hang already; nothing new is tried until one returns");
            return Err(Fault::new(FaultKind::Lost, message));
        }
        let (dialect, certifies) = (session.dialect(), session.certifies());
        let (errands, todo) = bounded::<Errand>(1);
        let work = move || {
            for errand in todo {
                errand(session.as_mut());
            }
        };
        spawn("firetime-session", work)?;
        Ok(Self { dialect, certifies, errands: Some(errands), limit, given_up: Arc::clone(given_up) })
    }

    fn ask<T: Send + 'static>(
        &mut self,
        ask: impl FnOnce(&mut dyn Session) -> Step<T> + Send + 'static,
    ) -> Step<T> {
        let lost = |message: String| Fault::new(FaultKind::Lost, message);
        let Some(errands) = &self.errands else { return Err(lost("the session was given up".to_owned())) };
        // An answer that comes too late finds nobody: that is how the thread learns that it was given up.
        let (reply, answer) = bounded(0);
        let given_up = Arc::clone(&self.given_up);
        let errand: Errand = Box::new(move |session| {
            if reply.send(ask(session)).is_err() {
                given_up.fetch_sub(1, Ordering::Relaxed);
            }
        });
        // Where the thread is gone, the errand is dropped, and the reply with it.
        errands.send(errand).ok();
        let ended = match answer.recv_timeout(self.limit) {
            Ok(answer) => return answer,
            Err(ended) => ended,
        };
        self.errands = None;
        Err(lost(match ended {
            RecvTimeoutError::Timeout => {
                self.given_up.fetch_add(1, Ordering::Relaxed);
                format!("no answer within {:?}; the statement was given up", self.limit)
            }
            RecvTimeoutError::Disconnected => "the session's thread panicked".to_owned(),
        }))
    }
}

impl Session for Watched {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn execute(&mut self, statement: &Statement) -> Step<usize> {
        let statement = statement.clone();
        self.ask(move |session| session.execute(&statement))
    }

    fn rows(&mut self, statement: &Statement) -> Step<Vec<Row>> {
        let statement = statement.clone();
        self.ask(move |session| session.rows(&statement))
    }

    /// All rows at once.
    fn each(&mut self, question: &Statement, see: &mut dyn FnMut(Row) -> Step<()>) -> Step<()> {
        self.rows(question)?.into_iter().try_for_each(see)
    }

    fn batch(&mut self, text: &str) -> Step<()> {
        let text = text.to_owned();
        self.ask(move |session| session.batch(&text))
    }

    fn certifies(&self) -> bool {
        self.certifies
    }

    fn wait(&mut self) {
        self.limit = Duration::MAX;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::store::columns::Cell;
    use crate::store::sql::session::statement::sql;

    const SHORT: Duration = Duration::from_millis(50);

    /// Answers when it is told to.
    struct Silent(Receiver<()>);

    impl Session for Silent {
        fn dialect(&self) -> Dialect {
            Dialect::Mysql
        }

        fn execute(&mut self, _: &Statement) -> Step<usize> {
            self.0.recv().ok();
            Ok(7)
        }

        fn rows(&mut self, _: &Statement) -> Step<Vec<Row>> {
            Ok(vec![Row::new(vec![Cell::Int(1)]), Row::new(vec![Cell::Int(2)])])
        }

        fn each(&mut self, _: &Statement, _: &mut dyn FnMut(Row) -> Step<()>) -> Step<()> {
            Ok(())
        }

        fn batch(&mut self, _: &str) -> Step<()> {
            panic!("out of a client library")
        }
    }

    fn watched(limit: Duration, given_up: &Arc<AtomicUsize>) -> (std::sync::mpsc::Sender<()>, Step<Watched>) {
        let (speak, hear) = channel();
        (speak, Watched::over(Box::new(Silent(hear)), limit, given_up))
    }

    #[test]
    fn a_statement_that_hangs_is_given_up_with_its_session_until_it_returns() {
        let given_up = Arc::new(AtomicUsize::new(0));
        let (speak, session) = watched(SHORT, &given_up);
        let mut session = session.unwrap();
        let mut seen = 0;
        session.each(&sql("SELECT"), &mut |mut row| row.int().map(|n| seen += n)).unwrap();
        assert_eq!(seen, 3);
        let fault = session.execute(&sql("UPDATE")).unwrap_err();
        assert_eq!((fault.kind, given_up.load(Ordering::Relaxed)), (FaultKind::Lost, 1));
        assert!(fault.message.contains("no answer within 50ms"), "{fault:?}");
        assert!(session.rows(&sql("SELECT")).unwrap_err().message.contains("given up"));
        speak.send(()).unwrap();
        while given_up.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn whoever_says_so_waits() {
        let given_up = Arc::new(AtomicUsize::new(0));
        let (speak, session) = watched(Duration::ZERO, &given_up);
        let mut session = session.unwrap();
        session.wait();
        speak.send(()).unwrap();
        assert_eq!(session.execute(&sql("ALTER")).unwrap(), 7);
    }

    #[test]
    fn a_panic_is_a_lost_session() {
        let (_speak, session) = watched(Duration::from_secs(20), &Arc::default());
        let mut session = session.unwrap();
        for _ in 0..2 {
            assert_eq!(session.batch("SET").unwrap_err().kind, FaultKind::Lost);
        }
    }

    #[test]
    fn no_more_than_so_many_are_left_behind() {
        let (_speak, session) = watched(SHORT, &Arc::new(AtomicUsize::new(MOST_GIVEN_UP)));
        assert!(session.err().unwrap().message.contains("hang already"));
    }
}
