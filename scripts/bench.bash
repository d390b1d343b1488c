# shellcheck shell=bash
# Loads a database for a bench: sourced by the scripts that measure one, which set `firetime` (the program) and define
# `timed NAME URL`, and then call `measure`.

# measure NAME URL CLIENT...: fills the database by its client, which reads SQL, and times what is asked of it.
measure() {
    FIRETIME_APPLICATION=bench FIRETIME_DATABASE_URL=$2 "$firetime" migrate >/dev/null
    "${@:3}" >/dev/null
    timed "$1" "$2"
}

# mariadb_client: reads SQL for the server of with-servers.sh.
mariadb_client() {
    local url=${FIRETIME_TEST_MARIADB_URL#*://} user address
    user=${url%%@*} address=${url#*@}
    MYSQL_PWD=${user#*:} mariadb -u "${user%%:*}" -h 127.0.0.1 -P "$(sed 's/.*:\([0-9]*\).*/\1/' <<<"${address%%/*}")" \
        "${address##*/}"
}
