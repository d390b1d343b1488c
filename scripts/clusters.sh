# shellcheck shell=bash
# clusters.sh, sourced by with-servers.sh: three members of a Galera cluster (`galera`), and a PostgreSQL
# primary with a synchronous standby (`standby`) that takes over from it.
# shellcheck disable=SC2034,SC2154,SC2317,SC2329 # dir, port and others are with-servers.sh's; functions are called by name

# ---- Galera

declare -A group_port=() transfer_port=() catch_up_port=()
bootstrap=()

for member in 1 2 3; do
    eval "run_galera$member() { run_member $member; }; ask_galera$member() { ask_member $member; }"
done

run_member() {
    local name=galera$1 list member provider
    for member in 1 2 3; do list+=,127.0.0.1:${group_port[$member]}; done
    provider=$(compgen -G '/usr/lib/galera/libgalera_smm.so' || compgen -G '/usr/lib*/galera*/libgalera_smm.so')
    private TERM mariadbd --no-defaults --datadir="$dir/$name" --socket="$dir/$name.sock" --pid-file="$dir/$name.pid" \
        --tmpdir="$dir" --bind-address=127.0.0.1 --port="$port" --skip-name-resolve --skip-networking=0 \
        --max-connections=200 --init-file="$dir/mariadb.sql" --character-set-server=utf8mb4 \
        --default-storage-engine=InnoDB --innodb-autoinc-lock-mode=2 "${fast_mariadb[@]}" \
        --binlog-format=ROW --wsrep-on=ON --wsrep-provider="$provider" --wsrep-cluster-name=firetime \
        --wsrep-cluster-address="gcomm://${list#,}" --wsrep-node-address=127.0.0.1 --wsrep-node-name="$name" \
        --wsrep-sst-method=rsync --wsrep-sst-receive-address="127.0.0.1:${transfer_port[$1]}" \
        --wsrep-provider-options="base_host=127.0.0.1;base_port=${group_port[$1]};gcache.size=64M;$(
            )ist.recv_addr=127.0.0.1:${catch_up_port[$1]};gmcast.listen_addr=tcp://127.0.0.1:${group_port[$1]}" \
        "${bootstrap[@]}"
}
ask_member() {
    MYSQL_PWD=secret timeout 3 mariadb --no-defaults -h 127.0.0.1 -P "$port" -u firetime -N \
        -e "SELECT @@pid_file; SHOW STATUS LIKE 'wsrep_local_state_comment'" firetime |
        tr '\n' ' ' | grep -F "$dir/galera$1.pid wsrep_local_state_comment	Synced"
}

# FIRETIME_TEST_GALERA_URL names all members; FIRETIME_TEST_GALERA_DIR has their pid files, galera1.pid etc.
start_galera() {
    local member hosts=
    set_up mariadb-install-db mariadb-install-db --no-defaults --datadir="$dir/galera1" --skip-test-db
    write_grants
    for member in 1 2 3; do
        group_port[$member]=$(free_port) transfer_port[$member]=$(free_port) catch_up_port[$member]=$(free_port)
    done
    mkdir "$dir/galera2" "$dir/galera3"
    [ ${#identity[@]} = 0 ] || chown nobody "$dir/galera2" "$dir/galera3"
    for member in 1 2 3; do
        [ "$member" != 1 ] || bootstrap=(--wsrep-new-cluster)
        start "galera$member" TERM
        bootstrap=()
        hosts+=,127.0.0.1:$port
    done
    export FIRETIME_TEST_GALERA_URL=mysql://firetime:secret@${hosts#,}/firetime FIRETIME_TEST_GALERA_DIR=$dir
}

# ---- A PostgreSQL primary and its standby

primary='' silent=0
declare -A pair_port=() pair_pid=()

for server in 1 2; do
    eval "run_pair$server() { run_pair $server; }; ask_pair$server() { ask_pair $server; }"
done

# A clock that is FILE milliseconds ahead, if there is a file pairN.wall.
run_pair() {
    local clock=()
    [ ! -e "$dir/pair$1.wall" ] || clock=(env "LD_PRELOAD=$dir/wall.so" "FIRETIME_IT_DAY=$(<"$dir/pair$1.wall")")
    private INT "${clock[@]}" postgres -D "$dir/pair$1" -p "$port" -c listen_addresses=127.0.0.1 \
        -c unix_socket_directories= -c max_connections=200 -c wal_keep_size=256MB "${fast_postgres[@]}"
}
ask_pair() { timeout 3 psql -X "postgres://firetime@127.0.0.1:$port/postgres" -c 'SELECT 1'; }

# pair_sql SERVER SQL: its answer, within a second.
pair_sql() {
    timeout 1 psql -X -At "postgres://firetime@127.0.0.1:${pair_port[$1]}/postgres" -c "$2" 2>>"$dir/pair.log"
}

# FIRETIME_TEST_STANDBY_URL names both; FIRETIME_TEST_STANDBY_DIR has their folders, pair1 and pair2. With
# FIRETIME_REVIVE_SERVERS=1 a primary that is gone or silent for three seconds is killed, the standby
# promoted, and the killed one made its standby.
start_standby() {
    set_up initdb-pair initdb -D "$dir/pair1" -U firetime -A trust -E UTF8 --locale=C --no-sync
    cc -shared -fPIC -O1 -o "$dir/wall.so" "$root/tests/it/chaos/wall.c"
    echo "synchronous_standby_names = '*'" >>"$dir/pair1/postgresql.conf"
    start pair1 INT
    pair_port[1]=$port pair_pid[1]=$pid primary=1
    # Without a standby a commit waits for ever.
    PGOPTIONS='-c synchronous_commit=local' pair_sql 1 'CREATE DATABASE firetime' >/dev/null ||
        fail "CREATE DATABASE" "$dir/pair.log"
    copy_pair 1 2 || fail pg_basebackup "$dir/pair.log"
    start pair2 INT
    pair_port[2]=$port pair_pid[2]=$pid
    local url=postgres://firetime:secret@127.0.0.1:${pair_port[1]},127.0.0.1:${pair_port[2]}
    export FIRETIME_TEST_STANDBY_URL=$url/firetime FIRETIME_TEST_STANDBY_DIR=$dir
}

# copy_pair FROM TO: makes a standby; fails if FROM does not answer for long.
copy_pair() {
    rm -rf "$dir/pair$2"
    (private KILL timeout 30 pg_basebackup -D "$dir/pair$2" -R -X stream -c fast --no-sync \
        -d "host=127.0.0.1 port=${pair_port[$1]} user=firetime application_name=pair$2") >>"$dir/pair.log" 2>&1 </dev/null
}

# start_pair SERVER: on its port.
start_pair() {
    port=${pair_port[$1]}
    "run_pair$1" >>"$dir/pair$1.log" 2>&1 </dev/null &
    pair_pid[$1]=$!
    servers[$!]=INT names[$!]=pair$1 ports[$!]=$port
}

# watch_pair: what a cluster manager does.
watch_pair() {
    local standby=$((3 - primary))
    if alive "${pair_pid[$primary]}" && pair_sql "$primary" 'SELECT 1' >/dev/null; then
        silent=0
        if ! alive "${pair_pid[$standby]}"; then
            # One that was the primary has commits of its own.
            [ -e "$dir/pair$standby/standby.signal" ] || copy_pair "$primary" "$standby" || return 0
            start_pair "$standby"
        fi
        return
    fi
    silent=$((silent + 1))
    if [ ! -e "$dir/pair$standby/standby.signal" ] || ! alive "${pair_pid[$standby]}"; then
        # There is nobody to take over.
        alive "${pair_pid[$primary]}" || start_pair "$primary"
    elif ! alive "${pair_pid[$primary]}" || ((silent >= 3)); then
        take_over "$standby"
    fi
}

take_over() {
    local pid=${pair_pid[$primary]}
    # It must not go on beside the new one: it, and all its children.
    # shellcheck disable=SC2046 # words are wanted
    kill -s KILL -- "$pid" $(pgrep -P "$pid") 2>/dev/null || true
    unset "servers[$pid]"
    pair_sql "$1" 'SELECT pg_promote(false)' >/dev/null || return 0
    until [ "$(pair_sql "$1" 'SELECT pg_is_in_recovery()')" = f ]; do
        alive "${pair_pid[$1]}" || return 0
        sleep 0.1
    done
    primary=$1 silent=0
}
