//! The ledger: within a generation the rows' cursor moves follow one another without a gap.

use super::*;
use crate::domain::Reason;
use crate::domain::{Cursor, NextFire};
use crate::store::LedgerRow;

/// One row's cursor move.
#[derive(Debug, PartialEq)]
struct Move {
    prev: Option<Timestamp>,
    from: Timestamp,
    to: Timestamp,
    following: Option<Timestamp>,
}

impl Bench {
    /// The moves a generation's first attempts record, by fire time.
    fn moves(&self, entry: &Entry, generation: i64) -> Vec<Move> {
        let rows = self.executions().into_iter();
        let first = rows.filter(|row| {
            *row.schedule == *entry.name && (row.generation, row.origin, row.attempt) == (generation, 0, 1)
        });
        let mut moves: Vec<_> = first
            .map(|row| {
                let key = RowKey::Execution(ExecutionId(row.id));
                let (prev, following) =
                    (self.time(key, "prev_fire_time"), self.time(key, "following_fire_time"));
                Move { prev, from: row.scheduled, to: row.until.unwrap_or(row.scheduled), following }
            })
            .collect();
        moves.sort_by_key(|step| step.from);
        moves
    }

    /// From `prev` to the cursor, each occurrence once.
    pub(super) fn assert_no_gap(&self, entry: &Entry, generation: i64, prev: Option<Timestamp>, end: Cursor) {
        let moves = self.moves(entry, generation);
        let mut at = (prev, moves.first().map(|step| step.from));
        for step in &moves {
            assert_eq!((step.prev, Some(step.from)), at, "a gap before {step:?} in {moves:#?}");
            at = (Some(step.to), step.following);
        }
        assert_eq!(at, (end.prev, end.next.column()), "the cursor is elsewhere");
    }
}

pub(crate) fn claims_leave_no_gap(db: &Bench) {
    let entry = db.create(&Definition { trigger: every(db.base, 700, 9), ..db.definition("s") });
    for _ in 0..10 {
        drop_claimed(db.claim(&db.head(&db.entry("s"))));
    }
    assert_eq!(db.moves(&entry, 0).len(), 10);
    db.assert_no_gap(&entry, 0, None, Cursor { prev: Some(db.base + 9 * 700), next: NextFire::Never });
}

/// Skips `count` occurrences, or makes the last of them pending.
fn repair(db: &Bench, count: i64, fire: bool) -> bool {
    let entry = db.entry("s");
    let first = entry.cursor.next.at().unwrap();
    let last = first + (count - 1) * 1_000;
    let (before_last, after) = (last - 1_000, last + 1_000);
    let skipped_to = if fire { before_last } else { last };
    let mut rows = Vec::new();
    if skipped_to >= first {
        rows.push(LedgerRow::Skipped {
            from: first,
            to: skipped_to,
            count: ((skipped_to - first) / 1_000 + 1) as u64,
            prev: entry.cursor.prev,
            following: NextFire::At(skipped_to + 1_000),
            reason: Reason::Misfire,
            holder: None,
        });
    }
    if fire {
        let prev = if count == 1 { entry.cursor.prev } else { Some(before_last) };
        let (due, following) = (db.now, NextFire::At(after));
        rows.push(LedgerRow::Pending { at: last, due, prev, following, reason: Reason::Misfire });
    }
    let to = Cursor { prev: Some(last), next: NextFire::At(after) };
    db.repaired(&Repair {
        to,
        rows,
        passed: count as u64,
        supersede: db.unstarted(entry.id),
        ..db.repair(&entry)
    })
}

/// Claims, give-backs, retries, deaths and repairs in turn, and losers of each beside them.
pub(crate) fn claims_and_repairs_together_leave_no_gap(db: &Bench) {
    let entry = db.schedule("s");
    for round in 0..6 {
        let in_hand = db.head(&db.entry("s"));
        let claimed = db.run_head(&db.entry("s"));
        match round % 3 {
            0 => assert_eq!(db.settle(&claimed.give_back(db.now)), Applied::Done),
            1 => {
                let failed = claimed.finish(Answer::Failed("no".to_owned()), Some(db.now), db.now);
                assert_eq!(db.settle(&failed), Applied::Done);
            }
            _ => assert_eq!(db.settle(&succeeded(claimed, db.now)), Applied::Done),
        }
        assert!(is_lost(&db.claim(&in_hand)));
        let lost = db.repair(&db.entry("s"));
        assert!(repair(db, 1 + round % 4, round % 2 == 0));
        assert!(!db.repaired(&lost));
        drop_claimed(db.resolve(&db.head(&db.entry("s"))));
        for pending in db.pendings_of(entry.id) {
            let request = ClaimRequest { at_once: true, ..db.request(Candidate::Pending(pending)) };
            drop_claimed(db.claim(&request));
        }
    }
    db.assert_no_gap(&entry, 0, None, db.entry("s").cursor);
    let passed: i64 = (0..6).map(|round| 2 + 1 + round % 4).sum();
    assert_eq!(db.number(RowKey::Schedule(entry.id), "time_triggered"), passed);
}

pub(crate) fn a_changed_trigger_begins_a_ledger_of_its_own(db: &Bench) {
    let definition = db.definition("s");
    let entry = db.create(&definition);
    drop_claimed(db.claim(&db.head(&entry)));
    drop_claimed(db.claim(&db.head(&db.entry("s"))));
    let before = db.entry("s").cursor;
    let changed = Definition { trigger: every(db.base + 1_500, 500, -1), ..definition };
    assert_eq!(db.store.ensure(&changed).unwrap(), Ensured::Changed);
    let anew = db.entry("s");
    assert_eq!((anew.cursor.prev, anew.cursor.next), (Some(db.base + 1_000), NextFire::At(db.base + 1_500)));
    drop_claimed(db.claim(&db.head(&anew)));
    drop_claimed(db.claim(&db.head(&db.entry("s"))));
    db.assert_no_gap(&entry, 0, None, before);
    db.assert_no_gap(&entry, 1, Some(db.base + 1_000), db.entry("s").cursor);
}
