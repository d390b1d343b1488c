//! What a run left behind, read from the real database and the jobs' own files, as the checker wants it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::hand::Hand;
use super::job::PAID;
use super::judge::{COUNTED, Change, Effect, Execution, Plan};
use super::load::Load;
use super::saved;

pub fn number(text: &str) -> i64 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

/// -1 is none.
fn maybe(text: &str) -> Option<i64> {
    Some(number(text)).filter(|value| *value != -1)
}

/// The rows of jobs that some node lists.
pub const LISTED: &str = "application = 'it' AND name < '~'";

/// The schedules, and when those ended that were removed.
pub fn plans(hand: &mut Hand, load: &Load, ended: &BTreeMap<String, (i64, i64)>) -> Vec<Plan> {
    let tail = format!("FROM QRTZ_EXECUTE WHERE {LISTED} ORDER BY id");
    let job = "(SELECT j.job_class FROM QRTZ_JOB j WHERE j.id = pid)";
    let rows = hand.rows(&format!("name, state, next_fire_time, generation, {job}, overlap"), &tail);
    let plan = |row: Vec<String>| {
        assert_eq!(row[3], "0", "no schedule was edited");
        Plan {
            generations: [(0, load.times.get(&row[0]).cloned().unwrap_or_default())].into(),
            delays: load.delays.get(&row[0]).map(|delay| (0, *delay)).into_iter().collect(),
            ended: ended.get(&row[0]).map(|span| (0, *span)).into_iter().collect(),
            recovers: true,
            deaths: 2,
            retries: 0,
            limit: None,
            exclusive: row[5] != "ALLOW",
            state: row[1].clone(),
            next: maybe(&row[2]),
            schedule: row[0].clone(),
            job: row[4].clone(),
            ..Plan::default()
        }
    };
    let plans: Vec<Plan> = rows.into_iter().map(plan).collect();
    assert_eq!(plans.len(), load.times.len(), "a schedule is missing");
    plans
}

pub fn executions(hand: &mut Hand) -> Vec<Execution> {
    let columns = "r.id, COALESCE(e.name, '?'), r.generation, r.origin, r.scheduled_time, r.until_time, r.occurrences, \
                   r.attempt, r.state, r.reason, r.fence, r.node, r.due_time, r.claimed_time, r.finished_time, \
                   r.prev_fire_time, r.following_fire_time, COALESCE(r.holder, -1)";
    let tail = "FROM QRTZ_RUN r LEFT JOIN QRTZ_EXECUTE e ON e.id = r.execute_id ORDER BY r.id";
    let execution = |row: Vec<String>| Execution {
        id: number(&row[0]),
        schedule: row[1].clone(),
        generation: number(&row[2]),
        origin: number(&row[3]),
        group: None,
        scheduled: number(&row[4]),
        until: maybe(&row[5]),
        count: number(&row[6]),
        attempt: row[7].parse().unwrap(),
        state: row[8].clone(),
        reason: row[9].clone(),
        fence: number(&row[10]),
        node: row[11].clone(),
        due: number(&row[12]),
        claimed: maybe(&row[13]),
        finished: maybe(&row[14]),
        prev: maybe(&row[15]),
        following: maybe(&row[16]),
        holder: maybe(&row[17]),
    };
    hand.rows(columns, tail).into_iter().map(execution).collect()
}

/// How many outcomes are counted in each of the judge's states.
pub fn counted(hand: &mut Hand) -> [i64; 4] {
    COUNTED.map(|state| {
        let column = format!("COALESCE(SUM({}), 0)", state.to_lowercase());
        let tables = ["QRTZ_OUTCOME", "QRTZ_OUTCOME_NEW"];
        tables.iter().map(|table| number(&hand.rows(&column, &format!("FROM {table}"))[0][0])).sum()
    })
}

/// A change with the nodes that held the execution before and after it.
pub struct Audited {
    pub change: Change,
    pub was_at: String,
    pub comes_to: String,
}

pub fn changes(hand: &mut Hand) -> Vec<Audited> {
    let state = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let rows = hand.rows("at, execution, was, becomes, was_at, comes_to", "FROM chaos_change ORDER BY id");
    let audited = |row: Vec<String>| Audited {
        change: Change {
            at: number(&row[0]),
            apart: 0,
            execution: number(&row[1]),
            from: state(&row[2]),
            to: state(&row[3]),
        },
        was_at: row[4].clone(),
        comes_to: row[5].clone(),
    };
    rows.into_iter().map(audited).collect()
}

/// What handlers have committed together with their outcomes: execution, fence, when it was written.
pub fn committed(hand: &mut Hand) -> Vec<[i64; 3]> {
    let rows = hand.rows("execution, fence, at", "FROM chaos_effect ORDER BY at");
    rows.into_iter().map(|row| [number(&row[0]), number(&row[1]), number(&row[2])]).collect()
}

/// What each process wrote down; an end belongs to the last begin of the same attempt in the same process.
pub fn effects(files: &[PathBuf], committed: &[[i64; 3]]) -> Vec<Effect> {
    let mut effects: Vec<Effect> =
        files.iter().filter(|file| file.exists()).flat_map(|file| effects_of(file)).collect();
    for [execution, fence, at] in committed {
        let begun = effects.iter_mut().find(|it| (it.execution, it.fence) == (*execution, *fence));
        begun
            .unwrap_or_else(|| panic!("execution {execution} has committed, and has not begun"))
            .committed
            .push(*at);
    }
    effects
}

fn effects_of(file: &Path) -> Vec<Effect> {
    let mut effects: Vec<Effect> = Vec::new();
    let text = fs::read_to_string(file).unwrap();
    for line in text.lines().filter(|line| !line.starts_with(saved::LINE)) {
        let parts: Vec<&str> = line.split('\t').collect();
        let [what, execution, schedule, scheduled, attempt, fence, at] = parts[..] else {
            panic!("{line:?} in {}", file.display())
        };
        let effect = Effect {
            execution: number(execution),
            schedule: schedule.to_owned(),
            scheduled: number(scheduled),
            attempt: attempt.parse().unwrap(),
            fence: number(fence),
            at: number(at),
            completes: schedule.starts_with(PAID.name()),
            ..Effect::default()
        };
        if what == "began" {
            effects.push(effect);
            continue;
        }
        let begun =
            effects.iter_mut().rev().find(|it| (it.execution, it.fence) == (effect.execution, effect.fence));
        begun.unwrap_or_else(|| panic!("ended without a begin: {line:?}")).ended = Some(effect.at);
    }
    effects
}
