#!/usr/bin/env bash
# axe.sh: prints the path of axe-core's file, which looks for what keeps people from using a page; it is fetched
# once by npm, into the target folder, and compared with the checksum below. It is for the tests alone, and no
# part of the package. Without npm, or a network: says so and exits 2.
set -euo pipefail
cd "$(dirname "$0")/.."

version=4.14.1
sum=sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==

folder=$(realpath -m "${CARGO_TARGET_DIR:-target}/axe-core-$version")
archive=$folder/axe-core-$version.tgz
checksum() { echo "sha512-$(openssl dgst -sha512 -binary "$archive" | base64 -w0)"; }

if [ ! -e "$archive" ]; then
    command -v npm >/dev/null || { echo "axe.sh: there is no npm" >&2; exit 2; }
    mkdir -p "$folder"
    fetched=$(mktemp -d "$folder/XXXXXX")
    trap 'rm -rf "$fetched"' EXIT
    (cd "$fetched" && timeout 60 npm pack --silent --ignore-scripts "axe-core@$version" >/dev/null) ||
        { echo "axe.sh: npm could not fetch axe-core $version" >&2; exit 2; }
    mv "$fetched"/axe-core-*.tgz "$archive"
fi
[ "$(checksum)" = "$sum" ] || { echo "axe.sh: $archive is not the axe-core that was expected; remove it" >&2; exit 1; }
tar -xzf "$archive" -C "$folder" package/axe.min.js
echo "$folder/package/axe.min.js"
