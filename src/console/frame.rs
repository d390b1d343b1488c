//! What all pages have around them.

use super::asked::Asked;
use super::said::Said;

/// The frame of a page.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// The way up to the console's first page.
    pub(super) root: String,
    /// The page's title, without the application's name.
    pub(super) title: String,
    /// The page in the rail that this one belongs to.
    pub(super) here: &'static str,
    pub(super) application: String,
    /// Who asks.
    pub(super) user: Option<String>,
    /// Whether forms that change something are shown.
    pub(super) may_change: bool,
    /// What forms must repeat.
    pub(super) token: String,
    /// Where forms lead back to.
    pub(super) back: String,
    /// What the change before it did.
    pub(super) said: Option<Said>,
}

impl Frame {
    pub(super) fn new(
        asked: &Asked,
        application: &str,
        here: &'static str,
        title: impl Into<String>,
    ) -> Self {
        Self {
            root: asked.root(),
            title: title.into(),
            here,
            application: application.to_owned(),
            user: asked.user.clone(),
            may_change: asked.may_change,
            token: asked.token.as_str().to_owned(),
            back: asked.here(),
            said: asked.said.clone(),
        }
    }

    /// Says of a link in the rail that it is this page.
    pub(super) fn current(&self, page: &str) -> bool {
        self.here == page
    }

    /// The pages in the rail.
    pub(super) fn pages(&self) -> [(&'static str, &'static str); 6] {
        [
            ("Now", "now"),
            ("Schedules", "schedules"),
            ("Executions", "executions"),
            ("Jobs and lanes", "jobs"),
            ("Nodes", "nodes"),
            ("Audit", "audit"),
        ]
    }
}
