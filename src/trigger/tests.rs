//! Tests of triggers as a whole.

mod days;
mod facts;
mod listed;
mod oracle;
mod peers;
mod properties;
mod words;

use crate::trigger::Cron;

/// The occurrences after `after`, up to and including `last`, all epoch milliseconds.
fn occurrences(cron: &Cron, after: i64, last: i64) -> Vec<i64> {
    let next = |at: &i64| cron.next_after_ms(*at).filter(|next| *next <= last);
    std::iter::successors(next(&after), next).collect()
}
