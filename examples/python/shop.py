"""Takes an order and asks for its reminder in one transaction; cancels the reminder of a paid one.

    python3 shop.py URL take 7      an order, and its reminder: both, or none
    python3 shop.py URL pay 7       it is paid, and nobody is reminded of it any more
    python3 shop.py URL show 7      what became of both requests

URL is the one of the nodes: sqlite:shop.db, postgres://user:password@host/shop, mysql://user:password@host/shop.
Needs nothing of firetime but the table QRTZ_REQUEST. `psycopg` speaks to PostgreSQL, `PyMySQL` to MariaDB.
"""

import json
import sys
from datetime import datetime, timedelta, timezone
from urllib.parse import unquote, urlsplit


def connect(url):
    """A connection that has begun no transaction, and the driver's placeholder for a value."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        import sqlite3

        return sqlite3.connect(url.removeprefix("sqlite:"), timeout=10, isolation_level="IMMEDIATE"), "?"
    if parts.scheme in ("postgres", "postgresql"):
        import psycopg

        return psycopg.connect(url), "%s"
    import pymysql

    password = unquote(parts.password or "")
    connection = pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=password,
        database=parts.path.strip("/"),
        charset="utf8mb4",
    )
    return connection, "%s"


class Shop:
    def __init__(self, url):
        self.connection, self.placeholder = connect(url)
        self.cursor = self.connection.cursor()

    def execute(self, statement, *values):
        self.cursor.execute(statement.replace("?", self.placeholder), values)

    def ask(self, verb, **arguments):
        """Writes a request. Nodes carry it out once this transaction is committed."""
        self.execute(
            "INSERT INTO QRTZ_REQUEST (application, verb, arguments) VALUES (?, ?, ?)",
            "shop",
            verb,
            json.dumps(arguments),
        )

    def take(self, order):
        self.execute("INSERT INTO orders (id, paid) VALUES (?, 0)", order)
        tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
        payload = {"order": order}
        self.ask("enqueue", job="remind", payload=payload, key=f"order-{order}", due=tomorrow.isoformat())
        self.connection.commit()

    def pay(self, order):
        self.execute("UPDATE orders SET paid = 1 WHERE id = ?", order)
        self.ask("cancel", job="remind", key=f"order-{order}", reason="paid")
        self.connection.commit()

    def show(self, order):
        self.execute(
            "SELECT verb, state, answer FROM QRTZ_REQUEST WHERE application = ? AND arguments LIKE ? ORDER BY id",
            "shop",
            f'%"order-{order}"%',
        )
        for verb, state, answer in self.cursor.fetchall():
            print(f"{verb}: {state} {answer}")
        self.execute("SELECT job, state FROM qrtz_executions WHERE unique_key = ?", f"order-{order}")
        for job, state in self.cursor.fetchall():
            print(f"{job}: {state}")


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[2] not in ("take", "pay", "show"):
        sys.exit(__doc__)
    getattr(Shop(sys.argv[1]), sys.argv[2])(int(sys.argv[3]))
