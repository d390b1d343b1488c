//! What stands behind the options in the help: where the database's URL comes from, how times are written,
//! and examples. A test reads every example as a command line.

macro_rules! database {
    () => {
        "\
The database's URL (sqlite:FILE, postgres://..., mysql://...) is read from the environment variable
FIRETIME_DATABASE_URL or from the file that --database-url-file names. It is never shown."
    };
}

macro_rules! times {
    () => {
        "\
A SPAN is a whole number with its unit: 90s, 15m, 2h, or 1d of 24 hours. A TIME is an instant with its
offset from UTC, as 2025-01-31T09:00:00Z or 2025-01-31T10:00:00+01:00, or a SPAN from now or ago. Tables and
sentences show UTC."
    };
}

pub(super) const DATABASE: &str = database!();

/// The end of the help of a command that takes times.
macro_rules! timed {
    ($examples:literal) => {
        concat!("Examples:\n", $examples, "\n\n", times!(), "\n\n", database!())
    };
}

/// That of others.
macro_rules! untimed {
    ($examples:literal) => {
        concat!("Examples:\n", $examples, "\n\n", database!())
    };
}

pub(super) const CHECK: &str =
    untimed!("  firetime check --application shop\n  firetime check --application shop --output json");

pub(super) const WHY: &str = untimed!(
    "  firetime why --application shop nightly
  firetime why --application shop nightly '2025-01-31 02:00:00.000'
  firetime why --application shop nightly 2025-01-31
  firetime why --application shop --execution 4711"
);

pub(super) const VERIFY: &str = timed!(
    "  firetime verify --application shop --since 30d
  firetime verify --application shop nightly --certificate january.json
  firetime verify --application shop --against january.json"
);

#[cfg(feature = "testing")]
pub(super) const REPLAY: &str = timed!(
    "  firetime replay --application shop --nodes 2
  firetime replay --application shop --since 30d --cron 'nightly=0 30 3 * * ?' --time-limit import=2h
  firetime replay --application shop --outage 2025-01-31T02:00:00Z..2025-01-31T04:00:00Z"
);

pub(super) const EXPORTER: &str = untimed!("  firetime exporter --application shop --listen 0.0.0.0:9464");

#[cfg(feature = "console")]
pub(super) const CONSOLE: &str = untimed!(
    "  firetime console --application shop
  firetime console --application shop --listen 127.0.0.1:9000 --read-only
  firetime console hash-password
  firetime console --application shop --users /etc/firetime/users --host ops.example.org
  firetime console --application shop --trust-header X-Forwarded-User --role operator --host ops.example.org"
);

pub(super) const OUTCOMES: &str = timed!(
    "  firetime outcomes --application shop
  firetime outcomes --application shop --since 7d --by hour,job --job remind
  firetime outcomes --application shop --since 2h --by node"
);

pub(super) const SCHEDULES: &str = untimed!(
    "  firetime schedules --application shop
  firetime schedules show nightly --application shop
  firetime schedules pause nightly --application shop --until 2h --reason stocktaking
  firetime schedules remove nightly --application shop --dry-run"
);

pub(super) const ADD: &str = timed!(
    "  firetime schedules add nightly --application shop --job report --cron '0 0 2 * * ?' --zone Europe/Berlin
  firetime schedules add poll --application shop --job import --after 90s --payload '{\"batch\": 100}'
  firetime schedules add once --application shop --job report --at 2025-01-31T09:00:00Z --dry-run"
);

pub(super) const SET: &str = timed!(
    "  firetime schedules set nightly --application shop --cron '0 30 2 * * ?' --dry-run
  firetime schedules set nightly --application shop --misfire do_nothing --misfire-threshold 5m --yes
  firetime schedules set nightly --application shop --clear=end,time-limit
  firetime schedules set nightly --application shop --reset=priority,trigger"
);

pub(super) const EXECUTIONS: &str = timed!(
    "  firetime executions --application shop --state failed,timed_out --since 1d
  firetime executions --application shop --schedule nightly --oldest --output csv
  firetime executions logs 4711 --application shop --follow
  firetime executions cancel --application shop --job mail --state pending --yes"
);

pub(super) const NODES: &str = untimed!(
    "  firetime nodes --application shop --watch
  firetime nodes drain 7c0e --application shop --reason 'a new kernel'"
);

pub(super) const JOBS: &str = untimed!(
    "  firetime jobs --application shop
  firetime jobs pause mail --application shop --until 1h
  firetime jobs enqueue mail --application shop --payload '{\"to\": 7}' --key customer-7"
);

pub(super) const ENQUEUE: &str = timed!(
    "  firetime jobs enqueue mail --application shop --payload '{\"to\": 7}'
  firetime jobs enqueue mail --application shop --at 15m --key customer-7 --tag welcome --header tenant=7"
);

pub(super) const AUDIT: &str = timed!(
    "  firetime audit --application shop --target nightly --since 7d
  firetime audit --application shop --verb remove --actor ann --output jsonl"
);

pub(super) const RERUN: &str = timed!(
    "  firetime rerun --application shop --schedule nightly --state skipped --state-reason misfire --since 2d
  firetime rerun --application shop --schedule nightly --since 2d --pace 10s --yes
  firetime rerun --application shop --cancel 90210"
);

pub(super) const BACKFILL: &str = timed!(
    "  firetime backfill --application shop --schedule nightly --since 2025-01-01T00:00:00Z --until 1d
  firetime backfill --application shop --schedule nightly --since 30d --pace 1m --yes"
);

pub(super) const CRON_NEXT: &str = "\
Examples:
  firetime cron next '0 0 2 L * ?' --zone Europe/Berlin --count 3
  firetime cron next '0 0 12 ? * MON-FRI' --after 2025-01-31T09:00:00Z --output json

Each line of the file is EXPR, ZONE, AFTER_MS and COUNT (1 to 100000), separated by tabs; AFTER_MS is
in epoch milliseconds and the fire times are strictly later. Each line is answered by one line, in order:
`ok` and the fire times in epoch milliseconds, with `end` behind them if there are no more than those;
or `err` and the reason; separated by tabs.";
