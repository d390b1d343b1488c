use std::cell::Cell;

use super::*;
use crate::fixtures::cron;

/// Understands everything at once.
struct Quick;

impl Catalog for Quick {
    fn jobs(&self) -> Vec<String> {
        Vec::new()
    }

    fn decodes(&self, _job: &str, _payload: &str) -> Result<(), String> {
        Ok(())
    }

    fn clock(&self) -> Micros {
        Micros::ZERO
    }
}

fn row(id: i64, job: &str) -> Arc<Entry> {
    Arc::new(Entry { job: job.into(), ..cron(id, "0 * * * * ?", Timestamp::at(1_000_000 - id)) })
}

fn rows(ids: std::ops::Range<i64>, job: &str) -> Vec<Arc<Entry>> {
    ids.map(|id| row(id, job)).collect()
}

fn ask(decoders: &mut Decoders, rows: &[Arc<Entry>]) -> Option<Decode> {
    decoders.ask(rows.iter().map(|row| (row.cursor.next.at().unwrap(), row)), Micros::of(1_000_000))
}

fn ids(decode: &Decode) -> Vec<Vec<i64>> {
    decode.jobs.iter().map(|rows| rows.iter().map(|row| row.id.0).collect()).collect()
}

/// Until their payloads can be decoded.
#[test]
fn the_schedules_that_are_left_alone_are_told_to_the_others() {
    let mut decoders = Decoders::new(Arc::new(Quick));
    let mut said = |rows: &[Arc<Entry>], says: Result<(), &str>| {
        let reports = ask(&mut decoders, rows).unwrap().reports;
        for row in rows {
            reports.send(Report::Begins(Arc::clone(row))).unwrap();
            reports.send(Report::Ends(says.map_err(str::to_owned))).unwrap();
        }
        drop(reports);
        decoders.listen();
        let told = decoders.changes();
        assert!(decoders.changes().is_none(), "told once");
        told.map(|all| all.into_iter().map(|it| (it.schedule, it.version, it.reason)).collect::<Vec<_>>())
    };
    assert_eq!(said(&rows(1..2, "job"), Ok(())), None);
    let no = |id, version| (id, version, "no field".to_owned());
    assert_eq!(said(&rows(2..4, "job"), Err("no field")).unwrap(), [no(2, 0), no(3, 0)]);
    let edited = |id| Arc::new(Entry { version: 1, ..row(id, "job").as_ref().clone() });
    assert_eq!(said(&[edited(2)], Err("no field")).unwrap(), [no(2, 1), no(3, 0)]);
    assert_eq!(said(&[edited(3)], Ok(())).unwrap(), [no(2, 1)]);
    assert_eq!(said(&rows(10..99, "job"), Err("no field")).unwrap().len(), MOST_TOLD);
}

/// Beside a slow one, quick decoders would get a turn each millisecond if the jobs took turns.
#[test]
fn jobs_share_the_time_and_not_the_turns() {
    let clock = Cell::new(0);
    let mut decoded = Vec::new();
    let jobs = vec![rows(0..1_000, "slow").into(), rows(1_000..3_000, "quick").into()];
    in_turn(
        jobs,
        Micros::of(100_000),
        || Micros::of(clock.get()),
        |row| {
            clock.set(clock.get() + if row.id.0 < 1_000 { 1_000 } else { 1 });
            decoded.push(row.id.0);
        },
    );
    assert_eq!(clock.get(), 100_000);
    assert!((1_000..3_000).all(|id| decoded.contains(&id)));
}

#[test]
fn one_row_is_decoded_however_late_it_is() {
    let mut decoded = 0;
    in_turn(vec![rows(0..9, "job").into()], Micros::ZERO, || Micros::ZERO, |_| decoded += 1);
    assert_eq!(decoded, 1);
}

#[test]
fn a_version_is_decoded_once_and_the_first_due_first() {
    let mut decoders = Decoders::new(Arc::new(Quick));
    let mut all = [rows(1..4, "a"), rows(4..6, "b"), rows(1..2, "a")].concat();
    let decode = ask(&mut decoders, &all).unwrap();
    assert_eq!(ids(&decode), [vec![5, 4], vec![3, 2, 1]]);
    decode.perform();
    assert!(decoders.listen().is_empty());
    assert!(all.iter().all(|row| decoders.verdict(row) == Some(true)));
    assert!(ask(&mut decoders, &all).is_none());
    all[0] = Arc::new(Entry { version: 1, ..Entry::clone(&all[0]) });
    assert_eq!(ask(&mut decoders, &all[..5]).map(|decode| ids(&decode)), Some(vec![vec![1]]));
}

#[test]
fn a_decoder_that_hangs_holds_up_its_own_job_until_it_returns() {
    let mut decoders = Decoders::new(Arc::new(Quick));
    let all = [rows(1..4, "hangs"), rows(4..6, "other")].concat();
    let decode = ask(&mut decoders, &all).unwrap();
    decode.hang(&all[2]);
    decoders.listen();
    let told = decoders.give_up().map(|event| event.to_string()).unwrap();
    assert!(told.contains("has not returned"), "{told}");
    assert_eq!(all.iter().filter(|row| decoders.verdict(row) == Some(false)).count(), 3);
    assert_eq!(ask(&mut decoders, &all).map(|decode| ids(&decode)), Some(vec![vec![5, 4]]));
    decode.perform();
    decoders.listen();
    assert!(all.iter().all(|row| decoders.verdict(row) == Some(true)), "what it said at last counts");
}

/// Whatever failed, it was no decoder.
#[test]
fn an_operation_that_is_gone_blames_nobody() {
    let mut decoders = Decoders::new(Arc::new(Quick));
    let all = rows(1..4, "job");
    let decode = ask(&mut decoders, &all).unwrap();
    decode.hang(&all[0]);
    drop(decode);
    decoders.listen();
    assert!(decoders.give_up().is_none());
    assert!(ask(&mut decoders, &all).is_some());
}

#[test]
fn decoders_that_hang_are_bounded() {
    let mut decoders = Decoders::new(Arc::new(Quick));
    let all: Vec<_> = (0..20).map(|id| row(id, &format!("job-{id}"))).collect();
    let mut hanging = Vec::new();
    while let Some(decode) = ask(&mut decoders, &all) {
        decode.hang(&decode.jobs[0][0]);
        decoders.listen();
        decoders.give_up().unwrap();
        hanging.push(decode);
    }
    assert_eq!(hanging.len(), MOST_HANGING);
    hanging.pop();
    decoders.listen();
    assert!(ask(&mut decoders, &all).is_some());
}

#[test]
fn what_is_asked_for_stays_known_and_memory_is_bounded() {
    let mut verdicts = Verdicts::default();
    let entry = cron(0, "0 * * * * ?", Timestamp::at(0));
    let of = |id| Entry { id: ScheduleId(id), ..entry.clone() };
    let generation = i64::try_from(GENERATION).unwrap();
    for id in 0..4 * generation {
        verdicts.learn(&of(id), true);
        assert_eq!(verdicts.ask(&of(0)), Some(true));
    }
    assert!(verdicts.recent.len().max(verdicts.before.len()) <= GENERATION);
    assert_eq!(verdicts.get(&of(1)), None);
}
