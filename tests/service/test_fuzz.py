"""Requests that schemathesis makes of the API's own description: no answer may be other than described."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.service.servers import GRAPH, Server, serving

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
pytestmark = [
    pytest.mark.slow,
    # Not imported: each of the tests' processes would do so while it collects.
    pytest.mark.skipif(find_spec("schemathesis") is None, reason="schemathesis, of the extra [dev], is not installed"),
]

TOKEN = "a-token-of-many-characters"
#: All checks hold, with one exception: what the schema allows may be refused by a rule that no schema can say,
#: such as that a graph exists.
CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", "401", "403", "404", "409", "413", "422", "429", "5xx"]
"""
#: The first prediction takes seconds, and more on a busy machine.
OPTIONS = (
    *("--checks", "all", "--max-examples", "5", "--no-color", "--request-timeout", "60"),
    *("--max-response-time", "60", "--header", f"Authorization: Bearer {TOKEN}"),
)
#: To the address of a page, browsers also send forms.
PAGES = "/page$"
#: Requests there start processes, most of what such a run takes; test_requests and test_openapi have them.
WITH_PROCESSES = "^/(graphs(/upload)?|recommend|studies)$"


@pytest.mark.parametrize(
    ("phases", "left_out"),
    [
        ("examples,coverage", f"{PAGES}|{WITH_PROCESSES}"),
        pytest.param("examples,coverage,fuzzing,stateful", PAGES, marks=pytest.mark.weekly),
    ],
    ids=["most", "all"],
)
def test_every_answer_is_as_described(phases: str, left_out: str, tmp_path: Path) -> None:
    options = ("--at-once", "0", "--max-queued", "5", "--max-nodes", "2000", "--token", TOKEN)
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    with serving(tmp_path / "home", *options) as server:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
        _prepare(server, headers)
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json", "--seed", "1"]
        run = subprocess.run(
            [*command, *OPTIONS, "--exclude-path-regex", left_out, "--phases", phases],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
            timeout=600,
        )
        assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
        assert server.ask("GET", "/healthz").status == 200
        assert server.end() == 0
        assert "Traceback" not in server.said, server.said


def _prepare(server: Server, headers: dict[str, str]) -> None:
    """Has a graph and a study there, so that some numbers are right."""
    graph = server.ask("POST", "/graphs", {"dataset": GRAPH}, headers).json["id"]
    server.ask("POST", "/studies", {"graph": graph}, headers)
    server.ask("POST", "/studies/1/stop", None, headers)
