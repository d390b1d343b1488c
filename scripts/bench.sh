#!/usr/bin/env bash
# bench.sh WORKLOAD [OPTIONS]: measures whole clusters of firetime, node processes on one database, and prints one
# line of JSON for each run. Builds with --release. With several runs a table of medians follows on stderr.
#
# Workloads
#   backlog          one-shot schedules all due at one instant, a job that does nothing; the nodes are up
#                    before
#   catchup          one-shot schedules all overdue by 120 s or more when the nodes start: the misfire handler
#                    comes first
#   precision        schedules that fire every second, their phases spread evenly over the second
#   enqueue          executions that another process enqueues on an idle cluster, one or two a second
#   bulk             executions enqueued by one call, and run once it has returned and the nodes start
#   waiting          executions whose async handlers all wait until the last has begun, on one node
#   views            lists of executions in a large ledger: scripts/bench-views.sh with its arguments
#   sustained        executions enqueued second by second for long: scripts/bench-peers.sh sustained of
#                    firetime alone, with its options (--rate, --seconds, --snapshot, --nodes)
#
# Options
#   --nodes 1,2,4    how many node processes, one after the other (1)
#   --runs N         how often each, turn by turn (1)
#   --executions N   backlog, catchup: how many schedules (20000); bulk, enqueue, waiting: how many executions
#                    (20000, 200, 10000)
#   --among N        so many more exist, due in a year (0): schedules; enqueue, bulk: executions, and as many
#                    have ended
#   --behind N       enqueue: so many of another group are enqueued before, of 5 ms each (0; at most 100000)
#   --schedules N    precision: how many schedules (500)
#   --seconds D      precision: for how long (30)
#   --allow          precision: executions may overlap; otherwise each claim looks at a slot
#   --observed       each node's metrics are read as text once a second, and its events by a stream
#   --says           backlog: each handler says a line, how far it has come, and a result
#   --traced         a subscriber of tracing keeps the span of each attempt with its fields, until it is closed
#   --beside         backlog: before each run one without --observed, --says and --traced; on stderr the ratios of both
#   --threads N      each node's threads (20)
#   --queue N        each node's queue (1024)
#   --mariadb        on a private MariaDB; without an option on a private PostgreSQL, both with default durability
#   --galera         on three private members of a Galera cluster, with a node first on each in turn
#   --standby        on a private PostgreSQL whose commits wait for a standby
#   --sqlite         on a file in TMPDIR, synchronous FULL
#   --database URL   on this server (postgres:// or mysql://), by a user who may create databases, and on PostgreSQL
#                    may checkpoint, on MariaDB may set global variables
#   --help
#
# Each run has a new database; a private PostgreSQL has its next log files ready, as one that has been in use. After
# loading, PostgreSQL gets VACUUM ANALYZE and CHECKPOINT, MariaDB ANALYZE TABLE, SQLite a checkpoint of its log. The
# figures are taken from 0.2 s before the first fire time to the last outcome:
#   executions_per_s            executions by the time from the first handler's start to the last outcome stored (5 ms)
#   start_ms, enqueue_ms        enqueue: from before the call that enqueues to the handler's first statement; that call
#   insert_s                    bulk: the call that enqueues
#   began_s, ended_s            waiting: from the first handler's start to the last one's; from there to the
#                               last outcome
#   lateness_ms                 the handler's first statement reads the clock, minus the planned fire time
#   transactions_per_execution  the database's own count of commits, read-only ones included, the bench's own taken off;
#                               until the nodes have left. PostgreSQL's sessions may add what they did up to 10 s before
#   wal_bytes_per_execution     of the whole server
#   caught_up_s                 catchup: from the nodes being up to the last handler's start
#   poll_ms                     the longest poll that found something, from its first question to its last answer
#   lost_claim_share            claims lost to another node, of all
#   cpu_s_nodes, cpu_s_database of all nodes; of the server with its children, where it is a private one
#   peak_rss_mb                 the largest node's
#   duplicates, missing         by what the handlers saw and by the ledger, the worse of the two
#   limit_rows_per_s            the bare batch claim right before, on one connection: 256 rows a transaction, a guarded
#                               UPDATE of a table like the schedules' and a plain log row for each
#   ratio_to_limit              backlog: executions_per_s / limit_rows_per_s
# null: the database cannot tell. Exit code 2: the arguments make no sense.
set -euo pipefail

for argument in "$@"; do
    [ "$argument" != --help ] || { sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0; }
done
here=$(dirname "$0")
[ "${1:-}" != views ] || exec "$here/bench-views.sh" "${@:2}"
[ "${1:-}" != sustained ] || exec "$here/bench-peers.sh" "$@" --only firetime
"$here/install.sh"
binary=$(cargo bench --manifest-path "$here/../Cargo.toml" --locked --all-features --bench cluster --no-run \
    --message-format json-render-diagnostics | sed -n 's/.*"kind":\["bench"\].*"executable":"\([^"]*\)".*/\1/p')
exec "$binary" "$@"
