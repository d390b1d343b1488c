"""The private PostgreSQL of a bench: a database per run, its figures, and the bare batch claim."""
import os
import re
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SCHEMA = Path(__file__).parents[2] / "migrations/postgres/0001_tables.sql"
TOOL_S = 120
BATCH = 256
TICKS = os.sysconf("SC_CLK_TCK")

# The bare batch claim, as scripts/bench.sh measures it.
LOAD = """
INSERT INTO qrtz_execute (application, name, pid, job_type, state, next_fire_time, start_time, payload)
SELECT 'bench', 'n' || i, 1, 'SIMPLE', 'EXECUTING', 1000, 1000, 'null' FROM generate_series(1, {rows}) i;
CREATE TABLE bench_log (execute_id BIGINT NOT NULL, fire_time BIGINT NOT NULL, moved_time BIGINT NOT NULL,
                        PRIMARY KEY (execute_id, fire_time));
"""
# One transaction, one round trip.
CLAIM = r"""
\set low :at * 256 + 1
\set high :low + 255
\set at :at + 1
BEGIN \;
UPDATE QRTZ_EXECUTE SET state = 'COMPLETE', prev_fire_time = next_fire_time, next_fire_time = -1, fence = fence + 1
 WHERE id BETWEEN :low AND :high AND state = 'EXECUTING' AND prev_fire_time = -1 AND next_fire_time = 1000 \;
INSERT INTO bench_log (execute_id, fire_time, moved_time)
SELECT id, prev_fire_time, 1000 FROM QRTZ_EXECUTE
 WHERE id BETWEEN :low AND :high AND state = 'COMPLETE' AND prev_fire_time = 1000 \;
COMMIT;
"""


class Failed(Exception):
    """psql or pgbench failed."""


def once(url, sql):
    """One statement, on a connection of its own."""
    return tool(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", url], sql)


def tool(command, stdin=""):
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=TOOL_S)
    except subprocess.TimeoutExpired:
        raise Failed(f"{command[0]}: took longer than {TOOL_S} s") from None
    if done.returncode != 0:
        raise Failed(f"{command[0]}: {done.stderr.strip()}")
    return done.stdout


def version():
    return once(os.environ["FIRETIME_TEST_POSTGRES_URL"], "SHOW server_version").strip()


def cpu_s(pid, waited_for=False):
    """CPU seconds of a process, with those of its ended children if asked. Gone: 0."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0
    return sum(map(int, fields[11:15 if waited_for else 13])) / TICKS


@dataclass(frozen=True)
class Figures:
    commits: int
    wal: int
    cpu_s: float


class Connection:
    """A psql that stays: questions with one value for an answer."""

    def __init__(self, url):
        self.psql = subprocess.Popen(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", url], text=True, bufsize=1,
                                     env={**os.environ, "PGOPTIONS": "-c statement_timeout=30s"},
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.asked = 0
        self.backend = self.ask("SELECT pg_backend_pid()")

    def ask(self, sql):
        self.asked += 1
        self.psql.stdin.write(sql + ";\n")
        line = self.psql.stdout.readline()
        if not line:
            raise Failed(f"psql ended at: {sql}")
        return line.strip()

    def close(self):
        self.psql.stdin.close()
        self.psql.wait(30)


class Fresh:
    """A new database, dropped at the end. What it asks for figures, it asks in another."""

    def __init__(self, name):
        server = os.environ["FIRETIME_TEST_POSTGRES_URL"].rpartition("/")[0]
        self.postmaster = os.environ["FIRETIME_TEST_POSTGRES_PID"]
        self.name, self.url, self.maintenance = name, f"{server}/{name}", f"{server}/postgres"
        self.harness = set()

    def __enter__(self):
        once(self.maintenance, f"CREATE DATABASE {self.name}")
        self.outside = Connection(self.maintenance)
        self.harness.add(self.outside.backend)
        return self

    def __exit__(self, *_):
        self.outside.close()
        once(self.maintenance, f"DROP DATABASE {self.name} WITH (FORCE)")

    @contextmanager
    def connect(self):
        """A connection to the database itself, whose CPU is not counted."""
        connection = Connection(self.url)
        self.harness.add(connection.backend)
        try:
            yield connection
        finally:
            connection.close()

    def commits(self):
        return int(self.outside.ask(f"SELECT xact_commit FROM pg_stat_database WHERE datname = '{self.name}'"))

    def wait_until_left(self):
        """Sessions tell what they did as they end."""
        deadline = time.monotonic() + 10
        while self.outside.ask(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{self.name}'") != "0":
            if time.monotonic() > deadline:
                raise Failed("somebody is still connected to the run's database")
            time.sleep(0.005)

    def figures(self):
        wal = int(self.outside.ask("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"))
        with open(f"/proc/{self.postmaster}/task/{self.postmaster}/children", encoding="ascii") as file:
            backends = set(file.read().split()) - self.harness
        cpu = cpu_s(self.postmaster, waited_for=True) + sum(map(cpu_s, backends))
        return Figures(self.commits(), wal, cpu)

    def limit_rows_per_s(self, rows):
        """The bare batch claim of that many rows: one connection, a transaction for each 256."""
        name = f"{self.name}_limit"
        url = f"{self.url}_limit"
        once(self.maintenance, f"CREATE DATABASE {name}")
        try:
            once(url, SCHEMA.read_text(encoding="utf-8"))
            once(url, LOAD.format(rows=rows))
            once(url, "VACUUM ANALYZE")
            once(url, "CHECKPOINT")
            batches = -(-rows // BATCH)
            said = tool(["pgbench", "-n", "-c", "1", "-t", str(batches), "-D", "at=0",
                         "-f", "/dev/stdin", url], CLAIM)
            claimed = once(url, "SELECT count(*) FROM bench_log")
            if int(claimed) != rows:
                raise Failed(f"the bare claim won {claimed.strip()} of {rows} rows")
            tps = re.search(r"^tps = ([\d.]+) \(without", said, re.M)
            return rows * float(tps[1]) / batches
        finally:
            once(self.maintenance, f"DROP DATABASE {name} WITH (FORCE)")
