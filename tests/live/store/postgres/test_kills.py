"""Processes that write while the server is killed and started again lose nothing, and write nothing twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import numpy as np
import psycopg

from cgsa.live.store import PostgresAddress
from cgsa.live.store.store import read_store
from tests.live.store.examples import every, stored_diagnosis
from tests.postgres import PostgresServer, running_postgres

WRITER = """
import json, sys, threading, time
from cgsa.errors import DataError
from cgsa.live.store import AuditEntry, PostgresAddress, Store, StoredToken
from tests.live.store.examples import columns, stored_diagnosis

name, port, database = sys.argv[1:]
address = PostgresAddress("127.0.0.1", int(port), "cgsa", database, tls=False)
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
flushed = failed = number = 0
with Store(address, capacity=100_000, retry_seconds=0.05) as store:
    while not stop.is_set():
        store.add_audit(AuditEntry(float(number), name, str(number)))
        store.add_diagnosis(stored_diagnosis(number, name))
        store.add_diagnosis(stored_diagnosis(number, "both"))
        store.add_ledger("both", number, columns(float(number), seed=number))
        number += 1
        if number % 7 == 0:
            try:
                store.flush()
                flushed = number
            except DataError:
                failed += 1
                time.sleep(0.01)
            print(flushed, flush=True)
        time.sleep(0.001)
    while store.problem:
        time.sleep(0.01)
    store.flush()
    print(json.dumps({"number": number, "failed": failed, "lost": store.lost, "notes": store.notes}))
"""
NAMES = ("east", "west")


def start(server: PostgresServer, database: str, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, name, str(server.port), database],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def kill_all(server: PostgresServer) -> None:
    server.kill()
    server.start()


def kill_one_process(server: PostgresServer) -> None:
    """Kill the process of a connection: the server ends all others, and recovers."""
    for (pid,) in server.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'cgsa' LIMIT 1"):
        os.kill(pid, signal.SIGKILL)
    wait_until_it_answers(server)


def wait_until_it_answers(server: PostgresServer) -> None:
    for _ in range(1000):
        try:
            server.execute("SELECT 1")
        except psycopg.OperationalError:
            time.sleep(0.01)
        else:
            return
    raise AssertionError("the server does not answer")


def test_nothing_is_lost_and_nothing_is_twice(postgres: PostgresServer) -> None:
    del postgres  # skips here without a server
    pauses = np.random.default_rng(5).uniform(0.1, 0.5, 5)
    acts: list[Callable[[PostgresServer], None]] = [kill_all, kill_one_process, kill_all, kill_one_process, kill_all]
    with running_postgres() as server, server.database() as address:
        children = {name: start(server, address.database, name) for name in NAMES}
        for child in children.values():
            assert child.stdout is not None
            child.stdout.readline()
        for act, pause in zip(acts, pauses, strict=True):
            time.sleep(pause)
            act(server)
        ends = {}
        for name, child in children.items():
            out, _ = child.communicate("", timeout=60)
            assert child.returncode == 0
            ends[name] = json.loads(out.splitlines()[-1])
        assert_complete(server, address, ends)


def assert_complete(server: PostgresServer, address: PostgresAddress, ends: dict[str, dict[str, int]]) -> None:
    assert sum(end["failed"] for end in ends.values()) > 0, "no write was interrupted"
    most = max(end["number"] for end in ends.values())
    for name, end in ends.items():
        assert end["lost"] == 0, end
        audit = server.execute(f"SELECT what FROM audit WHERE who = '{name}'", address.database)  # noqa: S608
        counts = Counter(int(what) for (what,) in audit)
        # Entries have no key: only the number of the transaction before keeps them from being written twice.
        assert counts == dict.fromkeys(range(end["number"]), 1)
    for machine, number in [*((name, end["number"]) for name, end in ends.items()), ("both", most)]:
        with read_store(address) as view:
            rows = every(partial(view.diagnoses, machine), limit=1000, newest_first=False)
        assert rows == [stored_diagnosis(batch, machine) for batch in range(number)]
    ledger = server.execute("SELECT batch FROM ledger WHERE machine = 'both' ORDER BY batch", address.database)
    assert [batch for (batch,) in ledger] == list(range(most))
    assert server.execute("SELECT count(*) FROM writers", address.database) == [(0,)]
