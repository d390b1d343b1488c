#!/usr/bin/env python3
"""Runs other schedulers under the workloads of scripts/bench.sh. Called by scripts/bench-peers.sh.

A peer is a program with two commands, and this file knows no more of it than PEERS says:

    load URL VARIANT SCHEDULES FIRST_MS SECONDS   makes its tables, registers schedules 0..SCHEDULES: SECONDS 0:
                                                  each once, at FIRST_MS, or at once if that has passed; else
                                                  each every second, SECONDS times, schedule i first at
                                                  FIRST_MS + 1000 * i / SCHEDULES
    node URL VARIANT                              says "ready"; runs what is due, "ran COUNT" every few ms;
                                                  when its stdin ends, it stops, and says for each
                                                  execution "run SCHEDULE PLANNED_MS STARTED_US"
    feed URL VARIANT RATE SECONDS                 stores jobs that are due at once, RATE each second; one that
                                                  can be fed may say of its polls "poll ENDED_MS TOOK_MS"
"""
import doctest
import json
import os
import subprocess
import sys
import threading
import time

import arguments
import database
import report
from peers import PEERS

LOAD_S = 240
READY_S = 60
STOP_S = 40
# Nothing more has run for this long: what is still missing is lost.
STALLED_S = 100


class Broken(Exception):
    """A run without a result: a program failed, or took longer than it may."""


class Late(Exception):
    """The nodes were not up before the first fire."""


class Node:
    """One process of a peer."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = threading.Event()
        self.count = 0
        self.runs = []
        self.polls = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            word, *rest = line.split()
            if word == "ready":
                self.ready.set()
            elif word == "ran":
                self.count = int(rest[0])
            elif word == "run":
                self.runs.append(tuple(map(int, rest)))
            elif word == "poll":
                self.polls.append(tuple(map(int, rest)))

    def cpu_s(self):
        return database.cpu_s(self.process.pid)

    def peak_rss_mb(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Broken(f"a node did not stop within {STOP_S} s") from None
        self.reader.join(STOP_S)
        if self.process.returncode != 0:
            raise Broken(f"a node ended with {self.process.returncode}")


def planned(options, schedules, first):
    """The executions that must be: (schedule, planned ms).

    >>> from types import SimpleNamespace
    >>> sorted(planned(SimpleNamespace(workload="backlog"), 2, 5))
    [(0, 5), (1, 5)]
    >>> sorted(planned(SimpleNamespace(workload="precision", seconds=2), 3, 5))
    [(0, 5), (0, 1005), (1, 338), (1, 1338), (2, 671), (2, 1671)]
    """
    if options.workload != "precision":
        return {(schedule, first) for schedule in range(schedules)}
    return {(schedule, first + 1000 * second + 1000 * schedule // schedules)
            for second in range(options.seconds) for schedule in range(schedules)}


def judge(expected, runs):
    """Duplicates and missing, from what the handlers saw. What nobody planned is one too many as well.

    >>> judge({(1, 10), (2, 10), (3, 10)}, [(1, 10, 0), (2, 10, 0), (2, 10, 0), (2, 10, 0), (9, 9, 0)])
    {'duplicates': 3, 'missing': 1}
    """
    found = len(expected & {(schedule, at) for schedule, at, _ in runs})
    return {"duplicates": len(runs) - found, "missing": len(expected) - found}


def lateness_ms(runs):
    """
    >>> lateness_ms([(0, 1000, 1_000_000 + us) for us in range(-500, 99_000, 1000)])
    {'min': -0.5, 'p50': 48.5, 'p95': 93.5, 'p99': 97.5, 'max': 98.5}
    >>> lateness_ms([(0, 1, 1500)])
    {'min': 0.5, 'p50': 0.5, 'p95': 0.5, 'p99': 0.5, 'max': 0.5}
    """
    late = sorted((started - at * 1000) / 1000 for _, at, started in runs)
    def share(percent):
        return late[max(-(-len(late) * percent // 100), 1) - 1]
    return {"min": share(0), "p50": share(50), "p95": share(95), "p99": share(99), "max": share(100)}


def load(options, peer, variant, url, schedules, lead):
    """Registers the schedules; returns the first fire time, about `lead` seconds from now."""
    first = (int(time.time()) + lead) * 1000
    seconds = options.seconds if options.workload == "precision" else 0
    command = [*peer.command, "load", url, variant, str(schedules), str(first), str(seconds)]
    try:
        subprocess.run(command, check=True, timeout=LOAD_S, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise Broken(f"load: {error}") from None
    database.once(url, "VACUUM ANALYZE")
    database.once(url, "CHECKPOINT")
    return first


def wait(nodes, peer, db, expected, first, options):
    """Until everything that was planned ran and its outcome is stored; returns when that was (s)."""
    last_fire = max(time.time(), first / 1000 + (options.seconds if options.workload == "precision" else 0))
    deadline = last_fire + 180 + expected / 40
    count, changed = 0, last_fire
    while True:
        now = time.time()
        total = sum(node.count for node in nodes)
        if total != count:
            count, changed = total, now
        stalled = now - max(changed, last_fire) > STALLED_S
        if total >= expected or stalled:
            if db.ask(peer.still_open) == "f":
                return changed if stalled else now
        for node in nodes:
            if node.process.poll() is not None:
                raise Broken(f"a node ended with {node.process.returncode} before its time")
        if stalled or now > deadline:
            print(f"gave up: {total} of {expected} executions said, more may be open", file=sys.stderr)
            return changed
        time.sleep(0.005)


def run(options, peer, variant, count, number, leads):
    """One run, on a new database: the JSON line's object."""
    schedules = {"precision": options.schedules, "bulk": options.executions,
                 "backlog": min(options.executions, peer.backlog)}[options.workload]
    with database.Fresh(f"peer_{number}") as fresh:
        bulk = options.workload == "bulk"
        lead = 0 if bulk else leads.get((peer.name, variant), 12)
        nodes = []
        begin = time.time()
        first = load(options, peer, variant, fresh.url, schedules, lead)
        expected = planned(options, schedules, first)
        limit = fresh.limit_rows_per_s(options.executions)
        def start():
            nodes.append(Node([*peer.command, "node", fresh.url, variant]))
        def start_all():
            for _ in range(count):
                start()
        try:
            if bulk:
                return measure(options, peer, variant, fresh, nodes, expected, first, limit, start_all)
            for _ in range(count): # one after the other: Quartz's make one another fail at their first start
                start()
                if not nodes[-1].ready.wait(READY_S):
                    raise Broken(f"a node was not ready within {READY_S} s")
            # They are up and idle before the first fire.
            leads[peer.name, variant] = max(12, int((time.time() - begin) * 1.5) + 4)
            rest = first / 1000 - 0.5 - time.time()
            if rest < 1:
                raise Late
            time.sleep(rest)
            return measure(options, peer, variant, fresh, nodes, expected, first, limit)
        finally:
            for node in nodes:
                if node.process.poll() is None:
                    node.process.kill()


def measure(options, peer, variant, fresh, nodes, expected, first, limit, start=lambda: None):
    """Measures until all has run. If `start` adds the nodes, what they do to start is included."""
    with fresh.connect() as db:
        before = fresh.figures(), [node.cpu_s() for node in nodes]
        start()
        end = wait(nodes, peer, db, len(expected), first, options)
        after = fresh.figures(), [node.cpu_s() for node in nodes]
        peak = max(node.peak_rss_mb() for node in nodes)
        for node in nodes:
            node.stop()
    fresh.wait_until_left()
    commits = fresh.commits() - before[0].commits - db.asked
    runs = [one for node in nodes for one in node.runs]
    if not runs:
        raise Broken("nothing ran")
    rate = len(runs) / (end - min(started for *_, started in runs) / 1e6)
    return {
        "workload": options.workload, "scheduler": peer.name, "variant": variant, "database": "postgres",
        "nodes": len(nodes), "executions": len(runs), "executions_per_s": round(rate, 1),
        "lateness_ms": None if options.workload == "bulk" else lateness_ms(runs),
        "transactions_per_execution": round(commits / len(runs), 4),
        "wal_bytes_per_execution": round((after[0].wal - before[0].wal) / len(runs)),
        "lost_claim_share": None,
        "cpu_s_nodes": round(sum(after[1]) - sum(before[1]), 2),
        "cpu_s_database": round(after[0].cpu_s - before[0].cpu_s, 2),
        "peak_rss_mb": round(peak, 1), **judge(expected, runs),
        "limit_rows_per_s": round(limit),
        "ratio_to_limit": None if options.workload == "precision" else round(rate / limit, 4),
    }


def sustain(options, peer, variant, count, number):
    """A run of the workload sustained: the JSON line's object. The spans of time that it compares are a
    twentieth of it each: before the snapshot, its first and its last, and the last of all."""
    begin, span = options.seconds // 4, max(options.seconds // 20, 1)
    spans = {"before": begin, "held_first": begin + span, "held_last": 3 * begin, "after": options.seconds}
    with database.Fresh(f"peer_{number}") as fresh:
        command = [*peer.command, "load", fresh.url, variant, "0", "0", "0"]
        subprocess.run(command, check=True, timeout=LOAD_S, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        nodes = [Node([*peer.command, "node", fresh.url, variant]) for _ in range(count)]
        feed = None
        try:
            if not all(node.ready.wait(READY_S) for node in nodes):
                raise Broken(f"a node was not ready within {READY_S} s")
            before = fresh.figures(), [node.cpu_s() for node in nodes]
            start = time.time()
            feed = subprocess.Popen([*peer.command, "feed", fresh.url, variant, str(options.rate),
                                     str(options.seconds)], stdin=subprocess.DEVNULL)
            sizes = watch(options, fresh, start, begin, spans)
            if feed.wait(STALLED_S) != 0:
                raise Broken("the feed failed")
            with fresh.connect() as db:
                wait(nodes, peer, db, options.rate * options.seconds, start, options)
            after = fresh.figures(), [node.cpu_s() for node in nodes]
            peak = max(node.peak_rss_mb() for node in nodes)
            for node in nodes:
                node.stop()
        finally:
            for process in [*(node.process for node in nodes), *filter(None, [feed])]:
                if process.poll() is None:
                    process.kill()
    runs = [one for node in nodes for one in node.runs]
    polls = [one for node in nodes for one in node.polls]
    expected = {schedule for schedule, _, _ in runs}
    return {
        "workload": options.workload, "scheduler": peer.name, "variant": variant, "database": "postgres",
        "nodes": count, "rate": options.rate, "seconds": options.seconds, "snapshot": options.snapshot,
        **{name: {**within(runs, polls, start + end - span, start + end), "bytes_each": sizes[name]}
           for name, end in spans.items()},
        "executions": len(runs), "duplicates": len(runs) - len(expected),
        "missing": options.rate * options.seconds - len(expected),
        "wal_bytes_per_execution": round((after[0].wal - before[0].wal) / len(runs)),
        "cpu_s_nodes": round(sum(after[1]) - sum(before[1]), 2),
        "cpu_s_database": round(after[0].cpu_s - before[0].cpu_s, 2), "peak_rss_mb": round(peak, 1),
    }


def watch(options, fresh, start, begin, spans):
    """Holds the snapshot in its time; the size of the database for each job stored, at the end of each span."""
    empty, sizes, holder = size(fresh), {}, None
    for name, end in spans.items():
        if name == "held_first" and options.snapshot:
            holder = database.Connection(fresh.url)
            holder.ask("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class")
        time.sleep(max(start + end - time.time(), 0))
        sizes[name] = round((size(fresh) - empty) / (options.rate * end))
        if name == "held_last" and holder:
            holder.close()
    return sizes


def size(fresh):
    return int(fresh.outside.ask(f"SELECT pg_database_size('{fresh.name}')"))


def within(runs, polls, first, last):
    """What began, and the longest poll, between two instants (s).

    >>> within([(0, 999, 1_001_000), (1, 1_999, 2_004_000), (2, 9_000, 9_000_000)], [(1_500, 7)], 1, 3)
    {'per_s': 1, 'p50_ms': 2.0, 'p99_ms': 5.0, 'max_ms': 5.0, 'poll_ms': 7}
    """
    began = [one for one in runs if first <= one[2] / 1e6 < last]
    late = lateness_ms(began) if began else dict.fromkeys(["p50", "p99", "max"])
    took = [took for at, took in polls if first <= at / 1000 < last]
    return {"per_s": round(len(began) / (last - first)), **{f"{share}_ms": late[share] for share in ("p50", "p99", "max")},
            "poll_ms": max(took, default=None)}


def attempt(*what):
    """A run whose nodes were not up in time is tried again: by then it is known how long that takes."""
    for _ in range(3):
        try:
            return run(*what)
        except Late:
            print("the nodes were not up before the first fire: again, with more time", file=sys.stderr)
    raise Broken("the nodes were never up in time")


def main():
    options = arguments.parse()
    if options.list:
        if any(doctest.testmod(module).failed for module in (sys.modules[__name__], arguments, report)):
            return 1
        print("\n".join(peer.name for peer in options.peers))
        return 0
    lines, failed, leads = [], 0, {}
    print(f"PostgreSQL {database.version()}; {os.cpu_count()} cores, busy: {os.getloadavg()[0]:.1f}", file=sys.stderr)
    # Turn by turn: what else the machine does meanwhile meets all alike.
    plan = [(peer, variant, count) for _ in range(options.runs) for peer in options.peers
            for variant in peer.variants for count in options.nodes]
    for number, (peer, variant, count) in enumerate(plan, 1):
        print(f"run {number} of {len(plan)}: {options.workload}, {peer.name} {variant}, nodes: {count}",
              file=sys.stderr, flush=True)
        try:
            if options.workload == "sustained":
                line = sustain(options, peer, variant, count, number)
            else:
                line = attempt(options, peer, variant, count, number, leads)
        except (Broken, database.Failed) as error:
            print(f"failed: {error}", file=sys.stderr)
            failed = 1
            continue
        print(json.dumps(line), flush=True)
        lines.append(line)
    if options.workload != "sustained":
        print(report.table(lines + options.beside, options.workload), file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
