"""Who may import whom, read from the sources, names of modules in strings included; and what `a3gnn --help` loads."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from itertools import chain
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
    "characteristics",
    "checks",
    "config",
    "errors",
    "figures",
    "hardware",
    "knobs",
    "launch",
    "layer_cost",
    "learning_curve",
    "limits",
    "measurement",
    "metric",
    "notify",
    "nvtps",
    "objectives",
    "option_names",
    "pareto",
    "prediction",
    "search",
    "search_values",
    "seeding",
    "setting",
    "space",
    "task",
    "tuned_file",
    "units",
    "version",
}
#: Each room, lowest first, and the rooms that it may import beside the vocabulary and itself.
SYSTEM = {"storage", "threads", "process"}
DATA = SYSTEM | {"sampling", "graphs", "features", "kernels", "parts"}
MODELS = DATA | {"pipeline", "models", "ranks", "evaluation"}
ALLOWED = {
    "storage": set(),
    "threads": {"storage"},
    "process": {"storage", "threads"},
    "graphs": {"storage"},
    "sampling": {"storage", "graphs"},
    "features": {"storage", "threads", "graphs", "sampling"},
    "kernels": {"storage", "features"},
    "machine": SYSTEM | {"features"},
    "parts": {"storage", "threads", "graphs", "sampling", "features"},
    "pipeline": {"storage", "threads", "graphs", "sampling", "features", "parts"},
    "models": DATA | {"pipeline"},
    "acceleration": DATA | {"pipeline", "models"},
    "ranks": DATA | {"pipeline", "models"},
    "evaluation": DATA | {"models", "ranks"},
    "loader": MODELS - {"ranks"},
    "training": MODELS | {"acceleration", "machine", "loader"},
    "hybrid": {"threads", "graphs", "sampling", "parts", "pipeline", "ranks", "machine", "training"},
    "apply": MODELS | {"machine", "loader", "training", "hybrid"},
    "a3gnn_envs": set(),
    "a3gnn_surrogate": set(),
    "profiling": MODELS | {"machine", "training", "hybrid", "a3gnn_surrogate"},
    "hitgnn": {"storage", "graphs", "sampling", "features", "pipeline", "models", "ranks", "training"}
    | {"a3gnn_surrogate"},
    "report": set(),
    "tuning": {"storage", "threads", "process", "graphs", "machine", "models", "evaluation", "training", "profiling"}
    | {"apply", "report", "a3gnn_surrogate", "a3gnn_envs"},
    "page": {"storage", "training", "report", "tuning", "a3gnn_surrogate"},
    "service": {
        "storage",
        "threads",
        "process",
        "graphs",
        "training",
        "profiling",
        "apply",
        "report",
        "tuning",
        "page",
    },
    "cli": {
        "storage",
        "threads",
        "graphs",
        "machine",
        "parts",
        "training",
        "evaluation",
        "profiling",
        "apply",
        "hybrid",
    }
    | {"hitgnn", "report", "tuning", "page", "service", "a3gnn_surrogate"},
}
#: Rooms above that a file names in strings alone: what whoever starts its processes runs or warms up there.
NAMED = {"fork_server.py": {"sampling", "features", "kernels", "models", "machine", "profiling"}}
#: Floors of tuning, lowest first: each imports those before it.
FLOORS = ("study", "beliefs", "engines", "tell", "outcome", "run", "verify")


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
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_module(node.value):
            names.add(node.value.partition(":")[0])
    return frozenset(names)


def _is_module(text: str) -> bool:
    """Whether `text` is the name of a module of ours, or of something in one, as `"a3gnn.cli.main:main"`."""
    module = text.partition(":")[0]
    top, *rest = module.split(".")
    return bool(rest) and top in SOURCES and SOURCES[top].joinpath(*rest).with_suffix(".py").exists()


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
    rooms = {room(name) for name in imports(path)} - {None, home} - NAMED.get(path.name, set())
    assert rooms <= ALLOWED[home], f"{path} imports {rooms - ALLOWED[home]}"


def test_rooms_lie_above_those_that_they_import() -> None:
    below: set[str] = set()
    for name, rooms in ALLOWED.items():
        assert rooms <= below, f"{name} stands before {rooms - below}"
        below.add(name)


@pytest.mark.parametrize("floor", FLOORS)
def test_a_floor_of_tuning_imports_those_below_it(floor: str) -> None:
    banned = {
        *FLOORS[FLOORS.index(floor) + 1 :],
        *(path.stem for path in (ROOT / "a3gnn" / "tuning").glob("[a-z]*.py")),
    }
    for path in (ROOT / "a3gnn" / "tuning" / floor).glob("*.py"):
        reached = {name.split(".")[2] for name in imports(path) if name.startswith("a3gnn.tuning.")}
        assert not reached & banned, path


def test_no_files_import_each_other_in_a_circle() -> None:
    """Imports within functions and for types alone count too: a type of both files belongs below them."""
    graph: dict[Path, set[Path]] = {}
    for _, path in files():
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        found = {name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for name in _names(node)}
        graph[path] = set(map(_file, found)) - {None, path}
    TopologicalSorter(graph).prepare()  # raises a CycleError that names the circle


def _names(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    else:
        yield str(node.module)
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _file(module: str) -> Path | None:
    """Returns the file of a module of ours; None for a package, and for others' modules."""
    top, *rest = module.split(".")
    path = SOURCES[top].joinpath(*rest).with_suffix(".py") if top in SOURCES and rest else None
    return path if path is not None and path.exists() else None


#: The simulation of hybrid training.
SIMULATION = ("clock", "platform", "simulated_training")
#: Files, and the modules that none of them may import.
APART = {
    "simulated": (
        ("a3gnn/hybrid/devices/simulated_accelerator.py", *(f"benchmarks/hybrid/{name}.py" for name in SIMULATION)),
        ("a3gnn.hybrid.performance", "a3gnn.hybrid.control", "a3gnn.layer_cost", "a3gnn.hardware"),
    ),
    "predicted": (("a3gnn/hybrid/performance.py",), ("a3gnn.hybrid.devices", "a3gnn.hybrid.control", "benchmarks")),
    "controlled": (
        ("a3gnn/hybrid/control/*.py", "benchmarks/hybrid/algorithm1.py"),
        ("a3gnn.hybrid.devices", "a3gnn.hybrid.performance", *(f"benchmarks.hybrid.{name}" for name in SIMULATION)),
    ),
}


@pytest.mark.parametrize("part", APART)
def test_what_is_simulated_what_is_predicted_and_what_is_controlled_know_nothing_of_each_other(part: str) -> None:
    """A model that is tested on a simulation which shares its equations would err by nothing, and prove nothing."""
    patterns, banned = APART[part]
    paths = [sorted(ROOT.glob(pattern)) for pattern in patterns]
    assert all(paths)
    reached = set().union(*(_imported_by(path) for path in chain.from_iterable(paths)))
    for module in banned:
        assert not {name for name in reached if name == module or name.startswith(f"{module}.")}


def _imported_by(path: Path) -> set[str]:
    """Every module of ours that `path` imports, itself or through what it imports."""
    found, open_paths = set(), [path]
    while open_paths:
        for name in imports(open_paths.pop()) - found:
            file = ROOT / Path(*name.split(".")).with_suffix(".py")
            if name.startswith(("a3gnn.", "benchmarks.")):
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


def test_measuring_and_serving_need_no_search_libraries() -> None:
    code = (
        "import importlib.util, sys\n"
        "for name in ('xgboost', 'sklearn', 'stable_baselines3', 'optuna', 'gymnasium'):\n"
        "    sys.modules[name] = None\n"
        "if importlib.util.find_spec('fastapi'):\n"
        "    import a3gnn.service.http.app, a3gnn.service.graphs.graph_process\n"
        "    assert not {'numba', 'torch'} & set(sys.modules)\n"
        "import a3gnn.apply.train, a3gnn.profiling.profiler, a3gnn.tuning.auto, a3gnn.cli.profile, a3gnn.cli.train\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
