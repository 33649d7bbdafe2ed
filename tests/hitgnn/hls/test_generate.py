import re
from pathlib import Path

import pytest

from a3gnn.errors import UsageError
from a3gnn.hitgnn.hls.generate import Design, generate


def test_the_constants_are_those_of_the_design(tmp_path: Path) -> None:
    generate(Design(8, 2048), tmp_path / "out")
    defined = dict(re.findall(r"#define (\w+) (\d+)", (tmp_path / "out" / "config.h").read_text()))
    wanted = {"UNITS": "8", "MULTIPLIERS": "2048", "ROWS": "16", "COLUMNS": "128", "RESULT_WORDS": "65536"}
    assert defined == wanted | {"ADD_LATENCY": "8", "FIFO_DEPTH": "256", "ENTRY_DEPTH": "48"}


def test_nothing_else_depends_on_the_design(tmp_path: Path) -> None:
    one, other = ([file.read_text() for file in generate(Design(n, n), tmp_path / str(n))] for n in (1, 4))
    names = [file.name for file in generate(Design(1, 1), tmp_path / "1")]
    assert {name for name, mine, its in zip(names, one, other, strict=True) if mine != its} == {"config.h", "README.md"}


def test_nothing_is_left_to_fill_in(tmp_path: Path) -> None:
    for file in generate(Design(2, 32), tmp_path):
        if file.name in ("config.h", "README.md"):
            assert "$" not in file.read_text()


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UsageError, match="out must be a new or empty folder, or the folder of an accelerator, got"):
        generate(Design(2, 32), tmp_path)


def test_an_accelerator_is_generated_anew(tmp_path: Path) -> None:
    generate(Design(2, 32), tmp_path)
    generate(Design(4, 32), tmp_path)
    assert "#define UNITS 4" in (tmp_path / "config.h").read_text()
