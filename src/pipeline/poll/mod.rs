//! The poll loop: reads the due schedules and PENDING executions every few seconds, and measures the
//! database's clock on the way.
//!
//! A poll brings the due rows of the node's home shards, page by page. Of others' shards it brings late rows,
//! and those only if the node has no backlog of its own: a live owner works through its rows in the same
//! order, and whoever helps it takes from the same end.
//!
//! Each call of a poll is bounded in rows and in bytes, and a poll has a bounded time. Rows that do not fit
//! are cut off fairly: each job gets its share of pages and of large payloads. A call that fails makes the
//! next poll's pages smaller. At last the poll [decodes](decode) new payloads in the time that is left.
//!
//! While a long poll keeps news waiting, short polls read the newest PENDING executions alone: what may start
//! at once need not wait behind a backlog that is read anew.
//!
//! Between two polls it asks for news, where nobody tells: others' changes that the next poll should not wait
//! for.
//!
//! This file has the machine. Its decisions have files of their own: when polls begin (`grid`), with which
//! fire time (`skipping`), when it asks for news (`glances`), whose schedules polls ask for (`home`), how
//! they walk over their pages (`pages`), and which large payloads they fetch (`payloads`).

pub(crate) mod decode;
mod glances;
mod grid;
mod home;
mod messages;
mod pages;
mod payloads;
mod skipping;

use std::sync::Arc;

use self::decode::{Catalog, Decoders};
use self::glances::Glances;
use self::grid::{Next, Timetable};
use self::home::Home;
pub(crate) use self::messages::{Covered, PollAnswer, PollInput, PollOp, PollOutput, PollPlan};
use self::messages::{GLANCE, LOOK, POLL};
pub(crate) use self::pages::POLL_LIMIT;
use self::pages::{Bookmark, OTHERS, Poll, PolledRows, SHORT_PAGE, Signs, Stage};
use self::skipping::{Floors, Skipping};
use crate::domain::shards::Share;
use crate::domain::{Entry, Error, Event, Millis, NodeId};
use crate::machine::{Machine, Step};
use crate::pipeline::expand::{Expanded, expand};
use crate::store::news::{GlanceQuery, Marks, News};
use crate::store::{DueRows, Page, PollQuery, Polled};
use crate::time::{GRACE, Now, OFFSET_JUMP, Offset, Window, span};

/// Payloads are decoded for so long at least, however late it is.
const LEAST_DECODING: Millis = 100;

pub(crate) struct PollMachine {
    node: NodeId,
    application: String,
    window: Window,
    /// Database time against the host's.
    offset: Offset,
    decoders: Decoders,
    timetable: Timetable,
    glances: Glances,
    skipping: Skipping,
    home: Home,
    bookmark: Bookmark,
    /// The poll under way.
    poll: Option<Poll>,
    /// When the call under way began, boot clock.
    called: Millis,
    outbox: Vec<PollOutput>,
    /// The last poll said that the node drains.
    drains: bool,
    stopping: bool,
}

impl PollMachine {
    pub(crate) fn new(
        node: NodeId,
        application: String,
        catalog: Arc<dyn Catalog>,
        (window, glance): (Window, Millis),
        offset: Offset,
        now: Now,
    ) -> Self {
        Self {
            node,
            application,
            window,
            offset,
            timetable: Timetable::new(node, window.poll, now),
            glances: Glances::new(glance, now),
            skipping: Skipping::new(&window),
            home: Home::new(catalog.jobs()),
            decoders: Decoders::new(catalog),
            bookmark: Bookmark::new(),
            poll: None,
            called: now.boot,
            outbox: Vec::new(),
            drains: false,
            stopping: false,
        }
    }

    /// Begins a poll with its first page.
    fn begin(&mut self, now: Now, tick: Option<Millis>) -> PollOp {
        let until = self.until(now);
        let (page, limit) = (self.bookmark.first_page(), self.bookmark.limit);
        let pending_from = self.skipping.pending_floor(now);
        let query = PollQuery { pending_from, until, page, limit, ..self.home_query(now) };
        self.send(Poll::new(tick, now.boot, query))
    }

    /// Begins a short poll. What is due later is brought by the next poll that is not.
    fn begin_short(&mut self, now: Now) -> PollOp {
        let page = Page { schedules: DueRows::Sections(Vec::new()), newest: true, ..Page::FIRST };
        let limit = self.bookmark.limit.min(SHORT_PAGE);
        let (pending_from, until) = (Skipping::recent(now), now.db + self.window.lead);
        let query = PollQuery { pending_from, until, page, limit, ..self.home_query(now) };
        self.send(Poll { is_short: true, ..Poll::new(None, now.boot, query) })
    }

    /// What polls that begin now ask for at home.
    fn home_query(&mut self, now: Now) -> PollQuery {
        let (shares, names) = (self.home.shares.clone(), self.home.names(now));
        PollQuery { shares, names, from: self.skipping.floor(now), ..self.look(now) }
    }

    fn send(&mut self, poll: Poll) -> PollOp {
        let call = self.call(&poll);
        self.poll = Some(poll);
        call
    }

    /// The end of the window of a poll that begins now.
    fn until(&self, now: Now) -> Millis {
        self.window.end(self.timetable.next_tick() - self.window.poll).max(now.db + self.window.lead)
    }

    /// Asks for news.
    fn glance(&self, now: Now, after: Marks) -> GlanceQuery {
        GlanceQuery { application: self.application.clone(), after, until: self.until(now) }
    }

    /// Takes in the answer to a question for news.
    fn glanced(&mut self, now: Now, answer: Result<PollAnswer, Error>) {
        match answer {
            Ok(PollAnswer::Glance(glance)) => {
                let News { work, cancel } = self.glances.answered(now, glance);
                if work {
                    self.timetable.heard();
                }
                if cancel {
                    self.outbox.push(PollOutput::CancelAsked);
                }
            }
            Ok(PollAnswer::Page(_) | PollAnswer::Payloads(_) | PollAnswer::Decoded) => {}
            Err(error) => {
                self.glances.failed(now);
                self.emit(Event::StoreFailed { operation: GLANCE, error });
            }
        }
    }

    /// Asks for what is overdue, from the first entry on, without its rows.
    fn look(&self, now: Now) -> PollQuery {
        let late = now.db - GRACE;
        PollQuery {
            node: self.node,
            application: self.application.clone(),
            shares: Vec::new(),
            names: Vec::new(),
            listed: self.home.listed(),
            from: 0,
            pending_from: Millis::MIN,
            until: late,
            late,
            page: Page { schedules: DueRows::Sections(Vec::new()), pendings: Page::END, newest: false },
            limit: 0,
            drains: self.drains,
        }
    }

    /// Takes in the answer to a look. An extra poll brings what lies before the floors that polls began at;
    /// after a look that failed, polls go on as before.
    fn looked(&mut self, now: Now, floors: Floors, answer: Result<PollAnswer, Error>) {
        self.skipping.looked(now, self.called, answer.is_ok());
        match answer {
            Ok(PollAnswer::Page(polled)) => {
                self.measure(&polled);
                self.timetable.wanted |= self.skipping.found(&polled, floors);
                self.seen(now, Signs::of(&polled));
            }
            Ok(PollAnswer::Payloads(_) | PollAnswer::Decoded | PollAnswer::Glance(_)) => {}
            Err(error) => {
                self.emit(Event::StoreFailed { operation: LOOK, error });
            }
        }
    }

    fn seen(&mut self, now: Now, signs: Signs) {
        let (Signs { app, node, pause_ended, election, late, .. }, from) = (signs, self.skipping.floor(now));
        self.outbox.push(PollOutput::Seen { app, node, pause_ended, election, late, from });
    }

    /// The next page or large payloads.
    fn call(&self, Poll { query, stage, payloads, .. }: &Poll) -> PollOp {
        if *stage == Stage::Over {
            return PollOp::Payloads(payloads.batch(query.limit));
        }
        // Both may have changed since the poll began.
        let home = PollQuery { node: self.node, listed: self.home.listed(), ..query.clone() };
        PollOp::Page(match stage {
            Stage::Others => PollQuery {
                shares: home.shares.iter().map(Share::others).collect(),
                names: Vec::new(),
                until: home.late,
                limit: home.limit.min(OTHERS),
                ..home
            },
            Stage::Home | Stage::Over => home,
        })
    }

    /// Takes a page in.
    fn brought(&mut self, now: Now, mut poll: Poll, polled: Polled) {
        self.measure(&polled);
        poll.signs = Signs::of(&polled);
        if poll.is_first() {
            self.skipping.polled(now, self.called, poll.query.late, &polled);
        }
        let Polled { rows, entries, pendings, large, next, .. } = polled;
        poll.rows += rows;
        let least = self.window.least_threshold();
        let is_misfired = |entry: &Entry| entry.is_misfired(now.db, least);
        poll.payloads.large.extend(large);
        poll.take_in(entries, pendings, &self.decoders, is_misfired);
        poll.follow(now, next, &self.bookmark);
        self.go_on(now, poll);
    }

    /// Another page or large payloads follow; behind the last of them new payloads are decoded.
    fn go_on(&mut self, now: Now, mut poll: Poll) {
        if poll.stage != Stage::Over || poll.payloads.goes_on(poll.left(now) > 0) {
            self.poll = Some(poll);
        } else {
            poll.payloads.complete(&mut poll.brought);
            self.decode(now, poll);
        }
    }

    /// Decodes new payloads in the time that is left, far less than a call may take. Mostly there are none.
    fn decode(&mut self, now: Now, mut poll: Poll) {
        let left = poll.left(now).max(LEAST_DECODING).min(self.window.call / 2);
        poll.decode = self.decoders.ask(poll.brought.rows(), 1_000 * left);
        if poll.decode.is_some() {
            self.poll = Some(poll);
        } else {
            self.planned(now, poll);
        }
    }

    /// Measures the database's clock by a page's answer.
    fn measure(&mut self, polled: &Polled) {
        let before = self.offset.least();
        let was_set = self.offset.observe(polled.time);
        let step = self.offset.least() - before;
        if step != 0 {
            self.outbox.push(PollOutput::Offset(self.offset.least()));
        }
        if was_set && step.abs() > 1_000 * OFFSET_JUMP {
            self.timetable.wanted = true;
            self.outbox.push(PollOutput::Jumped);
            self.emit(Event::ClockJumped);
        }
        if let Some(millis) = self.offset.warning() {
            self.emit(Event::ClockOffset { millis });
        }
    }

    /// Ends a poll: plans the rows that handlers here can decode. If there was no time to decode some,
    /// another poll follows soon.
    fn planned(&mut self, now: Now, poll: Poll) {
        let Poll { tick, is_short, sent, query, walk, rows, mut brought, signs, .. } = poll;
        self.timetable.ended(now, sent, rows, is_short);
        if brought.keep_decodable(&self.decoders) {
            self.timetable.wanted = true;
        }
        if !is_short {
            let left = self.timetable.next_tick() - now.db;
            self.skipping.ended(now, (!self.timetable.wanted).then_some(left));
            self.bookmark.ended(&walk);
        }
        let PolledRows { mut entries, pendings, complete } = brought;
        entries.retain(|entry| !self.home.leaves_planned(entry, query.late));
        let Expanded { occurrences, complete: whole } =
            expand(&entries, now.db, query.until, self.window.least_threshold());
        self.emit(Event::Polled {
            tick,
            planned: occurrences.len(),
            pending: pendings.len(),
            took: span(now.boot - sent),
        });
        self.seen(now, signs);
        self.outbox.push(PollOutput::Planned(PollPlan {
            occurrences,
            pendings,
            complete: complete && whole,
            covered: if is_short { Covered::NOTHING } else { walk.covered() },
            enabled: signs.app && signs.node,
            sent,
        }));
        // Behind what ends the claims: a look does not, so it says nothing of a drain.
        if signs.drains || self.drains {
            self.outbox.push(PollOutput::Drain(signs.drains));
        }
        self.drains = signs.drains;
    }

    fn emit(&mut self, event: Event) {
        self.outbox.push(PollOutput::Event(event));
    }
}

impl Machine for PollMachine {
    type Op = PollOp;
    type Input = PollInput;
    type Output = PollOutput;

    fn next(&mut self, now: Now) -> Step<PollOp, PollOutput> {
        self.called = now.boot;
        if !self.outbox.is_empty() {
            return Step::Tell(self.outbox.remove(0));
        }
        if self.stopping {
            return Step::Stop;
        }
        if let Some(decode) = self.poll.as_mut().and_then(|poll| poll.decode.take()) {
            return Step::Do(PollOp::Decode(decode));
        }
        if let Some(poll) = &self.poll {
            return Step::Do(self.call(poll));
        }
        if self.skipping.begin_look(now) {
            return Step::Do(PollOp::Look(self.look(now)));
        }
        match self.timetable.next(now) {
            Next::Begin { tick, skipped } => {
                if skipped > 0 {
                    self.emit(Event::TicksSkipped { count: skipped });
                }
                Step::Do(self.begin(now, tick))
            }
            Next::Short => Step::Do(self.begin_short(now)),
            Next::Wait(until) if self.timetable.wanted => Step::Wait(until),
            Next::Wait(until) => match self.glances.begin(now) {
                Some(after) => Step::Do(PollOp::Glance(self.glance(now, after))),
                None => Step::Wait(until.min(self.glances.next_at())),
            },
        }
    }

    fn done(&mut self, now: Now, answer: Result<PollAnswer, Error>) {
        if let Some(floors) = self.skipping.looking() {
            return self.looked(now, floors, answer);
        }
        if self.glances.has_ended() {
            return self.glanced(now, answer);
        }
        let Some(mut poll) = self.poll.take() else { return };
        self.outbox.extend(self.decoders.listen().into_iter().map(PollOutput::Event));
        match answer {
            Ok(PollAnswer::Page(polled)) => self.brought(now, poll, polled),
            Ok(PollAnswer::Payloads(payloads)) => {
                poll.payloads.fetched(poll.query.limit, payloads);
                self.go_on(now, poll);
            }
            Ok(PollAnswer::Decoded) => self.planned(now, poll),
            Ok(PollAnswer::Glance(_)) => {}
            Err(error) => {
                if let Some(hangs) = self.decoders.give_up() {
                    self.emit(hangs);
                    return self.planned(now, poll);
                }
                self.bookmark.failed();
                self.timetable.failed(now);
                // While the database was away, somebody may have written rows that are overdue now.
                self.skipping.skip(now);
                self.emit(Event::StoreFailed { operation: POLL, error });
            }
        }
    }

    fn receive(&mut self, now: Now, input: PollInput) {
        match input {
            PollInput::Wake => self.timetable.wanted = true,
            PollInput::News => {
                self.timetable.heard();
                self.glances.heard(now);
            }
            PollInput::Told(is_told) => self.glances.told(now, is_told),
            PollInput::Changed(name) => {
                self.timetable.heard();
                self.home.changed(name, now.boot + 2 * self.window.poll);
            }
            PollInput::Freed(name) => {
                self.timetable.wanted |= self.home.freed(&name, now.boot + self.window.poll);
            }
            PollInput::Retry(due) => self.timetable.want_retry(due),
            PollInput::Planned(name, due) => {
                self.timetable.want_retry(due);
                // Its owner may have polled a moment ago, and not know before it is due.
                if due < now.db + self.window.poll {
                    self.home.changed(name.to_string(), now.boot + self.window.poll);
                }
            }
            PollInput::Members(members) => {
                let before = self.home.listed();
                self.home.members = members;
                self.timetable.wanted |= self.home.resettle(self.node);
                if self.home.listed().iter().any(|job| !before.contains(job)) {
                    self.timetable.wanted = true;
                    self.skipping.listed_anew();
                }
            }
            PollInput::Reborn(node) => {
                // No other node is a member under the old name.
                self.home.members.retain(|member| member.id != self.node);
                self.node = node;
                self.home.resettle(node);
                self.timetable.wanted = true;
            }
            PollInput::Stop => self.stopping = true,
        }
    }
}

#[cfg(test)]
mod tests;
