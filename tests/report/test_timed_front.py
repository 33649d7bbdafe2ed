import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from a3gnn.config import TrainConfig
from a3gnn.report.front import Front, MeasuredConfig, front_lines
from tests.report.rows import MiB, figures, objectives


@pytest.fixture
def timed() -> Front:
    """A tune for seconds to accuracy: the chosen row, one that scores lower, one that was rejected, a censored one."""
    limits = {"host_bytes": 900 * MiB, "least_accuracy": 0.87}
    chosen = replace(figures(8.0, 300 * MiB, 0.88, 4.0), throughput_low=7.8, throughput_high=8.2)
    incomplete = replace(figures(9.0, 800 * MiB, 0.871, 3.99), complete=False)
    measured = [
        MeasuredConfig(TrainConfig(), figures(2.0, 400 * MiB, 0.90, 20.0), None),
        MeasuredConfig(TrainConfig(batch_size=512), chosen, None),
        MeasuredConfig(TrainConfig(batch_size=256), incomplete, None),
        MeasuredConfig(TrainConfig(batch_size=128), figures(9.5, 300 * MiB, 0.88, 3.0), None, "slower in the play-off"),
        MeasuredConfig(TrainConfig(batch_size=64), figures(30.0, 200 * MiB, 0.60), None),
    ]
    return Front.of(measured, objectives("time", **limits), chosen=TrainConfig(batch_size=512))


def test_a_tune_for_time_is_ordered_by_seconds(timed: Front) -> None:
    assert [row.config.batch_size for row in timed.rows] == [128, 256, 512, 1024, 64]
    assert (timed.speed, timed.target) == ("seconds_to_accuracy", 0.87)
    chosen = timed.rows[2]
    assert (chosen.on_front, chosen.labels[:2]) == (True, ("chosen", "time"))
    assert "throughput" in timed.rows[1].labels


def test_what_was_timed_once_and_looks_better_than_the_choice_is_not_compared_with_it(timed: Front) -> None:
    best, *others = timed.rows
    assert (best.config.batch_size, best.feasible, best.compared, best.on_front, best.labels) == (
        128,
        True,
        False,
        False,
        (),
    )
    assert [row.compared for row in others] == [True, True, True, False]  # the last breaks a limit


def test_a_faster_row_says_why_it_is_not_chosen(timed: Front) -> None:
    said = {row.config.batch_size: row.note or row.describe_broken() for row in timed.rows}
    assert said == {
        128: "slower in the play-off",
        256: "its memory or accuracy outweighs its speed",
        512: "",
        1024: "",
        64: "accuracy -27 points",
    }


def test_the_table_of_a_tune_for_time(timed: Front) -> None:
    _, _, heading, *rows = front_lines(timed, everything=True)
    assert heading.index("seconds to 87.00%") < heading.index("epochs/s") < heading.index("validation accuracy")
    last = max(i for i, row in enumerate(rows) if "batch" in row)
    assert rows[last - 1].split()[:2] == ["not", "reached"]
    shown = "\n".join(rows)
    assert "8 (7.8 to 8.2)" in shown
    assert ">= 87.10%" in shown
    assert "slower in the play-off" in shown


def test_the_table_shows_a_row_that_says_why_it_is_not_chosen(timed: Front) -> None:
    assert (timed.rows[0].on_front, timed.rows[0].labels) == (False, ())
    rows = [line for line in front_lines(timed) if "MiB" in line and "%" in line]
    assert len(rows) == 4  # all but the one that is far from the target


def test_csv_has_medians_ranges_and_why(timed: Front) -> None:
    rows = {row["batch_size"]: row for row in csv.DictReader(io.StringIO(timed.csv()))}
    chosen = rows["512"]
    assert (chosen["throughput_epochs_per_s"], chosen["throughput_low"], chosen["throughput_high"]) == (
        *("8.0", "7.8", "8.2"),
    )
    assert (rows["256"]["val_accuracy"], rows["256"]["complete"], chosen["complete"]) == ("0.871", "False", "True")
    assert (rows["64"]["seconds_to_accuracy"], rows["512"]["seconds_to_accuracy"]) == ("", "4.0")
    assert rows["128"]["note"] == "slower in the play-off"


def test_a_front_of_seconds_is_read_as_it_was_written(timed: Front, tmp_path: Path) -> None:
    (tmp_path / "front.json").write_text(json.dumps(timed.to_dict()), encoding="utf-8")
    assert Front.read(tmp_path) == timed


def test_the_figure_of_a_tune_for_time(timed: Front) -> None:
    pytest.importorskip("matplotlib")
    from a3gnn.report.figure import front_figure

    axes = front_figure(timed).axes[0]
    assert axes.get_ylabel() == "seconds to 87.00% (validation)"
    assert axes.yaxis_inverted()
    assert "target not reached, not drawn (1)" in axes.get_legend_handles_labels()[1]


def test_no_priority_of_speed_names_what_is_at_the_target_later_than_the_default() -> None:
    measured = [
        MeasuredConfig(TrainConfig(), figures(2.0, 400 * MiB, 0.90, 4.0), None),
        MeasuredConfig(TrainConfig(batch_size=512), figures(9.0, 300 * MiB, 0.88, 5.0), None),
    ]
    wanted = objectives("accuracy", least_accuracy=0.87)
    for reference_s, default, other in (
        (None, ("default", "time", "accuracy"), ("throughput", "memory", "balanced")),
        (4.0, ("default", "time", "throughput", "accuracy", "balanced"), ("memory",)),
    ):
        labels = {row.config: row.labels for row in Front.of(measured, wanted, reference_s=reference_s).rows}
        assert labels == {TrainConfig(): default, TrainConfig(batch_size=512): other}


def test_the_figure_of_a_tune_whose_rows_all_miss_the_target() -> None:
    pytest.importorskip("matplotlib")
    from a3gnn.report.figure import front_figure

    missed = [MeasuredConfig(TrainConfig(), figures(2.0, 400 * MiB, 0.60), None)]
    figure = front_figure(Front.of(missed, objectives("time", least_accuracy=0.87), chosen=TrainConfig()))
    figure.savefig(io.BytesIO())  # a log scale without a value warns
    assert "target not reached, not drawn (1)" in figure.axes[0].get_legend_handles_labels()[1]
