#!/usr/bin/env bash
# Usage: late.sh [--all] [DATABASE_URL]
#
# Shows what should have begun a minute ago or earlier, the latest first: schedules, and executions that wait;
# on how many nodes their job runs, and what is paused. Times are UTC. Needs psql, mariadb (or mysql) or sqlite3,
# nothing else.
#
#   DATABASE_URL  postgres://user:password@host:port/database
#                 mysql://user:password@host:port/database
#                 (of several hosts, host:port,host:port, the first that answers)
#                 sqlite:path, or the path of a SQLite file
#                 Default: $FIRETIME_DATABASE_URL, which keeps a password out of the list of processes.
#                 Special characters in a password are percent-encoded.
#   --all         every row; without it the 100 that are latest
#
# Exit codes: 0 nothing is late; 1 the database could not be reached or refused; 2 wrong usage, or no client;
# 3 something is late, and shown.
set -euo pipefail
name=late.sh form=table url=''
# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/database.bash"

limit='LIMIT 100'
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) help "$0"; exit 0 ;;
    --all) limit='' ;;
    -*) wrong "unknown option $1" ;;
    *) [ -z "$url" ] || wrong "one database at a time"; url=$1 ;;
    esac
    shift
done
url=${url:-${FIRETIME_DATABASE_URL:-}}
[ -n "$url" ] || wrong "no database: name it or set FIRETIME_DATABASE_URL"
sql="SELECT kind, id, application, schedule, job, due, late_seconds, nodes, held_by FROM qrtz_late
ORDER BY late_seconds DESC, id $limit"
shown=$(mktemp)
trap 'rm -f "$shown"' EXIT
show >"$shown" || exit 1
cat "$shown"
# A table without rows has three lines at most.
[ "$(grep -c . "$shown")" -le 3 ] || exit 3
