"""What may be given as a model, what its sources are, and what is said where it breaks its contract."""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys

import pytest
import torch

from a3gnn.errors import A3GNNError, ModelError, UsageError
from a3gnn.models.own.factory import Factory, model_name
from a3gnn.models.own.sources import Sources
from a3gnn.task import Task
from a3gnn.training.describe import described


def test_a_function_is_known_by_its_name(package) -> None:
    models = importlib.import_module(f"{package.name}.models")
    assert model_name(models.make_layers) == package.factory("make_layers")
    assert model_name(models.Edges) == package.factory("Edges")
    assert model_name(package.factory("Edges")) == package.factory("Edges")
    assert Factory.of(models.Edges).load() is models.Edges
    assert model_name("gat") == "gat"


def test_what_other_processes_cannot_import_is_refused(package, monkeypatch) -> None:
    def local(in_channels, out_channels):
        return torch.nn.Linear(in_channels, out_channels)

    with pytest.raises(UsageError, match=r"got .*local, which is local to a function; write it to a file .*writefile"):
        model_name(local)
    monkeypatch.setattr(local, "__module__", "__main__")
    with pytest.raises(UsageError, match="defined in the notebook or script itself; write it to a file"):
        model_name(local)
    for other in (3, functools.partial(local), torch.nn.ReLU()):
        with pytest.raises(
            UsageError, match=r"model must be the name of a built-in model, package.module:function, or a"
        ):
            model_name(other)
    models = importlib.import_module(f"{package.name}.models")
    before = models.make_layers
    monkeypatch.setattr(models, "make_layers", lambda in_channels, out_channels: None)
    with pytest.raises(UsageError, match="got another object of that name; reload it"):
        model_name(before)


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("{}.modles:Edges", r"no module is named {}\.modles; run this from the folder with the module"),
        ("{}.models.py:Edges", r"no module is named {}\.models\.py; name the module without \.py, not its file"),
        ("nowhere.models:Edges", r"no module is named nowhere; .* PYTHONPATH"),
        ("{}.models:Edge", r"must exist, but module '{}.models' has no attribute 'Edge'"),
        ("{}.models:NUMBER", r"must be a function \(in_channels, out_channels\), got 3"),
        ("{}.models:wrong", r"must return a torch.nn.Module, got \[16\]"),
        ("{}.models:fails", r"fails\(16, 4\) raised an exception:\n(?s:.*)RuntimeError: no such width"),
        ("{}.broken:Edges", r"importing {}.broken raised an exception:\n(?s:.*)NameError: name 'oops'"),
        ("{}.lacks:Edges", r"importing {}.lacks raised an exception:\n(?s:.*)No module named 'nothing_of_this_name'"),
    ],
)
def test_what_cannot_be_built_says_why(factory, message, package, tiny_graph) -> None:
    package.write("broken", "oops\n")
    package.write("lacks", "import nothing_of_this_name\n")
    with pytest.raises(A3GNNError, match=message.format(package.name)):
        described(Task(model=factory.format(package.name)), tiny_graph)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    loss = 3", r"loss must be a method, got 3; leave it out"),
        ("    aggregates = 'sum'", r'aggregates must be "mean" or left out, got \'sum\''),
        ("    def forward(self, x): return x", r"forward must take \(x, edge_index\) or \(x, adjs\)"),
        (
            "    def forward(self, x, edge_index, w): return x",
            r"nothing else without a default, got \(x, edge_index, w\)",
        ),
        ("    def forward(self, x, edge_index, *, w): return x", r"nothing else without a default"),
        ("    def forward(self, x, edge_index): return x", r"rows of 4 values .* got shape \(\d+, 16\)"),
        ("    def forward(self, x, edge_index): return 7", r"rows of 4 values .* got 'int'"),
        ("    def forward(self, x, adjs): return super().forward(x, adjs)", r"forward\(x, adjs\) raised an exception:"),
        (
            "    def __init__(self, i, o):\n        super().__init__(i, o)\n        self.more = torch.nn.LazyLinear(3)",
            r"parameters must have their shapes .*more.weight",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:Lazy modules:UserWarning")
def test_a_broken_contract_is_named(body, message, package, tiny_graph) -> None:
    with pytest.raises(ModelError, match=message):
        described(Task(model=package.add_class(body), fanouts=(5, 3)), tiny_graph)


def test_sources_are_what_the_module_imports(package) -> None:
    package.write("unused", "A = 1\n")
    package.write("late", "B = 2\n")
    package.write(
        "uses", "from . import models\n\n\ndef make(i, o):\n    from .late import B\n    return models.Edges(i, o)\n"
    )
    known = Sources.of(f"{package.name}.uses")
    names = {f"{package.name}{end}" for end in ("", ".uses", ".models", ".widths", ".late")}
    assert set(known.files) == names
    assert known.packages["torch_geometric"]
    assert known.packages["torch"].partition("+")[0] == torch.__version__.partition("+")[0]
    for module in ("models", "widths", "late", "__init__"):
        before, path = Sources.of(f"{package.name}.uses").hash, package.folder / f"{module}.py"
        path.write_text(path.read_text() + "# changed\n")
        assert Sources.of(f"{package.name}.uses").hash != before
    before = Sources.of(f"{package.name}.uses").hash
    package.write("unused", "A = 2\n")
    assert Sources.of(f"{package.name}.uses").hash == before


def test_what_is_imported_by_other_means_is_an_error(package, monkeypatch) -> None:
    package.write("hidden", "C = 3\n")
    sources = Sources.of(f"{package.name}.models")
    before = set(sys.modules)
    importlib.import_module(f"{package.name}.models")
    sources.check(before)
    importlib.import_module(f"{package.name}.hidden")
    with pytest.raises(ModelError, match=rf"must import {package.name}.hidden .*add 'import {package.name}.hidden' to"):
        sources.check(before)


def test_what_python_and_torch_generate_is_not_the_users(package) -> None:
    program = f"""
import sys
from a3gnn.models.own.sources import Sources
sources, before = Sources.of("{package.name}.models"), set(sys.modules)
import {package.name}.models, sysconfig, torch.distributed.nn
sysconfig.get_config_vars()
new = set(sys.modules) - before
assert "_remote_module_non_scriptable" in new
assert any(name.startswith("_sysconfigdata_") for name in new)
sources.check(before)
"""
    run = subprocess.run([sys.executable, "-c", program], cwd=package.folder.parent, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_a_task_is_another_one_when_its_model_changes(package, own_task, tiny_graph, small_graph) -> None:
    task = own_task(tiny_graph)
    assert Task.from_dict(task.to_dict()) == task == own_task(tiny_graph)
    assert own_task(small_graph).own.shapes != task.own.shapes
    assert (task.own.takes, task.own.aggregates, task.own.reads_a_table) == ("edge_index", "mean", True)
    assert (task.own.native, task.aggregates, task.table_model) == (2, "mean", "sage")
    layers = own_task(tiny_graph, "make_layers").own
    assert (layers.takes, layers.aggregates, layers.reads_a_table, layers.native) == ("adjs", "mean", True, 0)
    assert layers.shapes == task.own.shapes
    package.write("widths", "HIDDEN = 32  # as before\n")
    changed = own_task(tiny_graph)
    assert changed.own.sources != task.own.sources
    assert changed.key() != task.key()
    assert task.key() == Task.from_dict(task.to_dict()).key()
