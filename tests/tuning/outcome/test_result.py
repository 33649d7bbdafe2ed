"""What a tune returns, as a notebook shows it and a script goes on with it."""

import dataclasses
from collections.abc import Callable
from html import unescape

import pytest

from a3gnn.page.views import study_views
from a3gnn.profiling.store.jsonl import shipped_measurements
from a3gnn.tuning.outcome.result import TuneResult
from a3gnn.tuning.tell.summary import summary

#: As it is without `quick_tune`, which leaves front.png empty.
PLOT = TuneResult.plot


def test_a_notebook_shows_the_choice_and_the_front(
    quick_tune: Callable[..., TuneResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    monkeypatch.setattr(TuneResult, "plot", PLOT)
    result = quick_tune()
    found = result.summary
    assert found.headline.startswith("Tuned GraphSAGE on ")
    compared = result.tuned.against_default is not None or result.tuned.no_gain is not None
    assert ("both in turns" in found.verified) == compared
    assert " ".join(repr(result).split()).startswith(found.headline)
    assert f"{result.folder}/tuned.json" in repr(result)
    assert f"a3gnn train {result.folder}" in repr(result)
    shown = unescape(result._repr_html_())
    assert all(text in shown for text in (found.headline, found.verified, *found.warnings, *found.notes))
    assert all(text in shown for line in found.table for text in line)
    assert unescape(result.front._repr_html_()) in shown
    assert f"{result.folder}/tuned.json" in shown
    assert result.config == result.tuned.config
    axes = result.plot().axes[0]
    assert axes.get_title() == f"{result.tuned.setting.graph.name}, sage"
    assert (result.folder / "front.png").stat().st_size > 10_000


def test_a_budget_without_a_trial_does_not_claim_that_the_baseline_won(quick_tune: Callable[..., TuneResult]) -> None:
    result = quick_tune(budget=0.1)
    assert result.trials == 0
    assert result.summary.headline.endswith(": no time for a trial, the baseline stays")
    assert study_views(result.folder)["summary"]["answer"]["headline"] == result.summary.headline


def test_a_choice_that_misses_the_target_when_measured_again_says_so(quick_tune: Callable[..., TuneResult]) -> None:
    result = quick_tune()
    (row,) = [row for row in result.front.rows if "chosen" in row.labels]
    found = row.measured.val_accuracy
    assert found is not None

    def says(target: float) -> bool:
        found = summary(dataclasses.replace(result.tuned, target_accuracy=target), result.front)
        return any("the first training reached the target" in text for text in found.warnings)

    assert says(found + 0.01)
    assert not says(found)


def test_a_kind_of_graph_that_little_ships_of_has_a_warning(quick_tune: Callable[..., TuneResult]) -> None:
    result = quick_tune()
    tuned, setting = result.tuned, result.tuned.setting
    typed = dataclasses.replace(setting, graph=dataclasses.replace(setting.graph, relations=3))
    for one, expected in ((tuned, 0), (dataclasses.replace(tuned, setting=typed), 1)):
        warnings = summary(one, result.front).warnings
        assert sum("graphs with node types" in text for text in warnings) == expected
    typed_rows = [bool(row.setting.graph.relations) for row in shipped_measurements(typed=True)]
    assert 0 < 10 * sum(typed_rows) < len(typed_rows)  # else the warning is wrong
