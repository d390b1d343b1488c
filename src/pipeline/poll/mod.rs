//! The poll loop: on a grid of the epoch, with the database's clock measured on the way.
//!
//! A poll brings what is due in the node's home shards, page by page. Of the others' it brings what is late,
//! and only if something is and the node has no backlog of its own: an owner that lives works through its own
//! in the same order, and whoever helps it takes from the same end.
//!
//! Each of its calls is bounded in rows and in bytes, and it begins none after [`PATIENCE`]. What does not
//! fit is cut off fairly: pages bring the same share of each job, and large payloads are fetched for each job
//! in turn. A call that fails makes the next poll's pages smaller.
//!
//! At last it [decodes](decode) the new payloads in the time that is left, as an operation like any other: a
//! decoder that does not return is given up on, as a store call is.

pub(crate) mod decode;
mod grid;
mod home;
mod messages;
mod skipping;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use self::decode::{Catalog, Decode, Decoders};
use self::grid::{Next, Timetable};
use self::home::{Home, is_whole};
pub(crate) use self::messages::{Covered, Planned, PollAnswer, PollInput, PollOp, PollOutput};
use self::messages::{LOOK, POLL};
use self::skipping::Skipping;
use crate::domain::shards::Share;
use crate::domain::{Entry, Error, Event, Millis, NodeId, Pending, ScheduleId};
use crate::machine::{Machine, Step};
use crate::pipeline::expand::expand;
use crate::store::{Due, LargePayload, Page, PollQuery, Polled};
use crate::time::{GRACE, Now, OFFSET_JUMP, Offset, Window, span};

/// The most schedules and pending executions one poll plans.
pub(crate) const POLL_LIMIT: usize = 50_000;
/// Rows per page: one store call. Halved by each poll that fails, down to the least, and doubled by each that
/// does not.
const PAGE: usize = 25_000;
const LEAST_PAGE: usize = 64;
/// The most bytes of large payloads one poll brings, and one call of it with a full page.
const POLL_BYTES: usize = 32 << 20;
const PAGE_BYTES: usize = 4 << 20;
/// The most large payloads one call brings.
const PAYLOADS: usize = 256;
/// A poll begins no call after so long, but for the first that may bring rows and the first that brings large
/// payloads.
const PATIENCE: Millis = 1_000;
/// Payloads are decoded for so long at least, however late it is.
const LEAST_DECODING: Millis = 100;
/// The most schedules and pending executions of others' shards one poll brings,
const OTHERS: usize = 1_000;
/// while fewer than this of the node's own are late.
const BACKLOG: usize = 256;

/// The poll under way: what it asked for and what it has brought so far.
struct Asked {
    tick: Option<Millis>,
    sent: Millis,
    from: Millis,
    until: Millis,
    late: Millis,
    home: Vec<Share>,
    names: Vec<String>,
    stage: Stage,
    page: Page,
    /// How many lanes there are at home, if they are needed, and from how many of them nothing has been asked
    /// for.
    lanes: usize,
    unasked: usize,
    /// Where the walk over PENDING executions at home began and how far it has come,
    walk: ((Millis, i64), (Millis, i64)),
    /// and behind what all of them were looked at before that.
    newest: (Millis, i64),
    /// Nothing was cut off.
    complete: bool,
    entries: Vec<Arc<Entry>>,
    pendings: Vec<Pending>,
    /// How many of both came from others' shards.
    helped: usize,
    /// Bytes of the payloads that pages left out.
    large: HashMap<ScheduleId, usize>,
    /// Those to fetch, each with its schedule's version and its bytes, and those that were.
    wanted: VecDeque<(ScheduleId, i64, usize)>,
    fetched: HashMap<ScheduleId, Arc<str>>,
    /// What is to be decoded next.
    decode: Option<Decode>,
    signs: Signs,
}

/// What the last page said of the application and the node.
#[derive(Clone, Copy, Default)]
struct Signs {
    app: bool,
    node: bool,
    election: Option<Millis>,
    late: bool,
}

impl Signs {
    fn of(polled: &Polled) -> Self {
        let Polled { app_enabled: app, node_enabled: node, election, late, .. } = *polled;
        Self { app, node, election, late }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Home,
    /// What is late in the shards of others.
    Others,
    /// Large payloads.
    Payloads,
}

impl Asked {
    fn room(&self) -> bool {
        self.entries.len().max(self.pendings.len()) < POLL_LIMIT
    }

    /// Whether there are others to help, and no backlog at home.
    fn helps(&self) -> bool {
        let entries =
            self.entries.iter().filter(|entry| entry.cursor.next.is_some_and(|next| next < self.late));
        let pendings = self.pendings.iter().filter(|pending| pending.due < self.late);
        self.complete && !is_whole(&self.home) && entries.count() + pendings.count() < BACKLOG
    }

    /// What it has brought, each row with its due time.
    fn rows(&self) -> impl Iterator<Item = (Millis, &Arc<Entry>)> {
        let due = |entry: &Arc<Entry>| entry.cursor.next.unwrap_or(Millis::MIN);
        let schedules = self.entries.iter().map(move |entry| (due(entry), entry));
        schedules.chain(self.pendings.iter().map(|pending| (pending.due, &pending.entry)))
    }

    /// Chooses the large payloads to fetch: of each job in turn that of the schedule due first, until the
    /// bytes are used up. One may go beyond them, or a larger one would never come.
    fn choose(&mut self) {
        let is_large = |(_, entry): &(Millis, &Arc<Entry>)| self.large.contains_key(&entry.id);
        let mut all: Vec<(Millis, &Arc<Entry>)> = self.rows().filter(is_large).collect();
        all.sort_by_key(|(due, entry)| (*due, entry.id));
        let (mut seen, mut turns) = (HashSet::new(), HashMap::new());
        let mut in_turn: Vec<(usize, &Arc<Entry>)> = Vec::new();
        for (_, entry) in all {
            if seen.insert(entry.id) {
                let turn = turns.entry(&*entry.job).or_insert(0);
                in_turn.push((*turn, entry));
                *turn += 1;
            }
        }
        in_turn.sort_by_key(|(turn, _)| *turn);
        let mut used = 0;
        let affordable = in_turn.into_iter().map_while(|(_, entry)| {
            let bytes = self.large.get(&entry.id).copied().unwrap_or(0);
            let affordable = used < POLL_BYTES;
            used += bytes;
            affordable.then_some((entry.id, entry.version, bytes))
        });
        self.wanted = affordable.collect();
    }

    /// The next payloads to fetch: no more than this many bytes, but one at least.
    fn batch(&self, most: usize) -> Vec<(ScheduleId, i64)> {
        let mut used = 0;
        let fits = self.wanted.iter().take_while(|(_, _, bytes)| {
            let first = used == 0;
            used += bytes;
            first || used <= most
        });
        fits.map(|(id, version, _)| (*id, *version)).take(PAYLOADS).collect()
    }

    /// Takes payloads in; a row in another version was changed meanwhile, and comes with the next poll.
    fn fetched(&mut self, asked: usize, payloads: Vec<LargePayload>) {
        let versions: HashMap<ScheduleId, i64> =
            self.wanted.drain(..asked.min(self.wanted.len())).map(|(id, version, _)| (id, version)).collect();
        let same = |it: &LargePayload| versions.get(&it.id) == Some(&it.version);
        self.fetched.extend(payloads.into_iter().filter(same).map(|it| (it.id, it.payload)));
    }

    /// Gives rows with large payloads these; without theirs they are cut off.
    fn complete_payloads(&mut self) {
        let (large, fetched) = (&self.large, &self.fetched);
        let mut made: HashMap<ScheduleId, Arc<Entry>> = HashMap::new();
        let mut whole = |entry: Arc<Entry>| {
            if !large.contains_key(&entry.id) {
                return Some(entry);
            }
            let payload = Arc::clone(fetched.get(&entry.id)?);
            let known =
                made.entry(entry.id).or_insert_with(|| Arc::new(Entry { payload, ..Entry::clone(&entry) }));
            // A PENDING execution's cursor is not used.
            let same = known.cursor == entry.cursor && known.version == entry.version;
            Some(if same {
                Arc::clone(known)
            } else {
                Arc::new(Entry { payload: Arc::clone(&known.payload), ..Entry::clone(&entry) })
            })
        };
        let before = self.entries.len() + self.pendings.len();
        self.entries = std::mem::take(&mut self.entries).into_iter().filter_map(&mut whole).collect();
        let pendings = std::mem::take(&mut self.pendings).into_iter();
        self.pendings = pendings
            .filter_map(|it| whole(Arc::clone(&it.entry)).map(|entry| Pending { entry, ..it }))
            .collect();
        self.complete &= before == self.entries.len() + self.pendings.len();
    }
}

pub(crate) struct PollMachine {
    node: NodeId,
    application: String,
    decoders: Decoders,
    window: Window,
    timetable: Timetable,
    asked: Option<Asked>,
    /// When the call under way began, boot clock.
    called: Millis,
    skipping: Skipping,
    offset: Offset,
    outbox: Vec<PollOutput>,
    home: Home,
    /// Rows per page.
    limit: usize,
    /// The lane with which the next poll that needs lanes begins: where the last ran out of time.
    turn: usize,
    /// The PENDING execution behind which the next poll's walk begins.
    walked: (Millis, i64),
    /// A poll's time was not enough for a whole walk: there may be many that nobody here runs. The newest are
    /// looked at first then, or what is new would wait for the walk to come to it.
    walks_long: bool,
    stopping: bool,
}

impl PollMachine {
    pub(crate) fn new(
        node: NodeId,
        application: String,
        catalog: Arc<dyn Catalog>,
        window: Window,
        offset: Offset,
        now: Now,
    ) -> Self {
        let home = Home::new(catalog.jobs());
        Self {
            node,
            application,
            decoders: Decoders::new(catalog),
            window,
            timetable: Timetable::new(node, window.poll, now),
            asked: None,
            called: now.boot,
            skipping: Skipping::new(&window),
            offset,
            outbox: Vec::new(),
            home,
            limit: PAGE,
            turn: 0,
            walked: Page::FIRST.pendings,
            walks_long: false,
            stopping: false,
        }
    }

    fn ask(&mut self, now: Now, tick: Option<Millis>) -> PollOp {
        let until =
            self.window.end(self.timetable.next_tick() - self.window.poll).max(now.db + self.window.lead);
        let asked = Asked {
            tick,
            sent: now.boot,
            from: self.skipping.floor(now),
            until,
            late: now.db - GRACE,
            home: self.home.shares(),
            names: self.home.names(now),
            stage: Stage::Home,
            page: Page { pendings: self.walked, newest: self.walks_long, ..Page::FIRST },
            lanes: 0,
            unasked: 0,
            walk: (self.walked, self.walked),
            newest: Page::END,
            complete: false,
            entries: Vec::new(),
            pendings: Vec::new(),
            helped: 0,
            large: HashMap::new(),
            wanted: VecDeque::new(),
            fetched: HashMap::new(),
            decode: None,
            signs: Signs::default(),
        };
        let op = self.call(&asked);
        self.asked = Some(asked);
        op
    }

    /// The jobs that live nodes list.
    fn listed(&self) -> Vec<String> {
        self.home.listed(self.decoders.jobs())
    }

    /// Asks for overdue schedules alone, from the first entry on.
    fn look(&self, now: Now) -> PollOp {
        let late = now.db - GRACE;
        PollOp::Look(PollQuery {
            node: self.node,
            application: self.application.clone(),
            shares: Vec::new(),
            names: Vec::new(),
            listed: self.listed(),
            from: 0,
            until: late,
            late,
            page: Page { schedules: Due::Lanes(Vec::new()), pendings: Page::END, newest: false },
            limit: 0,
        })
    }

    /// Takes in the answer to a look. An extra poll brings what lies before the floor that polls began at;
    /// after a look that failed, polls go on as before.
    fn looked(&mut self, now: Now, floor: Millis, answer: Result<PollAnswer, Error>) {
        self.skipping.looked(now, self.called, answer.is_ok());
        match answer {
            Ok(PollAnswer::Page(polled)) => {
                self.measure(&polled);
                if let Some(earliest) = polled.earliest {
                    if earliest < floor {
                        self.timetable.want();
                    }
                    self.skipping.found(earliest);
                }
                self.seen(now, Signs::of(&polled));
            }
            Ok(PollAnswer::Payloads(_) | PollAnswer::Decoded) => {}
            Err(error) => {
                self.outbox.push(PollOutput::Event(Event::StoreFailed { operation: LOOK, error }));
            }
        }
    }

    fn seen(&mut self, now: Now, Signs { app, node, election, late }: Signs) {
        self.outbox.push(PollOutput::Seen { app, node, election, late, from: self.skipping.floor(now) });
    }

    fn call(&self, asked: &Asked) -> PollOp {
        let (shares, names, until, limit) = match asked.stage {
            Stage::Home => (asked.home.clone(), asked.names.clone(), asked.until, self.limit),
            Stage::Others => {
                let others = asked.home.iter().map(Share::others).collect();
                (others, Vec::new(), asked.late, self.limit.min(OTHERS))
            }
            Stage::Payloads => {
                return PollOp::Payloads(self.payloads(asked).iter().map(|(id, _)| *id).collect());
            }
        };
        PollOp::Page(PollQuery {
            node: self.node,
            application: self.application.clone(),
            shares,
            names,
            listed: self.listed(),
            from: asked.from,
            until,
            late: asked.late,
            page: asked.page.clone(),
            limit,
        })
    }

    fn payloads(&self, asked: &Asked) -> Vec<(ScheduleId, i64)> {
        asked.batch(PAGE_BYTES / PAGE * self.limit)
    }

    /// Takes a page in.
    fn brought(&mut self, now: Now, mut asked: Asked, mut polled: Polled) {
        self.measure(&polled);
        asked.signs = Signs::of(&polled);
        if asked.stage == Stage::Home && asked.page.schedules == Due::All {
            self.skipping.polled(now, self.called, asked.late, polled.earliest);
        }
        let entries = std::mem::take(&mut polled.entries);
        let pendings = std::mem::take(&mut polled.pendings);
        asked.large.extend(std::mem::take(&mut polled.large));
        self.take_in(now, &mut asked, entries, pendings);
        let next = polled.next.take();
        let next = if asked.stage == Stage::Home { self.reached(&mut asked, next) } else { next };
        self.follow(now, asked, next);
    }

    /// Notes how far the poll has come at home; answers with what is left.
    fn reached(&self, asked: &mut Asked, next: Option<Page>) -> Option<Page> {
        let key = next.as_ref().map_or(Page::END, |page| page.pendings);
        if asked.page.newest && key != Page::END {
            asked.newest = key;
        } else {
            asked.walk.1 = if key < asked.newest { key } else { Page::END };
        }
        let lanes = next.map_or(Due::Lanes(Vec::new()), |page| page.schedules);
        let mut next = Page { schedules: lanes, pendings: asked.walk.1, newest: false };
        match (&asked.page.schedules, &mut next.schedules) {
            (Due::All, Due::Lanes(lanes)) if !lanes.is_empty() => {
                (asked.lanes, asked.unasked) = (lanes.len(), lanes.len());
                lanes.rotate_left(self.turn % asked.lanes);
            }
            (Due::All, _) => {}
            (Due::Lanes(_), _) => asked.unasked = asked.unasked.saturating_sub(self.limit),
        }
        let more = next.pendings != Page::END || next.schedules != Due::Lanes(Vec::new());
        more.then_some(next)
    }

    /// There is another page if the last one says so, memory allows it and there is time; behind the last,
    /// what is late elsewhere; and then large payloads.
    fn follow(&mut self, now: Now, mut asked: Asked, next: Option<Page>) {
        let in_time = now.boot < asked.sent + PATIENCE;
        // A page that did not hold all due rows has brought none of them: the next follows in any case.
        let overfull = asked.lanes > 0 && asked.page.schedules == Due::All && asked.stage == Stage::Home;
        let room = match asked.stage {
            Stage::Others => asked.helped < OTHERS,
            _ => asked.room(),
        };
        match next {
            Some(page) if room && (in_time || overfull) => self.asked = Some(Asked { page, ..asked }),
            next => {
                if asked.stage == Stage::Home {
                    asked.complete = next.is_none();
                    if asked.signs.late && in_time && asked.helps() {
                        self.asked = Some(Asked { stage: Stage::Others, page: Page::FIRST, ..asked });
                        return;
                    }
                }
                asked.choose();
                self.asked = Some(Asked { stage: Stage::Payloads, ..asked });
                self.next_payloads(now);
            }
        }
    }

    /// Fetches more large payloads, if there are any and there is time for them; some are fetched in any
    /// case.
    fn next_payloads(&mut self, now: Now) {
        let begun = self.asked.as_ref().is_some_and(|asked| !asked.fetched.is_empty());
        let goes_on =
            |asked: &Asked| !asked.wanted.is_empty() && (!begun || now.boot < asked.sent + PATIENCE);
        if self.asked.as_ref().is_some_and(goes_on) {
            return;
        }
        if let Some(mut asked) = self.asked.take() {
            asked.complete_payloads();
            self.decode(now, asked);
        }
    }

    /// Decodes what is new, in the time that is left, far less than a call may take. Mostly nothing is new.
    fn decode(&mut self, now: Now, mut asked: Asked) {
        let left = (asked.sent + PATIENCE - now.boot).max(LEAST_DECODING).min(self.window.call / 2);
        asked.decode = self.decoders.ask(asked.rows(), 1_000 * left);
        if asked.decode.is_some() {
            self.asked = Some(asked);
        } else {
            self.planned(now, asked);
        }
    }

    fn listen(&mut self) {
        self.outbox.extend(self.decoders.listen().into_iter().map(PollOutput::Event));
    }

    fn take_in(&mut self, now: Now, asked: &mut Asked, entries: Vec<Arc<Entry>>, pendings: Vec<Pending>) {
        let least = self.window.least_threshold();
        // What was changed here has been brought with the first page, whatever its shard.
        let again = asked.stage == Stage::Others || asked.page.schedules != Due::All;
        let known = |entry: &Entry| again && asked.names.iter().any(|name| **name == *entry.name);
        let large = &asked.large;
        // What nobody here can decode need not be fetched again.
        let refused =
            |entry: &Entry| large.contains_key(&entry.id) && self.decoders.verdict(entry) == Some(false);
        let plannable =
            |entry: &Arc<Entry>| !known(entry) && !refused(entry) && !entry.is_misfired(now.db, least);
        let before = asked.entries.len() + asked.pendings.len();
        asked.entries.extend(entries.into_iter().filter(plannable));
        let others = asked.stage == Stage::Others;
        let known = |entry: &Entry| others && asked.names.iter().any(|name| **name == *entry.name);
        // The last page of a walk may reach into the newest.
        let newest = asked.newest;
        let brought = |it: &Pending| (it.due, it.id.0) >= newest;
        let plannable = |it: &Pending| !brought(it) && !known(&it.entry) && !refused(&it.entry);
        asked.pendings.extend(pendings.into_iter().filter(plannable));
        if others {
            asked.helped += asked.entries.len() + asked.pendings.len() - before;
        }
    }

    /// The members have changed, or this node's name. Another home is polled at once.
    fn resettle(&mut self) {
        if self.home.resettle(self.node, &self.decoders.jobs()) {
            self.timetable.want();
        }
    }

    fn jumped(&mut self) {
        self.timetable.want();
        self.outbox.push(PollOutput::Jumped);
        self.outbox.push(PollOutput::Event(Event::ClockJumped));
    }

    fn measure(&mut self, polled: &Polled) {
        let before = self.offset.least();
        let was_set = self.offset.observe(polled.time);
        let step = self.offset.least() - before;
        if step != 0 {
            self.outbox.push(PollOutput::Offset(self.offset.least()));
        }
        if was_set && step.abs() > 1_000 * OFFSET_JUMP {
            self.jumped();
        }
        if let Some(millis) = self.offset.warning() {
            self.outbox.push(PollOutput::Event(Event::ClockOffset { millis }));
        }
    }

    /// Plans what handlers here can decode. What they had no time for is cut off; another poll follows soon.
    fn planned(&mut self, now: Now, mut asked: Asked) {
        let mut unknown = false;
        let mut understood = |entry: &Entry| {
            let verdict = self.decoders.verdict(entry);
            unknown |= verdict.is_none();
            verdict == Some(true)
        };
        let entries: Vec<Arc<Entry>> = asked.entries.into_iter().filter(|it| understood(it)).collect();
        asked.pendings.retain(|it| understood(&it.entry));
        asked.complete &= !unknown;
        if unknown {
            self.timetable.want();
        }
        let pendings = asked.pendings;
        let Signs { app, node, .. } = asked.signs;
        let left = self.timetable.next_tick() - now.db;
        self.skipping.ended(now, (!self.timetable.is_wanted()).then_some(left));
        self.timetable.ended(now);
        self.limit = (2 * self.limit).min(PAGE);
        // A poll that had time for nothing but the newest is followed by one that goes on with the walk.
        self.walks_long = asked.walk.0 != asked.walk.1 && asked.walk != (Page::FIRST.pendings, Page::END);
        self.walked = if asked.walk.1 == Page::END { Page::FIRST.pendings } else { asked.walk.1 };
        self.turn = if asked.unasked == 0 { 0 } else { self.turn.wrapping_add(asked.lanes - asked.unasked) };
        let occurrences = expand(&entries, now.db, asked.until, self.window.least_threshold());
        self.outbox.push(PollOutput::Event(Event::Polled {
            tick: asked.tick,
            planned: occurrences.len(),
            pending: pendings.len(),
            took: span(now.boot - asked.sent),
        }));
        self.seen(now, asked.signs);
        self.outbox.push(PollOutput::Planned(Planned {
            occurrences,
            pendings,
            complete: asked.complete,
            covered: Covered { schedules: asked.unasked == 0, pendings: asked.walk, newest: asked.newest },
            enabled: app && node,
            sent: asked.sent,
        }));
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
        if let Some(decode) = self.asked.as_mut().and_then(|asked| asked.decode.take()) {
            return Step::Do(PollOp::Decode(decode));
        }
        if let Some(asked) = &self.asked {
            return Step::Do(self.call(asked));
        }
        if self.skipping.begin_look(now) {
            return Step::Do(self.look(now));
        }
        match self.timetable.next(now) {
            Next::Begin { tick, skipped } => {
                if skipped > 0 {
                    self.outbox.push(PollOutput::Event(Event::TicksSkipped { count: skipped }));
                }
                Step::Do(self.ask(now, tick))
            }
            Next::Wait(until) => Step::Wait(until),
        }
    }

    fn done(&mut self, now: Now, answer: Result<PollAnswer, Error>) {
        if let Some(floor) = self.skipping.looking() {
            return self.looked(now, floor, answer);
        }
        let Some(mut asked) = self.asked.take() else { return };
        self.listen();
        match answer {
            Ok(PollAnswer::Page(polled)) => self.brought(now, asked, polled),
            Ok(PollAnswer::Payloads(payloads)) => {
                asked.fetched(self.payloads(&asked).len(), payloads);
                self.asked = Some(asked);
                self.next_payloads(now);
            }
            Ok(PollAnswer::Decoded) => self.planned(now, asked),
            Err(error) => {
                if let Some(hangs) = self.decoders.give_up() {
                    self.outbox.push(PollOutput::Event(hangs));
                    return self.planned(now, asked);
                }
                self.limit = (self.limit / 2).max(LEAST_PAGE);
                self.timetable.failed(now);
                // While the database was away, somebody may have written what is overdue now.
                self.skipping.skip(now);
                self.outbox.push(PollOutput::Event(Event::StoreFailed { operation: POLL, error }));
            }
        }
    }

    fn receive(&mut self, now: Now, input: PollInput) {
        match input {
            PollInput::Wake => self.timetable.want(),
            PollInput::Changed(name) => {
                self.timetable.want();
                self.home.changed(name, now.boot + 2 * self.window.poll);
            }
            PollInput::Retry(due) => self.timetable.want_retry(due),
            PollInput::Members(members) => {
                let before = self.listed();
                self.home.members = members;
                self.resettle();
                if self.listed().iter().any(|job| !before.contains(job)) {
                    self.timetable.want();
                    self.skipping.listed_anew();
                }
            }
            PollInput::Reborn(node) => {
                self.home.forget(self.node);
                self.node = node;
                self.timetable.want();
                self.resettle();
            }
            PollInput::Stop => self.stopping = true,
        }
    }
}

#[cfg(test)]
mod tests;
