"""docs/reference/knobs.md has every knob of the configuration, with its baseline and its search values."""

from __future__ import annotations

import re
from typing import Any

import pytest

from a3gnn.checks import OneOf, Size
from a3gnn.config import KNOBS, TrainConfig
from a3gnn.knobs import TASKS, Knob
from a3gnn.report.text import changes_of, describe_config, describe_knob
from a3gnn.search_values import CACHE_SHARES, shares_of_the_rows
from a3gnn.task import Task
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


def printed_as(knob: Knob) -> str:
    """Returns how lines print a knob that differs from the baseline: `batch N`, or the words of each other choice."""
    choices = knob.domain.choices if isinstance(knob.domain, OneOf) else ()
    others = [choice for choice in choices if choice != knob.default]
    if choices and "{}" in knob.show.words:
        texts = [describe_knob(knob, one) for one in others] if knob.show.names or len(others) == 1 else ["NAME"]
        if texts == ["NAME"]:
            texts = [knob.show.words.format("NAME")]
    else:
        number = "SIZE" if isinstance(knob.domain, Size) else "N"
        texts = [knob.show.words.replace("{:g}", number).replace("{}", number)]
    return ", ".join(text.strip() for text in texts)


def test_the_page_has_the_knobs_and_no_others() -> None:
    assert sorted(ROWS) == sorted(knob.name for knob in KNOBS)
    assert f"searches {len(KNOBS)} knobs" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: str(knob.name))
def test_a_row_has_the_knobs_baseline_and_values(knob: Knob) -> None:
    _, baseline, values, printed, *described = ROWS[knob.name]
    assert printed == printed_as(knob)
    assert baseline == text(knob.default)
    assert values == searched(knob)
    assert len(described) == 3
    assert all(described)


#: A value of each knob other than the baseline's, and what makes the knob matter.
_OTHERS = {
    "cache_bytes": 3 << 20,
    "cache_policy": "access",
    "num_workers": 2,
    "seed_fanout": 3,
    "deep_fanout": 2,
    "adapt": "on",
    "sampling_device": "cuda",
}
_BESIDE = {
    "bias_rate": {"cache_bytes": 1 << 20},
    "cache_policy": {"cache_bytes": 1 << 20},
    "num_workers": {"parallel_mode": "mode1"},
    "resources": {"parallel_mode": "mode1"},
    "partitioner": {"num_partitions": 2},
    "prefetch_depth": {"trainers": 2},
    "adapt": {"trainers": 2},
}


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: str(knob.name))
def test_a_trials_line_prints_a_knob_as_the_page_says(knob: Knob) -> None:
    value = _OTHERS.get(knob.name) or next(one for one in reversed(knob.values) if one != knob.default)
    config = TrainConfig(**{**_BESIDE.get(knob.name, {}), knob.name: value})
    forms = [form.strip() for form in printed_as(knob).replace("), (", ")|(").split("|")]
    patterns = [
        re.escape(form).replace("NAME", r"\w+").replace("SIZE", r"[0-9.]+ [KMG]iB").replace("N", r"[0-9.]+")
        for form in forms
    ]
    if "," in printed_as(knob) and not printed_as(knob).startswith("("):
        patterns = [pattern for form in patterns for pattern in form.split(r",\ ")]
    assert any(re.search(pattern, describe_config(config)) for pattern in patterns), (patterns, describe_config(config))
    (change,) = [one for one in changes_of(config, Task()) if one.name == knob.name]
    assert change.before != change.now
    parsed = knob.parse(change.now)
    assert parsed == getattr(config, knob.name)
