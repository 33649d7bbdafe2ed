"""The code that pages show does what it says: each language starts the same study again."""

import ast
import dataclasses
import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")

from a3gnn.cli.study_options import as_arguments
from a3gnn.cli.tune import tune
from a3gnn.service.client import Client, RemoteStudy
from a3gnn.service.graphs.shelf import KnownGraph
from a3gnn.service.jobs.job import Job
from a3gnn.service.pages.code import study_code
from a3gnn.service.settings import ServiceSettings
from a3gnn.service.studies.orders import StudyOrder
from a3gnn.task import Task
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.study.arguments import make_request
from tests.commands import a3gnn
from tests.service.servers import Server

GRAPH = KnownGraph(7, "people", "upload", "my people.npz", "", "", None, 0.0, {})


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"priority": "0.5,0.3,0.2", "memory_limit": "4GiB", "budget": 12, "name": "it's mine", "model": "gat"},
        {
            "memory_limit": 3 << 30,
            "fix": {"batch_size": 512, "cache_bytes": 1 << 20, "parallel_mode": "mode1"},
            "ranges": {"num_workers": [1, 2]},
            "max_accuracy_drop": 1.5,
            "fanouts": [5, 4, 3],
            "hidden": 64,
            "residual": True,
            "norm": "layer",
            "seed": 3,
            "lr_schedule": "cosine",
            "lr_epochs": 9,
            "metric": "macro_f1",
        },
        {"residual": "linear"},
        {"search": {"layers": [2, 3], "lr": {"low": 0.001, "high": 0.03, "log": True}, "norm": ["none", "batch"]}},
    ],
)
def test_each_language_starts_the_same_study(asked: dict[str, Any], tmp_path: Path) -> None:
    settings = ServiceSettings(folder=tmp_path)
    arguments = StudyOrder(graph=7, **asked).arguments(settings)
    job = Job(
        1, "study", asked.get("name", "people"), 7, None, arguments, "stopped", False, None, 0, None, None, None, {}
    )
    command, python, curl = (one.text.splitlines()[-1] for one in study_code(job, GRAPH, "http://127.0.0.1:1", True))
    body = json.loads(shlex.split(curl)[-1])
    assert (body.pop("graph"), body["name"]) == (7, job.name)
    call = ast.parse(python).body[0].value  # type: ignore[attr-defined]
    assert {one.arg: ast.literal_eval(one.value) for one in call.keywords} == body
    assert StudyOrder(**body).arguments(settings) == arguments
    words = shlex.split(command)
    assert words[:2] == ["a3gnn", "tune"]
    options = tune.make_context("tune", words[2:]).params
    assert (options["dataset"], options["server"]) == ("graph:7", "http://127.0.0.1:1")
    given = as_arguments(options)
    asked_by = {name: value for name, value in arguments.items() if name not in ("trainer", "metric")}
    made = make_request(**{**asked_by, "task": Task.from_dict(arguments["task"])})
    assert make_request(**{name: given[name] for name in asked_by}) == made
    assert given["metric"] == arguments["metric"]


def test_the_code_of_a_study_runs(
    idle: Server, kept: RemoteStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    state, client = kept.state(), Client(idle.url)
    times = (None, 0, None, None, None)
    job = Job(
        kept.id,
        "study",
        "it's mine",
        state["graph"],
        None,
        state["arguments"],
        "stopped",
        False,
        *times,
        {"chosen": ""},
    )
    graph = dataclasses.replace(GRAPH, id=state["graph"])
    command, python, curl = (one.text for one in study_code(job, graph, idle.url, False))
    before = {one["id"] for one in client.studies()}
    exec(compile(python, "the page", "exec"), {})
    folder = tmp_path / "runs" / f"study-{kept.id}"
    assert (folder / "tuned.json").exists()
    shutil.rmtree(folder)
    for line in command.splitlines()[:2]:  # `train` and `tune` need the server's graph on this machine
        assert a3gnn(*shlex.split(line)[1:]).returncode == 0, line
    if has_curl := shutil.which("curl") is not None:
        for line in curl.splitlines():
            subprocess.run(["bash", "-c", line.replace("curl ", "curl -sSf ", 1)], check=True, cwd=tmp_path)
        file = tmp_path / f"study-{kept.id}-tuned.json"
        assert TunedConfig.read(file).config == kept.tuned().config
    started = [one for one in client.studies() if one["id"] not in before]
    assert [one["name"] for one in started] == ["it's mine"] * (1 + has_curl)
    for one in started:
        client.study(one["id"]).stop()
        client.study(one["id"]).delete(forever=True)
