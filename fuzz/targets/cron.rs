//! The cron parser and the search for the next fire time.
//!
//! The input is text, so that seeds and findings can be read: `EXPRESSION \n ZONE \n AFTER_MS \n POLICIES`,
//! of which the first line alone will do.
#![no_main]

use chrono::{DateTime, TimeDelta, Utc};
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
            let after = after.parse().ok().and_then(DateTime::from_timestamp_millis);
            fires(&cron.with_gap(gap).with_fold(fold), after.unwrap_or_default());
        }
        Err(error) => {
            let reason = error.to_string();
            assert!(reason.contains(expression) || reason.contains(zone), "{reason}");
            assert!(reason.len() > expression.len().min(zone.len()) + 10, "no reason: {reason}");
        }
    }
});

/// Some fire times after an instant, each looked for from two places.
fn fires(cron: &Cron, after: DateTime<Utc>) {
    assert!(Cron::parse(cron.expression(), cron.zone()).is_ok());
    let mut at = after;
    for _ in 0..20 {
        let Some(next) = cron.next_after(at) else {
            let later = at.checked_add_signed(TimeDelta::days(1)).unwrap_or(at);
            assert_eq!(cron.next_after(later), None, "exhausted for good");
            return;
        };
        let millis = next.timestamp_millis();
        assert!(next > at && millis >= 0 && millis % 1_000 == 0, "{next} after {at}");
        assert_eq!(cron.next_after(next - TimeDelta::milliseconds(1)), Some(next));
        at = next;
    }
}
