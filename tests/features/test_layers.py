"""Which part of the feature stores may import which: the order below, and never back."""

import ast
from pathlib import Path

import pytest

import a3gnn.features

ROOT = Path(a3gnn.features.__file__).parent
#: Files of each layer, lowest first.
ORDER = (
    {"tensors", "buffers", "row_kernels", "row_table", "stored_rows"},
    {"cache_kernels", "slot_map", "cache", "cache_ranking", "ahead"},
    {"store", "host_store", "device_store"},
    {"opening"},
    {"typed_store"},
)


def layer(name: str) -> int:
    return next(place for place, names in enumerate(ORDER) if name in names)


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_layer_imports_one_above_it(path: Path) -> None:
    if path == ROOT / "__init__.py":
        return
    names = {node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
    own = [name.split(".")[2] for name in names if name.startswith("a3gnn.features.")]
    assert all(layer(name) <= layer(path.stem) for name in own)
