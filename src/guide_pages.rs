// The files of docs/guide as modules. A link there names a file, and the page's end says where that is; here
// `links` comes first, which leads to the file's module or, of other files, to docs.rs' copy of the package.

/// Where docs.rs shows a file of this version's package.
macro_rules! source {
    ($path:literal) => {
        concat!("https://docs.rs/crate/firetime/", env!("CARGO_PKG_VERSION"), "/source/", $path)
    };
}

/// What links of the pages lead to; a test holds it complete.
macro_rules! links {
    () => {
        concat!(
            "[async.md]: crate::guide::async_handlers\n",
            "[catching-up.md]: crate::guide::catching_up\n",
            "[catching-up.md#running-what-was-missed]: crate::guide::catching_up#running-what-was-missed\n",
            "[changing-jobs.md]: crate::guide::changing_jobs\n",
            "[coming-from-db-scheduler.md]: crate::guide::coming_from_db_scheduler\n",
            "[coming-from-quartz.md]: crate::guide::coming_from_quartz\n",
            "[coming-from-river.md]: crate::guide::coming_from_river\n",
            "[coming-from-tokio-cron-scheduler.md]: crate::guide::coming_from_tokio_cron_scheduler\n",
            "[coming-from-xxl-job.md]: crate::guide::coming_from_xxl_job\n",
            "[concurrency.md]: crate::guide::concurrency\n",
            "[containment.md]: crate::guide::containment\n",
            "[control.md]: crate::guide::control\n",
            "[control.md#cancel-an-execution]: crate::guide::control#cancel-an-execution\n",
            "[control.md#pause-and-resume]: crate::guide::control#pause-and-resume\n",
            "[control.md#remove-a-schedule]: crate::guide::control#remove-a-schedule\n",
            "[control.md#within-your-own-transaction]: crate::guide::control#within-your-own-transaction\n",
            "[enqueue.md]: crate::guide::enqueue\n",
            "[enqueue.md#from-a-handler-and-in-a-test]: crate::guide::enqueue#from-a-handler-and-in-a-test\n",
            "[enqueue.md#how-soon-it-begins]: crate::guide::enqueue#how-soon-it-begins\n",
            "[errors.md]: crate::guide::errors\n",
            "[exactly-once.md]: crate::guide::exactly_once\n",
            "[first-schedule.md]: crate::guide::first_schedule\n",
            "[history.md]: crate::guide::history\n",
            "[lanes.md]: crate::guide::lanes\n",
            "[middleware.md]: crate::guide::middleware\n",
            "[observing.md]: crate::guide::observing\n",
            "[observing.md#events]: crate::guide::observing#events\n",
            "[other-languages.md]: crate::guide::other_languages\n",
            "[overlap.md]: crate::guide::overlap\n",
            "[saying.md]: crate::guide::saying\n",
            "[saying.md#results-and-waiting-for-them]: crate::guide::saying#results-and-waiting-for-them\n",
            "[schedules-in-code.md]: crate::guide::schedules_in_code\n",
            "[testing.md]: crate::guide::testing\n",
            "[time-limits-and-retries.md]: crate::guide::time_limits_and_retries\n",
            "[time-limits-and-retries.md#going-on-where-it-stopped]: crate::guide::time_limits_and_retries#going-on-where-it-stopped\n",
            "[traces.md]: crate::guide::traces\n",
            "[traces.md#the-span]: crate::guide::traces#the-span\n",
            "[transactions.md]: crate::guide::transactions\n",
            "[transactions.md#what-an-open-transaction-holds-back]: crate::guide::transactions#what-an-open-transaction-holds-back\n",
            "[triggers.md]: crate::guide::triggers\n",
            "[verifying.md]: crate::guide::verifying\n",
            "[what-it-does-not-do.md]: crate::guide::what_it_does_not_do\n",
            "[why.md]: crate::guide::why\n",
            concat!("[../../examples/axum/main.rs]: ", source!("examples/axum/main.rs"), "\n"),
            concat!("[../../examples/monitoring]: ", source!("examples/monitoring/"), "\n"),
            concat!("[../../examples/python/shop.py]: ", source!("examples/python/shop.py"), "\n"),
            concat!("[../../examples/sqlx/main.rs]: ", source!("examples/sqlx/main.rs"), "\n"),
            concat!("[../../examples/transactional.rs]: ", source!("examples/transactional.rs"), "\n"),
            concat!("[../../src/api/builder.rs]: ", source!("src/api/builder.rs"), "\n"),
            concat!("[../adr/0052-async-connections-run-what-a-blocking-decision-asks.md]: ", source!("docs/adr/0052-async-connections-run-what-a-blocking-decision-asks.md"), "\n"),
            concat!("[../adr/0053-a-handlers-transaction-stores-its-outcome.md]: ", source!("docs/adr/0053-a-handlers-transaction-stores-its-outcome.md"), "\n"),
            concat!("[../adr/0065-each-list-has-a-way-of-its-own.md]: ", source!("docs/adr/0065-each-list-has-a-way-of-its-own.md"), "\n"),
            concat!("[../adr/0066-a-late-claim-says-for-which-seat-it-waited.md]: ", source!("docs/adr/0066-a-late-claim-says-for-which-seat-it-waited.md"), "\n"),
            concat!("[../architecture.md]: ", source!("docs/architecture.md"), "\n"),
            concat!("[../cli.md]: ", source!("docs/cli.md"), "\n"),
            concat!("[../console.md]: ", source!("docs/console.md"), "\n"),
            concat!("[../deployments.md]: ", source!("docs/deployments.md"), "\n"),
            concat!("[../deployments.md#galera]: ", source!("docs/deployments.md"), "\n"),
            concat!("[../deployments.md#roles]: ", source!("docs/deployments.md"), "\n"),
            concat!("[../glossary.md]: ", source!("docs/glossary.md"), "\n"),
            concat!("[../guarantees.md]: ", source!("docs/guarantees.md"), "\n"),
            concat!("[../guarantees.md#exactly-once-in-the-same-database]: ", source!("docs/guarantees.md"), "\n"),
            concat!("[../operations.md]: ", source!("docs/operations.md"), "\n"),
            concat!("[../operations.md#it-does-not-fire]: ", source!("docs/operations.md"), "\n"),
            concat!("[../operations.md#threads-and-lanes]: ", source!("docs/operations.md"), "\n"),
            concat!("[../operations.md#what-retention-removes]: ", source!("docs/operations.md"), "\n"),
            concat!("[../performance.md]: ", source!("docs/performance.md"), "\n"),
            concat!("[../performance.md#enqueued]: ", source!("docs/performance.md"), "\n"),
            concat!("[../performance.md#lists]: ", source!("docs/performance.md"), "\n"),
            concat!("[../performance.md#replaying]: ", source!("docs/performance.md"), "\n"),
            concat!("[../performance.md#verifying]: ", source!("docs/performance.md"), "\n"),
            concat!("[../upgrading.md]: ", source!("docs/upgrading.md"), "\n"),
            "\n",
        )
    };
}

/// A page, whose examples are compiled where the features are that they need.
macro_rules! page {
    ($name:ident, $file:literal, $features:meta) => {
        #[cfg(any(not(doctest), $features))]
        #[cfg_attr(docsrs, doc(auto_cfg = false))]
        #[doc = links!()]
        #[doc = include_str!(concat!("../docs/guide/", $file))]
        pub mod $name {}
    };
}

// No page is there for some features alone.
#[cfg_attr(docsrs, doc(auto_cfg = false))]
#[doc = links!()]
#[doc = include_str!("../docs/guide/README.md")]
pub mod guide {
    page!(async_handlers, "async.md", all(feature = "sqlite", feature = "tokio"));
    page!(catching_up, "catching-up.md", feature = "sqlite");
    page!(changing_jobs, "changing-jobs.md", feature = "sqlite");
    page!(coming_from_db_scheduler, "coming-from-db-scheduler.md", feature = "sqlite");
    page!(coming_from_quartz, "coming-from-quartz.md", feature = "sqlite");
    page!(coming_from_river, "coming-from-river.md", all(feature = "sqlite", feature = "tokio"));
    page!(
        coming_from_tokio_cron_scheduler,
        "coming-from-tokio-cron-scheduler.md",
        all(feature = "sqlite", feature = "tokio")
    );
    page!(coming_from_xxl_job, "coming-from-xxl-job.md", feature = "sqlite");
    page!(concurrency, "concurrency.md", feature = "sqlite");
    page!(containment, "containment.md", feature = "sqlite");
    page!(control, "control.md", feature = "sqlite");
    page!(enqueue, "enqueue.md", feature = "sqlite");
    page!(errors, "errors.md", feature = "sqlite");
    page!(exactly_once, "exactly-once.md", all(feature = "sqlite", feature = "sqlx"));
    page!(first_schedule, "first-schedule.md", feature = "sqlite");
    page!(history, "history.md", feature = "sqlite");
    page!(lanes, "lanes.md", feature = "sqlite");
    page!(middleware, "middleware.md", all(feature = "sqlite", feature = "tokio"));
    page!(observing, "observing.md", feature = "sqlite");
    page!(other_languages, "other-languages.md", feature = "sqlite");
    page!(overlap, "overlap.md", feature = "sqlite");
    page!(saying, "saying.md", all(feature = "sqlite", feature = "tracing"));
    page!(schedules_in_code, "schedules-in-code.md", feature = "sqlite");
    page!(testing, "testing.md", feature = "testing");
    page!(time_limits_and_retries, "time-limits-and-retries.md", feature = "sqlite");
    page!(traces, "traces.md", all(feature = "sqlite", feature = "tokio", feature = "tracing"));
    page!(
        transactions,
        "transactions.md",
        all(
            feature = "sqlite",
            feature = "postgres",
            feature = "sqlx",
            feature = "tokio-postgres",
            feature = "diesel-async"
        )
    );
    page!(triggers, "triggers.md", feature = "sqlite");
    page!(verifying, "verifying.md", feature = "sqlite");
    page!(what_it_does_not_do, "what-it-does-not-do.md", feature = "sqlite");
    page!(why, "why.md", feature = "sqlite");
}
