"""The command line of scripts/bench-peers.sh."""
import argparse
import dataclasses
import json

from peers import PEERS


def numbers(low, high):
    def number(text):
        if not (text.isdecimal() and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {low} to {high}")
        return int(text)
    return number


def comma_separated(one):
    return lambda text: [one(part) for part in text.split(",")]


def peer(text):
    """A peer by its name, or by its name and a variant's.

    >>> peer("graphile_worker/batched").variants
    ['batched']
    """
    name, _, variant = text.partition("/")
    found = [dataclasses.replace(peer, variants=[variant] if variant else peer.variants)
             for peer in PEERS if peer.name == name and variant in ("", *peer.variants)]
    if not found:
        raise argparse.ArgumentTypeError(f"no peer {text}; there are {', '.join(p.name for p in PEERS)}")
    return found[0]


def json_lines(path):
    try:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.strip()]
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from None


def parse():
    parser = argparse.ArgumentParser(
        prog="scripts/bench-peers.sh", allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs other schedulers and queues, and firetime as a queue, under the workloads of "
                    "scripts/bench.sh,\non a private PostgreSQL with default durability. JSON lines on stdout, "
                    "one per run; progress,\nthen a table of medians on stderr.",
        epilog="peers: " + "; ".join(f"{p.name} ({', '.join(p.variants)})" for p in PEERS))
    parser.add_argument("workload", nargs="?", choices=["backlog", "precision", "bulk", "sustained"], default="backlog",
                        metavar="WORKLOAD",
                        help="backlog: one-shot schedules all due at one instant (the default); "
                             "precision: schedules that fire every second, spread over it; "
                             "bulk: jobs due at once, stored before the nodes start (not Quartz); "
                             "sustained: a steady stream of them (firetime and awa)")
    parser.add_argument("--nodes", type=comma_separated(numbers(1, 8)), default=[1, 2], metavar="N,...",
                        help="node processes (1 to 8), one run for each number given (1,2)")
    parser.add_argument("--only", type=comma_separated(peer), dest="peers", metavar="NAME,...",
                        help="these peers only; NAME/VARIANT: only in this variant")
    parser.add_argument("--runs", type=numbers(1, 100), default=1, metavar="N", help="runs of each kind (1)")
    parser.add_argument("--executions", type=numbers(1, 1_000_000), default=20_000, metavar="N",
                        help="backlog, bulk: how many (20000; backlog of Quartz: at most 5000, it gets slower with "
                             "more; of awa: at most 3500, with more it runs none)")
    parser.add_argument("--schedules", type=numbers(1, 100_000), default=500, metavar="N",
                        help="precision: how many (500)")
    parser.add_argument("--seconds", type=numbers(1, 7_200), metavar="D",
                        help="precision, sustained: how long (30, 1200)")
    parser.add_argument("--rate", type=numbers(100, 100_000), default=1_000, metavar="N",
                        help="sustained: how many a second (1000)")
    parser.add_argument("--snapshot", action="store_true",
                        help="sustained: a transaction holds a snapshot from the first quarter to the third")
    parser.add_argument("--beside", type=json_lines, default=[], metavar="FILE",
                        help="JSON lines of scripts/bench.sh backlog or precision, for the same table")
    # For bench-peers.sh: checks the arguments and this program, and says which peers it is about.
    parser.add_argument("--list", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    bulk, sustained = options.workload == "bulk", options.workload == "sustained"
    options.seconds = options.seconds or (1_200 if sustained else 30)
    possible = {"bulk": lambda peer: peer.queue, "sustained": lambda peer: peer.fed}
    options.peers = options.peers or list(filter(possible.get(options.workload), PEERS))
    if sustained and not all(peer.fed for peer in options.peers):
        parser.error("sustained is for firetime and awa")
    if options.snapshot and not sustained:
        parser.error("--snapshot belongs to sustained")
    if bulk and not all(peer.queue for peer in options.peers):
        parser.error("quartz has no jobs without a schedule, and so no bulk")
    if bulk and options.beside:
        parser.error("--beside belongs to backlog and precision: in bulk, firetime is among the peers")
    return options
