"""The table that `a3gnn tune` draws in a terminal."""

from __future__ import annotations

import dataclasses
import io

import pytest

from a3gnn.cli.tune import _Drawing
from a3gnn.notify import Message
from a3gnn.tuning.study.budget import Budget
from a3gnn.tuning.study.history import History
from a3gnn.tuning.tell.events import BEST, PhaseEvent
from a3gnn.tuning.tell.trial_lines import heading, trial_message
from tests.tuning.measured import DEFAULT, FOUR_PARTS, MODE1, TWO_PARTS


def drawn(drawing: _Drawing) -> list[str]:
    """Returns the lines of the picture."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=120, record=True)
    console.print(drawing.render())
    return console.export_text().splitlines()


def slowed(history: History, number: int) -> History:
    """Returns `history` as judged once the machine is known to have run a trial at half its speed."""
    trials = list(history.trials)
    trials[number] = dataclasses.replace(trials[number], drift=0.5)
    return dataclasses.replace(history, trials=tuple(trials))


def test_the_star_is_on_the_best_row_as_judged_now(measured) -> None:
    pytest.importorskip("rich")
    history = measured(TWO_PARTS, MODE1, FOUR_PARTS).history
    assert [one.measurement.config for one in history.trials] == [DEFAULT, TWO_PARTS, MODE1, FOUR_PARTS]
    drawing = _Drawing(None)  # type: ignore[arg-type]  # no other lines come
    drawing(Message(event=PhaseEvent("search", None, None)))
    drawing(heading(history))
    stars = []
    for judged in (history.first(2), history.first(3), slowed(history, 1)):
        message = trial_message(judged.trials[-1], judged, Budget(5))
        drawing(message)
        stars.append([line.split()[0] for line in drawn(drawing) if line.startswith("#") and BEST in line])
    assert stars == [["#1"], ["#2"], ["#1"]]
    rows = {cells[0]: cells for line in drawn(drawing) if (cells := line.replace(BEST, "").split()) and line[0] == "#"}
    assert float(rows["#1"][1]) > float(rows["#2"][1])  # the row shows the speed that it is judged by
    assert BEST not in message  # a log keeps the star where it was printed


def test_the_headings_explain_the_star(measured) -> None:
    assert heading(measured().history).endswith(f"{BEST} best so far")
