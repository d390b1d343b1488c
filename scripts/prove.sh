#!/usr/bin/env bash
# prove.sh: puts the promise to the test. Simulates clusters under fire, switches each protection off to see it
# missed, breaks real clusters on three databases, on Galera and over a standby, upgrades them from the last
# tag, and fuzzes what is read from outside. Takes some 50 minutes.
# prove.sh --tenth [COMMAND...]: a tenth of it, as CI does, with checks for overflows. The simulations run
# beside the rest and the command, in the time that these leave. FIRETIME_SIMULATED names a file for the command
# which appears with their output once they have ended. The command's last line comes last, if the proof holds.
# prove.sh --long [HOURS]: for nights (8 without a number).
# Ends with the line "proof: seeds=N claims=N faults=N chaos_runs=N violations=N mutations_caught=M/M fuzz_execs=N".
# After a failure this line names a folder, logs=FOLDER: the output of each step.
# FIRETIME_SEED=N chooses the first seed (0; --long: the day's). A simulation that fails says how to replay it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/logs.sh
. scripts/builds.bash

case ${1:-} in
    '') claims=10000000 chaos=() fuzz=60 seed=0 ;;
    --tenth) claims=1000000 chaos=(--short) fuzz=6 seed=0 ;;
    --long)
        hours=${2:-8}
        claims=$((hours * 30000000)) chaos=(--long $((hours * 2))) fuzz=$((hours * 600))
        # shellcheck disable=SC2017 # whole days are meant
        seed=$(($(date +%s) / 86400 * 1000000)) ;;
    *) sed -n '2,11s/^# //p' "$0" >&2; exit 2 ;;
esac
scripts/install.sh
export FIRETIME_CLAIMS=$claims FIRETIME_SEED=${FIRETIME_SEED:-$seed}
keep_logs proof
code=0

# step NAME COMMAND...: what it prints is shown and kept, and how many seconds it took is told.
step() {
    local start=$SECONDS failed=0
    printf '\n== %s\n' "${*:2}"
    "${@:2}" 2>&1 | tee "$logs/$1" || failed=1
    printf -- '-- %s: %d s\n' "$1" $((SECONDS - start))
    return $failed
}
# figure LOG NAME: the last NAME=... in what LOG says, or 0.
figure() { sed -n "s/.*\b$2=\([0-9/]*\).*/\1/p" "$logs/$1" | tail -n 1 | grep . || echo 0; }

# simulate BUILD...: the command builds the binary and prints its path.
# shellcheck disable=SC2317,SC2329 # called by name
simulate() {
    local binary
    binary=$("$@")
    "$binary" sim:: --nocapture
}

# Load does not matter in virtual time, and real clusters need the processors at once: simulations come last.
simulate_beside() {
    local failed=0
    be_idle
    step simulations simulate simulator || failed=1
    cp "$logs/simulations" "$logs/ended"
    mv "$logs/ended" "$FIRETIME_SIMULATED"
    return $failed
}

# shellcheck disable=SC2317,SC2329 # called by a trap
end_proof() {
    [ -z "$beside" ] || kill -- "-$beside" 2>/dev/null || :
    end_logs "$1"
}

tests=0 beside=''
if [ "${1:-}" = --tenth ]; then
    FIRETIME_SIMULATED=$(realpath -m "$logs/simulated")
    export FIRETIME_SIMULATED
    # In a process group of its own, which ends with this script.
    set -m
    simulate_beside >"$logs/beside" &
    beside=$!
    set +m
    trap 'end_proof $?' EXIT
else
    step simulations simulate test_binary lib firetime --release --no-default-features --features sqlite || code=1
fi
step chaos scripts/chaos.sh "${chaos[@]}" || code=1
step together scripts/chaos.sh "${chaos[@]}" --galera --failover || code=1
step upgrade scripts/upgrade.sh --gate || code=1
step fuzz scripts/fuzz.sh "$fuzz" || code=1
if [ -n "$beside" ]; then
    [ $# = 1 ] || step command "${@:2}" || tests=1
    wait "$beside" || code=1
    beside=''
    cat "$logs/beside"
fi

sum() { awk -F"$1=" '/simulated( on sqlite)?: / { split($2, n, " "); sum += n[1] } END { print sum + 0 }' "$logs/simulations"; }
[ "$(sum claims)" -ge "$claims" ] && [ "$(figure simulations mutations_caught)" != 0 ] || code=1
real() { echo $(($(figure chaos "$1") + $(figure together "$1") + $(figure upgrade "$1"))); }
violations=$(real violations)
[ "$code" = 0 ] || [ "$violations" != 0 ] || violations=1
proof() {
    printf '\nproof: seeds=%s claims=%s faults=%s chaos_runs=%s violations=%s mutations_caught=%s fuzz_execs=%s%s\n' \
        "$(sum seeds)" "$(sum claims)" "$(sum faults)" "$(real runs)" "$violations" \
        "$(figure simulations mutations_caught)" "$(figure fuzz execs)" \
        "$([ "$code" = 0 ] || echo " logs=$logs")"
}
last_of_command() { [ ! -e "$logs/command" ] || tail -n 1 "$logs/command"; }
# The last line is that of what has failed.
if [ "$code" = 0 ]; then proof; last_of_command; else last_of_command; proof; fi
exit $((code | tests))
