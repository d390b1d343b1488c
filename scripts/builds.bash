# shellcheck shell=bash
# builds.bash, sourced: the tests' binaries.

# test_binary KIND NAME OPTION...: builds one, `lib firetime` or `test it`, and prints its path.
test_binary() {
    local target=(--lib)
    [ "$1" = lib ] || target=("--$1" "$2")
    cargo test --locked "${@:3}" "${target[@]}" --no-run --message-format json-render-diagnostics |
        sed -n 's/.*"kind":\["'"$1"'"\].*"name":"'"$2"'".*"executable":"\([^"]*\)".*/\1/p'
}

# it_binary: that of tests/it, which is also the node of clusters. check.sh names it in FIRETIME_IT: so nobody
# waits for the lock of a build that goes beside.
it_binary() {
    [ -z "${FIRETIME_IT:-}" ] || { echo "$FIRETIME_IT"; return; }
    test_binary test it --all-features
}

# simulator: the library's tests for the simulations, with all checks, and optimised: what that takes, a tenth
# of the proof saves again. The compiler inlines little where it builds incrementally.
simulator() {
    CARGO_PROFILE_TEST_OPT_LEVEL=2 CARGO_INCREMENTAL=0 test_binary lib firetime --no-default-features --features sqlite
}

# be_idle: this shell, and what it starts, gets the time that nobody else wants.
be_idle() { chrt --idle --pid 0 "$BASHPID" 2>/dev/null || renice -n 19 -p "$BASHPID" >/dev/null || :; }
