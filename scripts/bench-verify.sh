#!/usr/bin/env bash
# bench-verify.sh [ROWS [SECONDS]]: how long `firetime verify` takes on a ledger of so many rows (1000000), of 1,000
# schedules that fire every second in Europe/Berlin, on SQLite, PostgreSQL and MariaDB; of all fire times, or of
# those of so many seconds in the middle. Prints a line for each: the seconds of the second of two runs. Builds with
# --release; takes some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${FIRETIME_TEST_POSTGRES_URL:-}" ]; then
    [[ "${1:-1} ${2:-1}" =~ ^[1-9][0-9]*\ [1-9][0-9]*$ ]] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
    cargo build --locked --release --features cli,postgres,mysql --bin firetime
    exec scripts/with-servers.sh scripts/bench-verify.sh "${1:-1000000}" "${@:2}"
fi
# shellcheck source=bench.bash
. scripts/bench.bash

firetime=${CARGO_TARGET_DIR:-target}/release/firetime
each=$(($1 / 1000))
range=(--until 2023-11-15T00:00:00Z) form='%s %.1f s\n'
if [ -n "${2:-}" ]; then
    from=$((1700000000 + (each - $2) / 2))
    form='%s %.3f s\n'
    range=(--since "$(date -ud "@$from" +%FT%TZ)" --until "$(date -ud "@$((from + $2))" +%FT%TZ)")
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# load SCHEDULES SECONDS: the SQL that fills the tables, from relations with the numbers from 0 on in `n`.
load() {
    cat <<SQL
INSERT INTO QRTZ_APP (application) VALUES ('bench');
INSERT INTO QRTZ_JOB (id, application, job_class) VALUES (1, 'bench', 'work');
INSERT INTO QRTZ_EXECUTE (application, name, pid, state, job_type, cron, zone_id, repeat_interval, start_time,
    end_time, prev_fire_time, next_fire_time, payload, overlap)
SELECT 'bench', CONCAT('s', s.n), 1, 'PAUSED', 'CRON', '* * * * * ?', 'Europe/Berlin', 0, -1, -1,
    1700000000000 + ($each - 1) * 1000, 1700000000000 + $each * 1000, 'null', 'SKIP' FROM $1;
INSERT INTO QRTZ_TRIGGER (execute_id, generation, application, begun_time, first_fire_time, job_type, cron, zone_id,
    repeat_count, repeat_interval, start_time, end_time, dst_gap, dst_fold)
SELECT id, 0, application, 1700000000000, 1700000000000, job_type, cron, zone_id, repeat_count, repeat_interval,
    start_time, end_time, dst_gap, dst_fold FROM QRTZ_EXECUTE;
INSERT INTO QRTZ_RUN (execute_id, generation, scheduled_time, attempt, due_time, fence, claimed_time, started_time,
    finished_time, prev_fire_time, following_fire_time, state, application, node)
SELECT e.id, 0, f.at, 1, f.at, 1, f.at, f.at, f.at, CASE WHEN f.at = 1700000000000 THEN -1 ELSE f.at - 1000 END,
    f.at + 1000, 'SUCCEEDED', 'bench', '22222222-2222-4222-8222-222222222222'
FROM QRTZ_EXECUTE e CROSS JOIN (SELECT 1700000000000 + s.n * 1000 AS at FROM $2) f ORDER BY e.id, f.at;
SQL
}

# timed NAME URL: verifies it twice.
timed() {
    local began
    for _ in 1 2; do
        began=$(date +%s%N)
        FIRETIME_APPLICATION=bench FIRETIME_DATABASE_URL=$2 "$firetime" verify "${range[@]}" | grep -q '^whole: '
    done
    echo "$1: $(($(date +%s%N) - began))" | awk -v form="$form" '{ printf form, $1, $2 / 1e9 }'
}

postgres() {
    load 'generate_series(0, 999) AS s (n)' "generate_series(0, $((each - 1))) AS s (n)" |
        sed 's/1700000000000/1700000000000::BIGINT/g' | psql -qv ON_ERROR_STOP=1 "$FIRETIME_TEST_POSTGRES_URL"
    psql -qc 'VACUUM ANALYZE' "$FIRETIME_TEST_POSTGRES_URL"
}
mariadb_server() {
    {
        load '(SELECT seq AS n FROM seq_0_to_999) AS s' "(SELECT seq AS n FROM seq_0_to_$((each - 1))) AS s"
        echo 'ANALYZE TABLE QRTZ_RUN;'
    } | mariadb_client
}
sqlite() {
    local numbers="WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n <"
    load "($numbers 999) SELECT n FROM s) AS s" "($numbers $((each - 1))) SELECT n FROM s) AS s" |
        sed "s/CONCAT('s', s.n)/'s' || s.n/" |
        sqlite3 "$folder/bench.db"
}
measure sqlite "sqlite:$folder/bench.db" sqlite
measure postgres "$FIRETIME_TEST_POSTGRES_URL" postgres
measure mariadb "$FIRETIME_TEST_MARIADB_URL" mariadb_server
