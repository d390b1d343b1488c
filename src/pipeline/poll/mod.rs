//! The poll loop: reads the due schedules and PENDING executions every few seconds, and measures the
//! database's clock on the way.
//!
//! A poll brings the due rows of the node's home shards, page by page. A node without a backlog of its own
//! then brings late rows of other shards. That may cost lost claims: a live owner works through the same rows
//! in the same order.
//!
//! Each call of a poll is bounded in rows and in bytes, and a poll has a bounded time. Rows that do not fit
//! are cut off fairly: each job gets its share of pages and of large payloads. A call that fails makes the
//! next poll's pages smaller. At last the poll [decodes](decode) new payloads in the time that is left.
//!
//! While a long poll keeps news waiting, short polls read the newest PENDING executions alone: an execution
//! that may start at once does not wait until a backlog has been read again.
//!
//! Where the database does not tell of others' changes, the machine asks for them between two polls.
//!
//! This file has the machine. Its decisions have files of their own: when polls begin (`timetable`), with
//! which fire time (`skipping`), when it asks for news (`glances`), whose schedules polls ask for (`home`),
//! how they walk over their pages (`pages`), how much they bring (`sizes`), and which large payloads they
//! fetch (`payloads`).

mod calls;
pub(crate) mod decode;
mod glances;
mod home;
mod messages;
mod pages;
mod payloads;
mod rows;
mod sizes;
mod skipping;
mod timetable;

use std::collections::VecDeque;
use std::sync::Arc;

use self::calls::{Answer, Answered, Asked, Op, join};
#[cfg(test)]
pub(crate) use self::calls::{Answer as PollAnswer, Op as PollOp};
use self::decode::{Catalog, Decoders};
use self::glances::Glances;
use self::home::Home;
pub(crate) use self::messages::{Covered, PollInput, PollOutput, PollPlan};
use self::pages::{Bookmark, Poll, Signs, Stage};
use self::rows::PolledRows;
pub(crate) use self::sizes::POLL_LIMIT;
use self::sizes::{OTHERS, SHORT_PAGE};
use self::skipping::{Look, Skipping};
use crate::domain::shards::Share;
use crate::domain::{Entry, Error, Event, ExecutionId, Millis, NodeId, Timestamp};
use crate::machine::{Machine, Step};
use crate::misfire::PollReport;
use crate::pipeline::expand::{Expanded, expand};
use crate::store::news::{Glance, GlanceQuery, Marks, News};
use crate::store::{DueRows, Page, PollQuery, Polled};
use crate::time::{HOME_LEAD, Micros, Now, OFFSET_JUMP, Offset, Window, span};
use timetable::{Next, Timetable};

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
    /// The poll whose next call is to be sent.
    poll: Option<Poll>,
    outbox: VecDeque<PollOutput>,
    /// The last stored of the executions that polls have brought.
    newest: Option<ExecutionId>,
    /// The last poll said that the node drains.
    drains: bool,
    stopping: bool,
}

impl PollMachine {
    pub(crate) fn new(
        node: NodeId,
        application: String,
        catalog: Arc<dyn Catalog>,
        window: Window,
        glance: Millis,
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
            outbox: VecDeque::new(),
            newest: None,
            drains: false,
            stopping: false,
        }
    }

    /// Begins a poll with its first page.
    fn begin(&mut self, now: Now, tick: Option<Timestamp>) -> Poll {
        let until = self.until(now);
        let (page, limit) = (self.bookmark.first_page(), self.bookmark.limit);
        let pending_from = self.skipping.pending_floor(now);
        let query = PollQuery { pending_from, until, page, limit, ..self.home_query(now) };
        Poll::new(tick, now.boot, query)
    }

    /// Begins a short poll. Later rows wait for the next full poll.
    fn begin_short(&mut self, now: Now) -> Poll {
        let page = Page { schedules: DueRows::Sections(Vec::new()), newest: true, ..Page::FIRST };
        let limit = self.bookmark.limit.min(SHORT_PAGE);
        let (pending_from, until) = (Skipping::recent(now), now.db + self.window.lead);
        let query = PollQuery { pending_from, until, page, limit, ..self.home_query(now) };
        Poll { is_short: true, ..Poll::new(None, now.boot, query) }
    }

    /// The query for the home shards, of a poll that begins now.
    fn home_query(&mut self, now: Now) -> PollQuery {
        let (shares, names) = (self.home.shares.clone(), self.home.names(now));
        PollQuery { shares, names, from: self.skipping.floor(now), ..self.look(now) }
    }

    /// The end of the window of a poll that begins now.
    fn until(&self, now: Now) -> Timestamp {
        self.window.end(self.timetable.next_tick() - self.window.poll).max(now.db + self.window.lead)
    }

    /// Asks for news.
    fn glance(&self, now: Now, after: Marks) -> GlanceQuery {
        GlanceQuery { application: self.application.clone(), after, until: self.until(now) }
    }

    /// Takes in the answer to a question for news.
    fn glanced(&mut self, now: Now, glance: Glance) {
        let News { work, cancel, members, request } = self.glances.answered(now, glance);
        if work || members {
            self.timetable.heard();
        }
        if cancel {
            self.outbox.push_back(PollOutput::CancelAsked);
        }
        if members {
            self.outbox.push_back(PollOutput::MemberTold);
        }
        if request {
            self.outbox.push_back(PollOutput::Requested);
        }
    }

    /// Asks for what is overdue, from the first entry on, without its rows.
    fn look(&self, now: Now) -> PollQuery {
        let late = now.db - HOME_LEAD;
        PollQuery {
            node: self.node,
            application: self.application.clone(),
            shares: Vec::new(),
            names: Vec::new(),
            listed: self.home.listed(),
            from: Timestamp::EPOCH,
            pending_from: Timestamp::MIN,
            until: late,
            late,
            page: Page { schedules: DueRows::Sections(Vec::new()), pendings: Page::END, newest: false },
            limit: 0,
            drains: self.drains,
        }
    }

    /// Takes in the answer to a look. An extra poll brings what lies before the floors that polls began at.
    fn looked(&mut self, now: Now, look: Look, polled: &Polled) {
        self.measure(polled);
        self.timetable.wanted |= self.skipping.looked(now, look, polled);
        self.seen(now, Signs::of(polled));
    }

    fn seen(&mut self, now: Now, signs: Signs) {
        let Signs { app, node, pause_ended, unlisted, expects, election, late, .. } = signs;
        let (app_enabled, node_enabled, any_late, floor) = (app, node, late, self.skipping.floor(now));
        let report = PollReport {
            app_enabled,
            node_enabled,
            pause_ended,
            unlisted,
            expects,
            election,
            any_late,
            floor,
        };
        self.outbox.push_back(PollOutput::Seen(report));
        if signs.requested {
            self.outbox.push_back(PollOutput::Requested);
        }
    }

    /// The next call of a poll: a page, large payloads, or new payloads to decode.
    fn call(&self, now: Now, mut poll: Poll) -> (Op, Asked) {
        poll.called = now.boot;
        if let Some(decode) = poll.decode.take() {
            return Asked::decode(decode, poll);
        }
        // Both may have changed since the poll began. A short one asks nothing about schedules.
        let listed = if poll.is_short { Vec::new() } else { self.home.listed() };
        let home = PollQuery { node: self.node, listed, ..poll.query.clone() };
        let query = match poll.stage {
            Stage::Over => return Asked::payloads(poll.payloads.batch(poll.query.limit), poll),
            Stage::Others => PollQuery {
                shares: home.shares.iter().map(Share::others).collect(),
                names: Vec::new(),
                until: home.late,
                limit: home.limit.min(OTHERS),
                ..home
            },
            Stage::Home => home,
        };
        Asked::page(query, poll)
    }

    /// Takes a page in.
    fn brought(&mut self, now: Now, mut poll: Poll, polled: Polled) {
        self.measure(&polled);
        poll.signs = Signs::of(&polled);
        if poll.is_first() {
            self.skipping.polled(now, poll.called, poll.query.late, &polled);
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
        poll.decode = self.decoders.ask(poll.brought.rows(), Micros::of_millis(left));
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
        if step != Micros::ZERO {
            self.outbox.push_back(PollOutput::Offset(self.offset.least()));
        }
        if was_set && step.abs() > Micros::of_millis(OFFSET_JUMP) {
            self.timetable.wanted = true;
            self.outbox.push_back(PollOutput::Jumped);
            self.emit(Event::ClockJumped);
        }
        if let Some(ahead) = self.offset.warning() {
            self.emit(Event::ClockOffset { by: span(ahead.abs()), is_ahead: ahead > 0 });
        }
    }

    /// Ends a poll: plans the rows that handlers here can decode. If there was no time to decode some,
    /// another poll follows soon.
    fn planned(&mut self, now: Now, poll: Poll) {
        let Poll { tick, is_short, sent, query, walk, rows, mut brought, signs, .. } = poll;
        self.timetable.ended(now, sent, rows, is_short);
        if brought.keep_decodable(&self.decoders, now.boot) {
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
        let newest = pendings.iter().map(|pending| pending.id).max();
        if newest > self.newest {
            self.newest = newest;
            self.timetable.found(now);
        }
        self.emit(Event::Polled {
            tick: tick.and_then(Timestamp::utc),
            planned: occurrences.len(),
            pending: pendings.len(),
            took: span(now.boot - sent),
        });
        if !is_short {
            self.seen(now, signs);
        }
        self.outbox.push_back(PollOutput::Planned(PollPlan {
            occurrences,
            pendings,
            complete: complete && whole,
            covered: if is_short { Covered::NOTHING } else { walk.covered() },
            enabled: signs.app && signs.node,
            sent,
        }));
        if query.shares != self.home.shares {
            self.outbox.push_back(PollOutput::Home(self.home.shares.clone()));
        }
        // After the plan, which ends or goes on with claims. A look brings no plan, and tells nothing of a
        // drain.
        if signs.drains || self.drains {
            self.outbox.push_back(PollOutput::Drain(signs.drains));
        }
        self.drains = signs.drains;
    }

    /// A call has failed.
    fn failed(&mut self, now: Now, asked: Asked, error: Error) {
        let operation = asked.name();
        match asked {
            // Polls go on as before.
            Asked::Look(look) => self.skipping.look_ended(look, false),
            Asked::Glance(()) => self.glances.failed(now),
            Asked::Page(poll) | Asked::Payloads(poll) | Asked::Decode(poll) => {
                if let Some(hangs) = self.decoders.give_up() {
                    self.emit(hangs);
                    return self.planned(now, poll);
                }
                self.bookmark.failed();
                self.timetable.failed(now);
                // While the database was away, somebody may have written rows that are overdue now.
                self.skipping.skip(now);
            }
        }
        self.emit(Event::StoreFailed { operation, error });
    }

    fn emit(&mut self, event: Event) {
        self.outbox.push_back(PollOutput::Event(event));
    }
}

impl Machine for PollMachine {
    type Op = Op;
    type Asked = Asked;
    type Input = PollInput;
    type Output = PollOutput;

    fn next(&mut self, now: Now) -> Step<(Op, Asked), PollOutput> {
        if let Some(output) = self.outbox.pop_front() {
            return Step::Tell(output);
        }
        if self.stopping {
            return Step::Stop;
        }
        if let Some(poll) = self.poll.take() {
            return Step::Do(self.call(now, poll));
        }
        if let Some(look) = self.skipping.look(now) {
            return Step::Do(Asked::look(self.look(now), look));
        }
        match self.timetable.next(now) {
            Next::Begin { tick, skipped } => {
                if skipped > 0 {
                    self.emit(Event::TicksSkipped { count: skipped });
                }
                let poll = self.begin(now, tick);
                Step::Do(self.call(now, poll))
            }
            Next::Short => {
                let poll = self.begin_short(now);
                Step::Do(self.call(now, poll))
            }
            Next::Wait(until) if self.timetable.wanted => Step::Wait(until),
            Next::Wait(until) => match self.glances.due(now) {
                Some(after) => Step::Do(Asked::glance(self.glance(now, after), ())),
                None => Step::Wait(until.min(self.glances.at)),
            },
        }
    }

    fn done(&mut self, now: Now, asked: Asked, answer: Result<Answer, Error>) {
        self.outbox.extend(self.decoders.listen().into_iter().map(PollOutput::Event));
        self.outbox.extend(self.decoders.changes().map(PollOutput::LeftAlone));
        match join(asked, answer) {
            Ok(Answered::Page(poll, polled)) => self.brought(now, poll, polled),
            Ok(Answered::Payloads(mut poll, payloads)) => {
                poll.payloads.fetched(poll.query.limit, payloads);
                self.go_on(now, poll);
            }
            Ok(Answered::Decode(poll, ())) => self.planned(now, poll),
            Ok(Answered::Look(look, polled)) => self.looked(now, look, &polled),
            Ok(Answered::Glance((), glance)) => self.glanced(now, glance),
            Err((asked, error)) => self.failed(now, asked, error),
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
            PollInput::Members(members) if members == self.home.members => {}
            PollInput::Members(members) => {
                let before = self.home.listed();
                self.home.members = members;
                if self.home.resettle(self.node) {
                    self.timetable.wanted = true;
                    self.outbox.push_back(PollOutput::Home(self.home.shares.clone()));
                }
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
