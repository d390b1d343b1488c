//! The cron parser and the search for the next fire time.
//!
//! The input is text, so that seeds and findings can be read: `EXPRESSION \n ZONE \n AFTER_MS \n POLICIES`,
//! of which the first line alone will do.
#![no_main]

use firetime::{Cron, Fold, Gap};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let mut lines = input.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let (expression, zone, after, policies) = (line(), line(), line(), line());
    let zone = if zone.is_empty() { "UTC" } else { zone };
    match Cron::parse(expression, zone) {
        Ok(cron) => {
            let gap = if policies.contains('s') { Gap::Skip } else { Gap::FireAfter };
            let fold = if policies.contains('b') { Fold::Both } else { Fold::First };
            fires(&cron.with_gap(gap).with_fold(fold), after.parse().unwrap_or(0));
        }
        Err(error) => {
            let reason = error.to_string();
            assert!(reason.contains(expression) || reason.contains(zone), "{reason}");
            assert!(reason.len() > expression.len().min(zone.len()) + 10, "no reason: {reason}");
        }
    }
});

/// Some fire times after an instant, each looked for from two places.
fn fires(cron: &Cron, after: i64) {
    assert!(Cron::parse(cron.expression(), cron.zone()).is_ok());
    let mut at = after;
    for _ in 0..20 {
        let Some(next) = cron.next_after(at) else {
            assert_eq!(cron.next_after(at.saturating_add(86_400_000)), None, "exhausted for good");
            return;
        };
        assert!(next > at && next >= 0 && next % 1_000 == 0, "{next} after {at}");
        assert_eq!(cron.next_after(next - 1), Some(next));
        at = next;
    }
}
