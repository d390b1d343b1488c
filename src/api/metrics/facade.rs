//! Tells the `metrics` facade of a node's counters and gauges, every ten seconds. Spans are told as they end,
//! where they are counted. Nothing has the label `application`: the host's recorder adds what it wants.

use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::{RecvTimeoutError, Sender, bounded};

use super::family::{Family, Kind, Metrics, Sample, Value};
use crate::api::Health;
use crate::domain::Error;
use crate::machine::driver::spawn;
use crate::node::Node;

/// Between two turns.
const EVERY: Duration = Duration::from_secs(10);

/// Tells of a node until what this returns is dropped.
pub(in crate::api) fn tell(node: &Arc<Node>) -> Result<Sender<()>, Error> {
    let (alive, ended) = bounded(0);
    let node = Arc::downgrade(node);
    spawn("firetime-metrics", move || {
        let mut is_described = false;
        while let Some(node) = node.upgrade() {
            let health = Health::of(node.lanes(), node.lease(), node.stage());
            let metrics = super::node::of(&node, &health);
            drop(node);
            publish(&metrics, !std::mem::replace(&mut is_described, true));
            if ended.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    })?;
    Ok(alive)
}

fn publish(metrics: &Metrics, describe: bool) {
    for Family { name, help, kind, samples } in &metrics.families {
        if describe {
            match kind {
                Kind::Counter => metrics::describe_counter!(*name, *help),
                Kind::Gauge => metrics::describe_gauge!(*name, *help),
                Kind::Histogram => metrics::describe_histogram!(*name, metrics::Unit::Seconds, *help),
            }
        }
        for Sample { labels, value } in samples {
            let labels: Vec<metrics::Label> = labels
                .iter()
                .skip(1)
                .map(|(name, value)| metrics::Label::new(*name, value.clone()))
                .collect();
            match (kind, value) {
                (Kind::Counter, Value::Number(number)) => {
                    metrics::counter!(*name, labels).absolute(*number as u64);
                }
                (Kind::Gauge, Value::Number(number)) => metrics::gauge!(*name, labels).set(*number),
                // Its spans were told one by one.
                (Kind::Histogram, _) | (_, Value::Histogram(_)) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, atomic::AtomicU64, atomic::Ordering};

    use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

    use super::*;

    /// Keeps what it is told.
    #[derive(Default)]
    struct Kept(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

    impl Kept {
        fn cell(&self, key: &Key) -> Arc<AtomicU64> {
            Arc::clone(self.0.lock().unwrap().entry(key.to_string()).or_default())
        }
    }

    impl Recorder for Kept {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(self.cell(key))
        }
        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(self.cell(key))
        }
        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn counters_and_gauges_are_told_with_their_labels() {
        let families = vec![
            Family::new(Kind::Counter, "a_total", "A.").number(&[("job", "mail")], 7.0),
            Family::new(Kind::Gauge, "b", "B.").number(&[], 0.5),
        ];
        let kept = Kept::default();
        metrics::with_local_recorder(&kept, || {
            publish(&Metrics::of("shop", families.clone()), true);
            publish(&Metrics::of("shop", families), false);
        });
        let told = kept.0.into_inner().unwrap();
        let values: Vec<u64> = told.values().map(|cell| cell.load(Ordering::Relaxed)).collect();
        assert_eq!(values, [7, 0.5_f64.to_bits()]);
        let keys: Vec<&String> = told.keys().collect();
        assert!(keys[0].contains("job = mail") && !keys[1].contains("shop"), "{keys:?}");
    }
}
