"""docs/reference/knobs.md has every knob of the configuration, with its baseline and its search values."""

from __future__ import annotations

from typing import Any

import pytest

from a3gnn.config import KNOBS
from a3gnn.knobs import TASKS, Knob
from a3gnn.search_values import CACHE_SHARES, shares_of_the_rows
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "reference" / "knobs.md"
#: Lines of the page's tables by knob, as cells.
ROWS = {
    cells[0].strip("`"): cells
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| `")
    for cells in ([cell.strip() for cell in line.strip("|").split("|")],)
}


def text(value: Any) -> str:
    return TASKS if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def searched(knob: Knob) -> str:
    values = [*map(text, knob.values)]
    if knob.at is shares_of_the_rows:
        return f"{', '.join([*values, *(f'{share:.0%}' for share in CACHE_SHARES)])} of the rows"
    return ", ".join(values)


def test_the_page_has_the_knobs_and_no_others() -> None:
    assert sorted(ROWS) == sorted(knob.name for knob in KNOBS)
    assert f"searches {len(KNOBS)} knobs" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: str(knob.name))
def test_a_row_has_the_knobs_baseline_and_values(knob: Knob) -> None:
    _, baseline, values, *described = ROWS[knob.name]
    assert baseline == text(knob.default)
    assert values == searched(knob)
    assert len(described) == 3
    assert all(described)
