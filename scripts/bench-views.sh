#!/usr/bin/env bash
# bench-views.sh [EXECUTIONS [DATABASE...]]: how long lists of executions, counts of outcomes, and the console's pages take in
# a ledger of so many (10000000) within thirty days, of a million schedules and a queue, on sqlite, postgres and mariadb or those named.
# Loads it by SQL into TMPDIR: 10 GB and five minutes for each database. Builds with --release.
set -euo pipefail
cd "$(dirname "$0")/.."

executions=${1:-10000000}
[[ $executions =~ ^[1-9][0-9]*$ ]] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
databases=("${@:2}")
[ ${#databases[@]} -gt 0 ] || databases=(sqlite postgres mariadb)
if [ -z "${FIRETIME_BENCH_VIEWS:-}" ]; then
    binary=$(cargo bench --locked --all-features --bench views --no-run --message-format json-render-diagnostics |
        sed -n 's/.*"kind":\["bench"\].*"executable":"\([^"]*\)".*/\1/p')
    cargo build --locked --release --all-features --bin firetime
    export FIRETIME_BENCH_VIEWS=$binary
    for database in "${databases[@]}"; do
        case $database in
        sqlite) "$0" "$executions" sqlite ;;
        postgres | mariadb) FIRETIME_SERVERS=$database scripts/with-servers.sh "$0" "$executions" "$database" ;;
        *) echo "bench-views.sh: there is no database $database" >&2; exit 2 ;;
        esac
    done
    exit
fi

# shellcheck source=bench.bash
. scripts/bench.bash
firetime=${CARGO_TARGET_DIR:-target}/release/firetime
# Thirty days ago; the schedules fire from five minutes ahead on, one after the other.
first=$((($(date +%s) - 2592000) * 1000))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# load NUMBERS MILLION HUNDRED: the SQL that fills the tables, from relations with the numbers from 0 on in `n`.
# Of ten executions five are of a million schedules that fire rarely, three are enqueued, one is of a schedule that
# fires often and one of a hundred others.
load() {
    local at="$first + s.n * 2592000000 / $executions" soon=$((first + 2592300000))
    cat <<SQL
INSERT INTO QRTZ_APP (application) VALUES ('bench');
INSERT INTO QRTZ_JOB (id, application, job_class) VALUES (1, 'bench', 'fan'), (2, 'bench', 'mail'),
    (3, 'bench', 'secondly'), (4, 'bench', 'minutely'), (5, 'bench', 'rare');
INSERT INTO QRTZ_NODE (uuid, application, host_name, pid, jobs, started_time, beat_time, silent_after)
VALUES ('11111111-2222-4222-8222-222222222222', 'bench', 'host', 1, '["fan","secondly","minutely","rare"]', $first,
    $soon, 86400000);
INSERT INTO QRTZ_EXECUTE (id, shard, application, name, pid, state, job_type, repeat_interval, start_time, end_time,
    prev_fire_time, next_fire_time, payload)
SELECT 1000 + s.n, s.n % 16, 'bench', CONCAT('fan-', s.n), 1, CASE WHEN s.n % 1000 = 7 THEN 'PAUSED'
    WHEN s.n % 100000 = 8 THEN 'ERROR' WHEN s.n % 10 = 9 THEN 'COMPLETE' ELSE 'EXECUTING' END, 'SIMPLE', 36000000, $first,
    -1, -1, CASE WHEN s.n % 50000 = 11 THEN $first ELSE $soon + s.n * 36 END, 'null' FROM $2
UNION ALL SELECT 10 + s.n, s.n % 16, 'bench', CONCAT('minutely-', s.n), 4, 'EXECUTING', 'SIMPLE', 60000, $first, -1, -1,
    $soon + s.n * 600, 'null' FROM $3
UNION ALL SELECT 1, 1, 'bench', 'secondly', 3, 'EXECUTING', 'SIMPLE', 1000, $first, -1, -1, $soon, 'null'
UNION ALL SELECT 2, 2, 'bench', 'queue:mail', 2, 'COMPLETE', 'QUEUE', 0, -1, -1, -1, -1, ''
UNION ALL SELECT 3, 3, 'bench', 'rare', 5, 'EXECUTING', 'SIMPLE', 1000, $first, -1, -1, $soon, 'null';
INSERT INTO QRTZ_RUN (execute_id, generation, origin, scheduled_time, attempt, due_time, fence, claimed_time,
    started_time, finished_time, state, reason, cause, application, node, claim_token, group_key)
SELECT CASE WHEN s.n % ($executions / 10) = 5 THEN 3 WHEN s.n % 10 < 5 THEN 1000 + (s.n * 7919) % 1000000
        WHEN s.n % 10 < 8 THEN 2 WHEN s.n % 10 = 8 THEN 1 ELSE 10 + (s.n / 10) % 100 END,
    0, CASE WHEN s.n % 10 BETWEEN 5 AND 7 AND s.n % ($executions / 10) <> 5 THEN 1152921504606846976 + s.n ELSE 0 END,
    $at, 1, $at, 1, CASE WHEN s.n % 100000 = 5 THEN -1 ELSE $at END, CASE WHEN s.n % 100000 = 5 THEN -1 ELSE $at END,
    CASE WHEN s.n % 100000 = 5 THEN -1 ELSE $at + 20 END,
    CASE WHEN s.n % 100000 = 5 THEN 'PENDING' WHEN s.n % 200 IN (6, 9) THEN 'FAILED' WHEN s.n % 500 = 11 THEN 'SKIPPED'
        WHEN s.n % 1000 = 13 THEN 'TIMED_OUT' ELSE 'SUCCEEDED' END,
    CASE WHEN s.n % 500 = 11 THEN CASE WHEN s.n % 5000 = 11 THEN 'misfire' ELSE 'overlap' END ELSE '' END,
    CASE WHEN s.n % 1000 = 17 THEN 'retry' END, 'bench',
    CASE WHEN s.n % 100000 = 5 THEN '' ELSE CONCAT(1111 * (1 + s.n % 4), '1111-2222-4222-8222-222222222222') END, 't',
    CASE WHEN s.n % 10 BETWEEN 5 AND 7 THEN CONCAT('g', (s.n * 31) % 10007) END
FROM $1;
INSERT INTO QRTZ_TAG (tag, execute_id, origin) SELECT 'import', 2, 1152921504606846976 + s.n FROM $1
WHERE s.n % 100 = 6;
INSERT INTO QRTZ_TAG (tag, execute_id, origin) SELECT 'few', 2, 1152921504606846976 + s.n FROM $1
WHERE s.n % 100000 = 6;
INSERT INTO QRTZ_OUTCOME (application, hours, from_time, job, node, succeeded, failed, timed_out, begun, lateness_sum,
    duration_sum, lateness_max, duration_max)
SELECT 'bench', 1, r.finished_time - r.finished_time % 3600000, j.job_class, r.node,
    SUM(CASE WHEN r.state = 'SUCCEEDED' THEN 1 ELSE 0 END), SUM(CASE WHEN r.state = 'FAILED' THEN 1 ELSE 0 END),
    SUM(CASE WHEN r.state = 'TIMED_OUT' THEN 1 ELSE 0 END), COUNT(*), 0, SUM(r.finished_time - r.started_time), 0, 20
FROM QRTZ_RUN r JOIN QRTZ_EXECUTE e ON e.id = r.execute_id JOIN QRTZ_JOB j ON j.id = e.pid
WHERE r.state IN ('SUCCEEDED', 'FAILED', 'TIMED_OUT')
GROUP BY r.finished_time - r.finished_time % 3600000, j.job_class, r.node;
SQL
}

# timed NAME URL: times the lists.
timed() {
    printf '\n%s, %d executions\n' "$1" "$executions"
    "$FIRETIME_BENCH_VIEWS" "$2" "$first"
}

postgres() {
    load "generate_series(0, $((executions - 1))) AS s (n)" 'generate_series(0, 999999) AS s (n)' \
        'generate_series(0, 99) AS s (n)' | sed 's/s\.n /s.n::BIGINT /g' |
        psql -qv ON_ERROR_STOP=1 "$FIRETIME_TEST_POSTGRES_URL"
    psql -qc 'VACUUM ANALYZE' "$FIRETIME_TEST_POSTGRES_URL"
}
mariadb_server() {
    {
        load "(SELECT seq AS n FROM seq_0_to_$((executions - 1))) AS s" '(SELECT seq AS n FROM seq_0_to_999999) AS s' \
            '(SELECT seq AS n FROM seq_0_to_99) AS s' | sed 's| / 10) % 100| DIV 10) % 100|; s|2592000000 / |2592000000 DIV |g'
        echo 'ANALYZE TABLE QRTZ_RUN, QRTZ_EXECUTE, QRTZ_TAG;'
    } | mariadb_client
}
sqlite() {
    local numbers="WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n <"
    {
        echo 'PRAGMA synchronous = OFF; BEGIN;'
        load "($numbers $((executions - 1))) SELECT n FROM s) AS s" "($numbers 999999) SELECT n FROM s) AS s" \
            "($numbers 99) SELECT n FROM s) AS s" |
            sed -E "s/CONCAT\(('[^']*'), ([^()]*(\([^()]*\))?[^()]*)\)/\1 || (\2)/g; s/CONCAT\((1111[^,]*), ('[^']*')\)/(\1) || \2/g"
        echo 'COMMIT; ANALYZE;'
    } | sqlite3 "$folder/bench.db"
}
case ${databases[0]} in
sqlite) measure SQLite "sqlite:$folder/bench.db" sqlite ;;
postgres) measure PostgreSQL "$FIRETIME_TEST_POSTGRES_URL" postgres ;;
mariadb) measure MariaDB "$FIRETIME_TEST_MARIADB_URL" mariadb_server ;;
esac
