"""Requests of few bytes that would cost much: refused soon, without keeping the server from others or its memory."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import StoreError
from a3gnn.profiling.store.check import check_file, import_rows
from tests.service.servers import JSON, Server, problem

psutil = pytest.importorskip("psutil", reason="psutil is not installed")
MIB = 1 << 20
DEEP = b'{"a":' * 50_000 + b"1" + b"}" * 50_000


def test_wrong_measurements_are_refused_at_the_first_faults(idle: Server) -> None:
    process, sent = psutil.Process(idle.process.pid), b'{"a":1}\n' * 250_000
    before = process.memory_full_info().uss
    status, detail = problem(idle, "POST", "/profiles", sent)
    assert status == 422
    assert "line 1: must have the field" in detail
    assert "and there are more faults" in detail
    assert len(detail) < 4000
    # A fault's message takes a hundred bytes, and a line of what was sent eight.
    assert process.memory_full_info().uss - before < 10 * len(sent)


def test_a_measurement_that_is_nested_deeply_is_a_fault_of_its_line(idle: Server) -> None:
    for body in (DEEP, b"{}\n" + DEEP, b'{"provenance": ' + DEEP + b"}"):
        assert problem(idle, "POST", "/profiles", body)[0] == 422


def test_the_check_of_a_file_still_names_every_fault(tmp_path: Path, measurement) -> None:
    rows = [json.dumps(measurement(TrainConfig()).to_dict()), *('{"a": 1}' for _ in range(20))]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(rows))
    assert len({fault.row for fault in check_file(file).faults}) == 20
    with pytest.raises(StoreError, match="and there are more faults: nothing was imported"):
        import_rows(file, str(tmp_path / "store.sqlite"))


#: Bodies of nearly a MiB whose faults are many.
MANY = {
    "ranges": {"graph": 1, "ranges": {f"k{n}": ["x"] for n in range(60_000)}},
    "fix": {"graph": 1, "fix": {f"k{n}": [] for n in range(60_000)}},
    "fields": {f"k{n}": n for n in range(60_000)},
    "list": {"graph": 1, "fanouts": ["x"] * 200_000},
    "text": {"graph": 1, "name": "x" * 1_000_000},
    "nested": json.loads("[" * 900 + "1" + "]" * 900),
}


@pytest.mark.parametrize("body", MANY.values(), ids=MANY)
def test_a_request_with_many_faults_is_refused_by_its_first_ones(idle: Server, body: object) -> None:
    sent = json.dumps(body).encode()
    assert len(sent) < MIB
    status, detail = problem(idle, "POST", "/studies", sent, JSON)
    assert status in (400, 422)
    assert len(detail) < 2000


@pytest.mark.margin
@pytest.mark.parametrize("body", MANY.values(), ids=MANY)
def test_a_request_with_many_faults_keeps_nobody_waiting(idle: Server, body: object) -> None:
    sent, waits, ended = json.dumps(body).encode(), [], threading.Event()

    def look() -> None:
        while not ended.is_set():
            begun = time.monotonic()
            assert idle.ask("GET", "/static/study.css").status == 200
            waits.append(time.monotonic() - begun)

    thread = threading.Thread(target=look)
    thread.start()
    time.sleep(0.2)
    try:
        problem(idle, "POST", "/studies", sent, JSON)
    finally:
        ended.set()
        thread.join()
    assert max(waits) < 2.0  # 4 s were usual


def test_a_told_trial_with_many_faults_is_refused_by_its_first_ones(idle: Server) -> None:
    wrong = {"batches": ["x"] * 10_000, "val_accuracy": ["x"] * 10_000, "throughput_epochs_per_s": ["x"] * 1000}
    status, detail = problem(idle, "POST", "/studies/1/trials/1/complete", wrong, JSON)
    assert status == 422
    assert detail.count("must be a") <= 5


#: Examines a thing that takes 4 GiB in a process that may take 300 MiB.
LARGE = """
from a3gnn.service.graphs.examiner import answer_order, limit_memory

def examined(order):
    limit_memory(300 << 20)
    return {"bytes": len(bytearray(4 << 30))}

answer_order({"graph": examined})
"""


def test_what_takes_more_memory_than_allowed_is_refused() -> None:
    order = json.dumps({"parent": os.getpid(), "kind": "graph"}) + "\n"
    run = subprocess.run(
        [sys.executable, "-c", LARGE], input=order, capture_output=True, text=True, timeout=60, check=True
    )
    found = json.loads(run.stdout)["error"]
    assert (found["status"], found["type"]) == (422, "urn:a3gnn:graph")
    assert "needs more memory than the" in found["detail"]
