"""What a tune returns, as a notebook shows it and a script goes on with it."""

import dataclasses
from collections.abc import Callable
from html import unescape

import pytest

from a3gnn.tuning.outcome.result import TuneResult
from a3gnn.tuning.study.choice import choice_lines


def test_a_notebook_shows_the_choice_and_the_front(quick_tune: Callable[..., TuneResult]) -> None:
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    result = quick_tune()
    said = list(choice_lines(result.tuned, result.front))
    assert said[0].startswith("chosen")
    compared = any("against the default" in line for line in said)
    assert compared == (result.tuned.against_default is not None)
    assert repr(result).startswith("chosen ")
    assert repr(result).endswith(f"{result.folder}/tuned.json")
    shown = result._repr_html_()
    assert all(line in unescape(shown) for line in said)
    assert result.front._repr_html_() in shown
    assert f"{result.folder}/tuned.json" in shown
    assert result.config == result.tuned.config
    axes = result.plot().axes[0]
    assert axes.get_title() == f"{result.tuned.setting.graph.name}, sage"
    assert (result.folder / "front.png").stat().st_size > 10_000


def test_a_choice_that_misses_the_target_when_measured_again_says_so(quick_tune: Callable[..., TuneResult]) -> None:
    result = quick_tune()
    (row,) = [row for row in result.front.rows if "chosen" in row.labels]
    found = row.measured.val_accuracy
    assert found is not None

    def says(target: float) -> bool:
        lines = choice_lines(dataclasses.replace(result.tuned, target_accuracy=target), result.front)
        return any("its first training reached the target" in line for line in lines)

    assert says(found + 0.01)
    assert not says(found)
