#!/usr/bin/env bash
# release.sh: makes a release of the version that Cargo.toml names. It is built from the package alone, with
# each feature by itself and with all, checked for what it depends on, and listed as an SBOM. Then it asks
# whether to tag and publish it: nothing is published without the answer. Run scripts/check.sh before.
# release.sh --dry-run: all but the question; what would keep it from being released is said and goes on.
# Tools are built once into the target folder (some 15 minutes); after that it takes some 10 minutes.
# The last line is "release: VERSION ..."; the package and its SBOM are in target/package.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tools.bash

dry=0
case "${1:-}" in
    '') ;;
    --dry-run) dry=1 ;;
    *) sed -n '2,7s/^# //p' "$0" >&2; exit 2 ;;
esac

step() {
    local start=$SECONDS
    printf '\n== %s\n' "$*"
    timeout --foreground -k 10 15m "$@"
    printf -- '-- %d s\n' $((SECONDS - start))
}

# against REASON: why this cannot be released.
reasons=()
against() {
    reasons+=("$1")
    echo "against a release: $1" >&2
    [ $dry = 1 ] || exit 1
}

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
tag=v$version
[ -z "$(git status --porcelain)" ] || against "the work tree has changes that are not committed"
[ -z "$(git tag --list "$tag")" ] || against "the version $version has a tag, $tag: raise it in Cargo.toml"
heading=$(grep -m1 -E "^## ${version//./\\.}( |$)" CHANGELOG.md || true)
[ -n "$heading" ] || against "CHANGELOG.md has no part for $version"
[[ $heading != *unreleased* ]] || against "CHANGELOG.md calls $version unreleased: give it its date"

# What is released is what the package holds: from here on all is done in a copy of that alone.
package=$(realpath -m "${CARGO_TARGET_DIR:-target}/package")
export CARGO_TARGET_DIR=${package%/package}
step cargo package --locked --no-verify --no-metadata --allow-dirty --quiet
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
tar -xzf "$package/firetime-$version.crate" -C "$unpacked"
cd "$unpacked/firetime-$version"

# `sql` and `bench` are no features for users: the first is nothing without a database.
mapfile -t features < <(cargo metadata --locked --no-deps --format-version 1 |
    python3 -c 'import json, sys; print(*sorted(json.load(sys.stdin)["packages"][0]["features"]), sep="\n")' |
    grep -vxE 'default|sql|bench')
[ ${#features[@]} -gt 10 ] || { echo "release.sh: no features found" >&2; exit 1; }
step cargo check --locked --all-features --all-targets
step cargo check --locked --no-default-features
for feature in "${features[@]}"; do step cargo check --locked --no-default-features --features "$feature"; done

tool deny 0.20.2
tool cyclonedx 0.5.9
step cargo deny --locked --all-features check licenses bans sources
# Its own word for "no": the database of advisories is a repository, which not every machine can reach.
if timeout 60 cargo deny --locked --all-features fetch db >/dev/null 2>&1; then
    step cargo deny --locked --all-features check advisories
else
    against "advisories are NOT CHECKED: their database cannot be reached"
fi

SOURCE_DATE_EPOCH=$(git -C "$OLDPWD" log -1 --format=%ct)
export SOURCE_DATE_EPOCH
step cargo cyclonedx --quiet --format json --spec-version 1.5 --all-features --override-filename "firetime-$version.cdx"
sed "s|file://$PWD|file:///firetime-$version|g" "firetime-$version.cdx.json" >"$package/firetime-$version.cdx.json"
listed=$(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["components"]))' \
    "$package/firetime-$version.cdx.json")
echo "SBOM: $listed crates, $package/firetime-$version.cdx.json"
[ "$listed" -gt 100 ] || { echo "release.sh: that is no list of what all features depend on" >&2; exit 1; }

cd "$OLDPWD"
step scripts/public-api.sh
step scripts/semver.sh
step scripts/upgrade.sh
# The next release must be able to build a node of this one.
step cargo check --locked --no-default-features --features "$node_features" --test it
if [ $dry = 1 ]; then
    printf -v all '; %s' "${reasons[@]}"
    echo "release: $version, dry run, $SECONDS s, ${#reasons[@]} reasons against it${reasons[0]:+$all}"
    exit 0
fi
echo "release: $version is ready, $SECONDS s"
[ -t 0 ] || { echo "to publish it: git tag -a $tag -m $tag && cargo publish --locked, then push the tag"; exit 0; }
read -rp "Type $version to tag it $tag and publish it on crates.io: " answer
[ "$answer" = "$version" ] || { echo "not published"; exit 0; }
git tag -a "$tag" -m "$tag"
cargo publish --locked || { git tag -d "$tag"; exit 1; }
echo "published; push the tag: git push origin $tag"
