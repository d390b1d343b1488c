//! Drain: a node claims nothing more and ends what it has.

use super::{check, request};
use crate::api::{Client, Target, target};
#[cfg(doc)]
use crate::domain::ErrorKind;
use crate::domain::{Activity, Error};
use crate::store::Verbs;
use crate::store::switch::{Scope, SwitchOrder, SwitchVerb, Switched};

request! {
    /// Drains a node: once it hears of that it claims nothing more, hands back the executions that wait for a
    /// thread, and lets running handlers end. Made by [`Client::drain`].
    ///
    /// Once it has nothing left, [`Client::nodes`] shows it as `drained`, and it can be stopped without
    /// anybody waiting; others have taken its place long before. [`Client::resume`] lets it claim again.
    ///
    /// ```
    /// use firetime::{Client, Draining, Job, Scheduler};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// const REPORT: Job<()> = Job::new("report");
    /// let scheduler = Scheduler::builder("shop", &url).handler(REPORT, |_, ()| Ok(())).start()?;
    /// let client = Client::connect("shop", &url)?;
    /// let node = scheduler.node().to_string();
    /// assert_eq!(client.drain(&node).reason("new kernel").run()?, Draining::Begun);
    /// assert_ne!(client.drain(&node).run()?, Draining::Begun);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Drain { node: String } -> Draining
}

impl Client {
    /// Drains the node of this id: it claims nothing more, hands back what waits, and ends what runs.
    pub fn drain(&self, node: &str) -> Drain<'_> {
        Drain { client: self, node: node.to_owned(), by: self.attribution() }
    }
}

impl Drain<'_> {
    /// Runs the request. A paused node drains, too.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the actor or the reason is too long or has control characters, or if no node
    /// can have this id; [`ErrorKind::NotFound`] if no such node lives in the application; or the database's
    /// failure.
    pub fn run(self) -> Result<Draining, Error> {
        let answer = self.over(&*self.client.store)?;
        if answer == Draining::Begun {
            self.client.announce_switch();
        }
        Ok(answer)
    }

    fn over(&self, verbs: &dyn Verbs) -> Result<Draining, Error> {
        check(&self.by)?;
        let scope = Scope::Node(target::node(&self.node)?);
        let (application, by) = (self.client.application.clone(), self.by.clone());
        match verbs.switch(&SwitchOrder { application, scope, verb: SwitchVerb::Drain, by })? {
            Switched::Done => Ok(Draining::Begun),
            Switched::Already(Activity::Drained) => Ok(Draining::Drained),
            Switched::Already(_) => Ok(Draining::UnderWay),
            Switched::Unknown => Err(self.client.unknown_target(&Target::node(&self.node))),
        }
    }
}

/// The answer to a [`Drain`](crate::request::Drain).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Draining {
    /// The node will drain.
    Begun,
    /// Somebody had told it to before, and it still has something.
    UnderWay,
    /// It has nothing left.
    Drained,
}
