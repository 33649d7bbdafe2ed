"""Every benchmark that a figure names is there, or at the commit that is named beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

NAMED = re.compile(r"benchmarks[./](?!results|\w+\.md)([a-z]\w*(?:[./][a-z]\w*)?)")
#: As far behind the name as a sentence goes on.
BESIDE = 220
PLACES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("notebooks/*.ipynb")),
    *(
        path
        for room in ("a3gnn", "surrogate", "envs", "benchmarks")
        for path in sorted(ROOT.joinpath(room).rglob("*.py"))
    ),
]


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def gone(shown: str) -> list[str]:
    """The benchmarks that are neither there nor followed by a commit."""
    return [
        found[0]
        for found in NAMED.finditer(shown)
        if not there(found[1].replace(".", "/"))
        and not re.search(r"at\s+(?:#:?\s+)?commit\s+[0-9a-f]{7}", shown[found.end() : found.end() + BESIDE])
    ]


def there(name: str) -> bool:
    """Whether `name` is a module, or one followed by how its file ends."""
    places = (ROOT / "benchmarks" / name.removesuffix("/py"), ROOT / "benchmarks" / name)
    return any(path.is_dir() or path.with_suffix(".py").is_file() for path in places)


@pytest.mark.parametrize("place", [path.relative_to(ROOT).as_posix() for path in PLACES if "benchmarks" in text(path)])
def test_a_benchmark_that_is_named_is_there_or_at_a_commit(place: str) -> None:
    assert gone(text(ROOT / place)) == []


def test_one_that_is_gone_is_found() -> None:
    assert gone("`python -m benchmarks.nothing` prints it") == ["benchmarks.nothing"]
    assert (
        gone("`benchmarks/nothing.py` at\n#: commit 10d4978 prints it, and `python -m benchmarks.engine --short`") == []
    )
