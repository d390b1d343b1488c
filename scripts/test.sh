#!/usr/bin/env bash
# test.sh: every test, on every database; ends with the line "N passed, M failed". A part without tests, or
# a test that was listed but did not pass (ignored, never reached), is a failure.
# test.sh NAME: only the tests whose names contain NAME; arguments go to cargo test.
# FIRETIME_SIMULATED=FILE: the output of prove.sh --tenth's simulations, once they have ended: they count, and
# are not run again.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/builds.bash

if [ -z "${FIRETIME_TEST_POSTGRES_URL:-}" ] || [ -z "${FIRETIME_TEST_MARIADB_URL:-}" ]; then
    export FIRETIME_FAST_SERVERS=${FIRETIME_FAST_SERVERS:-1}
    FIRETIME_SERVERS="postgres mariadb" exec scripts/with-servers.sh scripts/test.sh "$@"
fi
cargo_test=(cargo test --locked --all-features --no-fail-fast)
# Without axe-core one test of the console is not there, and the last lines say so.
if FIRETIME_AXE=$(scripts/axe.sh); then
    export FIRETIME_AXE
else
    [ $? = 2 ] || exit 1
    unset FIRETIME_AXE
fi
[ $# -eq 0 ] || exec "${cargo_test[@]}" "$@"
# Unoptimised they are built in a third of the time, and hardly run longer: the simulations apart.
export CARGO_PROFILE_TEST_OPT_LEVEL=${CARGO_PROFILE_TEST_OPT_LEVEL:-0}

logs=$(mktemp -d) # not in the target folder, which two runs may share
trap 'rm -rf "$logs"' EXIT
trap 'exit 143' TERM
"${cargo_test[@]}" --no-run
it=$(it_binary)
lib=$(test_binary lib firetime --all-features)
simulator=''
[ -n "${FIRETIME_SIMULATED:-}" ] || simulator=$(simulator)
export CARGO_MANIFEST_DIR=$PWD
databases=(memory sqlite postgres mariadb)
others=()
for database in "${databases[@]}"; do others+=(--skip "$database::"); done

# count COMMAND...: how many tests the command lists.
count() { "$@" --list 2>/dev/null | awk '/: test$/ { n++ } END { print n + 0 }'; }

# part NAME COMMAND...: runs the command; leaves NAME.log and, in NAME.result, tests listed, passed, failed.
part() {
    local log=$logs/$1.log start=$SECONDS listed passed failed code=0
    listed=$(count "${@:2}")
    # A background job would inherit an ignored SIGINT, which tests send to processes they start.
    env --default-signal=INT timeout --foreground -k 10 "${limit:-20m}" "${@:2}" >"$log" 2>&1 || code=$?
    passed=$(awk '/^test result:/ { n += $4 } END { print n + 0 }' "$log")
    failed=$((listed - passed))
    if [ "$code" != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
    echo "$listed $passed $failed" >"$logs/$1.result"
    printf '%-9s %5d tests, %5d passed, exit code %d, %d s\n' "$1" "$listed" "$passed" "$code" $((SECONDS - start))
}

# on DATABASE: the store's conformance suite there, then whole schedulers and clusters.
on() {
    local code=0
    "$lib" "$@" || code=$?
    "$it" "$@" || code=$?
    return "$code"
}
# In virtual time no load matters, and what goes by real time needs the processors at once.
simulations() {
    if [ "${1:-}" = --list ]; then
        "$lib" sim:: --list
    elif [ -n "$simulator" ]; then
        be_idle
        "$simulator" sim::
    else
        until [ -e "$FIRETIME_SIMULATED" ]; do sleep 1; done
        cat "$FIRETIME_SIMULATED"
    fi
}
export -f on simulations be_idle
export lib it simulator

limit=60m part simulated bash -ec 'simulations "$@"' simulations &
part unit "$lib" "${others[@]}" --skip sim::
part program "${cargo_test[@]}" --bins --
part traces "${cargo_test[@]}" --test traces --
part doc "${cargo_test[@]}" --doc --
part other "$it" "${others[@]}"
for database in "${databases[@]}"; do
    part "$database" bash -ec 'on "$@"' on "$database::" --test-threads 2 &
done
wait
# A browser is drawing: it has the processors to itself.
part console "${cargo_test[@]}" --test console -- --test-threads 2

all=0 passed=0 failed=0
for name in simulated unit program traces doc other console "${databases[@]}"; do
    read -r part_listed part_passed part_failed <"$logs/$name.result" || { echo "$name did not run"; exit 1; }
    all=$((all + part_listed)) passed=$((passed + part_passed)) failed=$((failed + part_failed))
    [ "$part_failed" = 0 ] || { printf '\n---- %s ----\n' "$name"; grep -v ' \.\.\. ok$' "$logs/$name.log" || true; }
    [ "$part_listed" != 0 ] || { echo "$name: no test at all"; failed=$((failed + 1)); }
done
listed=$(count "${cargo_test[@]}" --)
[ "$listed" = "$all" ] || { echo "the parts hold $all tests, cargo lists $listed"; failed=$((failed + 1)); }
echo "$SECONDS s"
[ -n "${FIRETIME_AXE:-}" ] || echo "NOT CHECKED: whether everybody can use the console's pages (axe-core is not there)"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
