//! What it costs to see an execution: allocations on the thread that runs it.

#[cfg(feature = "tracing")]
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use allocation_counter::measure;
#[cfg(feature = "tracing")]
use tracing::subscriber::{NoSubscriber, with_default};
#[cfg(feature = "tracing")]
use tracing_subscriber::layer::{Layer, SubscriberExt};

use super::bench::RunnerBench;
use crate::domain::{JobPolicy, JobSpec};
use crate::node::context::Context;
use crate::node::handlers::Handlers;

/// The allocations of a run whose handler does this, and ends well.
fn allocations(body: fn(&Context)) -> u64 {
    let run = || {
        let mut handlers = Handlers::default();
        let handler = move |context: &Context, ()| {
            body(context);
            Ok(())
        };
        handlers.add(JobSpec::new("job", JobPolicy::DEFAULT), handler).unwrap();
        let bench = RunnerBench::new(handlers);
        let claimed = bench.claim(true);
        measure(|| bench.runner.run(claimed)).count_total
    };
    // The first may allocate for its thread.
    run();
    run()
}

fn says_nothing(_: &Context) {}

/// How many spans have been made.
#[cfg(feature = "tracing")]
#[derive(Clone, Default)]
struct Made(Arc<AtomicUsize>);

#[cfg(feature = "tracing")]
impl<S: tracing::Subscriber> Layer<S> for Made {
    fn on_new_span(
        &self,
        _: &tracing::span::Attributes<'_>,
        _: &tracing::span::Id,
        _: tracing_subscriber::layer::Context<'_, S>,
    ) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn what_is_not_said_or_traced_costs_nothing() {
    let plain = allocations(says_nothing);
    let says = allocations(|context| {
        context.log("has begun");
        context.progress(1, 2);
        context.result(&7).unwrap();
    });
    println!("allocations per execution, while it runs: {plain}, of one that says something: {says}");
    assert!(plain <= 8, "{plain}");
    assert!(says <= plain + 6, "{says} beside {plain}");
    #[cfg(feature = "tracing")]
    {
        let none = NoSubscriber::default();
        let off = with_default(none, || allocations(says_nothing));
        let made = Made::default();
        let on =
            with_default(tracing_subscriber::registry().with(made.clone()), || allocations(says_nothing));
        println!("without a subscriber: {off}, with a registry that keeps its span: {on}");
        assert_eq!(off, plain, "nobody asks for spans");
        assert!(made.0.load(Ordering::Relaxed) >= 2, "each run has a span");
        // The registry takes spans from a pool.
        assert!(on <= plain + 2, "{on} beside {plain}");
    }
}
