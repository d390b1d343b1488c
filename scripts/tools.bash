# shellcheck shell=bash
# The tools of a release, each of one version and kept in the target folder: sourced by the scripts that use
# them.

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
