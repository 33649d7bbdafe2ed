"""Errors in a3gnn's own words: of fields, of the form, of a full disk, and without passwords."""

import errno
import os
import re
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError
from sqlalchemy.exc import OperationalError

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")

from a3gnn.addresses import without_password
from a3gnn.errors import StoreError
from a3gnn.profiling.store.database import open_database
from a3gnn.service.client import Client
from a3gnn.service.http.problems import ProblemDetails
from a3gnn.service.jobs.database import disk_is_full
from a3gnn.service.pages.frame import for_people
from a3gnn.service.studies.orders import StudyOrder, TellOrder, named_faults
from tests.service.servers import GRAPH, JSON, Server, problem
from tests.service.test_pages import send


@pytest.mark.parametrize(
    ("order", "line"),
    [
        ({"budgt": 3}, "budgt is no field of this request, got 3; did you mean 'budget'?"),
        ({"zzz": 3}, "zzz is no field of this request, got 3; leave it out"),
        ({"name": "two\nlines"}, "name must be one line without control characters, got 'two\\nlines'"),
        ({"layers": 99}, "layers must be at most 32, got 99"),
        ({"layers": 0}, "layers must be at least 1, got 0"),
        ({"layers": "two"}, "layers must be an integer, got 'two'"),
        ({"hidden": 2.5}, "hidden must be an integer, got 2.5"),
        ({"residual": 1}, "residual must be true, false or linear, got 1"),
        ({"memory_limit": []}, "memory_limit must be a size such as 4GiB, a number of bytes, or null, got []"),
        (
            {"budget": 0.5},
            "budget must be a duration such as 10min, or a number of trials from 1 to 1,000,000, got 0.5",
        ),
        ({"trainer": "me"}, "trainer must be 'server' or 'client', got 'me'"),
        ({"fanouts": []}, "fanouts must have at least 1 values, got []"),
        (
            {"fix": {"batch_size": []}},
            "fix.batch_size must have values that are numbers, text, true, false or null, got []",
        ),
        ({"ranges": {"batch_size": [64]}}, "ranges.batch_size must have at least 2 values, got [64]"),
        ({"fix": 3}, "fix must be a JSON object, got 3"),
        ({"max_accuracy_drop": 101}, "max_accuracy_drop must be at most 100, got 101"),
        ([], "the body must be a JSON object, got []"),
        ({str(n): n for n in range(65)}, "the body must have at most 64 fields, got "),
    ],
    ids=lambda value: next(iter(value), "empty") if isinstance(value, dict | list) else "",
)
def test_a_fault_names_field_rule_value_and_remedy(order: object, line: str) -> None:
    with pytest.raises(ValidationError) as error:
        StudyOrder.model_validate(order)
    assert named_faults(error.value.errors())[0].startswith(line)


def test_many_faults_are_counted() -> None:
    with pytest.raises(ValidationError) as error:
        StudyOrder.model_validate({f"x{n}": n for n in range(9)})
    line, named = named_faults(error.value.errors())
    assert line.endswith("; and 4 more")
    assert [one["where"] for one in named] == [f"x{n}" for n in range(5)]


def test_a_rule_over_several_fields_is_a_sentence() -> None:
    with pytest.raises(ValidationError) as error:
        TellOrder.model_validate({})
    line = named_faults(error.value.errors())[0]
    assert line.startswith("a trial without a failure must have throughput_epochs_per_s and peak_host_bytes")


#: Words of pydantic and of the API that nobody should read on a page.
FOREIGN = re.compile(r"\b(GET|POST) /|Input should|Extra inputs|Value error|constrained|String should")


@pytest.mark.parametrize(
    ("place", "fields"),
    [
        ("dataset", {"dataset": "nowhere.npz"}),
        ("dataset", {"dataset": "x" * 300}),
        ("", {"graph": "999"}),
        ("graph", {"graph": "x"}),
        ("budget", {"dataset": GRAPH, "budget": "soon", "budget_unit": "min"}),
        ("budget", {"dataset": GRAPH, "budget": "0"}),
        ("max_accuracy_drop", {"dataset": GRAPH, "max_accuracy_drop": "much"}),
        ("max_accuracy_drop", {"dataset": GRAPH, "max_accuracy_drop": "-1"}),
        ("memory_limit", {"dataset": GRAPH, "memory_limit": "4"}),
        ("fanouts", {"dataset": GRAPH, "fanouts": "10, few"}),
        ("fanouts", {"dataset": GRAPH, "fanouts": "10, 5", "layers": "3"}),
        ("hidden", {"dataset": GRAPH, "hidden": "0"}),
        ("engine", {"dataset": GRAPH, "engine": "pppo"}),
        ("metric", {"dataset": GRAPH, "metric": "f1"}),
        ("fix", {"dataset": GRAPH, "fix": "batch_sizes=3"}),
        ("ranges", {"dataset": GRAPH, "ranges": "batch_size=3"}),
        ("name", {"dataset": GRAPH, "name": "n" * 300}),
        ("", {"dataset": GRAPH, "unknown": "1"}),
        ("graph", {}),
    ],
    ids=str,
)
def test_the_form_says_what_is_wrong_at_its_field_in_words_of_the_page(
    idle: Server, place: str, fields: dict[str, str]
) -> None:
    answer = send(idle, **fields)
    assert answer.status == 422
    text = answer.content.decode()
    (said,) = re.findall(r'<div role="alert"[^>]*>(.*?)</div>', text, re.DOTALL)
    assert len(said) > 80
    assert not FOREIGN.search(said), said
    at = re.findall(r'<strong class="wrong" id="(\w+)-error">[^<]{11,}</strong>', text)
    assert at == [place] * bool(place), said
    assert text.count('aria-invalid="true"') == len(at)


def test_requests_in_errors_become_words_of_pages() -> None:
    for detail in (
        "'x' does not exist below the data root; paths are relative to it, and GET /graphs lists the registered graphs",
        "graph 9 does not exist; GET /graphs lists the graphs",
        "a request must have either graph, a number, or dataset; GET /graphs lists the graphs",
        "study 9 does not exist; GET /studies lists the studies",
        "the study has not chosen a configuration yet; POST .../stop makes it choose the best so far, which GET "
        ".../front shows",
    ):
        assert not re.search("(GET|POST) ", for_people(detail)), detail


def test_a_browser_gets_a_page_where_a_program_gets_json(idle: Server) -> None:
    html = {"Accept": "text/html,application/xhtml+xml"}
    for path, status in (("/studies/999/page", 404), ("/studies/x/page", 422), ("/nowhere", 404), ("/graphs/999", 404)):
        page = idle.ask("GET", path, headers=html)
        assert page.status == status
        assert page.headers["content-type"].startswith("text/html")
        assert b"<h1>" in page.content
        assert b'<a href="/start">' in page.content
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert problem(idle, "GET", path)[0] == status
    wrong = idle.ask("GET", "/studies", headers={**html, "Host": "attacker.example"})
    assert (wrong.status, wrong.headers["content-type"][:9]) == (421, "text/html")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:secret@db/x", "postgresql://me:***@db/x"),
        ("postgresql+psycopg://me:s@cr:t/@db:5432/x?y=1", "postgresql+psycopg://me:***@db:5432/x?y=1"),
        ("'postgresql://:secret@db'", "'postgresql://:***@db'"),
        ("postgresql://db/x?user=me&password=secret&z=1", "postgresql://db/x?user=me&password=***&z=1"),
        ("host=db password='se cret' user=me", "host=db password=*** user=me"),
        ("sqlite:////tmp/x.sqlite at 12:30@home", "sqlite:////tmp/x.sqlite at 12:30@home"),
        ("http://127.0.0.1:8642/studies/1", "http://127.0.0.1:8642/studies/1"),
    ],
)
def test_passwords_are_left_out(text: str, shown: str) -> None:
    assert without_password(text) == shown


@pytest.mark.parametrize(
    "place",
    ["nonsense://me:topsecret@db/x", "postgresql+psycopg://me:topsecret@[bad/x", "postgresql+none://me:topsecret@h/x",
     "postgresql+psycopg://127.0.0.1:1/x?user=me&password=topsecret"],
)  # fmt: skip
def test_no_error_of_a_database_has_its_password(place: str) -> None:
    with pytest.raises(StoreError) as error:
        open_database(place)
    assert "topsecret" not in str(error.value)
    assert error.value.__suppress_context__ or "topsecret" not in str(error.value.__cause__)
    assert "topsecret" not in ProblemDetails.of(error.value).detail


def test_a_full_disk_is_called_so(tmp_path: Path) -> None:
    assert ProblemDetails.of(OSError(errno.ENOSPC, "No space left on device")).status == 507
    database = sqlite3.connect(tmp_path / "x.sqlite", isolation_level=None)
    database.execute("PRAGMA page_size=4096")
    database.execute("CREATE TABLE x (y TEXT)")
    database.execute("PRAGMA max_page_count=2")
    with pytest.raises(sqlite3.OperationalError) as full:
        database.execute("INSERT INTO x VALUES (?)", ("x" * 100_000,))
    assert disk_is_full(OperationalError("INSERT", {}, full.value), tmp_path)
    with pytest.raises(sqlite3.OperationalError) as other:
        database.execute("SELECT nothing FROM nowhere")
    assert not disk_is_full(OperationalError("SELECT", {}, other.value), tmp_path)
    database.close()


@pytest.fixture
def small_disk(tmp_path: Path):
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.slow
def test_on_a_full_disk_a_study_can_be_stopped(small_disk: Path) -> None:
    server = Server(small_disk / "home")
    try:
        study = Client(server.url).start(GRAPH, budget="300s")
        from tests.service.test_studies import wait_for

        wait_for(lambda: study.state()["status"] == "running")
        with open(small_disk / "fill", "wb", buffering=0) as file:
            for size in (65536, 1):
                try:
                    while True:
                        file.write(b"\0" * size)
                except OSError:
                    continue
        status, detail = problem(server, "POST", "/studies", {"graph": 1}, JSON)
        assert (status, "the disk has no room left" in detail) == (507, True)
        stopped = server.ask("POST", f"/studies/{study.id}/stop")
        assert stopped.status in (200, 202)
        assert server.ask("GET", "/healthz").status == 200
        (small_disk / "fill").unlink()
        wait_for(lambda: study.state()["status"] in ("stopped", "failed", "finished"), 60)
    finally:
        server.end(signal.SIGKILL)
