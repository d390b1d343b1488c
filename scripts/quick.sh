#!/usr/bin/env bash
# quick.sh: what to run between two edits: format, one clippy, the library's tests on the in-memory store and
# SQLite without the simulations, the architecture. Needs Rust and a C compiler; once all is built it takes less
# than two minutes. scripts/check.sh is the gate.
# quick.sh NAME: of the library's tests only those whose names contain NAME.
set -euo pipefail
cd "$(dirname "$0")/.."

step() {
    local start=$SECONDS
    printf '\n== %s\n' "$*"
    "$@"
    printf -- '-- %d s\n' $((SECONDS - start))
}

step cargo fmt --check
step cargo clippy --locked --tests --features cli -- -D warnings
# These tests are built sooner without optimisation, and hardly run longer.
export CARGO_PROFILE_TEST_OPT_LEVEL=0
step cargo test --locked --lib --test it --no-run
if [ $# -gt 0 ] && [ "$(cargo test --locked --quiet --lib -- "$@" --skip sim:: --list | grep -c ': test$')" = 0 ]; then
    echo "no test's name contains $*" >&2
    exit 1
fi
step cargo test --locked --quiet --lib -- "$@" --skip sim::
step cargo test --locked --quiet --test it -- architecture::
printf '\nquick: %d s\n' $SECONDS
