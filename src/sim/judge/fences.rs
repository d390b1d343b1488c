//! Fences tell two runs apart, also those of commits that are lost.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Effect, Execution, History, Millis, QUEUE, Verdict};

/// Each run of a schedule, or of an enqueued execution, has a fence of its own; claims made after a promotion
/// have higher fences than all runs before it.
pub(super) fn fences(history: &History, verdict: &mut Verdict) {
    let rows: BTreeMap<i64, &Execution> = history.executions.iter().map(|row| (row.id, row)).collect();
    let mut known: BTreeMap<(&str, i64), BTreeMap<i64, &Effect>> = BTreeMap::new();
    for effect in history.effects.iter().chain(&history.lost) {
        let of_one = if effect.schedule.starts_with(QUEUE) { effect.execution } else { 0 };
        let known = known.entry((&effect.schedule, of_one)).or_default();
        if let Some(other) = known.insert(effect.fence, effect)
            && other != effect
        {
            verdict.blame(format!("two runs have one fence: {other:?} {effect:?}"));
        }
    }
    let mut claimed: BTreeMap<i64, Millis> = BTreeMap::new();
    for change in history.changes.iter().filter(|_| !history.promotions.is_empty()) {
        let is_claim = matches!(change.from.as_deref(), None | Some("PENDING"))
            && matches!(change.to.as_deref(), Some("CLAIMED" | "RUNNING"));
        claimed.extend(is_claim.then_some((change.execution, change.at)));
    }
    let mut of_schedules: BTreeMap<&str, BTreeSet<(Millis, i64)>> = BTreeMap::new();
    for (id, at) in claimed {
        let Some(row) = rows.get(&id).filter(|row| !row.schedule.starts_with(QUEUE)) else { continue };
        of_schedules.entry(&row.schedule).or_default().insert((at, row.fence));
    }
    for promotion in &history.promotions {
        for (schedule, claims) in &of_schedules {
            let after = claims.range((promotion + 1, i64::MIN)..).map(|(_, fence)| *fence).min();
            let Some(lowest) = after else { continue };
            let own = known.get(&(*schedule, 0)).into_iter().flatten();
            let before = own.filter(|(fence, it)| it.at <= *promotion && **fence >= lowest);
            for (_, effect) in before {
                verdict.blame(format!("claimed at fence {lowest} after {promotion}, behind: {effect:?}"));
            }
        }
    }
}
