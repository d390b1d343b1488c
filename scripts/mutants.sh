#!/usr/bin/env bash
# mutants.sh: changes the code that decides (.cargo/mutants.toml) in one place at a time and asks the in-crate tests
# whether they notice. First the quick tests alone, then all for what these missed. Hours; stopped and started again
# it goes on where it was, in target/mutants. Exit code 2 if a mutant was missed: target/mutants/mutants.out/missed.txt
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
slow=(sim:: pool:: driver:: any_history_agrees every_change_of_the_clocks offsets_stay_within the_seconds_around)
mkdir -p target/mutants
mutate=(cargo mutants --iterate --output target/mutants --colors never)
"${mutate[@]}" -- -- "${slow[@]/#/--skip=}" || [ $? = 2 ] || exit
exec "${mutate[@]}"
