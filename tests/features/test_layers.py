"""Which part of the feature stores may import which: the order below, and never back."""

import ast
from pathlib import Path

import pytest

import a3gnn.features

ROOT = Path(a3gnn.features.__file__).parent
ORDER = ("rows", "caches", "stores", "auto", "opening")


def layer(dotted: str) -> int:
    return ORDER.index(dotted.split(".")[2])


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_layer_imports_one_above_it(path: Path) -> None:
    if path == ROOT / "__init__.py":
        return
    names = {node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
    own = ORDER.index(path.relative_to(ROOT).with_suffix("").parts[0])
    assert all(layer(name) <= own for name in names if name.startswith("a3gnn.features."))
