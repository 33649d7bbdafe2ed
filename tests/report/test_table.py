"""Tables and figures in words, which all views share."""

from html import unescape
from types import SimpleNamespace
from typing import Any

import pytest

from a3gnn.figures import Spread
from a3gnn.metric import ACCURACY, Metric
from a3gnn.report.ratios import show_percent, show_points
from a3gnn.report.table import aligned, csv_text, html_table, noted
from a3gnn.service.pages.study_list import Gain
from a3gnn.tuning.study.comparison import Comparison


def test_columns_are_as_wide_as_their_texts() -> None:
    rows = [("", "epochs/s"), ("baseline", "7"), ("#1", "12.5")]
    assert list(aligned(rows)) == ["          epochs/s", "baseline         7", "#1            12.5"]
    assert list(aligned(rows, left=2))[1:] == ["baseline  7       ", "#1        12.5    "]
    assert list(aligned([])) == []


def test_a_long_note_goes_on_in_its_column() -> None:
    note = " ".join(["word"] * 20)
    first, *others, last = noted([("speed", "1", "12", note), ("memory", "22", "3", "")])
    assert first.startswith("  speed    1   12   word")
    assert others
    assert {line[: first.index("word")] for line in others} == {" " * first.index("word")}
    assert " ".join([first[first.index("word") :], *(line.strip() for line in others)]) == note
    assert last == "  memory  22    3"


def test_html_escapes_and_csv_quotes() -> None:
    table = html_table(("", "<a>"), [("one", "1 & 2"), ("two", "3")], range(1, 2), [1])
    assert "&lt;a&gt;" in table
    assert "1 & 2" in unescape(table)
    assert "1 & 2" not in table
    assert [line.startswith("<tr style") for line in table.splitlines() if "<td" in line] == [False, True]
    assert csv_text(["a", "b"], [{"a": None, "b": "x,y"}, {"a": 1, "b": 2}]) == 'a,b\n,"x,y"\n1,2\n'


@pytest.mark.parametrize(("ratio", "text"), [(1.004, "0%"), (1.17, "+17%"), (0.72, "-28%")])
def test_a_ratio_in_percent(ratio: float, text: str) -> None:
    assert show_percent(ratio) == text


def test_points_have_the_unit_of_the_metric_and_a_range_if_there_is_one() -> None:
    assert show_points(-0.3, ACCURACY) == "-0.30 points"
    assert show_points(Spread(1.2, 1.0, 1.4, 3), Metric("mae", 2.0)) == "+1.20 points of 0.02 (+1.00 to +1.40)"


@pytest.mark.parametrize(
    ("time", "at_least", "words"),
    [(0.8, False, "0.8x as fast"), (2.5, False, "2.5x sooner"), (2.5, True, "at least 2.5x sooner")],
)
def test_lines_and_lists_call_a_ratio_of_seconds_alike(time: float, at_least: bool, words: str) -> None:
    one = Spread(time, time, time, 1)
    against = Comparison(one, one, 1.0, None, differs=True, time_at_least=at_least)
    study: Any = SimpleNamespace(summary={"against_default": against.to_dict()}, arguments={"priority": "time"})
    gain = Gain.of(study)
    assert gain is not None
    assert gain.words == against.sooner(".3g") == words
