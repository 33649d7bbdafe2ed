"""`a3gnn accelerator`: generate an accelerator's sources, and check them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from a3gnn.cli.help import Command
from a3gnn.cli.options import SIZE
from a3gnn.cli.output import JSON, QUIET, progress, show, show_json
from a3gnn.errors import ExitCode
from a3gnn.units import count

if TYPE_CHECKING:
    from a3gnn.hitgnn.hls.check import Check
    from a3gnn.hitgnn.hls.generate import Design


@click.group()
def accelerator() -> None:
    """Generate accelerators of graph layers for FPGAs, as HLS C++ and OpenCL C."""


@accelerator.command(cls=Command)
@click.option("--units", type=int, required=True, metavar="N", help="Number of scatter-gather units, a power of two.")
@click.option("--multipliers", type=int, required=True, metavar="M", help="Number of multipliers, a power of two.")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Folder for the sources.")
@click.option("--result-bytes", type=SIZE, default="4MiB", show_default=True, help="On-chip memory for partial sums.")
@click.option("--check", "checked", is_flag=True, help="Compile the C simulation and compare it with torch.")
@click.option("--check-opencl", is_flag=True, help="Do the same as --check, and run the OpenCL host program.")
@QUIET
@JSON
def generate(
    units: int,
    multipliers: int,
    out: Path,
    result_bytes: int,
    checked: bool,
    check_opencl: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write the sources of an accelerator to DIR.

    The accelerator has N scatter-gather units and M multipliers (HitGNN, section V-C). Writes streaming HLS C++, a C
    simulation that counts cycles, and a host program with OpenCL C kernels, for GraphSAGE and GCN. The sources have not
    been synthesized or run on an FPGA. Exits with 1 if a check fails.
    """
    from a3gnn.hitgnn.hls.generate import Design, check_folder
    from a3gnn.hitgnn.hls.generate import generate as write
    from a3gnn.storage.claim import claimed

    design = Design(units, multipliers, result_bytes)
    check_folder(out)
    found: list[Check] = []
    with claimed(out, progress(quiet)):
        files = write(design, out)
        if checked or check_opencl:
            from a3gnn.hitgnn.hls.check import ACCELERATED, check

            for model in ACCELERATED:
                progress(quiet)(f"running a mini-batch of {model} in the C simulation, which is compiled if need be")
                found.append(check(design, model, out, opencl=check_opencl))
    if as_json:
        said = {"folder": str(out), "files": [str(file.relative_to(out)) for file in files]}
        show_json(said | {"checks": [one.to_dict() for one in found]})
    else:
        lines = [_summary(design, out, len(files)), *(line for one in found for line in _lines(one))]
        for line in lines:
            show(line)
    if not all(one.passed for one in found):
        raise SystemExit(ExitCode.FAILED)


def _summary(design: Design, out: Path, files: int) -> str:
    array = f"{count(design.multipliers, 'multiplier')} ({design.rows} x {design.columns})"
    return f"{out}: {count(files, 'file')}, {count(design.units, 'scatter-gather unit')}, {array}"


def _lines(found: Check) -> Iterator[str]:
    """Yields the results of a check."""
    from a3gnn.hitgnn.hls.generate import FIFO_DEPTH

    outcome = "equals" if found.passed else "DIFFERS from"
    yield ""
    of = f"{count(found.nodes, 'node')} and {count(found.edges, 'edge')}"
    yield f"{found.model}: the C simulation of {of} {outcome} torch"
    yield f"  largest relative error  {found.forward:.1e} forward, {found.backward:.1e} backward"
    yield f"  rows read               {found.rows_read:,} for {found.distinct_sources:,} distinct sources"
    waits = f", whose depth is {FIFO_DEPTH}: an accelerator would wait" if found.network_depth > FIFO_DEPTH else ""
    yield f"  routing network         at most {count(found.network_depth, 'value')} in a FIFO{waits}"
    if found.device is not None:
        yield f"  OpenCL                  largest relative error {found.opencl:.1e}, on {found.device}"
    yield f"  {'layer':<7}{'pass':<10}{'kernel':<11}{'cycles':>9}{'modeled':>11}{'computing':>11}{'reading':>10}"
    for one in found.cycles:
        yield (
            f"  {one.layer:<7}{one.direction:<10}{one.kernel:<11}{one.counted:>9,}{one.modeled:>11,.0f}"
            f"{one.computing:>11,.0f}{one.reading:>10,}"
        )
