//! The pages of a poll: the questions it asks, and how far it has come.
//!
//! A poll walks over its node's home shards first. The first page asks for all due schedules. If they do not
//! fit, the following pages take an equal share of each section, and beside them the PENDING executions in
//! the order of (due time, id). When the time is over, the next poll goes on where this one stopped: a
//! [`Bookmark`] says where.
//!
//! Behind the last page at home come the late rows of other nodes' shards, if there are any and the node has
//! no backlog of its own.

use std::sync::Arc;

use super::decode::{Decode, Decoders};
use super::home::is_whole;
use super::messages::Covered;
use super::payloads::Payloads;
use super::rows::PolledRows;
use super::sizes::{LEAST_PAGE, OTHERS, PAGE, PATIENCE, POLL_LIMIT};
use crate::domain::{Boot, Entry, Millis, Pending, Timestamp};
use crate::store::{DueRows, Page, PollQuery, Polled};
use crate::time::Now;

/// A PENDING execution's key: its due time and id.
type Key = (Timestamp, i64);

/// The poll under way.
pub(crate) struct Poll {
    /// The tick it began with; `None` for an extra poll.
    pub(super) tick: Option<Timestamp>,
    /// One page of the newest PENDING executions is all it asks for.
    pub(super) is_short: bool,
    /// When it began.
    pub(super) sent: Boot,
    /// When its last call was sent.
    pub(super) called: Boot,
    /// The question that its pages at home have in common, and the page asked for.
    pub(super) query: PollQuery,
    pub(super) stage: Stage,
    pub(super) walk: Walk,
    /// How many rows its pages have read, whether or not they were brought.
    pub(super) rows: usize,
    pub(super) brought: PolledRows,
    pub(super) payloads: Payloads,
    /// The payloads to decode next.
    pub(super) decode: Option<Decode>,
    pub(super) signs: Signs,
}

/// The states of application and node, as the last page showed them.
#[derive(Clone, Copy, Default)]
pub(super) struct Signs {
    pub app: bool,
    pub node: bool,
    /// The node is to hand back what waits.
    pub drains: bool,
    /// The time of some pause is up.
    pub pause_ended: bool,
    pub requested: bool,
    /// Some active job is listed by no live node.
    pub unlisted: bool,
    /// Something is expected of some schedule.
    pub expects: bool,
    pub election: Option<Timestamp>,
    /// Something is late, whatever its shard.
    pub late: bool,
}

impl Signs {
    pub(super) fn of(polled: &Polled) -> Self {
        let Polled { app_enabled: app, node_enabled: node, drains, .. } = *polled;
        let Polled { pause_ended, requested, unlisted, expects, election, late, .. } = *polled;
        Self { app, node, drains, pause_ended, requested, unlisted, expects, election, late }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Pages of the home shards.
    Home,
    /// Pages of the late rows in others' shards.
    Others,
    /// All pages have come: large payloads and decoding follow.
    Over,
}

/// How far a poll has come.
pub(super) struct Walk {
    /// The number of sections at home if the first page did not hold all schedules, and how many no page
    /// has asked for yet.
    sections: usize,
    unasked: usize,
    /// The PENDING executions at home covered so far: those behind the first key, up to the second.
    pendings: (Key, Key),
    /// A first page of the newest PENDING executions covered those behind this key.
    newest: Key,
    /// How many rows came from others' shards.
    helped: usize,
}

impl Walk {
    /// Notes how far the poll has come at home with `page`. Returns the page to ask for next, if there is
    /// one.
    fn reached(&mut self, page: &Page, next: Option<Page>, bookmark: &Bookmark) -> Option<Page> {
        let key = next.as_ref().map_or(Page::END, |page| page.pendings);
        if page.newest && key != Page::END {
            self.newest = key;
        } else {
            self.pendings.1 = if key < self.newest { key } else { Page::END };
        }
        let sections = next.map_or(DueRows::Sections(Vec::new()), |page| page.schedules);
        let mut next = Page { schedules: sections, pendings: self.pendings.1, newest: false };
        match (&page.schedules, &mut next.schedules) {
            (DueRows::All, DueRows::Sections(sections)) if !sections.is_empty() => {
                (self.sections, self.unasked) = (sections.len(), sections.len());
                sections.rotate_left(bookmark.turn % self.sections);
            }
            (DueRows::All, _) => {}
            (DueRows::Sections(_), _) => self.unasked = self.unasked.saturating_sub(bookmark.limit),
        }
        let more = next.pendings != Page::END || next.schedules != DueRows::Sections(Vec::new());
        more.then_some(next)
    }

    pub(super) fn covered(&self) -> Covered {
        Covered { schedules: self.unasked == 0, pendings: self.pendings, newest: self.newest }
    }
}

/// The bookmark that a poll leaves to the next: the size of its pages, and where its walk begins.
pub(super) struct Bookmark {
    /// Rows per page.
    pub limit: usize,
    /// The section with which the next poll that needs sections begins: where the last ran out of time.
    turn: usize,
    /// The PENDING execution behind which the next walk begins.
    walked: Key,
    /// The last walk did not end in one poll: many PENDING executions may be nobody's here. The next poll
    /// brings the newest first, or new ones would wait until the walk reaches them.
    newest_first: bool,
}

impl Bookmark {
    pub(super) fn new() -> Self {
        Self { limit: PAGE, turn: 0, walked: Page::FIRST.pendings, newest_first: false }
    }

    /// The first page of a new walk.
    pub(super) fn first_page(&self) -> Page {
        Page { pendings: self.walked, newest: self.newest_first, ..Page::FIRST }
    }

    /// A poll has failed.
    pub(super) fn failed(&mut self) {
        self.limit = (self.limit / 2).max(LEAST_PAGE);
    }

    /// A poll has ended, and come so far.
    pub(super) fn ended(&mut self, walk: &Walk) {
        self.limit = (2 * self.limit).min(PAGE);
        let (begin, end) = walk.pendings;
        // A poll that had time for nothing but the newest is followed by one that goes on with the walk.
        self.newest_first = begin != end && walk.pendings != (Page::FIRST.pendings, Page::END);
        self.walked = if end == Page::END { Page::FIRST.pendings } else { end };
        self.turn = if walk.unasked == 0 { 0 } else { self.turn.wrapping_add(walk.sections - walk.unasked) };
    }
}

impl Poll {
    /// A poll that has brought nothing yet.
    pub(super) fn new(tick: Option<Timestamp>, sent: Boot, query: PollQuery) -> Self {
        let begin = query.page.pendings;
        let walk = Walk { sections: 0, unasked: 0, pendings: (begin, begin), newest: Page::END, helped: 0 };
        Self {
            tick,
            is_short: false,
            sent,
            called: sent,
            query,
            stage: Stage::Home,
            walk,
            rows: 0,
            brought: PolledRows::default(),
            payloads: Payloads::default(),
            decode: None,
            signs: Signs::default(),
        }
    }

    /// The time that is left of [`PATIENCE`].
    pub(super) fn left(&self, now: Now) -> Millis {
        self.sent + PATIENCE - now.boot
    }

    /// The page asked for is the first: it asks for all due schedules at home.
    pub(super) fn is_first(&self) -> bool {
        self.stage == Stage::Home && self.query.page.schedules == DueRows::All
    }

    /// Takes the rows of a page in, but for those that the poll has brought already, those nobody here can
    /// decode, and misfires, which are repaired.
    pub(super) fn take_in(
        &mut self,
        entries: Vec<Arc<Entry>>,
        pendings: Vec<Pending>,
        decoders: &Decoders,
        is_misfired: impl Fn(&Entry) -> bool,
    ) {
        let (again, others) = (!self.is_first(), self.stage == Stage::Others);
        let Self { query, walk, brought, payloads, .. } = self;
        let is_named = |entry: &Entry| query.names.iter().any(|name| **name == *entry.name);
        let before = brought.count();
        // A large payload that nobody here can decode need not be fetched again.
        let refused = |entry: &Entry| payloads.is_large(entry) && decoders.verdict(entry) == Some(false);
        // Schedules changed here came with the first page, whatever their shard,
        let known = |entry: &Entry| again && is_named(entry);
        let plannable = |entry: &Arc<Entry>| !known(entry) && !refused(entry) && !is_misfired(entry);
        brought.entries.extend(entries.into_iter().filter(plannable));
        // and their PENDING executions with the pages at home. The last page of a walk may reach into the
        // newest.
        let known = |it: &Pending| others && is_named(&it.entry) || (it.due, it.id.0) >= walk.newest;
        let plannable = |it: &Pending| !known(it) && !refused(&it.entry);
        brought.pendings.extend(pendings.into_iter().filter(plannable));
        if others {
            walk.helped += brought.count() - before;
        }
    }

    /// Goes on to the next page, if the last one named it and there is room and time; behind the last page at
    /// home to the late rows of others' shards; and then to the large payloads.
    pub(super) fn follow(&mut self, now: Now, next: Option<Page>, bookmark: &Bookmark) {
        if self.is_short {
            return self.end_pages();
        }
        let at_home = self.stage == Stage::Home;
        let next = if at_home { self.walk.reached(&self.query.page, next, bookmark) } else { next };
        let in_time = self.left(now) > 0;
        // A first page that did not hold all due schedules has brought none: the next follows in any case.
        let overfull = self.walk.sections > 0 && self.is_first();
        let PolledRows { entries, pendings, .. } = &self.brought;
        let planned = entries.len().max(pendings.len());
        // Behind the newest executions of others come those that their owners begin with.
        let helps_on = self.walk.helped < OTHERS && !self.query.page.newest;
        let room = if at_home { planned < POLL_LIMIT } else { helps_on };
        match next {
            Some(page) if room && (in_time || overfull) => self.query.page = page,
            next => {
                if at_home {
                    self.brought.complete = next.is_none();
                    if in_time && self.helps() {
                        // Their owners begin with the longest due. With each tick these are helped first,
                        // else the others, which are still there when the claims come.
                        let newest = self.tick.is_none();
                        (self.stage, self.query.page) = (Stage::Others, Page { newest, ..Page::FIRST });
                        return;
                    }
                } else {
                    self.brought.complete &= next.is_none();
                }
                self.end_pages();
            }
        }
    }

    /// The large payloads follow.
    fn end_pages(&mut self) {
        self.payloads.choose(self.brought.rows());
        self.stage = Stage::Over;
    }

    /// Whether rows of others are late, and the node has time for them.
    fn helps(&self) -> bool {
        let all_here = self.brought.complete && !self.brought.has_backlog(self.query.late);
        self.signs.late && all_here && !is_whole(&self.query.shares)
    }
}

#[cfg(test)]
mod tests;
