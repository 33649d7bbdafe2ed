"""A client that a generator made of /openapi.json alone runs a study."""

import importlib
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.service.servers import GRAPH, SMALL, serving

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
pytestmark = [
    pytest.mark.weekly,
    pytest.mark.skipif(find_spec("openapi_python_client") is None, reason="openapi-python-client is not installed"),
]


def test_a_generated_client_runs_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path / "home") as server:
        description = tmp_path / "openapi.json"
        description.write_bytes(server.ask("GET", "/openapi.json").content)
        command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", description, "--meta", "none"]
        run = subprocess.run(
            [*command, "--output-path", tmp_path / "made"], capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stdout + run.stderr
        assert "skipped" not in run.stdout.replace("Skipping Integration", ""), run.stdout
        monkeypatch.syspath_prepend(str(tmp_path))
        made = importlib.import_module("made")
        models, studies = importlib.import_module("made.models"), importlib.import_module("made.api.studies")
        for name in ("add_study", "get_study", "list_trials", "compare_studies", "get_tuned", "stop_study"):
            importlib.import_module(f"made.api.studies.{name}")
        client = made.Client(base_url=server.url)
        order = models.StudyOrder.from_dict({"dataset": GRAPH, "name": "generated", "budget": 2, **SMALL})
        started = [studies.add_study.sync(client=client, body=order) for _ in range(2)]
        assert all(type(one) is models.StudyAnswer for one in started), started
        end = time.monotonic() + 300
        while studies.get_study.sync(started[1].id, client=client).status in ("queued", "running"):
            assert time.monotonic() < end
            time.sleep(0.5)
        finished = [studies.get_study.sync(one.id, client=client) for one in started]
        assert [(one.status, one.name) for one in finished] == [("finished", "generated")] * 2
        assert studies.list_trials.sync(started[0].id, client=client).total == finished[0].trials
        assert "config" in studies.get_tuned.sync(started[0].id, client=client).to_dict()
        found = studies.compare_studies.sync(client=client, study=[one.id for one in started])
        assert [tune.study for tune in found.tunes] == [one.id for one in started]
        refused = studies.stop_study.sync(started[0].id, client=client)
        assert (type(refused), refused.status) == (models.Problem, 409)
        client.get_httpx_client().close()
