"""`a3gnn doctor`: what this machine has, and what is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
from typing import Any

import click

from a3gnn import __version__
from a3gnn.hardware import available_cores, cpu_name, host_memory_bytes
from a3gnn.units import format_size

#: Import name, distribution, what it is for, and how to install it.
_PACKAGES = (
    ("numpy", "numpy", "arrays", "a3gnn"),
    ("numba", "numba", "sampling kernels", "a3gnn"),
    ("scipy", "scipy", "graph characteristics", "a3gnn"),
    ("torch", "torch", "training", "a3gnn"),
    ("torch_geometric", "torch_geometric", "models and data sets", "a3gnn"),
    ("pymetis", "pymetis", "partitions", "a3gnn"),
    ("sqlalchemy", "sqlalchemy", "the profile store", "a3gnn"),
    ("xgboost", "xgboost-cpu", "the surrogate", "a3gnn"),
    ("sklearn", "scikit-learn", "the surrogate", "a3gnn"),
    ("gymnasium", "gymnasium", "the search's environments", "a3gnn"),
    ("stable_baselines3", "stable-baselines3", "the search's policy", "a3gnn"),
    ("optuna", "optuna", "the engines nsga2 and tpe", "a3gnn"),
    ("matplotlib", "matplotlib", "front.png and the notebook", "a3gnn[plot]"),
    ("ogb", "ogb", "ogb: data sets", "a3gnn[ogb]"),
)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def doctor(as_json: bool) -> None:
    """Say what this machine has, and the line that installs what is missing.

    Exits with 1 when a package is missing without which a3gnn can't work; optional ones are only named.
    """
    found = _examine()
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        _print(found)
    if any(p["version"] is None and p["required"] for p in found["packages"]):
        raise SystemExit(1)


def _examine() -> dict[str, Any]:
    return {
        "a3gnn": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": cpu_name(),
        "cores": available_cores(),
        "host_memory_bytes": host_memory_bytes(),
        "devices": _devices(),
        "packages": [
            {
                "name": name,
                "version": _version(module, name),
                "purpose": purpose,
                "required": target == "a3gnn",
                "install": f'pip install "{target}"' if "[" in target else f"pip install {name}",
            }
            for module, name, purpose, target in _PACKAGES
        ],
    }


def _version(module: str, distribution: str) -> str | None:
    """Returns the version, or None where the module is missing; xgboost has two distributions."""
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
    click.echo(f"a3gnn {found['a3gnn']}, Python {found['python']}, {found['system']}")
    click.echo(f"{found['cpu']}, {found['cores']} cores, {format_size(found['host_memory_bytes'])} memory")
    for device in found["devices"]:
        click.echo(f"{device['name']}, {format_size(device['memory_bytes'])} memory")
    if not found["devices"]:
        click.echo("no CUDA device: sampling and training run on the CPU, and --memory-limit bounds host memory")
    missing = [p for p in found["packages"] if p["version"] is None]
    click.echo("\npackages: " + ", ".join(f"{p['name']} {p['version']}" for p in found["packages"] if p["version"]))
    for package in missing:
        kind = "missing" if package["required"] else "not installed (optional)"
        click.echo(f"{kind}: {package['name']}, for {package['purpose']}: {package['install']}")
    if not missing:
        click.echo("nothing is missing")
