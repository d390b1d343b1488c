//! The rows that a poll brings, their order, and those that it leaves out.

use super::*;
use crate::domain::{NextFire, shards};

pub(crate) fn the_windows_edge_is_exclusive(db: &Bench) {
    db.schedule("s");
    assert!(db.polled(db.base).is_empty());
    assert_eq!(db.polled(db.base + 1), ["s"]);
    let pending = db.pending("t");
    assert!(db.poll(pending.due).pendings.is_empty());
    assert_eq!(db.poll(pending.due + 1).pendings, [pending]);
}

pub(crate) fn overdue_rows_are_visible_to_the_poll(db: &Bench) {
    let entry = db.schedule("s");
    db.set(RowKey::Schedule(entry.id), "next_fire_time", "981173106000");
    let entries = db.poll(db.now).entries;
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].cursor.next, NextFire::At(Timestamp::at(981_173_106_000)));
}

pub(crate) fn overdue_pendings_are_visible_to_the_poll(db: &Bench) {
    let pending = db.pending("s");
    db.set(RowKey::Execution(pending.id), "due_time", "981173106000");
    let pendings = db.poll(db.now).pendings;
    assert_eq!(
        pendings.iter().map(|row| (row.id, row.due)).collect::<Vec<_>>(),
        [(pending.id, Timestamp::at(981_173_106_000))]
    );
}

/// By fire time, then by id; never by priority, which the plan sees to.
pub(crate) fn schedules_come_earliest_first(db: &Bench) {
    for (name, offset, priority) in [("a", 3_000, 0), ("b", 1_000, 0), ("c", 2_000, 0), ("d", 1_000, 9)] {
        let trigger = every(db.base + offset, 60_000, -1);
        db.create(&Definition { trigger, priority, ..db.definition(name) });
    }
    assert_eq!(db.polled(Timestamp::MAX), ["b", "d", "c", "a"]);
}

pub(crate) fn pendings_come_earliest_first(db: &Bench) {
    let [a, b, c] = ["a", "b", "c"].map(|name| db.pending(name).id);
    for (id, due) in [(a, db.base + 2_000), (b, db.base + 1_000), (c, db.base + 2_000)] {
        db.set(RowKey::Execution(id), "due_time", &due.to_string());
    }
    let ids: Vec<_> = db.poll(Timestamp::MAX).pendings.iter().map(|pending| pending.id).collect();
    assert_eq!(ids, [b, a, c]);
}

/// Reads pages of two until the last; gives what each brought of schedules and of pending executions.
fn pages(db: &Bench, until: Timestamp) -> Vec<(Vec<String>, Vec<ExecutionId>)> {
    pages_of(db, &db.query(until))
}

fn pages_of(db: &Bench, query: &PollQuery) -> Vec<(Vec<String>, Vec<ExecutionId>)> {
    let mut pages = Vec::new();
    let mut page = Some(Page::FIRST);
    while let Some(from) = page {
        let polled = db.store.poll(&PollQuery { limit: 2, page: from, ..query.clone() }).unwrap();
        let pendings = polled.pendings.iter().map(|pending| pending.id).collect();
        pages.push((names(polled.entries.iter().map(|entry| &**entry)), pendings));
        page = polled.next;
        assert!(pages.len() < 100, "the pages do not end");
    }
    pages
}

/// All that the pages bring, in the order of the names; each is brought once.
fn brought(pages: &[(Vec<String>, Vec<ExecutionId>)]) -> Vec<String> {
    let mut names: Vec<String> = pages.iter().flat_map(|(names, _)| names.clone()).collect();
    names.sort();
    names
}

pub(crate) fn pages_follow_one_another(db: &Bench) {
    // Two are due at one instant.
    for (name, offset) in [("a", 3_000), ("b", 1_000), ("c", 2_000), ("d", 2_000), ("e", 9_000)] {
        let trigger = every(db.base + offset, 60_000, -1);
        db.create(&Definition { trigger, ..db.definition(name) });
    }
    let all = pages(db, Timestamp::MAX);
    assert_eq!(brought(&all), ["a", "b", "c", "d", "e"]);
    assert!(all.iter().all(|(names, _)| names.len() <= 2), "{all:?}");
    assert_eq!(brought(&pages(db, db.base + 9_000)), ["a", "b", "c", "d"], "the window's end is kept");
    assert_eq!(brought(&pages(db, db.base + 1_001)), ["b"]);
}

/// Rows of one instant, in one shard, over many pages.
pub(crate) fn pages_of_one_section_follow_one_another(db: &Bench) {
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    for name in names {
        let entry = db.schedule(name);
        db.set(RowKey::Schedule(entry.id), "shard", "3");
    }
    let all = pages(db, Timestamp::MAX);
    assert_eq!(brought(&all), names);
    assert!(all.iter().all(|(names, _)| names.len() <= 2), "{all:?}");
    let in_order: Vec<String> = all.into_iter().flat_map(|(names, _)| names).collect();
    assert_eq!(in_order, names, "by id within an instant");
}

/// However many rows another job has, and however overdue they are.
pub(crate) fn the_first_pages_have_rows_of_every_job(db: &Bench) {
    for n in 0..40 {
        let entry = db.create(&Definition { job: job("other"), ..db.definition(&format!("other-{n}")) });
        db.set(RowKey::Schedule(entry.id), "next_fire_time", &(db.now - 1_000 + n % 3).to_string());
    }
    db.schedule("ticking");
    let shares = vec![Share::whole(vec![JOB.to_owned(), "other".to_owned()])];
    let mut query = PollQuery { shares, limit: 32, ..db.query(Timestamp::MAX) };
    let (mut rows, mut pages) = (0, 0);
    let ticking = |polled: &Polled| names_of(polled).contains(&"ticking".to_owned());
    loop {
        let polled = db.store.poll(&query).unwrap();
        (rows, pages) = (rows + polled.entries.len(), pages + 1);
        query.page = polled.next.clone().expect("there is a page with it");
        if ticking(&polled) {
            break;
        }
    }
    assert!(pages <= 3 && rows <= 64, "it came with page {pages}, behind {rows} rows");
}

pub(crate) fn rows_that_are_due_come_beside_overdue_ones_of_their_job(db: &Bench) {
    for n in 0..40 {
        let entry = db.schedule(&format!("overdue-{n}"));
        db.set(RowKey::Schedule(entry.id), "next_fire_time", &(db.now - 1_000).to_string());
    }
    db.schedule("ticking");
    let query = PollQuery { limit: 32, ..db.query(Timestamp::MAX) };
    let first = db.store.poll(&query).unwrap();
    assert_eq!((first.entries.len(), first.next.is_some()), (0, true), "a page does not hold all");
    let second = db.store.poll(&PollQuery { page: first.next.unwrap(), ..query }).unwrap();
    assert!(names_of(&second).contains(&"ticking".to_owned()), "{:?}", names_of(&second));
}

/// Its bytes are no reason to wait for the others.
pub(crate) fn a_large_payload_is_left_out_and_fetched_by_itself(db: &Bench) {
    let large = format!("\"{}\"", "x".repeat(SMALL_PAYLOAD - 1));
    let (a, b) = (
        db.create(&Definition { payload: large.clone(), ..db.definition("a") }),
        db.create(&Definition { payload: large[1..].to_owned(), ..db.definition("b") }),
    );
    let claimed = db.claim_head(&a);
    assert_eq!(db.settle(&claimed.give_back(db.now)), Applied::Done);
    let polled = db.poll(Timestamp::MAX);
    assert_eq!(polled.large.into_iter().collect::<Vec<_>>(), [(a.id, SMALL_PAYLOAD + 1)]);
    let payloads: Vec<_> = polled.entries.iter().map(|entry| &*entry.payload).collect();
    assert_eq!((payloads.len(), payloads.contains(&""), payloads.contains(&&large[1..])), (2, true, true));
    assert_eq!(&*polled.pendings[0].entry.payload, "");
    let fetched = db.store.payloads(&[a.id, b.id, ScheduleId(1 << 50)]).unwrap();
    let mut fetched: Vec<_> = fetched.into_iter().map(|it| (it.id, it.version, it.payload)).collect();
    fetched.sort();
    assert_eq!(fetched, [(a.id, 0, large.as_str().into()), (b.id, 0, large[1..].into())]);
}

/// Whoever's they are: a page looks at no more of them than it holds.
pub(crate) fn a_page_looks_at_no_more_pendings_than_it_holds(db: &Bench) {
    let of = |name: &str, of: &str| {
        let entry =
            db.create(&Definition { job: job(of), trigger: every(db.base, 0, 0), ..db.definition(name) });
        let claimed = db.claim_head(&entry);
        let id = claimed.execution();
        assert_eq!(db.settle(&claimed.give_back(db.now)), Applied::Done);
        id
    };
    let others: Vec<ExecutionId> = (0..5).map(|n| of(&format!("other-{n}"), "other")).collect();
    let mine = of("mine", JOB);
    for (id, due) in others.iter().chain([&mine]).zip(1..) {
        db.set(RowKey::Execution(*id), "due_time", &(db.now - 60_000 + due).to_string());
    }
    let all = pages(db, Timestamp::MAX);
    assert_eq!(all.into_iter().map(|(_, ids)| ids).collect::<Vec<_>>(), [vec![], vec![], vec![mine]]);
}

pub(crate) fn pages_of_pendings_follow_one_another(db: &Bench) {
    let far = every(db.base + 1_000_000, 0, 0);
    let ids = ["a", "b", "c"].map(|name| {
        let entry = db.create(&Definition { trigger: far.clone(), ..db.definition(name) });
        let claimed = db.claim_head(&entry);
        let id = claimed.execution();
        assert_eq!(db.settle(&claimed.give_back(db.now)), Applied::Done);
        id
    });
    let brought: Vec<_> = pages(db, Timestamp::MAX).into_iter().map(|(_, ids)| ids).collect();
    assert_eq!(brought, [ids[..2].to_vec(), ids[2..].to_vec()]);

    let newest = |pendings| {
        let page = Page { newest: true, pendings, ..Page::FIRST };
        let polled = db.store.poll(&PollQuery { page, limit: 2, ..db.query(Timestamp::MAX) }).unwrap();
        let keys: Vec<_> = polled.pendings.iter().map(|it| (it.due, it.id.0)).collect();
        (keys, polled.next.map(|page| page.pendings))
    };
    let (last, first_of_them) = newest(Page::FIRST.pendings);
    assert_eq!(last.iter().map(|(_, id)| *id).collect::<Vec<_>>(), [ids[1].0, ids[2].0]);
    assert_eq!(first_of_them, Some(last[0]));
    assert_eq!(newest(last[0]), (vec![last[1]], None));
}

/// Five schedules, each due a second after the one before, and where each is at home.
fn spread(db: &Bench) -> Vec<(String, i64)> {
    let due = |(name, n): (&str, Millis)| {
        let trigger = every(db.base + 1_000 * n, 60_000, -1);
        db.create(&Definition { trigger, ..db.definition(name) });
        (name.to_owned(), shards::of(name))
    };
    let spread: Vec<_> = ["a", "b", "c", "d", "e"].into_iter().zip(0..).map(due).collect();
    let used: std::collections::BTreeSet<i64> = spread.iter().map(|(_, shard)| *shard).collect();
    assert_eq!(used.len(), spread.len(), "each has a shard of its own");
    spread
}

fn share(job: &str, shards: &[i64]) -> Share {
    Share { jobs: vec![job.to_owned()], shards: shards.to_vec() }
}

pub(crate) fn a_poll_brings_its_shards_and_the_names_it_asks_for(db: &Bench) {
    let spread = spread(db);
    let shard = |n: usize| spread[n].1;
    let ask = |shards: &[i64], wanted: &[&str]| {
        let names = wanted.iter().map(|name| (*name).to_owned()).collect();
        let query = PollQuery { shares: vec![share(JOB, shards)], names, ..db.query(Timestamp::MAX) };
        names_of(&db.store.poll(&query).unwrap())
    };
    assert_eq!(ask(&[shard(3), shard(1)], &[]), ["b", "d"]);
    assert_eq!(ask(&[], &[]), [""; 0]);
    assert_eq!(ask(&[], &["e", "a", "nobody"]), ["a", "e"]);
    assert_eq!(
        ask(&[shard(3), shard(1)], &["c", "d"]),
        ["b", "c", "d"],
        "what is asked for twice comes once"
    );
    // What counts is the row: one adopted from elsewhere may be in any shard.
    db.set(RowKey::Schedule(db.entry("a").id), "shard", &shard(1).to_string());
    assert_eq!(ask(&[shard(0)], &[]), [""; 0]);
    assert_eq!(ask(&[shard(1)], &[]), ["a", "b"]);
}

fn names_of(polled: &Polled) -> Vec<String> {
    names(polled.entries.iter().map(|entry| &**entry))
}

pub(crate) fn pendings_come_with_their_schedules_shards(db: &Bench) {
    let ids: Vec<ExecutionId> = ["a", "b", "c"].map(|name| db.pending(name).id).to_vec();
    let ask = |shards: &[i64], wanted: &[&str]| {
        let names = wanted.iter().map(|name| (*name).to_owned()).collect();
        let query = PollQuery { shares: vec![share(JOB, shards)], names, ..db.query(Timestamp::MAX) };
        db.store.poll(&query).unwrap().pendings.iter().map(|pending| pending.id).collect::<Vec<_>>()
    };
    assert_eq!(ask(&[shards::of("c"), shards::of("a")], &[]), [ids[0], ids[2]]);
    assert_eq!(ask(&[shards::of("b")], &["c", "b"]), ids[1..]);
    assert_eq!(ask(&[], &[]), []);
}

/// Jobs that other nodes list are shared among other nodes: each group is read by itself, the pages are of
/// all.
pub(crate) fn pages_of_several_shares_follow_one_another(db: &Bench) {
    let spread = spread(db);
    for (name, n) in [("x", 500), ("y", 1_500), ("z", 1_500)] {
        let trigger = every(db.base + n, 60_000, -1);
        db.create(&Definition { trigger, job: job("other"), ..db.definition(name) });
    }
    let most: Vec<i64> = spread.iter().filter(|(name, _)| name != "c").map(|(_, shard)| *shard).collect();
    let shares = vec![share(JOB, &most), Share::whole(vec!["other".to_owned()])];
    let query = PollQuery { shares, names: vec!["b".to_owned()], ..db.query(Timestamp::MAX) };
    let pages = pages_of(db, &query);
    let mut names = brought(&pages);
    // What is asked for by name comes with the first page, and again with its section.
    names.dedup();
    assert_eq!(names, ["a", "b", "d", "e", "x", "y", "z"]);
    assert!(pages.iter().all(|(names, _)| names.len() <= 2), "{pages:?}");
    let ids: Vec<_> =
        ["x", "b", "c", "a"].map(|name| (name, db.claim_head(&db.entry(name)).give_back(db.now))).into();
    for (_, settlement) in &ids {
        assert_eq!(db.settle(settlement), Applied::Done);
    }
    let brought: Vec<_> = pages_of(db, &query).into_iter().flat_map(|(_, ids)| ids).collect();
    assert_eq!(brought, [ids[3].1.execution, ids[0].1.execution, ids[1].1.execution]);
}

/// Whoever is at home in them and whichever node runs them.
pub(crate) fn what_is_late_anywhere_is_told(db: &Bench) {
    let listed = vec!["other".to_owned(), JOB.to_owned()];
    let query = PollQuery { shares: Vec::new(), listed, ..db.query(db.now) };
    let late = |late| db.store.poll(&PollQuery { late, ..query.clone() }).unwrap().late;
    assert!(!late(Timestamp::MAX), "there is nothing");
    let entry = db.create(&Definition { job: job("other"), ..db.definition("s") });
    assert!(
        !db.store.poll(&PollQuery { late: Timestamp::MAX, ..db.query(db.now) }).unwrap().late,
        "unlisted"
    );
    assert_eq!((late(db.base), late(db.base + 1)), (false, true));
    assert!(db.store.pause(entry.id, entry.version, "op", "why").unwrap());
    assert!(!late(Timestamp::MAX), "it is paused");
    let once = db.create(&Definition { trigger: every(db.base, 0, 0), ..db.definition("t") });
    let claimed = db.claim_head(&once);
    assert!(!late(Timestamp::MAX), "it is claimed");
    assert_eq!(db.settle(&claimed.give_back(db.now)), Applied::Done);
    assert_eq!((late(db.base), late(db.base + 1)), (false, true), "it is PENDING");
}

/// Those that somebody will claim: others may be overdue for ever.
pub(crate) fn the_earliest_fire_time_of_listed_active_jobs_is_told(db: &Bench) {
    let mine = db.schedule("s");
    let other = db.create(&Definition {
        trigger: every(db.base - 5_000, 60_000, -1),
        job: job("other"),
        ..db.definition("t")
    });
    db.set(RowKey::Schedule(other.id), "next_fire_time", &(db.base - 5_000).to_string());
    let listing = |jobs: &[&str], from, until| {
        let listed = jobs.iter().map(|job| (*job).to_owned()).collect();
        let late = db.base + 1;
        db.store.poll(&PollQuery { listed, from, late, ..db.query(until) }).unwrap()
    };
    let earliest = |jobs: &[&str], from, until| listing(jobs, from, until).earliest;
    let at = db.base;
    assert_eq!(mine.cursor.next, NextFire::At(at));
    assert_eq!(earliest(&[JOB], Timestamp::at(0), Timestamp::MAX), Some(at));
    assert_eq!(earliest(&[JOB, "other"], Timestamp::at(0), Timestamp::MAX), Some(at - 5_000));
    assert_eq!(earliest(&[JOB, "other"], at - 4_999, Timestamp::MAX), Some(at));
    assert_eq!(earliest(&[JOB, "other"], at + 1, Timestamp::MAX), None);
    assert_eq!(earliest(&[JOB], Timestamp::at(0), at), None, "it is not in the window");
    assert!(listing(&[JOB], Timestamp::at(0), at).late, "though late");
    assert_eq!(earliest(&[], Timestamp::at(0), Timestamp::MAX), None);
    db.set(RowKey::Job(&db.app, JOB), "state", "'PAUSED'");
    assert_eq!(earliest(&[JOB], Timestamp::at(0), Timestamp::MAX), None, "its job is paused");
    assert!(!listing(&[JOB], Timestamp::at(0), Timestamp::MAX).late);
}

/// By polls whose page holds all due rows, by those whose page does not, and by repair.
pub(crate) fn what_is_due_before_the_beginning_is_not_looked_for(db: &Bench) {
    for (name, offset) in [("a", 1_000), ("b", 2_000), ("c", 3_000)] {
        let trigger = every(db.base + offset, 60_000, -1);
        db.create(&Definition { trigger, ..db.definition(name) });
    }
    let (from, until) = (db.base + 2_000, db.base + 10_000);
    let query = PollQuery { from, late: db.base + 2_500, ..db.query(until) };
    let all = db.store.poll(&query).unwrap();
    assert_eq!(names_of(&all), ["b", "c"]);
    let named = PollQuery {
        shares: vec![share(JOB, &[])],
        names: vec!["a".to_owned(), "b".to_owned()],
        ..query.clone()
    };
    assert_eq!(names_of(&db.store.poll(&named).unwrap()), ["b"]);
    let first = db.store.poll(&PollQuery { limit: 1, ..query.clone() }).unwrap();
    let page = first.next.expect("two are due");
    let second = db.store.poll(&PollQuery { page, ..query }).unwrap();
    let mut sections = names_of(&second);
    sections.sort();
    assert_eq!(sections, ["b", "c"]);
    let stalled = db.store.overdue(&OverdueQuery { from, ..db.overdue_query(until) }).unwrap();
    assert_eq!(names(stalled.entries.iter()), ["b", "c"]);
    assert_eq!(db.overdue(until), ["a", "b", "c"]);
    let [a, b, after] = ["a", "b", "c"].map(|name| db.entry(name).id);
    [a, b].iter().for_each(|id| db.set(RowKey::Schedule(*id), "job_type", "'CALENDAR'"));
    let broken = UnreadableQuery {
        application: db.app.clone(),
        after,
        step: 1,
        from,
        before: until,
        limit: 9,
        ahead: None,
    };
    let found: Vec<_> =
        db.store.unreadable(&broken).unwrap().broken.into_iter().map(|it| it.seen.id).collect();
    assert_eq!(found, [b]);
}

pub(crate) fn the_election_mark_is_told(db: &Bench) {
    assert!(db.store.elect(&db.app, db.now, 15_000).unwrap().is_done());
    assert_eq!(db.poll(db.now).election, Some(db.now + 15_000));
}

pub(crate) fn a_row_nobody_understands_does_not_end_the_pages(db: &Bench) {
    for (name, offset) in [("a", 1_000), ("b", 2_000), ("c", 3_000)] {
        let trigger = every(db.base + offset, 60_000, -1);
        db.create(&Definition { trigger, ..db.definition(name) });
    }
    db.set(RowKey::Schedule(db.entry("b").id), "job_type", "'NONSENSE'");
    assert_eq!(brought(&pages(db, Timestamp::MAX)), ["a", "c"]);
}

pub(crate) fn rows_of_unknown_jobs_are_left_alone(db: &Bench) {
    db.schedule("known");
    db.create(&Definition { job: job("other"), ..db.definition("unknown") });
    assert_eq!(db.polled(Timestamp::MAX), ["known"]);
    let ask = |jobs: &[&str]| {
        let shares = vec![Share::whole(jobs.iter().map(|name| (*name).to_owned()).collect())];
        let polled = db.store.poll(&PollQuery { shares, ..db.query(Timestamp::MAX) }).unwrap();
        (names(polled.entries.iter().map(|entry| &**entry)), polled.next.is_none())
    };
    assert_eq!(ask(&["other"]), (vec!["unknown".to_owned()], true));
    assert_eq!(ask(&["nothing"]), (vec![], true));
    assert_eq!(ask(&[]), (vec![], true));
    assert_eq!(ask(&["nothing", JOB, "other"]).0.len(), 2);

    let claimed = db.claim_head(&db.entry("unknown"));
    assert_eq!(db.settle(&claimed.give_back(db.now)), Applied::Done);
    assert!(db.poll(Timestamp::MAX).pendings.is_empty(), "nor are their pending executions brought");
}

pub(crate) fn rows_of_paused_jobs_are_left_alone(db: &Bench) {
    db.schedule("s");
    db.pending("t");
    let job = RowKey::Job(&db.app, JOB);
    db.set(job, "state", "'PAUSED'");
    let polled = db.poll(Timestamp::MAX);
    assert!(polled.entries.is_empty() && polled.pendings.is_empty());
    db.set(job, "state", "'EXECUTING'");
    let polled = db.poll(Timestamp::MAX);
    assert_eq!((polled.entries.len(), polled.pendings.len()), (2, 1));
}

pub(crate) fn rows_of_other_applications_are_left_alone(db: &Bench) {
    let elsewhere = Definition { application: fresh_name(), ..db.definition("s") };
    assert_eq!(db.store.ensure(&elsewhere).unwrap(), Ensured::Created);
    assert!(db.polled(Timestamp::MAX).is_empty());
    assert!(db.overdue(Timestamp::MAX).is_empty());
}

pub(crate) fn paused_and_complete_rows_are_left_alone(db: &Bench) {
    let paused = db.schedule("paused");
    assert!(db.store.pause(paused.id, paused.version, "op", "why").unwrap());
    let once = db.create(&Definition { trigger: every(db.base, 0, 0), ..db.definition("complete") });
    drop_claimed(db.claim(&db.head(&once)));
    let init = db.schedule("init");
    db.set(RowKey::Schedule(init.id), "state", "'INIT'");
    let polled = db.poll(Timestamp::MAX);
    assert_eq!((polled.entries.len(), polled.pendings.len(), polled.next), (0, 0, None));
}

pub(crate) fn a_disabled_application_is_told(db: &Bench) {
    let switches = || {
        let polled = db.poll(db.now);
        (polled.app_enabled, polled.node_enabled)
    };
    assert_eq!(switches(), (true, true));
    db.set(RowKey::App(&db.app), "state", "'N'");
    assert_eq!(switches(), (false, true));
    db.set(RowKey::App(&db.app), "state", "'Y'");
    assert_eq!(switches(), (true, true));
}

pub(crate) fn a_disabled_node_is_told(db: &Bench) {
    let switches = |node| {
        let polled = db.store.poll(&PollQuery { node, ..db.query(db.now) }).unwrap();
        (polled.app_enabled, polled.node_enabled)
    };
    let other = db.another_node();
    db.set(RowKey::Node(db.node), "state", "'N'");
    assert_eq!(switches(db.node), (true, false));
    assert_eq!(switches(other), (true, true));
    db.store.leave(other, db.now).unwrap();
    assert_eq!(switches(other), (true, false), "an ended node is not enabled");
}

pub(crate) fn the_databases_time_is_told(db: &Bench) {
    let is_now = |time| (db.now..db.now + 60_000).contains(&time);
    assert!(is_now(db.store.now().unwrap()));
    let joined = db.store.register(&db.new_node(NodeId::fresh(), &db.app, &[JOB])).unwrap();
    for sample in [db.poll(db.now).time, joined] {
        assert!(sample.asked <= sample.answered);
        assert!(is_now(sample.db()), "{sample:?}");
    }
}
