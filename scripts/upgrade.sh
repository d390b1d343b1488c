#!/usr/bin/env bash
# upgrade.sh: upgrades real clusters node by node, on all three databases at once, and judges what they leave
# behind: no occurrence twice, none lost. Nodes of an older build make the tables; nodes of this one bring
# these up to date beside them, and take over. The older build is that of the last tag before this commit, or
# of the commit in FIRETIME_OLD; without either it is this one, which says so. It is built once, into the
# target folder. Once all is built it takes half a minute. Ends with the line "upgrade: from OLD, runs=N
# violations=N". After a failure this line names a folder, logs=FOLDER, as that of scripts/chaos.sh does.
# upgrade.sh --gate: without a tag says "upgrades: NOT CHECKED" and why, and does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/logs.sh
. scripts/tools.bash
. scripts/builds.bash

old=${FIRETIME_OLD:-$(last_tag)}
case ${1:-} in
    '') ;;
    --gate)
        [ -n "$old" ] || { echo "upgrades: NOT CHECKED ($(why_no_tag))"; exit 0; }
        # It goes beside other work: as with chaos.sh --short no commit waits for a busy disk.
        [ ! -w /dev/shm ] || export TMPDIR=/dev/shm ;;
    *) sed -n '2,8s/^# //p' "$0" >&2; exit 2 ;;
esac
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}/upgrade-builds")
mkdir -p "$folder"

it=$(it_binary)
if [ -z "$old" ]; then
    echo "upgrade.sh: $(why_no_tag): the older build is this one"
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
        # What a node needs, built in little time. Without `cli`: its program would replace this one's.
        built=$(CARGO_PROFILE_TEST_OPT_LEVEL=0 CARGO_INCREMENTAL=0 test_binary test it \
            --no-default-features --features "$node_features" --manifest-path "$sources/Cargo.toml")
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
