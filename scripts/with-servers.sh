#!/usr/bin/env bash
# with-servers.sh COMMAND ARGS...: runs the command beside a private PostgreSQL and a private MariaDB
# and exits with its code. The servers live in a temporary folder on free ports of 127.0.0.1, never run
# as root, and are gone, folder and all, when this script is, however it ends. The command gets no stdin,
# and: FIRETIME_TEST_POSTGRES_URL, FIRETIME_TEST_POSTGRES_PID (its user is a superuser),
# FIRETIME_TEST_MARIADB_URL, FIRETIME_TEST_MARIADB_PID (its user has every privilege).
# FIRETIME_SERVERS=postgres or mariadb: only this one. Others are `galera` and `standby`, see clusters.sh.
# FIRETIME_FAST_SERVERS=1 gives up durability for speed: for tests, never for benches. Before PostgreSQL it also puts a
# PgBouncer, FIRETIME_TEST_PGBOUNCER_URL, whose databases `session` and `transaction` are its pool modes. And both
# servers offer TLS (make_certificates); clients that do not ask for it do without.
# FIRETIME_REVIVE_SERVERS=1: a server that dies, however it does, is started again on its port, but not while the
# file that FIRETIME_TEST_POSTGRES_DOWN or FIRETIME_TEST_MARIADB_DOWN names is there. What is committed outlives the
# server's death, not the machine's.
# FIRETIME_SERVER_LOGS=FOLDER: there the servers' own logs are kept.
# shellcheck disable=SC2317,SC2329 # functions called by traps and by name look unreachable
set -euo pipefail

[ $# -gt 0 ] || { sed -n '2,15s/^# //p' "$0" >&2; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
read -ra wanted <<<"${FIRETIME_SERVERS:-postgres mariadb}"
"$root/scripts/install.sh" "${wanted[@]}"
PATH=$PATH:/usr/sbin:/sbin
if ! command -v initdb >/dev/null; then
    PATH=$(dirname "$(compgen -G '/usr/lib/postgresql/*/bin/initdb' | sort -V | tail -n 1)"):$PATH
fi

set -m # a process group each: Ctrl-C reaches this script alone, and the command can be ended with its children
dir=$(mktemp -d "${TMPDIR:-/tmp}/firetime.XXXXXX")
command='' pid='' port=''
declare -A servers=() # pid -> the signal that ends it fast
declare -A names=() ports=() # pid -> what runs there, and where
identity=()
if [ "$(id -u)" = 0 ]; then
    chown nobody "$dir"
    identity=(--reuid nobody --regid "$(id -g nobody)" --clear-groups)
fi
fast_postgres=() fast_mariadb=()
tls_postgres=() tls_mariadb=()
if [ "${FIRETIME_FAST_SERVERS:-0}" = 1 ]; then
    fast_postgres=(-c fsync=off -c synchronous_commit=off -c full_page_writes=off)
    fast_mariadb=(--innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0)
fi
if [ "${FIRETIME_REVIVE_SERVERS:-0}" = 1 ]; then
    fast_postgres=(-c fsync=off) fast_mariadb=(--innodb-flush-log-at-trx-commit=2)
fi

alive() { kill -0 -- "$1" 2>/dev/null; }

# stop SIGNAL TARGET: TARGET is a pid or, for a process group, its negative. It gets 10 s, then SIGKILL.
stop() {
    local deadline=$((SECONDS + 10))
    kill -s "$1" -- "$2" 2>/dev/null || return 0
    kill -s CONT -- "$2" 2>/dev/null || true # a test may have left it stopped
    while alive "$2"; do
        ((SECONDS < deadline)) || kill -s KILL -- "$2" 2>/dev/null || true
        sleep 0.05
    done
}

clean_up() {
    trap '' INT TERM HUP
    [ -z "$command" ] || stop TERM "-$command"
    for pid in "${!servers[@]}"; do stop "${servers[$pid]}" "$pid"; done
    [ -z "${FIRETIME_SERVER_LOGS:-}" ] || cp "$dir"/*.log "$FIRETIME_SERVER_LOGS" || true
    rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# fail MESSAGE LOG
fail() {
    echo "with-servers.sh: $1; the end of its log:" >&2
    tail -n 30 "$2" >&2
    exit 1
}

# private SIGNAL COMMAND...: not as root, not in a folder that only root may enter, and the kernel sends it
# SIGNAL if this script is killed outright.
private() {
    cd "$dir"
    exec setpriv "${identity[@]}" --pdeathsig "$1" -- "${@:2}"
}

# set_up NAME COMMAND...
set_up() {
    (private KILL "${@:2}") >"$dir/$1.log" 2>&1 </dev/null || fail "$1 failed" "$dir/$1.log"
}

free_port() {
    perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")->sockport'
}

# start NAME SIGNAL: sets pid and port to those of a server that answers. Somebody else may take the port
# before the server does, so it tries three.
start() {
    local log="$dir/$1.log" deadline=$((SECONDS + 20))
    for _ in 1 2 3; do
        port=$(free_port)
        "run_$1" >"$log" 2>&1 </dev/null &
        pid=$!
        servers[$pid]=$2 names[$pid]=$1 ports[$pid]=$port
        until "ask_$1" >>"$dir/ask.log" 2>&1; do
            alive "$pid" || break
            ((SECONDS < deadline)) || fail "$1 did not answer within 20 s" "$log"
            sleep 0.1
        done
        if alive "$pid"; then return; fi
        unset "servers[$pid]"
        grep -qi 'in use' "$log" || break
    done
    fail "$1 did not start" "$log"
}

# revive PID: starts again what ran under this pid.
revive() {
    local name=${names[$1]} signal=${servers[$1]}
    [ ! -e "$dir/$name.down" ] || return 0
    unset "servers[$1]"
    port=${ports[$1]}
    "run_$name" >>"$dir/$name.log" 2>&1 </dev/null &
    servers[$!]=$signal names[$!]=$name ports[$!]=$port
}

# Makes the folder FIRETIME_TEST_TLS: two authorities, ca.pem and other.pem, and a certificate of the first for
# localhost, 127.0.0.1, which the servers have. PostgreSQL keeps members of the role firetime_tls from doing without.
make_certificates() {
    # shellcheck disable=SC2016 # the variables are the inner shell's
    set_up openssl bash -euc 'mkdir "$0" && cd "$0"
        new=(openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
        for name in ca other; do
            "${new[@]}" -x509 -days 2 -subj "/CN=firetime test $name" -keyout "$name.key" -out "$name.pem"
        done
        "${new[@]}" -subj "/CN=firetime test server" -keyout server.key -out server.csr
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out server.pem \
            -extfile <(echo "subjectAltName=DNS:localhost,IP:127.0.0.1")' "$dir/tls"
    tls_postgres=(-c ssl=on -c "ssl_cert_file=$dir/tls/server.pem" -c "ssl_key_file=$dir/tls/server.key")
    tls_mariadb=("--ssl-cert=$dir/tls/server.pem" "--ssl-key=$dir/tls/server.key")
    export FIRETIME_TEST_TLS=$dir/tls PGSSLMODE=disable
}

run_postgres() {
    private INT postgres -D "$dir/postgres" -p "$port" -c listen_addresses=127.0.0.1 \
        -c unix_socket_directories= -c max_connections=200 "${fast_postgres[@]}" "${tls_postgres[@]}"
}
# On a busy machine the server may have made the database although nobody waited for its answer.
ask_postgres() {
    timeout 3 psql -X "postgres://firetime@127.0.0.1:$port/postgres" -c 'CREATE DATABASE firetime' ||
        timeout 3 psql -X "postgres://firetime@127.0.0.1:$port/firetime" -c 'SELECT 1'
}

# As on a server that has been in use, the next files of the log lie ready. A new server zeroes each when it is needed,
# some 12 ms in which nobody commits.
break_in_log() {
    psql -X -v ON_ERROR_STOP=1 "postgres://firetime@127.0.0.1:$port/postgres" \
        -c "DO \$\$ BEGIN FOR file IN 1..12 LOOP
              PERFORM pg_logical_emit_message(false, 'log', ''), pg_switch_wal(); END LOOP; END \$\$" -c CHECKPOINT
}

run_mariadb() {
    private TERM mariadbd --no-defaults --datadir="$dir/mariadb" --socket="$dir/mariadb.sock" \
        --pid-file="$dir/mariadb.pid" --tmpdir="$dir" --bind-address=127.0.0.1 --port="$port" \
        --skip-name-resolve --skip-networking=0 --max-connections=200 --init-file="$dir/mariadb.sql" \
        --character-set-server=utf8mb4 --default-storage-engine=InnoDB "${fast_mariadb[@]}" "${tls_mariadb[@]}"
}
ask_mariadb() {
    MYSQL_PWD=secret timeout 3 mariadb --no-defaults -h 127.0.0.1 -P "$port" -u firetime -N \
        -e 'SELECT @@pid_file' firetime | grep -F "$dir/mariadb.pid"
}

start_postgres() {
    set_up initdb initdb -D "$dir/postgres" -U firetime -A trust -E UTF8 --locale=C --no-sync
    [ ${#tls_postgres[@]} = 0 ] || sed -i '1i hostnossl all +firetime_tls all reject' "$dir/postgres/pg_hba.conf"
    start postgres INT
    [ ${#fast_postgres[@]} -gt 0 ] || break_in_log >"$dir/log.log" 2>&1 || fail "PostgreSQL's log" "$dir/log.log"
    export FIRETIME_TEST_POSTGRES_URL=postgres://firetime:secret@127.0.0.1:$port/firetime
    export FIRETIME_TEST_POSTGRES_PID=$pid FIRETIME_TEST_POSTGRES_DOWN=$dir/postgres.down
    [ "${FIRETIME_FAST_SERVERS:-0}" != 1 ] || start_pgbouncer
}

run_pgbouncer() {
    cat >"$dir/pgbouncer.ini" <<INI
[databases]
session = host=127.0.0.1 port=$postgres_port dbname=firetime user=firetime pool_mode=session
transaction = host=127.0.0.1 port=$postgres_port dbname=firetime user=firetime pool_mode=transaction
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = any
server_tls_sslmode = disable
INI
    private INT pgbouncer "$dir/pgbouncer.ini"
}
ask_pgbouncer() {
    timeout 3 psql -X "postgres://firetime@127.0.0.1:$port/session" -c 'SELECT 1'
}

start_pgbouncer() {
    local postgres_port=$port
    start pgbouncer INT
    export FIRETIME_TEST_PGBOUNCER_URL=postgres://firetime:secret@127.0.0.1:$port
}

write_grants() {
    cat >"$dir/mariadb.sql" <<'SQL'
CREATE DATABASE IF NOT EXISTS firetime;
CREATE USER IF NOT EXISTS firetime@'%' IDENTIFIED BY 'secret';
GRANT ALL ON *.* TO firetime@'%' WITH GRANT OPTION;
SQL
}

start_mariadb() {
    set_up mariadb-install-db mariadb-install-db --no-defaults --datadir="$dir/mariadb" --skip-test-db
    write_grants
    start mariadb TERM
    export FIRETIME_TEST_MARIADB_URL=mysql://firetime:secret@127.0.0.1:$port/firetime
    export FIRETIME_TEST_MARIADB_PID=$pid FIRETIME_TEST_MARIADB_DOWN=$dir/mariadb.down
}

# shellcheck source=scripts/clusters.sh
. "$root/scripts/clusters.sh"
[ "${FIRETIME_FAST_SERVERS:-0}" != 1 ] || make_certificates
for name in "${wanted[@]}"; do "start_$name"; done

setpriv --pdeathsig TERM -- "$@" </dev/null &
command=$!
while [ "${FIRETIME_REVIVE_SERVERS:-0}" = 1 ] && alive "$command"; do
    for pid in "${!servers[@]}"; do
        [[ ${names[$pid]} = pair* ]] || alive "$pid" || revive "$pid"
    done
    [ -z "$primary" ] || watch_pair
    sleep 0.2
done
code=0
wait "$command" || code=$?
exit "$code"
