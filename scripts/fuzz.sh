#!/usr/bin/env bash
# fuzz.sh [SECONDS]: builds the targets of fuzz/ and runs each for so long (20 s). Ends with the line
# "fuzz: targets=N execs=N crashes=N"; exit code 1 if anything crashed. FIRETIME_FUZZ_TARGET is the folder to build in.
#
# Coverage feedback needs no nightly Rust: the compiler's pass is asked for by name, libfuzzer-sys brings the rest.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-20}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "fuzz.sh: how many seconds? Not '$seconds'" >&2; exit 2; }

if ! command -v c++ >/dev/null; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "missing: a C++ compiler; install it (Debian's package: g++)" >&2
        exit 2
    fi
    apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300)
    "${apt[@]}" update >&2 || echo "apt-get update failed; going on with what is known" >&2
    "${apt[@]}" install --no-install-recommends g++ </dev/null >&2
fi

host=$(rustc -vV | sed -n 's/^host: //p')
target=${FIRETIME_FUZZ_TARGET:-$PWD/fuzz/target}
flags=(
    -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares
)
# With --target the flags are for the targets alone, not for build scripts, which have no fuzzer to link with.
RUSTFLAGS="${flags[*]}" cargo build --manifest-path fuzz/Cargo.toml --locked --release --target "$host" \
    --target-dir "$target" >&2

cd fuzz
targets=0 execs=0 crashes=0
for source in targets/*.rs; do
    name=$(basename "$source" .rs)
    binary=$target/$host/release/$name
    mkdir -p "corpus/$name" "artifacts/$name"
    log=$(mktemp) begun=$(mktemp)
    code=0
    # An input that takes 10 s, or a gigabyte, is a crash too. The dictionary holds words worth trying.
    "$binary" "corpus/$name" "seeds/$name" -dict="$name.dict" -artifact_prefix="artifacts/$name/" \
        -max_total_time="$seconds" -max_len=512 -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
        >"$log" 2>&1 </dev/null || code=$?
    ran=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    targets=$((targets + 1)) execs=$((execs + ${ran:-0}))
    echo "$name: ${ran:-0} executions"
    if [ "$code" != 0 ]; then
        crashes=$((crashes + 1))
        tail -n 40 "$log"
        while read -r found; do
            echo "run it again: $binary $PWD/$found"
        done < <(find "artifacts/$name" -type f -newer "$begun")
    fi
    rm -f "$log" "$begun"
done
echo "fuzz: targets=$targets execs=$execs crashes=$crashes"
[ "$crashes" = 0 ]
