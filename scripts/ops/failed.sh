#!/usr/bin/env bash
# Usage: failed.sh [--hours N] [--each] [--all] [DATABASE_URL]
#
# Shows what failed, died with its node, or ran out of time within the last hour: how often each job did for the
# same error, the most frequent first, and which execution was the last. Times are UTC. Needs psql, mariadb (or
# mysql) or sqlite3, nothing else. Reads the ledger.
#
#   DATABASE_URL  postgres://user:password@host:port/database
#                 mysql://user:password@host:port/database
#                 (of several hosts, host:port,host:port, the first that answers)
#                 sqlite:path, or the path of a SQLite file
#                 Default: $FIRETIME_DATABASE_URL, which keeps a password out of the list of processes.
#                 Special characters in a password are percent-encoded.
#   --hours N     within the last N hours (1 to 100000)
#   --each        each execution in a row of its own, with its node, the newest first
#   --all         every row; without it the first 100
#
# Exit codes: 0 shown; 1 the database could not be reached or refused; 2 wrong usage, or no client.
set -euo pipefail
name=failed.sh form=table url=''
# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/database.bash"

limit='LIMIT 100' hours=1 each=''
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) help "$0"; exit 0 ;;
    --all) limit='' ;;
    --each) each=yes ;;
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
lately="FROM qrtz_failed WHERE seconds_ago <= $hours * 3600"
sql="SELECT COUNT(*) AS executions, application, job, state,
COALESCE(NULLIF(substr(error, 1, 100), ''), reason) AS error,
MIN(finished) AS first_end, MAX(finished) AS last_end, MAX(execution_id) AS last_execution $lately
GROUP BY 2, 3, 4, 5 ORDER BY 1 DESC, last_execution DESC $limit"
[ -z "$each" ] || sql="SELECT execution_id, application, schedule, job, attempt, state, reason, node, started, finished,
substr(error, 1, 100) AS error $lately ORDER BY execution_id DESC $limit"
show || exit 1
