#!/usr/bin/env bash
# public-api.sh: compares what the crate offers, with all features, with docs/public-api.txt, one line for
# each item; shows the difference and exits 1 if there is one. public-api.sh --write makes the file anew. It
# needs cargo-public-api, which is built once into the target folder (4 minutes), and no nightly: rustdoc's
# JSON is asked of the Rust in use, in the one format that this version of the tool reads (Rust 1.95 writes
# it).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.bash

case "${1:-}" in
    '' | --write) ;;
    *) sed -n '2,6s/^# //p' "$0" >&2; exit 2 ;;
esac
tool public-api 0.52.0
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

# Unstable options for rustdoc alone: with them allowed for all, other crates would be built anew.
printf '#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec "%s" "$@"\n' "${RUSTDOC:-rustdoc}" >"$made/rustdoc"
chmod +x "$made/rustdoc"
RUSTDOC=$made/rustdoc cargo rustdoc --locked --quiet --lib --all-features -- -Zunstable-options --output-format json
# The guide's pages are modules without items.
cargo public-api -sss --color never --rustdoc-json "$target/doc/firetime.json" |
    grep -v '^pub mod firetime::guide' >"$made/public-api.txt"
lines=$(wc -l <"$made/public-api.txt")
[ "$lines" -gt 500 ] || { echo "public-api.sh: only $lines lines" >&2; exit 1; }
if [ "${1:-}" = --write ]; then
    cp "$made/public-api.txt" docs/public-api.txt
    echo "docs/public-api.txt: $lines lines"
    exit
fi
diff -u docs/public-api.txt "$made/public-api.txt" || {
    echo "the public interface has changed: is it meant? Then scripts/public-api.sh --write" >&2
    exit 1
}
echo "public interface: $lines lines, as written"
