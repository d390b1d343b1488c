#!/usr/bin/env bash
# Usage: safe-to-stop.sh NODE [DATABASE_URL]
#
# Says whether a node can be stopped without anybody missing it: it runs and holds nothing, and each of its jobs
# runs on another node that claims. `firetime nodes drain` brings a node there. Needs psql, mariadb (or mysql) or
# sqlite3, nothing else.
#
#   NODE          the node's id, or the beginning of it
#
#   DATABASE_URL  postgres://user:password@host:port/database
#                 mysql://user:password@host:port/database
#                 (of several hosts, host:port,host:port, the first that answers)
#                 sqlite:path, or the path of a SQLite file
#                 Default: $FIRETIME_DATABASE_URL, which keeps a password out of the list of processes.
#                 Special characters in a password are percent-encoded.
#
# Exit codes: 0 safe; 1 the database could not be reached or refused; 2 wrong usage, no such node, or no client;
# 3 not safe, for the reasons that it prints.
set -euo pipefail
name=safe-to-stop.sh form=table url=''
# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/database.bash"

node=''
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) help "$0"; exit 0 ;;
    -*) wrong "unknown option $1" ;;
    *)
        if [ -z "$node" ]; then is_node "$1"; node=$1
        else [ -z "$url" ] || wrong "one database at a time"; url=$1; fi ;;
    esac
    shift
done
[ -n "$node" ] || wrong "which node?"
url=${url:-${FIRETIME_DATABASE_URL:-}}
[ -n "$url" ] || wrong "no database: name it or set FIRETIME_DATABASE_URL"
form=plain
sql="SELECT uuid FROM QRTZ_NODE WHERE ended_time = -1 AND substr(CAST(uuid AS char(64)), 1, ${#node}) = '$node'"
found=$(show) || exit 1
case $(printf '%s' "$found" | grep -c .) in
1) node=$found ;;
0) echo "$name: no live node's id begins with $node" >&2; exit 2 ;;
*) echo "$name: several live nodes' ids begin with $node: write more of the id" >&2; exit 2 ;;
esac
sql="SELECT 'it holds execution', execution_id, schedule, state FROM qrtz_claimed WHERE node = '$node'
UNION ALL SELECT 'no other node runs job', NULL, h.job, NULL FROM qrtz_handlers h WHERE h.node = '$node'
AND NOT EXISTS (SELECT 1 FROM qrtz_handlers o WHERE o.job_id = h.job_id AND o.claims = 1 AND o.node <> h.node)"
reasons=$(show | sed 's/NULL//g' | tr -s '\t' ' ') || exit 1
if [ -n "$reasons" ]; then
    printf 'not safe to stop %s:\n%s\n' "$node" "$reasons"
    exit 3
fi
echo "safe to stop $node"
