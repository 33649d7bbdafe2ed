"""Studies on a real cluster of three nodes on this machine: killed and resumed, several at once, of the service."""

from __future__ import annotations

import json
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest

from a3gnn.profiling.store.store import ProfileStore
from a3gnn.service.client import Client
from tests.profiling.cluster.nodes import Rays, finish, start, wait_until
from tests.service.servers import GRAPH, QUICK, serving
from tests.tuning.formulas import SMALL_SPACE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="the extra [ray] is not installed"),
]

FIXED = SMALL_SPACE | {"num_partitions": 1, "partitioner": "blocks", "compute_dtype": "float32", "num_workers": 1}
SMALL = ["--dataset", GRAPH, "--hidden", "16", "--fanouts", "4,4", "--accuracy-epochs", "1"]
#: Of six configurations that learn the same: there is one contender, and the verification is short.
STUDY = [
    *("tune", *SMALL, "--max-accuracy-drop", "100", "--engine", "random"),
    *(f"--fix={knob}={'task' if value is None else value}" for knob, value in FIXED.items()),
]


@pytest.mark.weekly  # test_cluster_trials runs one there
def test_machines_are_listed_and_profiled(rays: Rays, tmp_path: Path) -> None:
    listed: list[str] = []

    def all_idle() -> bool:
        code, out, err = finish(start("machines", "--ray-address", rays.address))
        assert code == 0, err
        listed[:] = out.splitlines()
        return sum("1 core, 0 studies" in line for line in listed) == 3

    wait_until(all_idle)  # Ray lists a killed study's actor for a moment
    kinds = [line for line in listed if not line.startswith(" ")]
    assert [kind.partition(",")[0] for kind in kinds] == ["pair", "single"]
    store = str(tmp_path / "profiles.db")
    where = ["--executor", "ray", "--ray-address", rays.address]
    code, _, err = finish(start("profile", *SMALL, "--configs", "0", "--store", store, *where))
    assert code == 2
    assert "the cluster has machines of 2 kinds, pair, single; name one, such as --machines pair" in err
    where += ["--machines", "pair"]
    code, out, err = finish(start("profile", *SMALL, "--configs", "0", "--store", store, *where, "--json"))
    assert code == 0, err
    assert (json.loads(out)["measured"], json.loads(out)["failed"]["crashed"]) == (1, 0)
    with ProfileStore.open(store) as opened:
        assert {row.setting.hardware.label for row in opened.rows()} == {"pair"}


@pytest.mark.weekly  # test_an_interrupted_tune_resumes
def test_a_study_whose_driver_is_killed_goes_on(rays: Rays, tmp_path: Path) -> None:
    node, folder = rays.nodes["first"], tmp_path / "run"
    where = ["--executor", "ray", "--ray-address", rays.address, "--machines", "single"]
    command = [*STUDY, *where, "--budget", "1000", "--out", str(folder)]
    first = start(*command)
    wait_until(lambda: len(_journal(folder)) >= 2 and node.trials(), first)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    before = _journal(folder)
    wait_until(lambda: not node.servers())  # nothing measures on without it
    resumed = start(*command, "--resume")
    wait_until(lambda: len(_journal(folder)) > len(before), resumed)
    (folder / "stop").touch()
    code, _, err = finish(resumed)
    assert code == 0, err
    after = _journal(folder)
    assert after[: len(before)] == before
    assert any("resuming after" in line for line in err.splitlines())
    configs = [json.dumps(json.loads(line)["measurement"]["config"]) for line in after]
    assert len(set(configs)) == len(configs)
    measured = [json.loads(line)["measurement"]["hardware"] for line in after]
    assert {machine["label"] for machine in measured} == {"single"}
    assert (folder / "tuned.json").exists()
    assert not [line for line in err.splitlines() if "(pid=" in line or "INFO" in line or "WARNING" in line]
    wait_until(lambda: not node.servers())


@pytest.mark.weekly
def test_each_kind_of_machines_has_a_tune_of_its_own_until_all_are_stopped(rays: Rays, tmp_path: Path) -> None:
    where = ["--executor", "ray", "--ray-address", rays.address, "--machines", "all"]
    process = start(*STUDY, *where, "--budget", "1000", "--out", str(tmp_path / "run"), "--json")
    folders = {name: tmp_path / "run" / name for name in ("single", "pair")}
    wait_until(lambda: all(len(_journal(folder)) >= 2 for folder in folders.values()), process)
    (tmp_path / "run" / "stop").touch()
    code, out, err = finish(process)
    assert code == 0, err
    found = json.loads(out)["machines"]
    assert {one["machines"] for one in found} == set(folders)
    for one in found:
        tuned = json.loads((folders[one["machines"]] / "tuned.json").read_text())
        assert tuned["hardware"]["label"] == one["machines"]
        assert tuned["left_out"]  # the verification, for it was stopped
        assert one["error"] == ""
        assert one["tune"]["choice"]["throughput_epochs_per_s"] > 0
    said = err.splitlines()
    assert all(line.startswith(("single | ", "pair   | ", "    ")) for line in said), err  # the rest of a long line
    assert any(line.startswith("pair   | baseline") for line in said)
    wait_until(lambda: not any(node.servers() for node in rays.nodes.values()))


@pytest.mark.weekly  # test_cluster_trials runs one there
def test_a_study_of_the_service_runs_its_trials_there(rays: Rays, tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
    where = ["--executor", "ray", "--ray-address", rays.address, "--machines", "single"]
    with serving(tmp_path / "home", *where) as server:
        study = Client(server.url).start(GRAPH, **QUICK, budget=1000)
        wait_until(lambda: study.state().get("trials", 0) >= 1)
        study.stop()
        assert study.wait().setting.hardware.label == "single"


def _journal(folder: Path) -> list[str]:
    """The lines that are whole: whoever writes one may have been killed."""
    path = folder / "probes.jsonl"
    text = path.read_text() if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()
