"""Who may import whom, read from the sources; and what `a3gnn --help` loads."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.loaded import run_and_loaded

ROOT = Path(__file__).parents[1]
SOURCES = {
    "a3gnn": ROOT / "a3gnn",
    "a3gnn_surrogate": ROOT / "surrogate" / "a3gnn_surrogate",
    "a3gnn_envs": ROOT / "envs" / "a3gnn_envs",
}
#: Modules of the top folder: the types and words that every room shares, over the standard library and numpy alone.
VOCABULARY = {
    "__init__",
    "_fields",
    "_imports",
    "addresses",
    "breach",
    "characteristics",
    "checks",
    "config",
    "domains",
    "errors",
    "figures",
    "hardware",
    "launch",
    "knobs",
    "layer_cost",
    "learning_curve",
    "limits",
    "measurement",
    "metric",
    "notify",
    "nvtps",
    "objectives",
    "option_names",
    "outcome",
    "own_model",
    "pareto",
    "prediction",
    "printable",
    "quick",
    "search_values",
    "seeding",
    "setting",
    "space",
    "spread",
    "stored_fields",
    "task",
    "tied_knobs",
    "tuned_file",
    "units",
    "version",
    "where",
}
#: Each room, and the rooms that it may import beside the vocabulary and itself.
BELOW = {"storage", "threads"}
ENGINE = BELOW | {"graphs", "sampling", "features", "parts", "runtime", "training"}
ALLOWED = {
    "storage": set(),
    "threads": {"storage"},
    "process": BELOW,
    "graphs": BELOW,
    "sampling": BELOW | {"graphs"},
    "features": BELOW | {"graphs", "sampling"},
    "machine": BELOW | {"process", "features"},
    "parts": BELOW | {"graphs", "sampling", "features"},
    "runtime": BELOW | {"graphs", "sampling", "features", "parts"},
    "training": (ENGINE | {"process", "machine"}) - {"training"},
    "profiling": ENGINE | {"process", "machine"},
    "algorithms": ENGINE | {"platforms"},
    "search": {"a3gnn_envs"},
    "a3gnn_surrogate": set(),
    "a3gnn_envs": set(),
    "platforms": {"search", "a3gnn_surrogate"},
    "report": set(),
    "hls": {"storage", "graphs", "sampling", "runtime", "training"},
    "tuning": BELOW
    | {"process", "graphs", "machine", "training", "profiling", "search", "report", "a3gnn_surrogate", "a3gnn_envs"},
    "page": {"storage", "training", "report", "tuning", "a3gnn_surrogate"},
    "service": BELOW | {"process", "graphs", "training", "profiling", "report", "tuning", "page"},
    "cli": BELOW
    | {"graphs", "machine", "training", "profiling", "search", "report", "tuning", "runtime", "page", "service"}
    | {"parts", "platforms", "hls", "algorithms"},
}


@cache
def imports(path: Path) -> frozenset[str]:
    """Every module that `path` imports, wherever in the file, as dotted names."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names.add(node.module)
    return frozenset(names)


def room(module: str) -> str | None:
    """The room of an imported module of ours; None for the vocabulary and for others' modules."""
    top, *rest = module.split(".")
    if top != "a3gnn":
        return top if top in SOURCES else None
    return None if not rest or rest[0] in VOCABULARY else rest[0]


def files() -> list[tuple[str, Path]]:
    found = []
    for top, folder in SOURCES.items():
        for path in sorted(folder.rglob("*.py")):
            inner = path.relative_to(folder).parts
            found.append((inner[0] if top == "a3gnn" and len(inner) > 1 else top, path))
    return found


@pytest.mark.parametrize(("home", "path"), files(), ids=lambda value: value.name if isinstance(value, Path) else value)
def test_no_import_runs_up(home: str, path: Path) -> None:
    if home == "a3gnn":
        assert path.stem in VOCABULARY | {"__main__"}, f"{path} is no vocabulary: give it a room, or list it"
        if path.stem not in {"__init__", "__main__"}:
            tops = {name.split(".")[0] for name in imports(path)}
            assert tops <= set(sys.stdlib_module_names) | {"numpy", "a3gnn"}
            assert {room(name) for name in imports(path)} <= {None}
        return
    rooms = {room(name) for name in imports(path)} - {None, home}
    assert rooms <= ALLOWED[home], f"{path} imports {rooms - ALLOWED[home]}"


#: Parts of a room that must not know of each other, whatever the room may import.
APART = {
    "a3gnn/hybrid/simulation": (
        "a3gnn.hybrid.model",
        "a3gnn.hybrid.control",
        "a3gnn.layer_cost",
        "a3gnn.hardware",
    ),
    "a3gnn/hybrid/model": ("a3gnn.hybrid.simulation", "a3gnn.hybrid.control"),
    "a3gnn/hybrid/control": ("a3gnn.hybrid.simulation", "a3gnn.hybrid.model"),
}


@pytest.mark.parametrize("folder", APART)
def test_what_is_simulated_what_is_predicted_and_what_is_controlled_know_nothing_of_each_other(folder: str) -> None:
    """A model that is tested on a simulation which shares its equations would err by nothing, and prove nothing."""
    paths = sorted((ROOT / folder).glob("*.py"))
    assert len(paths) > 2
    reached = set().union(*(_imported_by(path) for path in paths))
    for banned in APART[folder]:
        assert not {name for name in reached if name == banned or name.startswith(f"{banned}.")}


def _imported_by(path: Path) -> set[str]:
    """Every module of ours that `path` imports, itself or through what it imports."""
    found, open_paths = set(), [path]
    while open_paths:
        for name in imports(open_paths.pop()) - found:
            file = ROOT / Path(*name.split(".")).with_suffix(".py")
            if name.startswith("a3gnn."):
                found.add(name)
                if file.exists():
                    open_paths.append(file)
    return found


def test_help_imports_nothing_heavy() -> None:
    out, found = run_and_loaded("--help")
    loaded = found - set(sys.stdlib_module_names)
    ours_and_light = {"a3gnn", "click", "numpy", "__main__", "typing_extensions", "colorama", "sitecustomize"}
    heavy = {name for name in loaded if not name.startswith(("_", "a3gnn")) and name not in ours_and_light}
    assert not heavy
    assert "tune" in out


def test_measuring_needs_no_search_libraries() -> None:
    code = (
        "import sys\n"
        "for name in ('xgboost', 'stable_baselines3', 'optuna', 'gymnasium'):\n    sys.modules[name] = None\n"
        "import a3gnn.apply.train, a3gnn.profiling.profiler, a3gnn.cli.profile, a3gnn.cli.train\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
