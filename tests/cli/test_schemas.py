"""Every command that prints results takes --json, and what it prints has the schema that the docs show."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Never, NotRequired, TypedDict

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from a3gnn.cli.answers import answers
from a3gnn.cli.json_schema import Changed, schema_of
from a3gnn.config import TrainConfig
from a3gnn.profiling.cluster.connection import machine_kinds
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.tuning.study.folder import Journal
from tests.answers import checked, command_of
from tests.cli.test_help import LEAVES
from tests.commands import a3gnn
from tests.page.conftest import REAL
from tests.profiling.cluster.test_kinds import ONE, OTHER, node

ROOT = Path(__file__).parents[2]
SPEC = "synthetic:nodes=300,degree=5,classes=4,features=8"
#: Commands that serve or print a schema.
WITHOUT = {"serve", "parts serve", "mcp", "schema"}
#: Files whose tests check the answers of commands that take longer, or need a server.
ELSEWHERE = {
    "tune": "tests/examples/test_skill.py",
    "recommend": "tests/cli/test_recommend.py",
    "train": "tests/cli/test_train.py",
    "predict": "tests/cli/test_predict.py",
    "profile": "tests/cli/test_profile.py",
    "surrogate card": "tests/cli/test_surrogate.py",
    "pull": "tests/service/test_saved_study.py",
    "stop": "tests/cli/test_status.py",
    "accelerator generate": "tests/hitgnn/hls/test_check.py",
}
#: Commands that are run here, in order, in a folder with a finished tune `mine`, a graph `typed.npz` and a store.
RUN = (
    f"graph convert {SPEC} graph",
    "graph info graph",
    "graph info typed.npz",
    "graph info target:paper:typed.npz",
    "graph verify graph",
    f"parts make {SPEC} parts --num-parts 2 --partitioner random",
    "status mine",
    "front mine",
    "front mine --all",
    "pick mine --priority memory",
    "compare mine mine",
    "report mine",
    "export mine --optuna sqlite:///optuna.db",
    "profiles list",
    "profiles export rows.jsonl --store mine/profiles.sqlite",
    "profiles check rows.jsonl",
    "profiles import rows.jsonl --store new.db",
    "cache info",
    "cache clean --dry-run",
    "doctor",
    f"doctor --dataset {SPEC}",
    "explore --platform u250",
    "explore --platform a5000",
    f"explore --platform u250 --dataset {SPEC} --algorithms",
    "accelerator generate --units 2 --multipliers 16 --out hls",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what `RUN` needs."""
    folder = tmp_path_factory.mktemp("schemas")
    shutil.copytree(REAL, folder / "mine")
    with ProfileStore.open(folder / "mine" / "profiles.sqlite") as store:
        store.add_missing([trial.measurement for trial in Journal(REAL).read(mend=False)])
    few = np.arange(6)
    typed = {
        "node_types": np.array(["paper", "author"]),
        "num_nodes": np.array([6, 4]),
        "edge_types": np.array(["author__writes__paper"]),
        "edge_index__author__writes__paper": np.array([[0, 1, 2, 3], [0, 1, 2, 3]]),
        "x__author": np.ones((4, 2), np.float32),
        "x__paper": np.ones((6, 3), np.float32),
        "y__paper": few % 2,
    }
    masks = {"train_mask__paper": few < 2, "val_mask__paper": few == 2, "test_mask__paper": few > 2}
    np.savez(folder / "typed.npz", **typed, **masks)
    return folder


@pytest.mark.parametrize("line", RUN)
def test_an_answer_has_its_schema(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    words = line.split()
    run = a3gnn(*words, "--json", *(["--quiet"] if "doctor" in words else []))
    assert run.returncode == 0, run.stderr
    checked(command_of(words), run.stdout)


def test_every_command_with_results_has_json_and_a_schema() -> None:
    takes = {name for name, context in LEAVES.items() if any(one.name == "as_json" for one in context.command.params)}
    assert takes == set(LEAVES) - WITHOUT == set(answers()) - {"error"}


def test_every_schema_is_held_by_a_real_answer() -> None:
    here = {command_of(line.split()) for line in RUN} | {"machines"}
    assert here | set(ELSEWHERE) == set(answers()) - {"error"}
    for command, place in ELSEWHERE.items():
        text = (ROOT / place).read_text(encoding="utf-8")
        assert f'checked("{command}"' in text or "checked(command, " in text, place


def test_machines_of_a_cluster() -> None:
    kinds = machine_kinds([node(1, f"a3gnn-{ONE}-fast"), node(2, f"a3gnn-{OTHER}")])
    checked("machines", json.dumps({"kinds": [one.to_dict() for one in kinds.values()], "studies": {"1": 2}}))


def test_the_command_prints_the_schemas() -> None:
    assert a3gnn("schema").stdout.split("\n")[:-1] == list(answers())
    for command in answers():
        schema = json.loads(a3gnn("schema", *command.split()).stdout)
        assert schema == json.loads(json.dumps(schema_of(answers()[command])))
        Draft202012Validator.check_schema(schema)
    run = a3gnn("schema", "tnue")
    assert run.returncode == 2
    assert "did you mean 'tune'?" in run.stderr


def test_every_field_of_an_answer_has_a_meaning_or_a_plain_name() -> None:
    """Fields without a meaning are those of objects that are named by their fields alone."""
    plain = {"folder", "file", "files", "rows", "edges", "nodes", "bytes", "cut_edges", "parts", "entries", "dry_run"}
    plain |= {"total_bytes", "freed_bytes", "removed", "name", "memory_bytes", "throughput", "time", "schema_version"}
    plain |= {"sample", "gather", "transfer", "train", "tunes", "notes", "edge_attr", "edge_weight"}
    lacking = set()
    for kind in answers().values():
        schema = schema_of(kind)
        for one in (schema, *schema.get("anyOf", ()), *schema["$defs"].values()):
            lacking |= {name for name, field in one.get("properties", {}).items() if "description" not in field}
    assert lacking - plain == set()


def test_errors_are_objects_with_the_exit_code_that_they_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, code, kind in (
        (["graph", "info", "nowhere.npz"], 2, "graph"),
        (["tune", "--dataset", "synthetic:", "--memory-limit", "lots"], 2, "usage"),
        (["tune"], 2, "usage"),
        (["tnue"], 2, "usage"),
        (["graph", "conv"], 2, "usage"),
        (["front", "nowhere"], 2, "usage"),
        (["explore", "--platform", "u250", "--ceiling", "0.01"], 3, "infeasible"),
        (["profiles", "export", "rows.jsonl", "--store", "none.db"], 1, "store"),
    ):
        run, plain = a3gnn(*arguments, "--json"), a3gnn(*arguments)
        assert (run.returncode, plain.returncode) == (code, code), run.stderr
        assert run.stdout == ""
        (line,) = run.stderr.splitlines()
        found = checked("error", line)
        assert found["code"] == kind
        told = "; ".join(filter(None, (found["message"], found["remedy"])))
        assert f"error: {told}" in plain.stderr


class Inner(NamedTuple):
    """An inner object.

    Attributes:
        low: The lower bound,
            in bytes.
        high: The upper bound; None if unknown.
    """

    low: float
    high: int | None = None


class Outer(TypedDict):
    """An outer object.

    Attributes:
        one: One.
    """

    one: Inner
    kind: Literal["a", "b"]
    pair: tuple[int, int]
    many: list[Inner | None]
    maybe: NotRequired[dict[str, Any]]


def test_a_schema_says_what_the_types_say() -> None:
    validator = Draft202012Validator(schema_of(Outer))
    whole = {"one": {"low": 1, "high": None}, "kind": "a", "pair": [1, 2], "many": [None, {"low": 2.5}]}
    assert validator.is_valid(whole)
    assert validator.is_valid(whole | {"maybe": {"any": 1}})
    for wrong in (
        {"one": {"high": 1}},
        {"one": {"low": "1"}},
        {"kind": "c"},
        {"pair": [1]},
        {"pair": [1, 2.5]},
        {"many": {}},
        {"further": 1},
    ):
        assert not validator.is_valid(whole | wrong), wrong
    assert not validator.is_valid({name: value for name, value in whole.items() if name != "kind"})
    low = schema_of(Outer)["$defs"]["Inner"]["properties"]["low"]
    assert low == {"type": "number", "description": "The lower bound, in bytes."}
    high = schema_of(Outer)["$defs"]["Inner"]["properties"]["high"]
    assert high == {"type": ["integer", "null"], "description": "The upper bound; null if unknown."}


@pytest.mark.parametrize("fields", [{}, {"batch_size": "all"}, {"searched": {"layers": 2, "lr": 0.1}}])
def test_configurations_of_every_kind_have_their_schema(fields: dict[str, Any]) -> None:
    found = json.loads(json.dumps(TrainConfig(**fields).to_dict()))
    assert [*Draft202012Validator(schema_of(TrainConfig)).iter_errors(found)] == []


def test_changed_fields_replace_add_and_remove() -> None:
    schema = schema_of(Annotated[Inner, Changed(low=str, high=Never, name=NotRequired[str])])
    assert set(schema["properties"]) == {"low", "name"}
    assert schema["properties"]["low"]["type"] == "string"
    assert schema["required"] == ["low"]
