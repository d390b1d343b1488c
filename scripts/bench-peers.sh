#!/usr/bin/env bash
# bench-peers.sh [WORKLOAD] [--nodes 1,2] [--only NAME[/VARIANT],...] ...: other schedulers and queues under the workloads of
# scripts/bench.sh, on a private PostgreSQL with default durability (--help says more). JSON lines, one per run, on
# stdout; progress and a table of medians on stderr. Exit 1: a run failed; 2: bad arguments, or something is missing.
#   firetime          this library as a queue: its jobs are enqueued; scripts/bench.sh runs its schedules
#   riverqueue        riverqueue 0.5 (Rust), 2,000 workers, as in its own benchmark; a job queue, too
#   awa               awa 0.6 (Rust), 512 workers, attempts without a deadline; a job queue, too
#   quartz            Quartz 2.3.2, clustered on its JDBC store, 20 threads; from Debian's packages
#   graphile_worker   graphile_worker 0.14 (Rust), concurrency 20; a job queue: its crontab has minute
#                     resolution, so the precision workload, too, is jobs inserted beforehand
#   pg-boss           pg-boss 10 (Node.js 20), 20 workers fetching batches of 500; a job queue, too
# Not here: db-scheduler, and the cluster-enhanced Quartz that firetime follows: no registry that this script can use
# has them. The peers' programs are in benches/peers, apart from firetime's dependencies; root gets what is missing
# from Debian's packages, others are told.
set -euo pipefail
[ "${FIRETIME_FAST_SERVERS:-0}" != 1 ] || { echo "bench-peers.sh: not with FIRETIME_FAST_SERVERS=1" >&2; exit 2; }

cd "$(dirname "$0")/.."
scripts/install.sh
peers=benches/peers
case " $* " in *" --help "* | *" -h "*) exec python3 "$peers/run.py" --help ;; esac
wanted=$(python3 "$peers/run.py" "$@" --list)

jar() { [ -e "/usr/share/java/$1.jar" ]; }

# One line per thing that is missing: what it is, and Debian's package for it.
missing() {
    command -v pgbench >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/pgbench' >/dev/null ||
        echo "pgbench: postgresql"
    case $wanted in *quartz*)
        command -v javac >/dev/null || echo "a JDK: default-jdk-headless"
        jar quartz2 || echo "Quartz: libquartz2-java"
        jar postgresql || echo "PostgreSQL's JDBC driver: libpostgresql-jdbc-java"
        jar HikariCP || echo "HikariCP: libhikaricp-java"
        jar slf4j-simple || echo "slf4j: libslf4j-java"
    esac
    case $wanted in *pg-boss*)
        command -v node >/dev/null || echo "Node.js: nodejs"
        command -v npm >/dev/null || echo "npm: npm"
    esac
}

lines=$(missing)
if [ -n "$lines" ]; then
    printf 'missing: %s\n' "${lines//$'\n'/$'\nmissing: '}" >&2
    read -ra packages <<<"$(awk -F": " '{ print $2 }' <<<"$lines" | tr "\n" " ")"
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "install these packages (names are Debian's): ${packages[*]}" >&2
        exit 2
    fi
    apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300)
    "${apt[@]}" update >&2 || echo "apt-get update failed; going on with what is known" >&2
    "${apt[@]}" install --no-install-recommends "${packages[@]}" </dev/null >&2
    lines=$(missing)
    [ -z "$lines" ] || { printf 'still missing after apt-get:\n%s\n' "$lines" >&2; exit 2; }
fi

for peer in $wanted; do
    case $peer in
        firetime)
            binary=$(cargo bench --locked --no-default-features --features postgres --bench peer --no-run \
                --message-format json-render-diagnostics |
                sed -n 's/.*"kind":\["bench"\].*"executable":"\([^"]*\)".*/\1/p')
            install -D "$binary" "$peers/target/firetime/peer" ;;
        riverqueue)
            cargo build --locked --release --manifest-path "$peers/river/Cargo.toml" \
                --target-dir "$peers/target/river" >&2 ;;
        awa)
            cargo build --locked --release --manifest-path "$peers/awa/Cargo.toml" \
                --target-dir "$peers/target/awa" >&2 ;;
        quartz) javac -cp /usr/share/java/quartz2.jar -d "$peers/target/quartz" "$peers/quartz/QuartzPeer.java" >&2 ;;
        graphile_worker)
            cargo build --locked --release --manifest-path "$peers/graphile/Cargo.toml" \
                --target-dir "$peers/target/graphile" >&2 ;;
        pg-boss)
            major=$(node -p 'process.versions.node.split(".")[0]')
            ((major >= 20)) || { echo "pg-boss needs Node.js 20; this is $major: leave it out with --only" >&2; exit 2; }
            mkdir -p "$peers/target/pgboss"
            cp "$peers"/pgboss/{package.json,package-lock.json,peer.js} "$peers/target/pgboss"
            npm ci --ignore-scripts --silent --no-audit --no-fund --prefix "$peers/target/pgboss" >&2 ;;
    esac
done

exec scripts/with-servers.sh python3 "$peers/run.py" "$@"
