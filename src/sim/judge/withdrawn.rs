//! What was due when a schedule got another trigger, or was removed: each occurrence that nobody had claimed,
//! skipped or passed has a row, and no other has one.

use super::history::{Execution, Millis, Plan, Verdict};

/// Judges the end of a generation: its row of what was withdrawn, and the fire time behind all its rows.
/// Whether each occurrence has one row, in order, is judged with the others.
pub(super) fn generation(
    (plan, generation): (&Plan, i64),
    withdrawal: Option<&Execution>,
    following: Option<Millis>,
    verdict: &mut Verdict,
) {
    let name = &plan.schedule;
    let Some((earliest, latest)) = plan.ended.get(&generation).copied() else {
        if let Some(row) = withdrawal {
            verdict.blame(format!("{name}: withdrawn, and neither edited nor removed: {row:?}"));
        }
        return;
    };
    if let Some(row) = withdrawal
        && row.last() > latest
    {
        verdict.blame(format!("{name}: withdrawn, and not due by {latest}: {row:?}"));
    }
    if let Some(due) = following.filter(|due| *due <= earliest) {
        verdict.blame(format!(
            "{name}: generation {generation} ended at {earliest}, and what was due at {due} has no row"
        ));
    }
}
