"""`a3gnn mcp`: six tools for coding agents over the Model Context Protocol, on stdin and stdout.

Each tool is a command with --json in a process of its own, so it has the command line's answers, errors and limits.
Files are read and written below the data root alone, and no tool deletes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

import click

from a3gnn._imports import optional
from a3gnn.cli.help import Command
from a3gnn.errors import A3GNNError, UsageError, problem
from a3gnn.notify import LOOK_S

#: Seconds that `start_tune` waits for the tune to begin or to refuse its options: as long as MCP's clients wait
#: for an answer by default.
_BEGIN_S = 60.0
_INSTRUCTIONS = """Tunes the training of graph neural networks on this machine. Paths are relative to the data root.
Order: describe_graph, recommend, start_tune, status until phase is finished, pick. `a3gnn train DIR` trains with the
chosen tuned.json. An error is a JSON object with code, message and remedy. Never weaken a limit or a target that the
user gave: report that nothing keeps it, with the smallest limit that the message names."""


@click.command(cls=Command)
@click.option(
    "--data-root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    metavar="DIR",
    help="Folder with the graphs; results are written to it, too.",
)
def mcp(data_root: Path) -> None:
    """Serve describe_graph, recommend, start_tune, status, pick and predict to a coding agent, on stdin and stdout.

    The agent's program starts this command. No tool deletes files. A tune goes on if the server ends; a3gnn stop DIR
    ends it.
    """
    made = optional("mcp.server.mcpserver", "mcp", "a3gnn mcp").MCPServer("a3gnn", instructions=_INSTRUCTIONS)
    tools = Tools(data_root)
    for tool in (tools.describe_graph, tools.recommend, tools.start_tune, tools.status, tools.pick, tools.predict):
        made.add_tool(tool)
    made.run("stdio")


class Tools:
    """The tools of a server, which raise a `ToolError` with the problem as JSON.

    Args:
        root: The data root.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve(strict=True)
        self._begun: dict[Path, tuple[subprocess.Popen[bytes], IO[bytes]]] = {}

    def describe_graph(self, dataset: str) -> dict[str, Any]:
        """Describe a graph: sizes, degrees, features, splits, or types and relations; needs no training.

        Args:
            dataset: A .npz file or converted folder below the data root, or synthetic:KEY=VALUE,...; with several types
                target:TYPE:FILE.npz.
        """
        return _run("graph", "info", self._dataset(dataset))

    def recommend(
        self,
        dataset: str,
        memory_limit: str | None = None,
        priority: str = "time",
        max_accuracy_drop: float = 0.5,
        model: str = "sage",
    ) -> dict[str, Any]:
        """Predict the best training configuration in seconds, without measuring it.

        Args:
            dataset: As in describe_graph.
            memory_limit: A size such as 4GiB, of GPU memory if there is a GPU, else of host memory.
            priority: time, throughput, memory, accuracy, balanced, or weights T,M,A.
            max_accuracy_drop: Points of validation quality that may be lost against the baseline.
            model: A built-in model: sage, gcn, gat, gin, gatv2, transformer or another of docs/reference/models.md.
        """
        options = _options(memory_limit=memory_limit, priority=priority, max_accuracy_drop=max_accuracy_drop)
        return _run("recommend", f"--dataset={self._dataset(dataset)}", f"--model={_model(model)}", *options)

    def start_tune(
        self,
        dataset: str,
        folder: str,
        budget: str = "10min",
        memory_limit: str | None = None,
        priority: str = "time",
        max_accuracy_drop: float = 0.5,
        model: str = "sage",
    ) -> dict[str, Any]:
        """Start a tune in the background, which measures configurations and chooses one; follow it with status.

        Args:
            dataset: As in describe_graph.
            folder: A new folder below the data root for the results.
            budget: A duration such as 10min, or a number of trials.
            memory_limit: As in recommend.
            priority: As in recommend.
            max_accuracy_drop: As in recommend.
            model: As in recommend.
        """
        out = self._new(folder)
        options = _options(memory_limit=memory_limit, priority=priority, max_accuracy_drop=max_accuracy_drop)
        options += [
            f"--dataset={self._dataset(dataset)}",
            f"--model={_model(model)}",
            f"--budget={budget}",
            f"--out={out}",
        ]
        log = tempfile.TemporaryFile()  # noqa: SIM115 - the tune and `status` use it
        command = _command("tune", *options, "--quiet")
        null = subprocess.DEVNULL
        process = subprocess.Popen(command, cwd="/", stdin=null, stdout=null, stderr=log, start_new_session=True)
        self._begun[out] = process, log
        end = time.monotonic() + _BEGIN_S
        while process.poll() is None and not (out / "request.json").exists() and time.monotonic() < end:
            time.sleep(LOOK_S)
        if process.poll() is not None:
            self._check_begun(out)
        return {"folder": str(out)}

    def status(self, folder: str) -> dict[str, Any]:
        """Show how far a tune is: phase, trials, seconds left, the best configuration so far beside the baseline.

        Args:
            folder: The folder of start_tune.
        """
        if (started := self._resolved(folder)) is not None:
            self._check_begun(started)  # its folder may not exist yet
        return _run("status", str(self._below(folder)))

    def pick(
        self,
        folder: str,
        priority: str | None = None,
        memory_limit: str | None = None,
        max_accuracy_drop: float | None = None,
    ) -> dict[str, Any]:
        """Pick the best measured configuration of a tune by another priority or other limits; writes picked.json there.

        Args:
            folder: The folder of a tune.
            priority: As in recommend; the tune's own by default.
            memory_limit: As in recommend; the tune's own by default.
            max_accuracy_drop: As in recommend; the tune's own by default.
        """
        options = _options(priority=priority, max_memory=memory_limit, max_accuracy_drop=max_accuracy_drop)
        return _run("pick", str(self._below(folder)), *options)

    def predict(self, model: str, dataset: str, out: str) -> dict[str, Any]:
        """Predict every node of a graph with a trained model, and write the predictions to a new .npy file.

        Args:
            model: The folder of a training below the data root.
            dataset: As in describe_graph.
            out: A new file FILE.npy below the data root.
        """
        from a3gnn.training.saved_model import SavedModel

        path, places = self._below(model), (f"--dataset={self._dataset(dataset)}", f"--out={self._new(out)}")
        try:
            _model(SavedModel.read(path).task.model)
        except A3GNNError as error:
            raise _tool_error(error) from error
        return _run("predict", str(path), *places)

    def _dataset(self, spec: str) -> str:
        """Returns the dataset for a command, as the service admits it: below the root, nothing unpickled."""
        from a3gnn.service.graphs.shelf import admitted
        from a3gnn.service.settings import ServiceSettings

        try:
            return admitted(spec, ServiceSettings(folder=self.root, data_root=self.root))
        except A3GNNError as error:
            raise _tool_error(error) from error

    def _below(self, name: str) -> Path:
        """Returns the existing folder or file `name`, links resolved, after a check that it lies below the root.

        The files of a folder must lie there, too.
        """
        from a3gnn.service.graphs.shelf import check_folder

        path = self._resolved(name)
        if path is None or not path.exists():
            raise _tool_error(
                UsageError(f"paths must exist below the data root, got {name!r}; give one relative to the data root")
            )
        try:
            if path.is_dir():
                check_folder(path, self.root, name)
        except A3GNNError as error:
            raise _tool_error(error) from error
        return path

    def _new(self, name: str) -> Path:
        """Returns the path of the new folder or file `name`, after a check that it lies below the root."""
        path = self._resolved(name)
        if path is None or path.exists():
            raise _tool_error(UsageError(f"results must go to a new path below the data root, got {name!r}"))
        return path

    def _resolved(self, name: str) -> Path | None:
        """Returns the path `name`, links resolved; None if it is none below the root."""
        try:
            path = (self.root / name).resolve()
        except (OSError, ValueError, RuntimeError):  # a loop of links, or a NUL
            return None
        return path if path.is_relative_to(self.root) else None

    def _check_begun(self, out: Path) -> None:
        """Raises a `ToolError` if the tune in `out` has ended without a folder, or is still loading its graph."""
        process, log = self._begun.get(out, (None, None))
        if process is None or log is None or (out / "request.json").exists():
            return
        if process.poll() is not None:
            log.seek(0)
            raise _tool_error(log.read().decode(errors="replace"))
        raise _tool_error(UsageError(f"the tune in {out} has not begun yet; ask for its status in some seconds"))


def _model(name: str) -> str:
    if ":" in name:
        raise _tool_error(UsageError(f"model must be a built-in one here, got {name!r}; a3gnn tune takes your own"))
    return name


def _options(**given: Any) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in given.items() if value is not None]


def _command(*words: str) -> list[str]:
    """Returns a command of this a3gnn with --json; it imports no module of the folder that it runs in (-P)."""
    return [sys.executable, "-P", "-m", "a3gnn", *words, "--json"]


def _run(*words: str) -> dict[str, Any]:
    """Returns the answer of a command; it runs in /, so that it imports no model of the user."""
    done = subprocess.run(
        _command(*words), cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise _tool_error(done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _tool_error(found: A3GNNError | str) -> Exception:
    """Returns the error of a tool, whose text is a problem as JSON: of an error, or the end of a command's output."""
    said = json.dumps(problem(found.code, str(found))) if isinstance(found, A3GNNError) else found
    text = said.strip().rpartition("\n")[2]
    error: Exception = optional("mcp.server.mcpserver.exceptions", "mcp", "a3gnn mcp").ToolError(text)
    return error
