#!/usr/bin/env bash
# console-pictures.sh [FOLDER]: makes pictures of every page of the console, of a made-up shop: wide in light and
# in dark, and narrow. Default: target/console-pictures. FIRETIME_PICTURED=WORD: only pages whose names contain
# it. They look best with the typeface Inter installed (Debian: fonts-inter).
# console-pictures.sh --docs: makes those in docs/pictures anew, small and with few colours (needs pngquant).
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install.sh
folder=${CARGO_TARGET_DIR:-target}/console-pictures
[ $# -eq 0 ] || [ "$1" = --docs ] || folder=$1
FIRETIME_PICTURES=$(realpath -m "$folder") cargo test --quiet --locked --all-features --test console
[ "${1:-}" = --docs ] || { echo "pictures are in $folder"; exit 0; }

mkdir -p docs/pictures
for name in now-light now-dark schedule-why-light schedules-few-narrow; do
    pngquant --force --speed 1 --strip --output "docs/pictures/$name.png" 96 "$folder/$name.png"
done
ls -l docs/pictures
