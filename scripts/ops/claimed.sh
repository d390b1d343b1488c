#!/usr/bin/env bash
# Usage: claimed.sh [--all] [--node N] [DATABASE_URL]
#
# Shows which node has claimed or is running what: the view qrtz_claimed as a table, oldest claim first,
# times in UTC. Needs psql, mariadb (or mysql) or sqlite3, nothing else.
#
#   DATABASE_URL  postgres://user:password@host:port/database
#                 mysql://user:password@host:port/database
#                 sqlite://path, or the path of a SQLite file
#                 Default: $FIRETIME_DATABASE_URL, which keeps a password out of the list of processes.
#                 Special characters in a password are percent-encoded.
#   --all         every row; without it the 100 oldest claims
#   --node N      only this node: its host name, or its id or the beginning of it
#
# Exit codes: 0 shown; 1 the database could not be reached or refused; 2 wrong usage, or no client.
set -euo pipefail

usage() {
    echo "claimed.sh: $1; see claimed.sh --help" >&2
    exit 2
}

limit='LIMIT 100' where='' url=''
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --all) limit='' ;;
    --node)
        [ $# -ge 2 ] || usage "--node needs a name"
        [[ $2 =~ ^[A-Za-z0-9._:-]+$ ]] || usage "a node's name has only letters, digits and . _ : -"
        where="WHERE host_name = '$2' OR substr(CAST(node AS char(64)), 1, ${#2}) = '$2'"
        shift ;;
    -*) usage "unknown option $1" ;;
    *) [ -z "$url" ] || usage "one database at a time"; url=$1 ;;
    esac
    shift
done
url=${url:-${FIRETIME_DATABASE_URL:-}}
[ -n "$url" ] || usage "no database: name it or set FIRETIME_DATABASE_URL"
sql="SELECT execution_id, application, schedule, job, state, node, host_name, scheduled_time, claimed_since,
started_since, attempt FROM qrtz_claimed $where ORDER BY claimed_since, execution_id $limit"

# client NAME...: the first of them that is installed.
client() {
    local name
    for name; do command -v "$name" && return; done
    usage "not installed: $1"
}
decode() { local text=${1//\\/\\\\}; printf '%b' "${text//%/\\x}"; }

# What names may hold that somebody wrote by hand must not steer the terminal.
printable() { LC_ALL=C tr '\001-\010\013-\037\177' '?' | LC_ALL=C sed $'s/\xc2[\x80-\x9f]/?/g'; }

# Splits url into user, password (decoded; unset if there is none), host, port, database, query.
split() {
    local rest=${url#*://} login=''
    query='' database='' user='' port=''
    [[ $rest != *\?* ]] || { query=${rest#*\?} rest=${rest%%\?*}; }
    [[ $rest != */* ]] || { database=${rest#*/} rest=${rest%%/*}; }
    [[ $rest != *@* ]] || { login=${rest%@*} rest=${rest##*@}; }
    user=${login%%:*}
    [[ $login != *:* ]] || password=$(decode "${login#*:}")
    host=$rest
    [[ ! $rest =~ ^(.*):([0-9]+)$ ]] || { host=${BASH_REMATCH[1]} port=${BASH_REMATCH[2]}; }
    [[ $query != *password=* ]] || usage "the password belongs before the host"
}

show_postgres() {
    local psql
    psql=$(client psql) || exit 2
    split
    [ -z "${password+set}" ] || export PGPASSWORD=$password
    PGTZ=UTC PGCLIENTENCODING=UTF8 "$psql" -X -w -q -v ON_ERROR_STOP=1 -P pager=off -c 'SET jit = off' -c "$sql" \
        "postgres://${user:+$user@}$host${port:+:$port}/$database${query:+?$query}" | printable
}

# The two clients of this protocol ask for TLS in different words. MariaDB's cannot insist on it without
# verifying the server, so there REQUIRED verifies too.
tls() {
    if [[ $("$mysql" --version) != *MariaDB* ]]; then
        options+=(--ssl-mode="$1")
    elif [ "$1" = DISABLED ]; then
        options+=(--skip-ssl)
    elif [ "$1" != PREFERRED ]; then
        options+=(--ssl-verify-server-cert)
    fi
}

show_mysql() {
    local mysql options=() pairs pair
    mysql=$(client mariadb mysql) || exit 2
    split
    [ -z "${password+set}" ] || export MYSQL_PWD=$password
    IFS='&' read -ra pairs <<<"$query"
    for pair in "${pairs[@]}"; do
        case $pair in
        unix_socket=*) options+=("--socket=$(decode "${pair#*=}")") ;;
        ssl_ca=* | ssl_cert=* | ssl_key=*) options+=("--${pair%%_*}-$(decode "${pair#*_}")") ;;
        ssl_mode=*) tls "${pair#*=}" ;;
        *) usage "not understood in the URL: ${pair%%=*}" ;;
        esac
    done
    host=${host#[} host=${host%]}
    [ -z "$host" ] || options+=(--host="$host")
    [ -z "$port" ] || options+=(--port="$port")
    "$mysql" --no-defaults --default-character-set=utf8mb4 --table --init-command="SET time_zone = '+00:00'" --user="$(decode "$user")" \
        "${options[@]}" --execute="$sql" "$(decode "$database")" | printable | grep . || empty "${PIPESTATUS[0]}"
}

show_sqlite() {
    local sqlite
    # A mistyped URL is no file either, and may hold a password: it is not repeated.
    [ -f "$1" ] || { echo "claimed.sh: no such SQLite file, and no URL of another database; see claimed.sh --help" >&2; return 1; }
    sqlite=$(client sqlite3) || exit 2
    "$sqlite" -init /dev/null -bail -readonly -table -cmd '.timeout 5000' "$1" "$sql" | printable | grep . ||
        empty "${PIPESTATUS[0]}"
}

# These two clients print nothing at all for no rows.
empty() { [ "$1" = 0 ] && echo '(0 rows)'; }

case $url in
postgres://* | postgresql://*) show=(show_postgres) ;;
mysql://* | mariadb://*) show=(show_mysql) ;;
sqlite://*) show=(show_sqlite "${url#sqlite://}") ;;
*://*) usage "unknown kind of database: ${url%%://*}" ;;
*) show=(show_sqlite "${url#sqlite:}") ;;
esac
"${show[@]}" || exit 1
