//! Tells the `metrics` facade of a node's counters and gauges, every ten seconds. Spans are told as they end,
//! where they are counted. Nothing has the label `application`: the host's recorder adds what it wants. The
//! cluster's figures are not told: nobody could take back what a node has told that reads them no more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::{RecvTimeoutError, Sender, bounded};

use super::family::{Family, Kind, Metrics, Sample, Value};
use super::node::NODE_INFO;
use crate::api::Health;
use crate::domain::Error;
use crate::domain::user_code::guarded;
use crate::machine::driver::spawn;
use crate::node::Node;

/// Between two turns.
const EVERY: Duration = Duration::from_secs(10);

/// The last value that the facade was told of each counter, by name and labels.
type Told = BTreeMap<(&'static str, Vec<(&'static str, String)>), u64>;

/// Tells of a node until what this returns is dropped; its gauges are 0 then.
pub(in crate::api) fn tell(node: &Arc<Node>) -> Result<Sender<()>, Error> {
    let (alive, ended) = bounded(0);
    let node = Arc::downgrade(node);
    spawn("firetime-metrics", move || {
        let (mut told, mut last) = (Told::new(), None);
        while let Some(node) = node.upgrade() {
            let metrics = super::node::alone(&node, &Health::of_node(&node));
            drop(node);
            // The recorder is the application's code.
            guarded(|| publish(&metrics, &mut told, last.is_none())).ok();
            guarded(|| last.iter().for_each(|last| end_renamed(last, &metrics))).ok();
            last = Some(metrics);
            if ended.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        guarded(|| last.iter().for_each(end)).ok();
    })?;
    Ok(alive)
}

fn publish(metrics: &Metrics, told: &mut Told, describe: bool) {
    for Family { name, help, kind, samples } in &metrics.families {
        if describe {
            match kind {
                Kind::Counter => metrics::describe_counter!(*name, *help),
                Kind::Gauge => metrics::describe_gauge!(*name, *help),
                Kind::Histogram => metrics::describe_histogram!(*name, metrics::Unit::Seconds, *help),
            }
        }
        for sample in samples {
            match (kind, &sample.value) {
                // Others may count under the same name: another scheduler of this process, or the next one.
                (Kind::Counter, Value::Number(number)) => {
                    let so_far = told.entry((*name, sample.labels.clone())).or_default();
                    let now = *number as u64;
                    metrics::counter!(*name, labels(sample)).increment(now.saturating_sub(*so_far));
                    *so_far = now;
                }
                (Kind::Gauge, Value::Number(number)) => metrics::gauge!(*name, labels(sample)).set(*number),
                // Its spans were told one by one.
                (Kind::Histogram, _) | (_, Value::Histogram(_)) => {}
            }
        }
    }
}

/// A node that others declared dead, and that goes on under another name, is there under that one alone.
fn end_renamed(last: &Metrics, metrics: &Metrics) {
    let [before, now] = [last, metrics].map(|it| it.family(NODE_INFO));
    let is_told = |sample: &Sample| now.is_some_and(|now| now.samples.contains(sample));
    for sample in before.iter().flat_map(|it| &it.samples).filter(|it| !is_told(it)) {
        metrics::gauge!(NODE_INFO, labels(sample)).set(0.0);
    }
}

/// The node has ended.
fn end(metrics: &Metrics) {
    for Family { name, samples, .. } in metrics.families.iter().filter(|it| it.kind == Kind::Gauge) {
        samples.iter().for_each(|sample| metrics::gauge!(*name, labels(sample)).set(0.0));
    }
}

/// But for `application`, the first.
fn labels(sample: &Sample) -> Vec<metrics::Label> {
    let labels = sample.labels.iter().skip(1);
    labels.map(|(name, value)| metrics::Label::new(*name, value.clone())).collect()
}

#[cfg(test)]
mod tests {
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
            // Two schedulers of a process count under one name.
            for mut told in [Told::new(), Told::new()] {
                let metrics = Metrics::of("shop", families.clone());
                publish(&metrics, &mut told, true);
                publish(&metrics, &mut told, false);
            }
        });
        let told = kept.0.into_inner().unwrap();
        let values: Vec<u64> = told.values().map(|cell| cell.load(Ordering::Relaxed)).collect();
        assert_eq!(values, [14, 0.5_f64.to_bits()]);
        let keys: Vec<&String> = told.keys().collect();
        assert!(keys[0].contains("job = mail") && !keys[1].contains("shop"), "{keys:?}");
    }

    #[test]
    fn the_gauges_of_a_node_that_has_ended_are_0() {
        let families = vec![Family::new(Kind::Gauge, "ready", "R.").number(&[], 1.0)];
        let (kept, metrics) = (Kept::default(), Metrics::of("shop", families));
        metrics::with_local_recorder(&kept, || {
            publish(&metrics, &mut Told::new(), true);
            end(&metrics);
        });
        let told = kept.0.into_inner().unwrap();
        assert_eq!(told.values().map(|cell| cell.load(Ordering::Relaxed)).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn a_node_is_told_under_its_last_name_alone() {
        let of = |node: &str| {
            let families = vec![Family::gauge(NODE_INFO, "N.").number(&[("node", node)], 1.0)];
            Metrics::of("shop", families)
        };
        let (kept, told) = (Kept::default(), &mut Told::new());
        metrics::with_local_recorder(&kept, || {
            let [first, second] = ["a", "b"].map(of);
            publish(&first, told, true);
            end_renamed(&first, &first);
            publish(&second, told, false);
            end_renamed(&first, &second);
        });
        let told = kept.0.into_inner().unwrap();
        let values: Vec<u64> = told.values().map(|cell| cell.load(Ordering::Relaxed)).collect();
        assert_eq!(values, [0, 1.0_f64.to_bits()]);
    }

    #[test]
    fn a_start_without_a_thread_for_it_leaves_no_node() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("x.db").display());
        const GREET: crate::Job<()> = crate::Job::new("greet");
        let builder = crate::Scheduler::builder("shop", &url).handler(GREET, |_, ()| Ok(()));
        let refused = crate::machine::driver::refused::during("firetime-metrics", || builder.start());
        assert!(refused.is_err());
        let client = crate::Client::connect("shop", &url).unwrap();
        let clock = crate::time::Clock::default();
        let until = clock.now().boot + 20_000;
        while client.nodes().unwrap().iter().any(|node| node.ended.is_none()) {
            assert!(clock.now().boot < until, "its node goes on");
            std::thread::yield_now();
        }
    }
}
