#!/usr/bin/env bash
# Usage: claimed.sh [--all] [--node N] [DATABASE_URL]
#
# Shows which node has claimed or is running what: the view qrtz_claimed as a table, oldest claim first,
# times in UTC. Needs psql, mariadb (or mysql) or sqlite3, nothing else.
#
#   DATABASE_URL  postgres://user:password@host:port/database
#                 mysql://user:password@host:port/database
#                 (of several hosts, host:port,host:port, the first that answers)
#                 sqlite:path, or the path of a SQLite file
#                 Default: $FIRETIME_DATABASE_URL, which keeps a password out of the list of processes.
#                 Special characters in a password are percent-encoded.
#   --all         every row; without it the 100 oldest claims
#   --node N      only this node: its host name, or its id or the beginning of it
#
# Exit codes: 0 shown; 1 the database could not be reached or refused; 2 wrong usage, or no client.
set -euo pipefail
name=claimed.sh form=table url=''
# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/database.bash"

limit='LIMIT 100' where=''
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) help "$0"; exit 0 ;;
    --all) limit='' ;;
    --node)
        [ $# -ge 2 ] || wrong "--node needs a name"
        is_node "$2"
        where="WHERE host_name = '$2' OR substr(CAST(node AS char(64)), 1, ${#2}) = '$2'"
        shift ;;
    -*) wrong "unknown option $1" ;;
    *) [ -z "$url" ] || wrong "one database at a time"; url=$1 ;;
    esac
    shift
done
url=${url:-${FIRETIME_DATABASE_URL:-}}
[ -n "$url" ] || wrong "no database: name it or set FIRETIME_DATABASE_URL"
sql="SELECT execution_id, application, schedule, job, state, node, host_name, scheduled_time, claimed_since,
started_since, attempt FROM qrtz_claimed $where ORDER BY claimed_since, execution_id $limit"
show || exit 1
