#!/usr/bin/env bash
# install.sh [SERVERS]: finds what the tests need besides Rust: a C compiler, the database libraries, two
# database servers, their clients, a browser; with the word galera among SERVERS, what a Galera cluster needs too.
# Root: installs what is missing with apt-get. Others: says what is missing and exits 2.
# The servers' packages may not start anything: the tests run private servers (with-servers.sh).
set -euo pipefail

servers=$*
have() { command -v "$1" >/dev/null; }
library() { have pkg-config && pkg-config --exists "$1"; }
# Debian's packages are for its own Python, which need not be the first on PATH.
python() { python3 -c "import $1" 2>/dev/null || /usr/bin/python3 -c "import $1" 2>/dev/null; }
# Debian keeps PostgreSQL's server programs off PATH.
postgres_server() { have initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; }

# One line per thing that is missing: what it is, and Debian's package for it.
missing() {
    have cc || echo "a C compiler: gcc libc6-dev"
    have pkg-config || echo "pkg-config: pkg-config"
    library libpq || echo "libpq, headers: libpq-dev"
    library libmariadb || echo "MariaDB's C client, headers: libmariadb-dev"
    postgres_server || echo "PostgreSQL's server: postgresql"
    have psql || echo "PostgreSQL's client: postgresql-client"
    have pgbouncer || echo "PostgreSQL's pooler: pgbouncer"
    have mariadbd && have mariadb-install-db || echo "MariaDB's server: mariadb-server-core"
    have mariadb || echo "MariaDB's client: mariadb-client-core"
    if [[ " $servers " = *" galera "* ]]; then
        compgen -G '/usr/lib*/galera*/libgalera_smm.so' >/dev/null || echo "Galera: galera-4"
        have wsrep_sst_rsync && have rsync || echo "Galera's state transfer: mariadb-server"
    fi
    have "${FIRETIME_CHROMIUM:-chromium}" || have chromium-browser || have google-chrome-stable || have google-chrome ||
        echo "a browser for the console's tests: chromium"
    have promtool || echo "Prometheus' checker: prometheus"
    have openssl || echo "certificates: openssl"
    have sqlite3 || echo "SQLite's client: sqlite3"
    python doctest || echo "Python: python3" # python3-minimal lacks it
    python psycopg || echo "Python's driver for PostgreSQL: python3-psycopg"
    python pymysql || echo "Python's driver for MariaDB: python3-pymysql"
}

PATH=$PATH:/usr/sbin:/sbin
lines=$(missing)
[ -n "$lines" ] || exit 0
printf 'missing: %s\n' "${lines//$'\n'/$'\nmissing: '}" >&2
read -ra packages <<<"$(awk -F": " '{ print $2 }' <<<"$lines" | tr "\n" " ")"

if [ "$(id -u)" != 0 ] || ! have apt-get; then
    echo "install these packages (names are Debian's): ${packages[*]}" >&2
    exit 2
fi

apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300)
"${apt[@]}" update >&2 || echo "apt-get update failed; going on with what is known" >&2
# Older releases know the -core packages only under a version number; the whole server holds both.
for i in "${!packages[@]}"; do
    case ${packages[i]} in mariadb-*-core)
        apt-cache show "${packages[i]}" >/dev/null 2>&1 || packages[i]=${packages[i]%-core} ;;
    esac
done

if [ ! -e /usr/sbin/policy-rc.d ]; then
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod +x /usr/sbin/policy-rc.d
fi
echo "apt-get install ${packages[*]}" >&2
"${apt[@]}" install --no-install-recommends "${packages[@]}" </dev/null >&2

lines=$(missing)
[ -z "$lines" ] || { printf 'still missing after apt-get:\n%s\n' "$lines" >&2; exit 2; }
