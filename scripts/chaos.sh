#!/usr/bin/env bash
# chaos.sh: breaks real clusters of node processes on all three databases, and judges what they leave behind.
# chaos.sh --galera, --failover, or both: on a Galera cluster whose members are lost, and on a PostgreSQL
# primary with a standby that takes over, instead; some 9 minutes.
# Prints each run's figures; ends with the line "chaos: runs=N violations=N killed=N stopped=N cut=N ...". After a
# failure this line names a folder, logs=FOLDER: the tests' output, the servers' logs, and the nodes' logs
# and histories of the runs that failed.
# --long [ROUNDS]: again and again (40 rounds without a number); stops at the first failure.
# --short: a part of the runs, as CI does, in some 2 minutes.
# The storm's seed is printed; FIRETIME_CHAOS_SEED=N chooses it. Takes some 20 minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/logs.sh
. scripts/builds.bash

if [ -z "${FIRETIME_CHAOS_REPORT:-}" ]; then
    rounds=1 form=full together=()
    while [ $# -gt 0 ]; do
        case $1 in
            --short) form=short ;;
            --long)
                rounds=40
                [[ ! "${2:-}" =~ ^[0-9]+$ ]] || { rounds=$2; shift; } ;;
            --galera) together+=(galera) ;;
            --failover) together+=(standby) ;;
            *) sed -n '2,11s/^# //p' "$0" >&2; exit 2 ;;
        esac
        shift
    done
    [ ${#together[@]} = 0 ] || export FIRETIME_SERVERS="${together[*]}"
    CHAOS_IT=$(it_binary)
    keep_logs chaos
    export CHAOS_IT FIRETIME_CHAOS=$form FIRETIME_CHAOS_REPORT=$logs/report FIRETIME_CHAOS_LOGS=$logs
    mkdir "$logs/servers"
    export FIRETIME_SERVER_LOGS=$logs/servers
    export FIRETIME_REVIVE_SERVERS=1
    code=0
    touch "$FIRETIME_CHAOS_REPORT"
    for ((round = 1; round <= rounds && code == 0; round++)); do
        scripts/with-servers.sh scripts/chaos.sh || code=$?
    done
    # A run that did not come to its figures is a violation too.
    awk -v broken="$code" -v logs="$logs" '
        { runs++; for (i = 3; i <= NF; i++) if (split($i, it, "=") == 2) {
            sum[it[1]] += it[2]; if (it[2] > most[it[1]]) most[it[1]] = it[2] } }
        END {
            printf "chaos: runs=%d violations=%d", runs, sum["violations"] + (broken != 0 && sum["violations"] == 0)
            split("killed stopped cut commits_cut fired skipped excused", sums, " ")
            for (i = 1; i in sums; i++) printf " %s=%d", sums[i], sum[sums[i]]
            split("pick_up_ms settle_ms resume_ms pause_ms shutdown_ms log_lines", peaks, " ")
            for (i = 1; i in peaks; i++) printf " %s=%d", peaks[i], most[peaks[i]]
            if (broken != 0) printf " logs=%s", logs
            printf "\n"
        }' "$FIRETIME_CHAOS_REPORT"
    exit "$code"
fi

# part NAME THREADS ARGS...: some of the runs; what it says is shown if one fails.
part() {
    local log=$FIRETIME_CHAOS_LOGS/$1.log
    timeout --foreground -k 10 20m "$CHAOS_IT" --test-threads "$2" "${@:3}" >"$log" 2>&1 || {
        cat "$log"
        return 1
    }
    # The short form has no run that goes alone.
    grep '^chaos ' "$log" || [ "$FIRETIME_CHAOS" = short ]
}

# The short form goes beside other work, and a busy disk lets each commit wait. Nodes are killed, never the
# machine: so SQLite's file lies in memory there, as the servers do without a flush.
if [ "$FIRETIME_CHAOS" = short ] && [ -w /dev/shm ]; then
    export TMPDIR=/dev/shm
fi

code=0
parts=()
for servers in galera standby; do
    [[ " ${FIRETIME_SERVERS:-} " = *" $servers "* ]] || continue
    part "$servers" 1 "$servers::" &
    parts+=($!)
done
if [ ${#parts[@]} != 0 ]; then
    for pid in "${parts[@]}"; do wait "$pid" || code=1; done
    exit "$code"
fi
for database in sqlite postgres mariadb; do
    part "$database" 3 "$database::chaos::" --skip ::alone:: &
    parts+=($!)
done
for pid in "${parts[@]}"; do wait "$pid" || code=1; done
# What changes or loads a whole server comes last, one by one: some is promised within a time.
if [ "$FIRETIME_CHAOS" != short ]; then
    for database in sqlite postgres mariadb; do
        part "$database-alone" 1 "$database::chaos::alone::" || code=1
    done
fi
exit "$code"
