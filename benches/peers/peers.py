"""What run.py knows of each peer. Its programs are built by scripts/bench-peers.sh."""
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
JARS = ("quartz2", "postgresql", "HikariCP", "slf4j-api", "slf4j-simple")


@dataclass(frozen=True)
class Peer:
    name: str
    command: list
    variants: list
    # Whether an execution of the backlog is unfinished, asked in the peer's own tables.
    still_open: str
    # The largest backlog that makes sense.
    backlog: int = 1_000_000
    # Whether it has jobs without a schedule, and so the workload bulk.
    queue: bool = True
    # Whether its program can be fed, and so the workload sustained.
    fed: bool = False


# 512 MB of heap are more than Quartz needs here; without a bound the JVM takes a quarter of the machine.
PEERS = [
    # Its jobs are enqueued here. scripts/bench.sh runs it with schedules.
    Peer("firetime", [f"{HERE}/target/firetime/peer"], ["enqueued"],
         "SELECT EXISTS (SELECT FROM qrtz_run WHERE state IN ('PENDING', 'CLAIMED', 'RUNNING'))", fed=True),
    Peer("riverqueue", [f"{HERE}/target/river/release/river"], ["bench"],
         "SELECT EXISTS (SELECT FROM river_job WHERE state IN "
         "('available', 'pending', 'retryable', 'running', 'scheduled'))"),
    # A finished job stays among the ready entries until its table is emptied, together with its completion.
    Peer("awa", [f"{HERE}/target/awa/release/awa-peer"], ["receipts"],
         "SELECT EXISTS (SELECT FROM awa.deferred_jobs) OR (SELECT count(*) FROM awa.ready_entries) > "
         "(SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches) + "
         "(SELECT count(*) FROM awa.done_entries)",
         fed=True, backlog=3_500), # with 3,641 due at once, the statement that makes them ready has too many parameters
    Peer("quartz",
         ["java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp",
          ":".join([f"{HERE}/target/quartz", *(f"/usr/share/java/{jar}.jar" for jar in JARS)]), "QuartzPeer"],
         ["defaults", "batch"],
         "SELECT EXISTS (SELECT FROM qrtz_triggers) OR EXISTS (SELECT FROM qrtz_fired_triggers)",
         backlog=5_000, # it gets slower with more
         queue=False),
    Peer("graphile_worker", [f"{HERE}/target/graphile/release/graphile"], ["plain", "batched", "queues"],
         "SELECT EXISTS (SELECT FROM graphile_worker._private_jobs)"),
    Peer("pg-boss", ["node", f"{HERE}/target/pgboss/peer.js"], ["batch"],
         "SELECT EXISTS (SELECT FROM pgboss.job WHERE name = 'tick' AND state < 'completed')"),
]
