# shellcheck shell=bash
# Sourced by the scripts that a release goes by: its tools, each of one version and kept in the target folder,
# and the release before.

tools=$(realpath -m "${CARGO_TARGET_DIR:-target}/tools")
PATH=$tools/bin:$PATH

# tool NAME VERSION: builds cargo-NAME once, which takes minutes. Optimised little: each runs for seconds.
tool() {
    [[ $(cargo "$1" --version 2>/dev/null) != *" $2"* ]] || return 0
    echo "building cargo-$1 $2" >&2
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        cargo install --locked --quiet --root "$tools" --target-dir "$tools/build" "cargo-$1@$2" >&2
    rm -rf "$tools/build"
}

# last_tag: the last release before this commit, or nothing: of a commit that has a tag, the one before.
last_tag() { git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null || true; }

# why_no_tag: for those who found none.
why_no_tag() {
    [ "$(git rev-parse --is-shallow-repository)" = false ] ||
        { echo "a shallow clone lacks the history: fetch it and its tags"; return; }
    git describe --tags --exact-match --match 'v[0-9]*' HEAD 2>/dev/null |
        sed 's/$/ is the first tag, and this commit has it/' | grep . || echo "no tag yet"
}

# What scripts/upgrade.sh builds a node of an older release with: `tests/it` compiles with these alone.
# shellcheck disable=SC2034 # for those who source this
node_features=sqlite,postgres,mysql,tokio
