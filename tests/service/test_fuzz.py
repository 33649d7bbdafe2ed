"""Requests that schemathesis makes of the API's own description: none may make the server fail."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.servers import GRAPH, Server, serving

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
pytest.importorskip("schemathesis", reason="schemathesis, of the extra [dev], is not installed")
pytestmark = pytest.mark.slow

#: What must hold of every answer.
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance")


def test_no_request_makes_the_server_fail(tmp_path: Path) -> None:
    with serving(tmp_path / "home", "--at-once", "0", "--max-queued", "5", "--max-nodes", "2000") as server:
        _prepare(server)
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json", "--seed", "1"]
        options = ["--checks", ",".join(CHECKS), "--max-examples", "10", "--phases", "examples,coverage,fuzzing"]
        run = subprocess.run(
            [*command, *options, "--no-color", "--request-timeout", "60"],
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


def _prepare(server: Server) -> None:
    """Has a graph and a study there, so that some numbers are right."""
    headers = {"Content-Type": "application/json"}
    graph = server.ask("POST", "/graphs", {"dataset": GRAPH}, headers).json["id"]
    server.ask("POST", "/studies", {"graph": graph}, headers)
    server.ask("POST", "/studies/1/stop")
