"""`a3gnn doctor`: reports this machine's hardware and packages, and missing ones."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any

import click

from a3gnn._imports import install_line, other_system
from a3gnn.cli.completion import DATASET
from a3gnn.cli.help import Command
from a3gnn.cli.output import JSON, QUIET, progress, show, show_json
from a3gnn.errors import A3GNNError, UsageError, problem
from a3gnn.machine.host import cache_sizes, cpu_name, instruction_sets
from a3gnn.storage.host_limits import host_memory_bytes
from a3gnn.threads.affinity import available_cores
from a3gnn.units import count, format_size
from a3gnn.version import __version__

if TYPE_CHECKING:
    from a3gnn.graphs.graph import Graph

#: Import name, distribution, purpose, and the extra that installs it; "" for packages that a3gnn always needs.
_PACKAGES = (
    ("numpy", "numpy", "arrays", ""),
    ("numba", "numba", "sampling kernels", ""),
    ("scipy", "scipy", "graph characteristics", ""),
    ("torch", "torch", "training", ""),
    ("torch_geometric", "torch_geometric", "models and data sets", ""),
    ("pymetis", "pymetis", "partitions", ""),
    ("psutil", "psutil", "the memory of processes", ""),
    ("rich", "rich", "progress and tables", ""),
    ("sqlalchemy", "sqlalchemy", "the profile store", ""),
    ("xgboost", "xgboost-cpu", "the surrogate", ""),
    ("sklearn", "scikit-learn", "the surrogate", ""),
    ("gymnasium", "gymnasium", "the search's environments", ""),
    ("stable_baselines3", "stable-baselines3", "the engine ppo", ""),
    ("optuna", "optuna", "the engines nsga2 and tpe", ""),
    ("matplotlib", "matplotlib", "front.png and the notebooks", "plot"),
    ("pandas", "pandas", "fronts as DataFrames", "dataframe"),
    ("lightning", "lightning", "Lightning's Trainer", "lightning"),
    ("ogb", "ogb", "ogb: data sets", "ogb"),
    ("fastapi", "fastapi", "a3gnn serve", "serve"),
    ("starlette", "starlette", "a3gnn serve", "serve"),
    ("uvicorn", "uvicorn", "a3gnn serve", "serve"),
    ("alembic", "alembic", "a3gnn serve", "serve"),
    ("jinja2", "jinja2", "a3gnn serve", "serve"),
    ("grpc", "grpcio", "graphs by parts", "parts"),
    ("ray", "ray", "trials on a Ray cluster", "ray"),
    ("pynvml", "nvidia-ml-py", "the energy of GPUs", "energy"),
    ("mcp", "mcp", "a3gnn mcp", "mcp"),
    ("psycopg", "psycopg", "stores in PostgreSQL", "postgres"),
    ("nbconvert", "nbconvert", "running the notebooks", "notebook"),
    ("nbclient", "nbclient", "running the notebooks", "notebook"),
    ("ipykernel", "ipykernel", "running the notebooks", "notebook"),
    ("material", "mkdocs-material", "building the docs site", "docs"),
    ("mkdocstrings", "mkdocstrings", "building the docs site", "docs"),
)

_CACHES = ("L1d", "L2", "L3")
#: Width of a label.
_LABEL = 14


@click.command(cls=Command)
@click.option("--probe", is_flag=True, help="Measure the speed of this machine again (some seconds), and show it.")
@click.option(
    "--dataset", type=DATASET, help="Check whether this graph can be read, and predict which memory limits it can keep."
)
@QUIET
@JSON
def doctor(probe: bool, dataset: str | None, quiet: bool, as_json: bool) -> None:
    """Show this machine's hardware and packages, and how to install missing packages.

    With --dataset, predicts the memory of the baseline, of the fastest and of the smallest configuration, without a
    trial. Exits with 1 if a required package is missing, if the system is not Linux, or if the graph can't be read.
    """
    found = _examine()
    found["probe"] = _probe(quiet) if probe and not found["unsupported"] else None
    found["graph"] = None if dataset is None or found["unsupported"] else preflight(dataset, progress(quiet))
    if as_json:
        show_json(found)
    else:
        _print(found)
    unread = found["graph"] is not None and not found["graph"]["readable"]
    if unread or found["unsupported"] or any(p["version"] is None and p["required"] for p in found["packages"]):
        raise SystemExit(1)


def _examine() -> dict[str, Any]:
    return {
        "a3gnn": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "unsupported": other_system(),
        "cpu": cpu_name(),
        "cores": available_cores(),
        "instruction_sets": instruction_sets(),
        "cache_bytes": cache_sizes(),
        "host_memory_bytes": host_memory_bytes(),
        "devices": _devices(),
        "packages": [
            {
                "name": name,
                "version": _version(module, name),
                "purpose": purpose,
                "required": not extra,
                "install": install_line(extra) if extra else f"pip install {name}",
            }
            for module, name, purpose, extra in _PACKAGES
        ],
    }


def _probe(quiet: bool) -> dict[str, Any]:
    """Probes the machine anew, replaces the stored probe, and returns the result."""
    from a3gnn.machine.probe import kept_at, probe_hardware

    hardware = probe_hardware(refresh=True, notify=progress(quiet))
    return {
        "fingerprint": hardware.fingerprint,
        "kept_at": str(kept_at(hardware)),
        "limits": hardware.profile.to_dict(),
    }


def preflight(dataset: str, notify: Callable[[str], None]) -> dict[str, Any]:
    """Returns whether a graph can be read, its characteristics, and predicted memory limits that it can keep.

    `recommend` makes the predictions, with the default task. `problem` says why there are none.
    """
    from a3gnn.cli.graph import described

    found: dict[str, Any] = {"dataset": dataset, "readable": False, "about": None, "memory": "host", "fits": []}
    try:
        about, graph = described(dataset, None, 0)
        found |= {"readable": True, "about": about}
        if graph is None:
            raise UsageError(
                f"predictions need a node type or a relation to predict, got {dataset}; name it, as in "
                f"target:TYPE:{dataset}"
            )
        found |= _fits(graph, notify)
    except A3GNNError as error:
        return found | {"problem": problem(error.code, str(error))}
    return found | {"problem": None}


def _fits(graph: Graph, notify: Callable[[str], None]) -> dict[str, Any]:
    """Returns the limited memory, and the baseline, the fastest and the smallest configuration with their peaks."""
    from a3gnn.tuning.recommend import recommend

    fastest, smallest = (recommend(graph, priority=priority, notify=notify) for priority in ("time", "memory"))
    named = {"baseline": fastest.default, "fastest": fastest.best, "smallest": smallest.best}
    on_device = fastest.default.peak_device_bytes is not None
    rows = []
    for name, one in named.items():
        peak = one.peak_device_bytes or one.peak_host_bytes
        row = {"name": name, "config": one.config.to_dict(), "peak": peak.to_dict(), "limit_bytes": ceil(peak.high)}
        rows.append(row)
    return {"memory": "device" if on_device else "host", "fits": rows}


def _version(module: str, distribution: str) -> str | None:
    """Returns the version, or None if the module is missing; xgboost has two distributions."""
    if importlib.util.find_spec(module) is None:
        return None
    for name in (distribution, module):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "unknown"


def _devices() -> list[dict[str, Any]]:
    if importlib.util.find_spec("torch") is None:
        return []
    import torch

    if not torch.cuda.is_available():
        return []
    devices = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return [{"name": device.name, "memory_bytes": device.total_memory} for device in devices]


def _print(found: dict[str, Any]) -> None:
    from a3gnn.report.text import wrapped

    caches = (f"{name} {format_size(size)}" for name, size in zip(_CACHES, found["cache_bytes"], strict=False) if size)
    gpus = [f"{device['name']}, {format_size(device['memory_bytes'])} memory" for device in found["devices"]]
    packages = ", ".join(f"{p['name']} {p['version']}" for p in found["packages"] if p["version"])
    show(f"a3gnn {found['a3gnn']}, Python {found['python']}, {found['system']}")
    rows = (
        ("CPU", f"{found['cpu']}, {count(found['cores'], 'core')}, {format_size(found['host_memory_bytes'])} memory"),
        ("Caches", ", ".join(caches) or "unknown"),
        ("Instructions", " ".join(found["instruction_sets"]) or "unknown"),
        ("GPU", "; ".join(gpus) or "none: a3gnn trains on the CPU, and --memory-limit limits host memory"),
        ("Packages", packages),
    )
    for label, text in rows:
        show("\n".join(wrapped(text, f"{label:<{_LABEL}}", " " * _LABEL)))
    missing = [p for p in found["packages"] if p["version"] is None]
    for required, heading in ((True, "Missing"), (False, "Not installed (optional)")):
        lines = dict.fromkeys(p["install"] for p in missing if p["required"] == required)
        if lines:
            show(f"\n{heading}:")
        for line in lines:
            alike = [p for p in missing if p["install"] == line]
            show(f"  {', '.join(p['name'] for p in alike)}, for {alike[0]['purpose']}:")
            click.echo(f"      {line}")
    if found["unsupported"]:
        show(f"\n{found['unsupported']}")
    elif not missing:
        show("\nAll packages are installed.")
    if found["probe"] is not None:
        _print_probe(found["probe"])
    if found["graph"] is not None:
        _print_preflight(found["graph"])


def _print_preflight(found: dict[str, Any]) -> None:
    show(f"\n{found['dataset']}: {'can be read' if found['readable'] else 'can not be read'}")
    for one in found["fits"]:
        limit = format_size(one["limit_bytes"])
        show(f"  {one['name']:<9} keeps --memory-limit {limit}, predicted peak {format_size(one['peak']['mean'])}")
    if found["problem"] is not None:
        show("  " + "; ".join(filter(None, (found["problem"]["message"], found["problem"]["remedy"]))))


def _print_probe(probe: dict[str, Any]) -> None:
    show(f"\nProbe of machine {probe['fingerprint']}, measured now and stored in\n    {probe['kept_at']}")
    for name, value in probe["limits"].items():
        show(f"  {name:<27} {_shown(name, value)}")


def _shown(name: str, value: float) -> str:
    """Formats a constant of the probe; the end of its name determines the unit."""
    if not value:
        return "none: no GPU"
    if name.endswith("bytes"):
        return format_size(value)
    if name.endswith("bytes_per_s"):
        return f"{format_size(value)}/s"
    if name.endswith("_per_s"):
        return f"{value:.3g} /s"
    return f"{value * 1e3:.3g} ms" if name.endswith("_s") else f"{value:.3g}"
