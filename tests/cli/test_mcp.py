"""`a3gnn mcp`: its tools answer as the commands do, stay below the data root, and delete nothing."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a3gnn.cli.mcp import Tools
from a3gnn.task import Task
from a3gnn.training.saved_model import SavedModel
from tests.answers import checked
from tests.commands import a3gnn
from tests.page.conftest import REAL

mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed")

SPEC = "synthetic:nodes=300,degree=5,classes=4,features=8"
Call = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root with a finished tune and a link that leads out; a graph lies outside."""
    (tmp_path / "root").mkdir()
    shutil.copytree(REAL, tmp_path / "root" / "mine")
    np.savez(tmp_path / "secret.npz", edge_index=np.zeros((2, 0), np.int64))
    (tmp_path / "root" / "out").symlink_to(tmp_path)
    (tmp_path / "root" / "loop").symlink_to("loop")
    (tmp_path / "root" / "linked").mkdir()
    SavedModel(Task(), "classes", 8, 4, {}).write(tmp_path / "secret.pt")
    (tmp_path / "root" / "linked" / "model.pt").symlink_to(tmp_path / "secret.pt")
    SavedModel(Task(model="os:getcwd"), "classes", 8, 4, {}).write(tmp_path / "root" / "own.pt")
    return tmp_path / "root"


def served(root: Path, use: Callable[[Call, Any], Awaitable[None]]) -> None:
    """Calls `use` with a function that calls a tool of a server over stdio, and with the client."""

    async def run() -> None:
        words = ["-m", "a3gnn", "mcp", "--data-root", str(root)]
        server = mcp.StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
        async with mcp.Client(mcp.stdio_client(server)) as client:

            async def call(tool: str, **arguments: Any) -> dict[str, Any]:
                result = await client.call_tool(tool, arguments)
                text = result.content[0].text
                if result.is_error:
                    return {"error": checked("error", text[text.index("{") :])}
                assert result.structured_content == json.loads(text)
                return json.loads(text)

            await use(call, client)

    asyncio.run(run())


def test_there_are_six_tools_and_none_deletes(root: Path) -> None:
    async def use(call: Call, client: Any) -> None:
        tools = (await client.list_tools()).tools
        assert [one.name for one in tools] == [
            *("describe_graph", "recommend", "start_tune", "status", "pick", "predict"),
        ]
        assert all("Args:" in one.description for one in tools)

    served(root, use)


def test_answers_are_those_of_the_commands(root: Path) -> None:
    async def use(call: Call, client: Any) -> None:
        graph = await call("describe_graph", dataset=SPEC)
        assert graph == checked("graph info", a3gnn("graph", "info", SPEC, "--json").stdout)
        status = await call("status", folder="mine")
        assert checked("status", json.dumps(status))["phase"] == "finished"
        pick = await call("pick", folder="mine", priority="memory")
        assert checked("pick", json.dumps(pick))["file"] == str(root / "mine" / "picked.json")

    served(root, use)


def test_nothing_outside_the_root_is_read_or_written(root: Path) -> None:
    async def use(call: Call, client: Any) -> None:
        before = {path for path in root.parent.rglob("*") if not path.is_relative_to(root / "out")}
        for tool, arguments in (
            ("describe_graph", {"dataset": "../secret.npz"}),
            ("describe_graph", {"dataset": "out/secret.npz"}),
            ("describe_graph", {"dataset": str(root.parent / "secret.npz")}),
            ("describe_graph", {"dataset": "pyg:Cora"}),
            ("describe_graph", {"dataset": "split:0.6,0.2,0.2:0:../secret.npz"}),
            ("describe_graph", {"dataset": "--help"}),
            ("recommend", {"dataset": "target:x:../secret.npz"}),
            ("recommend", {"dataset": SPEC, "model": "os:system"}),
            ("start_tune", {"dataset": SPEC, "folder": "../new"}),
            ("start_tune", {"dataset": SPEC, "folder": "out/new"}),
            ("start_tune", {"dataset": SPEC, "folder": "mine"}),
            ("start_tune", {"dataset": SPEC, "folder": "new", "model": "os:system"}),
            ("start_tune", {"dataset": SPEC, "folder": "new", "budget": "soon"}),
            ("status", {"folder": ".."}),
            ("status", {"folder": "--help"}),
            ("pick", {"folder": "out/root/mine/../../.."}),
            ("predict", {"model": "..", "dataset": SPEC, "out": "new.npy"}),
            ("predict", {"model": "mine", "dataset": SPEC, "out": "../new.npy"}),
            ("predict", {"model": "mine", "dataset": SPEC, "out": "mine/tuned.json"}),
            ("predict", {"model": "linked", "dataset": SPEC, "out": "new.npy"}),
            ("predict", {"model": "own.pt", "dataset": SPEC, "out": "new.npy"}),
            ("status", {"folder": "loop"}),
            ("start_tune", {"dataset": SPEC, "folder": "new\0"}),
        ):
            answer = await call(tool, **arguments)
            assert set(answer) == {"error"}, (tool, arguments)
            if arguments.get("model") in ("linked", "own.pt"):
                assert ("link to" if arguments["model"] == "linked" else "built-in") in str(answer)
        assert {path for path in root.parent.rglob("*") if not path.is_relative_to(root / "out")} == before

    served(root, use)


def test_a_tune_without_a_folder_has_not_begun_yet(root: Path) -> None:
    tools, late = Tools(root), root.resolve() / "late"
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process, tempfile.TemporaryFile() as log:
        tools._begun[late] = process, log
        with pytest.raises(Exception, match="late has not begun yet"):
            tools.status("late")
        process.communicate()
        with pytest.raises(Exception, match="must exist below the data root"):
            tools.status("never")


@pytest.mark.slow
def test_a_tune_that_was_started_is_followed_and_predicts(root: Path) -> None:
    async def use(call: Call, client: Any) -> None:
        found = await call("recommend", dataset=SPEC, memory_limit="2GiB")
        checked("recommend", json.dumps(found))
        begun = await call("start_tune", dataset=SPEC, folder="tuned", budget="1", memory_limit="2GiB")
        assert begun == {"folder": str(root / "tuned")}
        end = time.monotonic() + 300
        while (status := await call("status", folder="tuned")).get("phase") != "finished" and time.monotonic() < end:
            assert status.get("running") or "has not begun yet" in status["error"]["message"], status
            await asyncio.sleep(0.5)
        assert status["best"]["feasible"]
        run = a3gnn("train", root / "tuned", "--epochs", "1", "--out", root / "trained", "--quiet")
        assert run.returncode == 0, run.stderr
        made = await call("predict", model="trained", dataset=SPEC, out="found.npy")
        assert checked("predict", json.dumps(made))["shape"] == [300, 4]
        assert np.load(root / "found.npy").shape == (300, 4)

    served(root, use)
