"""SKILL.md is enough: a script that follows it literally tunes and trains on a graph that it has not seen."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from a3gnn.training.saved_model import SavedModel
from tests.answers import checked, command_of
from tests.commands import a3gnn, process

ROOT = Path(__file__).parents[2]
SKILL = (ROOT / "SKILL.md").read_text(encoding="utf-8")
#: What the skill says to change: the limit and the budget.
CHANGED = (("--memory-limit 4GiB", "--memory-limit 2GiB"), ("--budget 10min", "--budget 2"))
#: Commands that do in the tests' process what they do in one of their own.
HERE = ("pick", "train")
#: Most calls from the graph to the trained model.
MOST_CALLS = 6


def commands() -> list[str]:
    """The commands of the skill's first block, in order."""
    block = re.search(r"```bash\n(.*?)```", SKILL, re.DOTALL)
    assert block is not None
    return block[1].splitlines()


def write_graph(path: Path) -> None:
    """Writes a graph of four communities, as the docs say that an .npz file has it."""
    rng = np.random.default_rng(0)
    nodes, labels = 800, np.arange(800) % 4
    sources = rng.integers(0, nodes, 8000)
    alike = rng.integers(0, nodes // 4, 8000) * 4 + labels[sources]
    targets = np.where(rng.random(8000) < 0.7, alike, rng.integers(0, nodes, 8000))
    x = rng.normal(size=(nodes, 16)).astype(np.float32) + np.eye(4, 16, dtype=np.float32)[labels]
    part = rng.random(nodes)
    masks = {"train_mask": part < 0.6, "val_mask": (part >= 0.6) & (part < 0.8), "test_mask": part >= 0.8}
    np.savez(path, edge_index=np.stack([sources, targets]), x=x, y=labels, **masks)


def test_the_skill_is_short_and_its_five_commands_are_a_whole_run() -> None:
    assert len(SKILL.splitlines()) <= 60
    assert [command_of(shlex.split(line)[1:]) for line in commands()] == [
        "doctor",
        "recommend",
        "tune",
        "pick",
        "train",
    ]
    assert len(commands()) <= MOST_CALLS


@pytest.mark.slow
def test_a_script_that_follows_it_trains_on_an_unseen_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_graph(tmp_path / "graph.npz")
    answers = {}
    for line in commands():
        for before, after in CHANGED:
            line = line.replace(before, after)
        _, *words = shlex.split(line)
        command = command_of(words)
        run = a3gnn(*words) if command in HERE else process(*words, cwd=tmp_path)
        assert run.returncode == 0, f"{line}\n{run.stderr}"
        answers[command] = checked(command, run.stdout)
    graph = answers["doctor"]["graph"]
    assert graph["readable"]
    assert [one["name"] for one in graph["fits"]] == ["baseline", "fastest", "smallest"]
    assert all(0 < one["limit_bytes"] <= 2 << 30 for one in graph["fits"])
    assert answers["recommend"]["predicted"]["keeps"]["host_bytes"] > 0.5
    tuned = json.loads((tmp_path / "runs" / "mine" / "tuned.json").read_text())
    assert answers["tune"]["config"] == tuned["config"] == answers["train"]["config"]
    assert answers["tune"]["probes"] == 2
    assert answers["pick"]["picked"]["feasible"]
    assert answers["train"]["test_accuracy"] > 0.6
    assert SavedModel.read(tmp_path / "runs" / "trained").task.model == "sage"
