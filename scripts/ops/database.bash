# shellcheck shell=bash
# Asks a database: sourced by the scripts beside it, which set `name` (their own), `url`, `sql` and `form` (table,
# or plain: a line for each row, columns separated by tabs), and then call `show`.
#
# Needs psql, mariadb (or mysql) or sqlite3, nothing else.

# wrong WHAT: ends the script because it was asked wrongly.
wrong() {
    echo "$name: $1; see $name --help" >&2
    exit 2
}

# help FILE: the comment at the beginning of a script.
help() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$1"; }

# A node's name, or the beginning of its id.
is_node() { [[ $1 =~ ^[A-Za-z0-9._:-]+$ ]] || wrong "a node's name has only letters, digits and . _ : -"; }

# client NAME...: the first of them that is installed.
client() {
    local name
    for name; do command -v "$name" && return; done
    wrong "not installed: $1"
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
    [[ $query != *password=* ]] || wrong "the password belongs before the host"
}

show_postgres() {
    local psql
    psql=$(client psql) || exit 2
    split
    [ -z "${password+set}" ] || export PGPASSWORD=$password
    local plain=()
    [ "$form" = table ] || plain=(-At -F $'\t')
    PGTZ=UTC PGCLIENTENCODING=UTF8 "$psql" -X -w -q "${plain[@]}" -v ON_ERROR_STOP=1 -P pager=off -c 'SET jit = off' -c "$sql" \
        "postgres://${user:+$user@}$host${port:+:$port}/$database${query:+?$query}" | printable
}

# The two clients of this protocol ask for TLS in different words. MariaDB's cannot insist on it without
# verifying the server, so there REQUIRED verifies too. Who names certificates wants the server verified.
tls() {
    set -- "${1^^}"
    if [[ $("$mysql" --version) != *MariaDB* ]]; then
        options+=(--ssl-mode="$1")
    elif [ "$1" = DISABLED ]; then
        options+=(--skip-ssl)
    elif [ "$1" != PREFERRED ]; then
        options+=(--ssl-verify-server-cert)
    fi
}

show_mysql() {
    local mysql options=() pairs pair written=(--table)
    [ "$form" = table ] || written=(--batch --skip-column-names)
    mysql=$(client mariadb mysql) || exit 2
    split
    [ -z "${password+set}" ] || export MYSQL_PWD=$password
    [[ $query != *ssl_* || $query == *ssl_mode=* ]] || tls VERIFY_IDENTITY
    IFS='&' read -ra pairs <<<"$query"
    for pair in "${pairs[@]}"; do
        case $pair in
        unix_socket=*) options+=("--socket=$(decode "${pair#*=}")") ;;
        ssl_ca=* | ssl_cert=* | ssl_key=*) options+=("--${pair%%_*}-$(decode "${pair#*_}")") ;;
        ssl_mode=*) tls "${pair#*=}" ;;
        *) wrong "not understood in the URL: ${pair%%=*}" ;;
        esac
    done
    options+=(--user="$(decode "$user")")
    local hosts=() place at=()
    IFS=, read -ra hosts <<<"$host${port:+:$port}"
    for place in "${hosts[@]}"; do
        at=()
        [[ ! $place =~ ^(.*):([0-9]+)$ ]] || { at+=(--port="${BASH_REMATCH[2]}") place=${BASH_REMATCH[1]}; }
        place=${place#[} place=${place%]}
        [ -z "$place" ] || at+=(--host="$place")
        # Of several hosts the first that answers; the last one's complaint is shown.
        [ ${#hosts[@]} -gt 1 ] || break
        ! "$mysql" --no-defaults --connect-timeout=3 "${options[@]}" "${at[@]}" --execute='SELECT 1' &>/dev/null || break
    done
    "$mysql" --no-defaults --default-character-set=utf8mb4 "${written[@]}" --init-command="SET time_zone = '+00:00'" \
        "${options[@]}" "${at[@]}" --execute="$sql" "$(decode "$database")" | printable | grep . || empty "${PIPESTATUS[0]}"
}

show_sqlite() {
    local sqlite written=(-table)
    [ "$form" = table ] || written=(-list -separator $'\t')
    # A mistyped URL is no file either, and may hold a password: it is not repeated.
    [ -f "$1" ] || { echo "$name: no such SQLite file, and no URL of another database; see $name --help" >&2; return 1; }
    sqlite=$(client sqlite3) || exit 2
    "$sqlite" -init /dev/null -bail -readonly "${written[@]}" -cmd '.timeout 5000' "$1" "$sql" | printable | grep . ||
        empty "${PIPESTATUS[0]}"
}

# These two clients print nothing at all for no rows.
empty() { [ "$1" = 0 ] && { [ "$form" = plain ] || echo '(0 rows)'; }; }

show() {
    case $url in
    postgres://* | postgresql://*) show_postgres ;;
    mysql://* | mariadb://*) show_mysql ;;
    sqlite://*) show_sqlite "${url#sqlite://}" ;;
    *://*) wrong "unknown kind of database: ${url%%://*}" ;;
    *) show_sqlite "${url#sqlite:}" ;;
    esac
}
