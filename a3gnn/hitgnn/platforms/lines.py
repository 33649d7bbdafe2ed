"""Formats an exploration as text of at most 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from a3gnn.hitgnn.platforms.designs import DieGrid
from a3gnn.hitgnn.platforms.explore import Exploration
from a3gnn.hitgnn.platforms.metadata import Fpga
from a3gnn.pareto import spread
from a3gnn.units import count

#: Most designs of a grid that are shown; of a larger one, only the front is.
_SHOWN = 200
#: Most rows of a front that are shown; of a larger one, those that are farthest apart, and the chosen one.
_ROWS = 24
#: Longest name of a graph in a table.
_NAME = 15


def exploration_lines(found: Exploration) -> Iterator[str]:
    """Yields the platform, the choice, its grid and front, the workloads, and the influence of beta and of devices."""
    yield from _platform(found)
    yield ""
    yield from _choice(found)
    shown: list[list[str]] = []
    for grid in found.grids:
        lines = ["", *_grid(grid, len(found.grids) > 1), "", *_front(grid)]
        if lines not in shown:  # dies may differ by only a few LUTs
            yield from lines
            shown.append(lines)
    yield ""
    yield from _workloads(found)
    yield ""
    yield from _betas(found)
    yield ""
    yield from _scaling(found)


def _platform(found: Exploration) -> Iterator[str]:
    platform, given = found.platform, found.given
    device = platform.device
    yield f"{platform.num_devices} x {device.name} at {platform.host.name}"
    yield f"platform     {platform.source}"
    yield f"device       {device.source}"
    if isinstance(device, Fpga):
        yield f"resources    {device.kernels.source}; at most {found.ceiling:.0%} of each"
    else:
        yield "rates        peak arithmetic and bandwidth: an upper bound for training"
    link, own = platform.device_link_bytes_per_s, device.memory_bytes_per_s
    everything = _gb(platform.memory_bytes_per_s)
    yield f"bandwidth    link {_gb(link)}, device memory {_gb(own)}, all memory {everything}"
    way = "directly from the host" if given.direct else "through another device"
    yield f"input rows   {given.beta:.0%} in the device's memory (beta), the rest {way}"
    parts = (("sampling", given.sampling_seconds), ("the loss", given.loss_seconds))
    left_out = [name for name, seconds in parts if not seconds]
    if left_out:
        yield f"not counted  {' and '.join(left_out)}"


def _choice(found: Exploration) -> Iterator[str]:
    if found.design is not None:
        n, m = found.design
        yield f"chosen  n = {count(n, 'scatter-gather unit')} and m = {count(m, 'multiplier')} per FPGA"
        for grid in found.grids:
            dies = f"{'each of ' if grid.count > 1 else ''}{count(grid.count, 'die')}"
            yield f"        {_taken(grid, grid.chosen)} on {dies}"
            if grid.frugal != grid.chosen:
                yield f"        within 1%: {_taken(grid, grid.frugal)}"
    per_gb, reaches = found.nvtps_per_gb_per_s, "reaches" if found.design is None else "       "
    yield f"{reaches} {found.nvtps / 1e6:.1f} M vertices traversed per second (NVTPS), {per_gb / 1e3:.0f} K per GB/s"


def _grid(grid: DieGrid, several: bool) -> Iterator[str]:
    if len(grid.units) > _SHOWN:
        yield f"{count(len(grid.units), 'design')} of a die; --json has them all"
        return
    scale = 1 if several else grid.count
    of = f"die with {grid.die.dsps:,} DSPs" if several else "FPGA"
    yield f"M NVTPS by n and m per {of}: [chosen], * on the front, - no room"
    units = sorted(set(grid.units.tolist()))
    yield f"{'m':>7}" + "".join(f"{f'n={scale * n}':>11}" for n in units)
    at = {(n, m): i for i, (n, m) in enumerate(zip(grid.units.tolist(), grid.multipliers.tolist(), strict=True))}
    for m in sorted(set(grid.multipliers.tolist())):
        yield (f"{scale * m:>7,}" + "".join(f"{_cell(grid, at[n, m]):>11}" for n in units)).rstrip()


def _cell(grid: DieGrid, at: int) -> str:
    if not grid.fits[at]:
        return "- "
    text = f"{grid.nvtps[at] / 1e6:.2f}"
    return f"[{text}]" if at == grid.chosen else f"{text}{'*' if grid.front[at] else ' '}"


def _front(grid: DieGrid) -> Iterator[str]:
    everything = grid.front.nonzero()[0]
    some = everything[spread(grid.costs[everything], _ROWS)]
    shown = set(some.tolist()) | {grid.chosen}
    of = "" if len(some) == len(everything) else f", {len(shown)} of {len(everything):,} designs"
    yield f"front of throughput and resources, per die{of}"
    yield f"{'n':>7}{'m':>7}{'M NVTPS':>11}{'DSPs':>9}{'LUTs':>15}"
    order = sorted(shown, key=lambda i: -float(grid.nvtps[i]))
    for i in order:
        traversed = grid.nvtps[i] / 1e6
        dsps = grid.dsps[i]
        yield f"{grid.units[i]:>7}{grid.multipliers[i]:>7,}{traversed:>11.2f}{dsps:>9.1%}{_luts(grid, i):>15}"


def _workloads(found: Exploration) -> Iterator[str]:
    yield "ms per mini-batch, forward and backward; stages overlap in an iteration"
    long = [one.workload.name for one in found.estimates if len(one.workload.name) > _NAME]
    yield from (f"graph: {name}" for name in long)
    yield from table(
        ("", "vertices", "loading", "adding", "update", "iteration", "epoch s", "M NVTPS"),
        [
            (
                "graph" if one.workload.name in long else one.workload.name,
                f"{one.workload.num_vertices:,.0f}",
                *(
                    _digits(1e3 * part)
                    for part in (one.load_seconds, one.aggregate_seconds, one.update_seconds, one.iteration_seconds)
                ),
                _digits(one.epoch_seconds),
                f"{one.nvtps / 1e6:.1f}",
            )
            for one in found.estimates
        ],
    )


def _betas(found: Exploration) -> Iterator[str]:
    yield "M NVTPS by beta, the share of rows in the device's memory; indirect: other rows"
    designs = "; designs: chosen for this beta, kept, or 2n and m/2" if found.grids else ""
    yield f"come through another device{designs}"
    rows = []
    for one in found.betas:
        design = () if one.design is None else (f"({one.design[0]}, {one.design[1]})", _millions(one.nvtps))
        traded = () if one.design is None else (_millions(one.traded_nvtps),)
        gain = f"{one.kept_nvtps / one.indirect_nvtps - 1:+.0%}"
        rows.append((f"{one.beta:g}", *design, _millions(one.kept_nvtps), *traded, _millions(one.indirect_nvtps), gain))
    chosen = ("(n, m)", "chosen", "kept", "2n, m/2") if found.grids else ("direct",)
    yield from table(("beta", *chosen, "indirect", "direct gains"), rows)


def _scaling(found: Exploration) -> Iterator[str]:
    yield f"speed-up over one device at beta {found.given.beta:g}; links alone counts only transfers, so"
    yield "the speed-up can be larger if computing takes time"
    yield from table(
        ("devices", "direct", "indirect", "links alone"),
        [
            (f"{one.devices}", f"{one.speed_up:.2f}", f"{one.indirect_speed_up:.2f}", f"{one.transfer_bound:.2f}")
            for one in found.scaling
        ],
    )


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields aligned columns, indented: the first one to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for first, *rest in (headings, *rows):
        cells = (f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True))
        yield "  ".join([f"  {first:<{widths[0]}}", *cells]).rstrip()


def _taken(grid: DieGrid, at: int) -> str:
    design = f"({grid.units[at]}, {grid.multipliers[at]:,})"
    return f"{design} takes {grid.dsps[at]:.1%} of DSPs, {_luts(grid, at)} of LUTs"


def _luts(grid: DieGrid, at: int) -> str:
    low, high = (f"{bound[at]:.0%}" for bound in grid.luts)
    return low if low == high else f"{low} to {high}"


def _digits(value: float) -> str:
    """Returns `value` with two decimals, or with three significant digits if it is less than 1."""
    return f"{value:.2f}" if value >= 1 else f"{value:.3g}"


def _millions(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e6:.2f}"


def _gb(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:,.0f} GB/s"
