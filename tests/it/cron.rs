//! The cron engine's promise that needs a look at the allocator.

use chrono::{TimeZone, Utc};
use firetime::{Cron, Fold, Gap};
use libtest_mimic::Trial;

use crate::trial;

pub fn add(trials: &mut Vec<Trial>) {
    trials.push(trial("cron::next_after_allocates_nothing".to_owned(), next_after_allocates_nothing));
}

fn next_after_allocates_nothing() {
    let counted = allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(counted.count_total, 1, "the counter counts");
    let [begin, end] = [2024, 2026].map(|year| Utc.with_ymd_and_hms(year, 1, 1, 0, 0, 0).unwrap());
    for expression in ["0 0/15 * * * ?", "0 30 2 * * ?", "0 0 0 LW * ?", "0 0 0 ? * 6#3", "0 0 0 29 2 ?"] {
        for (gap, fold) in [(Gap::FireAfter, Fold::First), (Gap::Skip, Fold::Both)] {
            let cron = Cron::parse(expression, "Europe/Berlin").unwrap().with_gap(gap).with_fold(fold);
            let counted = allocation_counter::measure(|| {
                let mut at = begin;
                while let Some(next) = cron.next_after(at).filter(|next| *next < end) {
                    at = next;
                }
            });
            assert_eq!(counted.count_total, 0, "{expression}");
        }
    }
}
