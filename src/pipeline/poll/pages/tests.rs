use super::*;
use crate::domain::{Cause, Error, ErrorKind, ExecutionId, JobId, Token};
use crate::fixtures::cron;
use crate::machine::{Step, Stepped};
use crate::pipeline::poll::calls::{Answer, Op};
use crate::pipeline::poll::tests::{
    PERIOD, answer, asked, at, beside_another, decode, machine, planned, shards, told_earliest, until_asked,
};
use crate::pipeline::poll::{PollInput, PollMachine, PollOutput, PollPlan};
use crate::store::{PollQuery, Section};
use crate::time::HOME_LEAD;

fn late(now: Timestamp, entries: Vec<Entry>) -> Polled {
    Polled { late: true, ..answer(now, entries) }
}

#[test]
fn what_is_late_in_others_shards_is_asked_for_behind_ones_own() {
    let mut machine = beside_another(Timestamp::at(1_000_000));
    let (now, home) = asked(&mut machine, Timestamp::at(1_000_000));
    assert_eq!((shards(&home).len(), home.until > now), (8, true));
    machine.done(at(now), Ok(Answer::Page(late(now, Vec::new()))));
    let (now, others) = asked(&mut machine, now);
    let mut all = [shards(&home), shards(&others)].concat();
    all.sort_unstable();
    assert_eq!(all, (0..16).collect::<Vec<_>>());
    let newest = Page { newest: true, ..Page::FIRST };
    assert_eq!((others.until, others.page), (now - HOME_LEAD, newest), "their owners begin with the oldest");
    machine.done(at(now), Ok(Answer::Page(late(now, vec![cron(1, "0 * * * * ?", now - 3_000)]))));
    let (_, told) = until_asked(&mut machine, now);
    let planned = told.iter().find_map(|it| if let PollOutput::Planned(it) = it { Some(it) } else { None });
    assert_eq!(planned.map(|planned| (planned.occurrences.len(), planned.complete)), Some((1, true)));
}

/// While their node hangs the others need not wait for a tick for each page.
#[test]
fn late_rows_of_others_that_do_not_fit_are_cut_off() {
    let mut machine = beside_another(Timestamp::at(1_000_000));
    let (now, _) = asked(&mut machine, Timestamp::at(1_000_000));
    machine.done(at(now), Ok(Answer::Page(late(now, Vec::new()))));
    let (now, others) = asked(&mut machine, now);
    assert_eq!(others.limit, OTHERS);
    let rows = (1..).take(OTHERS).map(|id| cron(id, "0 * * * * ?", Timestamp::at(990_000))).collect();
    let next = Some(Page { pendings: (Timestamp::at(990_000), 1), ..Page::FIRST });
    machine.done(at(now), Ok(Answer::Page(Polled { next, ..late(now, rows) })));
    let plan = planned(until_asked(&mut machine, now).1);
    assert_eq!((plan.occurrences.len(), plan.complete), (OTHERS, false));
}

#[test]
fn others_shards_are_left_alone_while_nothing_is_late_or_one_is_alone_or_behind() {
    let backlog =
        |count| (0..count).map(|id| cron(id, "0 * * * * ?", Timestamp::at(990_000))).collect::<Vec<_>>();
    let cases = [
        (beside_another(Timestamp::at(1_000_000)), answer(Timestamp::at(1_000_000), backlog(255)), false),
        (machine(Timestamp::at(1_000_000)), late(Timestamp::at(1_000_000), backlog(255)), false),
        (beside_another(Timestamp::at(1_000_000)), late(Timestamp::at(1_000_000), backlog(255)), true),
        (beside_another(Timestamp::at(1_000_000)), late(Timestamp::at(1_000_000), backlog(256)), false),
    ];
    for (n, (mut machine, polled, asks)) in cases.into_iter().enumerate() {
        let (now, _) = asked(&mut machine, Timestamp::at(1_000_000));
        machine.done(at(now), Ok(Answer::Page(polled)));
        let (_, told) = until_asked(&mut machine, now);
        let planned = told.iter().any(|output| matches!(output, PollOutput::Planned(_)));
        assert_eq!(planned, !asks, "case {n}");
    }
}

/// It was brought by its name already: twice in the plan it would be claimed twice.
#[test]
fn what_was_changed_here_and_is_late_elsewhere_is_planned_once() {
    let mut machine = beside_another(Timestamp::at(1_000_000));
    let entry = cron(1, "0 * * * * ?", Timestamp::at(990_000));
    machine.receive(at(Timestamp::at(1_000_000)), PollInput::Changed(entry.name.to_string()));
    let (now, _) = asked(&mut machine, Timestamp::at(1_000_000));
    machine.done(at(now), Ok(Answer::Page(late(now, vec![entry.clone()]))));
    let (now, _) = asked(&mut machine, now);
    machine.done(at(now), Ok(Answer::Page(late(now, vec![entry]))));
    let (_, told) = until_asked(&mut machine, now);
    let planned = told.iter().find_map(|it| if let PollOutput::Planned(it) = it { Some(it) } else { None });
    assert_eq!(planned.map(|planned| planned.occurrences.len()), Some(1));
}

/// What a call that fails has left of the page's size.
#[test]
fn a_poll_that_fails_halves_the_page_and_one_that_does_not_doubles_it() {
    let mut machine = machine(Timestamp::at(1_000_000));
    let mut now = Timestamp::at(1_000_000);
    let mut limits = Vec::new();
    for n in 0..20 {
        let query;
        (now, query) = asked(&mut machine, now);
        limits.push(query.limit);
        let failed = Err(Error::new(ErrorKind::Unknown, "no answer"));
        machine.done(at(now), if n < 10 { failed } else { Ok(Answer::Page(answer(now, Vec::new()))) });
    }
    let falling = [25_000, 12_500, 6_250, 3_125, 1_562, 781, 390, 195, 97, 64];
    let rising = [64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 25_000];
    assert_eq!(limits, [falling, rising].concat());
}

fn section(job: i64) -> Section {
    Section { job: JobId(job), shard: 0, after: (Timestamp::at(-1), 0), until: Timestamp::at(0) }
}

fn sections(query: &PollQuery) -> Vec<i64> {
    let DueRows::Sections(sections) = &query.page.schedules else { return Vec::new() };
    sections.iter().map(|section| section.job.0).collect()
}

/// Then it plans what it has, and the next begins where this one stopped.
#[test]
fn a_poll_begins_no_page_when_its_time_is_over() {
    let mut machine = machine(Timestamp::at(1_000_000));
    machine.bookmark.limit = 2;
    let page = |jobs: &[i64], walked| Page {
        schedules: DueRows::Sections(jobs.iter().copied().map(section).collect()),
        pendings: walked,
        newest: false,
    };
    let (sent, first) = asked(&mut machine, Timestamp::at(1_000_000));
    assert_eq!(first.page, Page::FIRST);
    let next = Some(page(&[1, 2, 3, 4, 5], (Timestamp::at(7), 7)));
    machine.done(at(sent), Ok(Answer::Page(Polled { next, ..answer(sent, Vec::new()) })));
    let (now, second) = asked(&mut machine, sent);
    assert_eq!(
        (now, sections(&second), second.page.pendings),
        (sent, vec![1, 2, 3, 4, 5], (Timestamp::at(7), 7))
    );
    let next = Some(page(&[3, 4, 5, 1], (Timestamp::at(8), 8)));
    let now = sent + PATIENCE;
    let rows = vec![cron(1, "0 * * * * ?", Timestamp::at(990_000))];
    machine.done(at(now), Ok(Answer::Page(Polled { next: next.clone(), ..answer(sent, rows) })));
    let (_, told) = until_asked(&mut machine, now);
    let plan = planned(told);
    assert_eq!((plan.occurrences.len(), plan.complete), (1, false));
    let covered =
        Covered { schedules: false, pendings: (Page::FIRST.pendings, (Timestamp::at(8), 8)), ..Covered::ALL };
    assert_eq!(plan.covered, covered);

    let (now, third) = asked(&mut machine, now);
    assert_eq!(third.page, Page { pendings: (Timestamp::at(8), 8), newest: true, ..Page::FIRST });
    let next = Some(page(&[1, 2, 3, 4, 5], Page::END));
    machine.done(at(now), Ok(Answer::Page(Polled { next, ..answer(now, Vec::new()) })));
    let (_, fourth) = asked(&mut machine, now);
    assert_eq!((sections(&fourth), third.limit), (vec![3, 4, 5, 1, 2], 4), "two sections were asked before");
}

/// Or it would bring nothing, and the next one neither.
#[test]
fn a_page_that_does_not_hold_all_rows_is_followed_by_another_however_long_it_took() {
    let mut machine = machine(Timestamp::at(1_000_000));
    let (now, _) = asked(&mut machine, Timestamp::at(1_000_000));
    let next =
        Some(Page { schedules: DueRows::Sections(vec![section(1)]), pendings: Page::END, newest: false });
    let late = now + 2 * PATIENCE;
    machine.done(at(late), Ok(Answer::Page(Polled { next, ..answer(now, Vec::new()) })));
    let (again, query) = asked(&mut machine, late);
    assert_eq!((again, sections(&query)), (late, vec![1]));
}

/// A table of PENDING executions, of which this node runs only the one that became due last.
struct PendingTable {
    keys: Vec<(Timestamp, i64)>,
    own: Pending,
    /// How long a page takes.
    takes: Millis,
}

impl PendingTable {
    fn new(others: i64, takes: Millis) -> Self {
        let entry = Arc::new(cron(1, "0 * * * * ?", Timestamp::at(1_060_000)));
        let id = ExecutionId(others + 1);
        let token = Token::fresh();
        let own = Pending {
            id,
            entry,
            scheduled: Timestamp::at(1_000_000),
            due: Timestamp::at(1_000_000),
            attempt: 2,
            generation: 0,
            origin: 0,
            token,
            cause: Cause::Planned,
            payload: None,
            priority: None,
            group: None,
            lane: None,
            failures: 0,
            headers: None,
            snoozes: 0,
        };
        let keys = (1..=others).map(|id| (Timestamp::at(900_000), id)).chain([(own.due, id.0)]).collect();
        Self { keys, own, takes }
    }

    fn answer(&self, query: &PollQuery, now: Timestamp) -> Polled {
        let Page { pendings: after, newest, .. } = query.page;
        let behind: Vec<_> = self.keys.iter().filter(|key| **key > after && key.0 < query.until).collect();
        let more = behind.len().saturating_sub(query.limit);
        let page = if newest { &behind[more..] } else { &behind[..behind.len() - more] };
        let edge = if newest { page.first() } else { page.last() };
        let has_own = page.last().is_some_and(|key| **key == (self.own.due, self.own.id.0));
        let next = Page::behind(Vec::new(), edge.filter(|_| more > 0).map(|key| **key));
        let pendings = has_own.then(|| self.own.clone()).into_iter().collect();
        Polled { pendings, next, ..answer(now, Vec::new()) }
    }

    /// One poll of a machine: the page asked for, and what it planned.
    fn poll(&self, machine: &mut Stepped<PollMachine>, now: Timestamp) -> (Vec<PollQuery>, PollPlan) {
        let (mut now, mut query) = asked(machine, now);
        let mut queries = Vec::new();
        loop {
            queries.push(query.clone());
            now += self.takes;
            machine.done(at(now), Ok(Answer::Page(self.answer(&query, now))));
            let mut told = Vec::new();
            loop {
                match machine.next(at(now)) {
                    Step::Do(Op::Page(next)) if told.is_empty() => query = next,
                    Step::Do(op @ Op::Decode(_)) => {
                        decode(machine, now, op);
                        continue;
                    }
                    Step::Do(Op::Look(_)) => {
                        told_earliest(machine, now, None);
                        continue;
                    }
                    Step::Tell(output) => {
                        told.push(output);
                        continue;
                    }
                    _ => return (queries, planned(told)),
                }
                break;
            }
        }
    }
}

/// A retry or recovery would wait for minutes behind what nobody runs.
#[test]
fn what_is_new_does_not_wait_for_a_long_walk() {
    for takes in [300, 2 * PATIENCE] {
        let waiting = PendingTable::new(1_000_000, takes);
        let mut machine = machine(Timestamp::at(1_000_000));
        let (mut found, mut walked, mut last) = (Vec::new(), 0, Page::FIRST.pendings);
        for poll in 1..=20 {
            let (_, plan) = waiting.poll(&mut machine, Timestamp::at(1_000_000 + poll * PERIOD));
            assert!(plan.pendings.len() <= 1, "brought twice");
            assert_eq!(plan.pendings.len() == 1, plan.covered.has(&waiting.own));
            found.push(plan.pendings.len());
            walked += i32::from(machine.bookmark.walked > last);
            last = machine.bookmark.walked;
        }
        let gap = found.split(|found| *found == 1).map(<[usize]>::len).max().unwrap();
        assert!(gap <= 1, "found by {found:?}");
        assert!(walked >= 9, "the walk went on {walked} times of 20");
    }
}

/// What the newest page has brought is not brought again by the walk's last page.
#[test]
fn a_walk_ends_where_the_newest_begin() {
    let waiting = PendingTable::new(60_000, PATIENCE / 2);
    let mut machine = machine(Timestamp::at(1_000_000));
    let mut polls = Vec::new();
    for poll in 1..=4 {
        let (queries, plan) = waiting.poll(&mut machine, Timestamp::at(1_000_000 + poll * PERIOD));
        let newest: Vec<bool> = queries.iter().map(|query| query.page.newest).collect();
        polls.push((newest, plan.pendings.len(), plan.complete));
    }
    assert_eq!(
        polls,
        [
            (vec![false, false], 0, false),
            // The 10,001 behind those are one page.
            (vec![true], 1, true),
            (vec![true, false], 1, false),
            // 25,000 of the 35,001 behind the last walk, and the others before them.
            (vec![true, false], 1, true),
        ]
    );
}
