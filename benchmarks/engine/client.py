"""The driver's side of the protocol with one worker process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.engine.memory import Resident, resident, settle
from benchmarks.engine.workers.work import Unavailable

ROOT = Path(__file__).resolve().parents[2]
_LOG_TAIL = 1500


class Engine:
    """A worker process that executes requests; a context manager that ends it.

    Args:
        name: a3gnn, dgl or pyg: the module under `workers` that runs.
        python: Interpreter of the environment that the engine is installed in.

    Raises:
        Unavailable: The interpreter is not there, or the worker does not start.
    """

    def __init__(self, name: str, python: Path) -> None:
        self.name = name
        if not python.exists():
            raise Unavailable("not installed")
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [str(python), "-W", "ignore", "-m", f"benchmarks.engine.workers.{name}"],
            cwd=ROOT,
            # An engine's idle threads must not spin while another engine is measured.
            env=os.environ | {"OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        try:
            self.versions: dict[str, str] = self.ask("hello")["versions"]
        except Unavailable:
            self.close()
            raise

    def ask(self, do: str, **arguments: Any) -> Any:
        """Returns the worker's answer.

        Raises:
            Unavailable: It can't do that, failed at it, or is gone; the message is the reason.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise Unavailable(f"{self.name}'s worker ended: {self._said()}")
        answer = json.loads(line)
        if "ok" in answer:
            return answer["ok"]
        raise Unavailable(answer.get("unavailable") or answer["failed"].strip()[-_LOG_TAIL:])

    @property
    def alive(self) -> bool:
        """Whether the worker runs."""
        return self._process.poll() is None

    def settle(self) -> bool:
        """Waits until nothing computes in the worker and its children."""
        return settle(self._process.pid)

    def resident(self) -> Resident:
        """Returns the memory of the worker and its children."""
        return resident(self._process.pid)

    def close(self) -> None:
        """Ends the worker, its children and its log."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _said(self) -> str:
        self._process.wait()
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {self._process.returncode}"
