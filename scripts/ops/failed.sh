#!/usr/bin/env bash
# Usage: failed.sh [--hours N] [--all] [DATABASE_URL]
#
# Shows the executions that failed, died with their node, or ran out of time within the last hour, the newest
# first. Times are UTC. Needs psql, mariadb (or mysql) or sqlite3, nothing else. Reads the ledger.
#
#   DATABASE_URL  postgres://user:password@host:port/database
#                 mysql://user:password@host:port/database
#                 (of several hosts, host:port,host:port, the first that answers)
#                 sqlite:path, or the path of a SQLite file
#                 Default: $FIRETIME_DATABASE_URL, which keeps a password out of the list of processes.
#                 Special characters in a password are percent-encoded.
#   --hours N     within the last N hours (1 to 100000)
#   --all         every row; without it the 100 newest
#
# Exit codes: 0 shown; 1 the database could not be reached or refused; 2 wrong usage, or no client.
set -euo pipefail
name=failed.sh form=table url=''
# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/database.bash"

limit='LIMIT 100' hours=1
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) help "$0"; exit 0 ;;
    --all) limit='' ;;
    --hours)
        [[ ${2:-} =~ ^[1-9][0-9]{0,4}$|^100000$ ]] || wrong "--hours needs a number from 1 to 100000"
        hours=$2
        shift ;;
    -*) wrong "unknown option $1" ;;
    *) [ -z "$url" ] || wrong "one database at a time"; url=$1 ;;
    esac
    shift
done
url=${url:-${FIRETIME_DATABASE_URL:-}}
[ -n "$url" ] || wrong "no database: name it or set FIRETIME_DATABASE_URL"
sql="SELECT execution_id, application, schedule, job, attempt, state, reason, node, started, finished,
substr(error, 1, 100) AS error FROM qrtz_failed WHERE seconds_ago <= $hours * 3600 ORDER BY execution_id DESC $limit"
show || exit 1
