//! What handlers say.

use super::*;
use crate::domain::{Line, LogLevel, Progress};
use crate::store::said::{Said, SaidRow};

/// What a run says: so many lines, from its first on.
fn says(claimed: &Claimed, count: u64, now: Timestamp) -> Said {
    let line = |number| {
        let text = format!("ünïcode ☕ \u{1b}[2J\0'\"\\ {number}");
        Line { number, at: now, level: LogLevel::Warn, text }
    };
    Said {
        execution: claimed.execution(),
        token: claimed.token(),
        fence: claimed.fence(),
        lines: (0..count).map(line).collect(),
        progress: Some(Progress::new(count, u64::MAX)),
        now,
    }
}

impl Bench {
    fn say(&self, said: &Said) -> Applied {
        let applied = self.store.say(std::slice::from_ref(said)).unwrap();
        assert_eq!(applied.len(), 1);
        applied[0]
    }

    /// What each attempt has said.
    fn said(&self, id: ExecutionId) -> Vec<SaidRow> {
        self.store.said(&self.app, id).unwrap().into_iter().map(|by| by.said).collect()
    }

    fn numbers(&self, id: ExecutionId) -> Vec<(i64, u64)> {
        self.said(id)[0].lines.iter().map(|(fence, line)| (*fence, line.number)).collect()
    }
}

pub(crate) fn what_a_run_says_is_read_as_it_was_said_and_once(db: &Bench) {
    let claimed = db.run_head(&db.schedule("s"));
    let (id, fence) = (claimed.execution(), claimed.fence());
    assert_eq!(db.said(id), [SaidRow::default()], "nothing yet");
    let (early, later) = (says(&claimed, 2, db.now), says(&claimed, 3, db.now + 5));
    assert_eq!([&early, &later, &early, &later].map(|said| db.say(said)), [Applied::Done; 4]);
    let [row] = &db.said(id)[..] else { panic!("one attempt") };
    let lines: Vec<Line> = row.lines.iter().map(|(_, line)| line.clone()).collect();
    assert_eq!(lines[2], later.lines[2]);
    assert_eq!(db.numbers(id), [(fence, 0), (fence, 1), (fence, 2)]);
    assert_eq!((row.changed, row.progress), (db.now + 5, later.progress));
    assert_eq!(db.store.said("another", id).unwrap(), []);
    assert_eq!(db.store.said(&db.app, ExecutionId(1 << 50)).unwrap(), []);
}

pub(crate) fn many_runs_say_something_in_one_call(db: &Bench) {
    let names: Vec<String> = (0..20).map(|n| format!("s{n}")).collect();
    let runs: Vec<Claimed> = names.iter().map(|name| db.run_head(&db.schedule(name))).collect();
    let mut said: Vec<Said> = runs.iter().rev().map(|run| says(run, 200, db.now)).collect();
    for line in said.iter_mut().flat_map(|said| &mut said.lines) {
        line.text = "☕".repeat(500);
    }
    said[7].token = Token::fresh();
    let applied = db.store.say(&said).unwrap();
    assert!(applied.iter().enumerate().all(|(n, it)| (*it == Applied::Lost) == (n == 7)), "{applied:?}");
    assert_eq!(db.said(said[0].execution)[0].lines[199].1, said[0].lines[199]);
    assert_eq!(db.said(said[7].execution), [SaidRow::default()]);
}

/// And the next attempt begins a row of its own.
pub(crate) fn a_run_that_has_lost_its_execution_says_nothing(db: &Bench) {
    let entry = db.schedule("s");
    let first = db.run_head(&entry);
    let (id, early) = (first.execution(), says(&first, 2, db.now));
    assert_eq!(db.say(&early), Applied::Done);
    assert_eq!(db.settle(&first.finish(Answer::Snooze(Duration::ZERO), None, db.now)), Applied::Done);
    assert_eq!(db.say(&Said { lines: Vec::new(), ..early.clone() }), Applied::Lost, "it snoozes");
    let pending = Candidate::Pending(db.find_pending(id).unwrap());
    let second = won(db.claim(&ClaimRequest { at_once: true, ..db.request(pending) }));
    let later = says(&second, 1, db.now + 5);
    assert_eq!([db.say(&later), db.say(&early)], [Applied::Done, Applied::Lost]);
    let (was, is) = (early.fence, second.fence());
    assert_eq!(db.numbers(id), [(was, 0), (was, 1), (is, 0)]);
    let failed = second.finish(Answer::Failed("no".to_owned()), Some(db.now), db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    assert_eq!(db.say(&later), Applied::Lost, "it has failed");
    let lines: Vec<usize> = db.said(id).iter().map(|row| row.lines.len()).collect();
    assert_eq!(lines, [3, 0], "of both attempts");
}

/// Its own transaction, or the time limit, may have ended it before its last words are stored.
pub(crate) fn a_run_that_has_ended_by_itself_says_its_last_words(db: &Bench) {
    let [done, late] = ["done", "late"].map(|name| db.run_head(&db.schedule(name)));
    let said = [says(&done, 1, db.now), says(&late, 1, db.now)];
    db.store.complete(&done.complete(db.now)).unwrap();
    assert_eq!(db.settle(&late.time_out(1, db.now)), Applied::Done);
    assert_eq!(db.store.say(&said).unwrap(), [Applied::Done; 2]);
    assert_eq!(db.settle(&late.release(None, db.now)), Applied::Done);
    assert_eq!(db.say(&said[1]), Applied::Lost, "its handler has returned");
}

pub(crate) fn what_a_held_execution_says_waits_for_nobody(db: &Bench) {
    let runs = ["a", "b"].map(|name| db.run_head(&db.schedule(name)));
    let said: Vec<Said> = runs.iter().map(|run| says(run, 1, db.now)).collect();
    let held = db.lock_row(RowKey::Execution(said[0].execution));
    assert_eq!(db.store.say(&said).unwrap(), [Applied::Held, Applied::Done]);
    drop(held);
    assert_eq!(db.store.say(&said).unwrap(), [Applied::Done; 2]);
}
