#!/usr/bin/env bash
# mutants.sh: changes the code that decides (.cargo/mutants.toml) in one place at a time and asks the in-crate tests
# whether they notice: first the quick ones, then all for what these missed. Hours; stopped and started again it goes
# on where it was, in target/mutants. Exit code 1 if a mutant was missed: they are in target/mutants/mutants.out/missed.txt
#
# Needs cargo-mutants: cargo install --locked cargo-mutants
set -euo pipefail
cd "$(dirname "$0")/.."

cargo mutants --version >/dev/null 2>&1 || {
    echo "mutants.sh: missing cargo-mutants; cargo install --locked cargo-mutants" >&2
    exit 2
}
# Small builds, one after the other: what was built before is what makes them quick.
export CARGO_INCREMENTAL=1
mkdir -p target/mutants
found=target/mutants/mutants.out
# pass ARGS...: exit code 2 of cargo-mutants says that mutants were missed: the next pass has more tests; 3, that some
# made a test hang, which is as good as caught but not to cargo-mutants.
pass() {
    local code=0
    cargo mutants --iterate --output target/mutants --colors never "$@" || code=$?
    case $code in 0 | 2 | 3) ;; *) return 1 ;; esac
    cat $found/timeout.txt >>$found/previously_caught.txt
}
slow=(
    sim:: pool::model:: machine::driver:: any_history_agrees every_change_of_the_clocks offsets_stay_within
    the_seconds_around odd_changes
)
# A filter that fits no test's name, since the test has moved, would leave nothing out.
tests=$(cargo test --locked --no-default-features --lib -- --list)
for filter in trigger:: "${slow[@]}"; do
    grep -qF -- "$filter" <<<"$tests" || {
        echo "mutants.sh: no test has $filter in its name" >&2
        exit 2
    }
done
quick=("${slow[@]/#/--skip=}")
pass --re '^src/trigger/' -- -- trigger:: "${quick[@]}"
pass -- -- "${quick[@]}" --skip=trigger::
pass
[ ! -s $found/missed.txt ]
