//! What all pages have around them.

use super::access::role::Role;
use super::asked::Asked;
use super::web::query::Query;
use super::web::said::Said;
use super::words::zone::{self, ZonePick};

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
    /// Whether they can log out.
    pub(super) has_session: bool,
    /// What whoever asks may do: forms for more are not shown.
    pub(super) role: Role,
    /// Whether the database takes no changes.
    pub(super) is_standby: bool,
    /// Whether it stays as it is, whatever changes.
    is_still: bool,
    /// What forms must repeat.
    pub(super) token: String,
    /// Where forms lead back to.
    pub(super) back: String,
    /// What the change before it did.
    pub(super) said: Option<Said>,
    /// The zone that was picked.
    zone: ZonePick,
    /// What the address asks for beside the zone.
    asks: Query,
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
            has_session: asked.has_session,
            role: asked.role,
            is_standby: asked.is_standby,
            is_still: false,
            token: asked.token.as_str().to_owned(),
            back: asked.here(),
            said: asked.said.clone(),
            zone: asked.zone,
            asks: asked.query.clone().without("zone"),
        }
    }

    /// The same of a page that stays as it is, whatever changes.
    pub(super) fn still(self, is_still: bool) -> Self {
        Self { is_still, ..self }
    }

    /// Whether nothing can be changed from here.
    pub(super) fn only_shows(&self) -> bool {
        self.role == Role::Viewer
    }

    /// The zone that times are in.
    pub(super) fn zone(&self) -> &'static str {
        zone::shown().name()
    }

    /// The word for the zone that was picked.
    pub(super) fn picked_zone(&self) -> &'static str {
        self.zone.name()
    }

    /// Words for zones to pick from; any other name may be written.
    pub(super) fn zones(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(zone::OF_SCHEDULE).chain(zone::COMMON)
    }

    /// What a form must repeat that picks another zone.
    pub(super) fn asks(&self) -> &[(String, String)] {
        self.asks.pairs()
    }

    /// Whether it says what there is now, and may be kept up to date.
    pub(super) fn is_live(&self) -> bool {
        let page = self.back.split('?').next().unwrap_or_default();
        let others = ["schedule", "execution"];
        let is_page = others.contains(&page) || self.pages().iter().any(|(_, to)| *to == page);
        is_page && !self.is_still
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
