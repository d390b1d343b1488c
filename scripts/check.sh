#!/usr/bin/env bash
# check.sh: what every change must pass. CI runs this and nothing else. Quick checks first; scripts/test.sh
# last, so its closing line is this script's. After each step a line says how many seconds it took.
set -euo pipefail
# It builds all from nothing, mostly; and tests are built in a third of the time without optimisation.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_TEST_OPT_LEVEL=0
cd "$(dirname "$0")/.."
. scripts/builds.bash

step() {
    local start=$SECONDS
    printf '\n== %s\n' "$*"
    "$@"
    printf -- '-- %d s\n' $((SECONDS - start))
}

scripts/install.sh
for tool in fmt clippy; do
    cargo $tool --version >/dev/null || { echo "install it: rustup component add rustfmt clippy" >&2; exit 2; }
done

# package: packs what would be published. Any warning of cargo is an error, except those of the network.
# --no-metadata, as there is no public address to name yet; --allow-dirty, as changes are checked before they
# are committed.
package() {
    local log
    log=$(cargo package --locked --no-verify --no-metadata --allow-dirty 2>&1) || { echo "$log"; return 1; }
    awk '/^warning/ && !/spurious network error/ { exit 1 }' <<<"$log" || { echo "$log"; return 1; }
}

step cargo fmt --check
if command -v shellcheck >/dev/null; then
    step shellcheck -x -P SCRIPTDIR scripts/*.sh scripts/*/*.sh .ci/run
else
    echo "shell scripts: NOT CHECKED (shellcheck is not installed)"
fi

# A new dependency belongs in the fuzzers' lock file, too.
step cargo tree --locked --quiet --depth 0 --manifest-path fuzz/Cargo.toml
# cargo-deny, which knows more, takes minutes to build: scripts/release.sh runs it.
step scripts/licences.py
# Whoever asks for neither async handlers nor an async driver gets no tokio, and without spans no tracing. Without
# the console there is nothing that serves or writes pages.
if cargo tree --locked --quiet --edges normal --features sqlite,postgres,mysql,cli |
    grep -wE 'tokio|tracing|askama|axum|hyper'; then
    echo "a crate is there without its feature" >&2
    exit 1
fi
if cargo tree --locked --quiet --edges normal --features sqlite,postgres,mysql,cli,tokio,tracing,metrics |
    grep -wE 'askama|axum|hyper'; then
    echo "a crate of the console is there without it" >&2
    exit 1
fi
step package
step python3 benches/peers/run.py --list
# clippy checks all that cargo check does: without a database, with one server alone, with one async driver, as
# README's first command and "cargo test" have it, and all.
for features in '' postgres mysql,tokio testing sqlx,postgres tokio-postgres console; do
    step cargo clippy --locked --no-default-features --features "$features" -- -D warnings
done
step cargo clippy --locked --tests --features cli -- -D warnings
step cargo clippy --locked --all-targets --all-features -- -D warnings
RUSTDOCFLAGS='-D warnings' step cargo doc --locked --no-deps --all-features
if [ -x "${CARGO_TARGET_DIR:-target}/tools/bin/cargo-public-api" ]; then
    step scripts/public-api.sh
else
    echo "public interface: NOT CHECKED (scripts/public-api.sh builds what it needs, once)"
fi
if [ -x "${CARGO_TARGET_DIR:-target}/tools/bin/cargo-semver-checks" ]; then
    step scripts/semver.sh
else
    echo "semver: NOT CHECKED (scripts/semver.sh builds what it needs, once)"
fi

# Chaos and tests have the same binaries. The simulations of the proof, which take longest, go on beside the
# tests, which count them and do not simulate again.
step cargo test --locked --all-features --no-run
FIRETIME_IT=$(it_binary)
export FIRETIME_IT
scripts/prove.sh --tenth scripts/test.sh
