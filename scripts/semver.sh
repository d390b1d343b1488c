#!/usr/bin/env bash
# semver.sh: compares the crate's interface, with all features, with that of the last tag before this commit,
# and exits 1 if the version in Cargo.toml promises more than is kept. semver.sh COMMIT compares with that
# commit. Without a tag it says "semver: NOT CHECKED". It needs cargo-semver-checks, which is built once into
# the target folder (some minutes); the comparison takes a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.bash

last=${1:-$(last_tag)}
[ -n "$last" ] || { echo "semver: NOT CHECKED ($(why_no_tag))"; exit 0; }
tool semver-checks 0.51.0
cargo semver-checks --all-features --baseline-rev "$last"
echo "semver: compared with $last"
