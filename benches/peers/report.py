"""The table of medians."""
from statistics import median

COLUMNS = {
    "executions/s": lambda r: r["executions_per_s"],
    "late p50 ms": lambda r: late(r, "p50"),
    "p95": lambda r: late(r, "p95"),
    "p99": lambda r: late(r, "p99"),
    "max": lambda r: late(r, "max"),
    "transactions each": lambda r: r["transactions_per_execution"],
    "WAL bytes each": lambda r: r["wal_bytes_per_execution"],
    "CPU s nodes": lambda r: r["cpu_s_nodes"],
    "CPU s database": lambda r: r["cpu_s_database"],
    "MB": lambda r: r["peak_rss_mb"],
    "duplicates": lambda r: r["duplicates"],
    "missing": lambda r: r["missing"],
    "of the limit": lambda r: r["ratio_to_limit"],
}


def late(line, share):
    """None in bulk, whose jobs are due before there are nodes.

    >>> late({"lateness_ms": {"p50": 2.0}}, "p50"), late({"lateness_ms": None}, "p50")
    (2.0, None)
    """
    return line["lateness_ms"] and line["lateness_ms"][share]


def table(lines, workload):
    """Markdown: a row per scheduler, variant and number of nodes, medians over its runs; beside executions/s
    the ratio to the fastest row with that many nodes, beside p50 the ratio to the most punctual.

    >>> late = {"min": 0, "p50": 2.0, "p95": 1, "p99": 1, "max": 1}
    >>> line = dict.fromkeys(["transactions_per_execution", "wal_bytes_per_execution", "cpu_s_nodes", "ratio_to_limit",
    ...     "cpu_s_database", "peak_rss_mb", "duplicates", "missing"]) | {"workload": "backlog", "scheduler": "a",
    ...     "variant": "x", "nodes": 1, "lateness_ms": late, "executions_per_s": 10}
    >>> print(table([line, line | {"executions_per_s": 40, "scheduler": "b"}], "backlog")) # doctest: +ELLIPSIS
    | backlog | nodes | runs | executions/s | ratio | ...
    | --- | --- |...
    | a x | 1 | 1 | 10 | 0.25 | 2 | 1 | 1 | 1 | - | ...
    | b x | 1 | 1 | 40 | 1.00 | ...
    """
    groups = {}
    for line in lines:
        if line["workload"] == workload:
            groups.setdefault((f"{line['scheduler']} {line['variant'] or ''}".strip(), line["nodes"]), []).append(line)
    fastest = {}
    rows = []
    for (name, nodes), group in groups.items():
        values = [middle([read(line) for line in group]) for read in COLUMNS.values()]
        fastest[nodes] = max(fastest.get(nodes, 0), values[0])
        rows.append((name, nodes, len(group), values))
    head = [workload, "nodes", "runs", "executions/s", "ratio", *list(COLUMNS)[1:]]
    text = [head, ["---"] * len(head)]
    for name, nodes, runs, values in rows:
        text.append([name, str(nodes), str(runs), shown(values[0]), f"{values[0] / fastest[nodes]:.2f}",
                     *map(shown, values[1:])])
    return "\n".join("| " + " | ".join(row) + " |" for row in text)


def middle(values):
    known = [value for value in values if value is not None]
    return median(known) if known else None


def shown(value):
    """
    >>> shown(None), shown(0.1234), shown(12.345), shown(41234.5), shown(7)
    ('-', '0.123', '12.3', '41,234', '7')
    """
    if value is None:
        return "-"
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
