//! Histograms of spans of time, with fixed bounds, counted without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(feature = "metrics")]
use super::user_code::guarded;

/// The upper bounds of the buckets, in seconds: the same for every histogram.
const BOUNDS: [f64; 18] = [
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
    1_800.0, 3_600.0,
];

/// Counts spans by their lengths.
#[derive(Debug, Default)]
pub(crate) struct SpanCounter {
    /// One for each bound, and one for what is longer than all of them.
    counts: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

/// How many spans of which lengths there were, since the start.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Histogram {
    /// The upper bounds of the buckets, each included, in seconds, ascending.
    pub bounds: &'static [f64],
    /// How many spans fell into each bucket alone; the last one, which has no bound, has what is longer.
    pub counts: Vec<u64>,
    /// The sum of all spans, in seconds.
    pub sum: f64,
}

impl SpanCounter {
    pub(crate) fn add(&self, span: Duration) {
        let seconds = span.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Ordering::Relaxed) == 0)
    }

    pub(crate) fn read(&self) -> Histogram {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let sum = Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64();
        Histogram { bounds: &BOUNDS, counts, sum }
    }
}

impl Histogram {
    /// How many spans there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Tells the `metrics` facade of a span of this family, if that is wanted.
#[cfg_attr(not(feature = "metrics"), allow(unused_variables, reason = "nobody is told"))]
pub(crate) fn tell(family: &'static str, label: Option<(&'static str, &str)>, span: Duration) {
    #[cfg(feature = "metrics")]
    {
        let labels: Vec<metrics::Label> =
            label.iter().map(|(name, value)| metrics::Label::new(*name, (*value).to_owned())).collect();
        // The recorder is the application's code, and this an execution's way.
        guarded(|| metrics::histogram!(family, labels).record(span)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_falls_into_the_bucket_of_the_next_bound() {
        let counter = SpanCounter::default();
        assert!(counter.is_empty());
        for millis in [0, 1, 2, 1_000, 1_001, 3_600_000, 3_600_001] {
            counter.add(Duration::from_millis(millis));
        }
        let read = counter.read();
        let place = |bound: f64| read.bounds.iter().position(|it| *it == bound).unwrap();
        let of = |bound| read.counts[place(bound)];
        assert_eq!((of(0.001), of(0.002_5), of(1.0), of(2.5), of(3_600.0)), (2, 1, 1, 1, 1));
        assert_eq!((read.counts.last(), read.count()), (Some(&1), 7));
        assert!((read.sum - 7_202.005).abs() < 1e-6, "{}", read.sum);
        assert!(read.bounds.is_sorted() && read.counts.len() == read.bounds.len() + 1);
    }
}
