#!/usr/bin/env bash
# upgrade.sh: upgrades real clusters node by node, on all three databases at once, and judges what they leave
# behind: no occurrence twice, none lost. Nodes of an older build make the tables; nodes of this one bring
# these up to date beside them, and take over. The older build is that of the last tag before this commit, or
# of the commit in FIRETIME_OLD; without either it is this one, which says so. It is built once, into the
# target folder. Once all is built it takes half a minute. Ends with the line "upgrade: from OLD, runs=N
# violations=N". After a failure this line names a folder, logs=FOLDER, as that of scripts/chaos.sh does.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/logs.sh

folder=$(realpath -m "${CARGO_TARGET_DIR:-target}/upgrade-builds")
mkdir -p "$folder"

# build FOLDER: the test binary, which is a node, of the sources in a folder.
build() {
    cargo test --locked --all-features --test it --no-run --message-format json-render-diagnostics \
        --manifest-path "$1/Cargo.toml" |
        sed -n 's/.*"kind":\["test"\].*"name":"it".*"executable":"\([^"]*\)".*/\1/p'
}

it=$(build .)
old=${FIRETIME_OLD:-$(git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null || true)}
if [ -z "$old" ]; then
    echo "upgrade.sh: there is no tag before this commit: the older build is this one"
    old='this build'
    cp "$it" "$folder/it-itself"
    FIRETIME_OLD_NODE=$folder/it-itself
else
    commit=$(git rev-parse --verify --quiet "$old^{commit}") || { echo "upgrade.sh: no commit $old" >&2; exit 2; }
    FIRETIME_OLD_NODE=$folder/it-$commit
    if [ ! -x "$FIRETIME_OLD_NODE" ]; then
        # A folder of its own for each: cargo goes by the times of files, which those of another commit may
        # share.
        sources=$folder/$commit
        mkdir -p "$sources"
        git archive "$commit" | tar -x -C "$sources"
        built=$(build "$sources")
        cp "$built" "$FIRETIME_OLD_NODE.new"
        mv "$FIRETIME_OLD_NODE.new" "$FIRETIME_OLD_NODE"
        rm -rf "$sources"
    fi
fi

keep_logs upgrade
mkdir "$logs/servers"
export FIRETIME_OLD_NODE FIRETIME_CHAOS=upgrade FIRETIME_CHAOS_REPORT=$logs/report FIRETIME_CHAOS_LOGS=$logs
export FIRETIME_SERVERS='postgres mariadb' FIRETIME_FAST_SERVERS=1 FIRETIME_SERVER_LOGS=$logs/servers
touch "$FIRETIME_CHAOS_REPORT"
code=0
scripts/with-servers.sh timeout --foreground -k 10 5m "$it" --test-threads 3 \
    ::chaos::nodes_of_two_releases_share_the_work >"$logs/upgrade.log" 2>&1 || code=$?
[ $code = 0 ] || cat "$logs/upgrade.log"
cat "$FIRETIME_CHAOS_REPORT"
# Of a run that did not come to its figures there is no line: it counts as a violation.
awk -v old="$old" -v broken=$code -v logs="$logs" '
    { runs++; for (i = 3; i <= NF; i++) if (split($i, it, "=") == 2 && it[1] == "violations") sum += it[2] }
    END {
        printf "upgrade: from %s, runs=%d violations=%d", old, runs, sum + ((broken != 0 || runs != 3) && sum == 0)
        if (broken != 0 || runs != 3) printf " logs=%s", logs
        printf "\n"
        exit broken != 0 || runs != 3
    }' "$FIRETIME_CHAOS_REPORT"
