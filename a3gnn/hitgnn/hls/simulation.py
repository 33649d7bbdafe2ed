"""Compiles and runs generated code: the C simulation with its counters, and the OpenCL host program."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from a3gnn.errors import A3GNNError, MissingDependencyError
from a3gnn.hitgnn.hls.case import Case, LayerResult
from a3gnn.hitgnn.hls.generate import Design

HlsProgram = Literal["simulate", "opencl_host"]


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A call of a kernel in the C simulation, with its counters.

    Attributes:
        layer: The layer, 0 for the input layer.
        direction: forward or backward.
        kernel: aggregate, update or activation_gradient.
        cycles: Cycles until the last process ended.
        sizes: Sizes of the call: edges, destinations and words (per row, of 512 bits) of an aggregate; rows, depth and
            columns of an update's product.
        iterations: Iterations of each process's pipelined loop; the largest if there are several such processes.
        ends: The cycle in which each process ended; the last if there are several such processes.
        counts: feature_words (read from memory) and adder_waits of an aggregate.
        marks: `summed`, the cycle in which an aggregate's last value was added.
        depths: The most values that a FIFO held at once: of an aggregate's `network`; of the `lefts` and `tops` that
            enter an update's array.
    """

    layer: int
    direction: str
    kernel: str
    cycles: int
    sizes: Mapping[str, int]
    iterations: Mapping[str, int]
    ends: Mapping[str, int]
    counts: Mapping[str, int]
    marks: Mapping[str, int]
    depths: Mapping[str, int]


def build(folder: Path, program: HlsProgram) -> Path:
    """Compiles `program` of the accelerator in `folder`, and returns its absolute path.

    Raises:
        MissingDependencyError: There is no make or no C++ compiler.
        A3GNNError: It does not compile.
    """
    compiler = os.environ.get("CXX", "").strip() or "g++"
    missing = [tool for tool in ("make", shlex.split(compiler)[0]) if shutil.which(tool) is None]
    if missing:
        raise MissingDependencyError(
            f"compiling {program} needs make and a C++ compiler, but {' and '.join(missing)} can't be found; install "
            "them (Debian: apt-get install make g++), or name a compiler by the variable CXX"
        )
    _run(["make", "-s", "-C", str(folder), f"CXX={compiler}", program], f"{folder} does not compile")
    return folder.resolve() / program


def simulate(folder: Path, case: Case) -> tuple[list[LayerResult], list[KernelCall]]:
    """Runs `case` in the C simulation of the accelerator in `folder`, compiled first if needed.

    Raises:
        MissingDependencyError: There is no make or no C++ compiler.
        A3GNNError: It does not compile or run.
    """
    results, counted = _results(build(folder, "simulate"), case, [])
    return results, [KernelCall(direction=call.pop("pass"), **call) for call in counted]


def run_opencl(folder: Path, case: Case) -> tuple[list[LayerResult], str]:
    """Runs `case` by the OpenCL host program of the accelerator in `folder`; returns the results and the device's name.

    Raises:
        MissingDependencyError: There is no make or no C++ compiler.
        A3GNNError: It does not compile (OpenCL's headers are missing) or run (there is no device).
    """
    program = build(folder, "opencl_host")
    results, said = _results(program, case, [str(program.parent / "opencl" / "kernels.cl")])
    return results, said["device"]


@dataclass(frozen=True, slots=True)
class CycleComparison:
    """Cycles of a kernel, summed over all slabs of a layer's rows.

    Attributes:
        layer: The layer, 0 for the input layer.
        direction: forward or backward.
        kernel: aggregate, or update, of which a backward pass has two.
        counted: Cycles until the last product was added, by the gather units or in the array of multipliers. If an
            update takes longer to write its blocks, one word per cycle, that number: the array would wait.
        computing: Cycles of the model: |A| f / (16 n) of an aggregate, |V| f_in f_out / m of an update. The width f of
            an aggregate includes the zeros that pad rows to 16 values.
        reading: Words of features that an aggregate read, one per cycle; 0 for an update.
        written: Cycles until the last word was written to memory, which the model leaves out.
    """

    layer: int
    direction: str
    kernel: str
    counted: int
    computing: float
    reading: int
    written: int

    @property
    def modeled(self) -> float:
        """The model's cycles: reading and computing run at once."""
        return max(self.computing, self.reading)


def compare_cycles(design: Design, calls: Iterable[KernelCall]) -> list[CycleComparison]:
    """Returns a comparison for each aggregate and each update among a simulation's `calls`, in order."""
    compared = []
    for _, same in groupby(calls, key=lambda call: (call.layer, call.direction, call.kernel)):
        group = list(same)
        if group[0].kernel == "aggregate":
            compared.append(_of_aggregate(design, group))
        elif group[0].kernel == "update":
            compared += [_of_update(design, call) for call in group]
    return compared


def _results(program: Path, case: Case, arguments: Sequence[str]) -> tuple[list[LayerResult], Any]:
    with tempfile.TemporaryDirectory() as scratch:
        given, made = Path(scratch) / "case", Path(scratch) / "results"
        case.write(given)
        said = _run([str(program), str(given), str(made), *arguments], f"{program} failed")
        return LayerResult.read(made, case), json.loads(said)


def _run(command: Sequence[str], failure: str) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise A3GNNError(f"{failure}: {(ended.stderr.strip() or f'exit code {ended.returncode}')[-2000:]}")
    return ended.stdout


def _of_aggregate(design: Design, slabs: list[KernelCall]) -> CycleComparison:
    first = slabs[0]
    return CycleComparison(
        first.layer,
        first.direction,
        first.kernel,
        sum(call.marks["summed"] for call in slabs),
        sum(call.sizes["edges"] * call.sizes["words"] for call in slabs) / design.units,
        sum(call.counts.get("feature_words", 0) for call in slabs),
        sum(call.cycles for call in slabs),
    )


def _of_update(design: Design, call: KernelCall) -> CycleComparison:
    sizes = call.sizes
    computing = sizes["rows"] * sizes["depth"] * sizes["columns"] / design.multipliers
    counted = max(call.ends["multiply_add"], call.iterations["write_block"])
    return CycleComparison(call.layer, call.direction, call.kernel, counted, computing, 0, call.cycles)
