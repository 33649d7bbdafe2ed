import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.measurement import METRICS, Metrics
from a3gnn.metric import ACCURACY
from a3gnn.report.front import NO_GAIN, Front, MeasuredConfig, front_cells, front_lines
from a3gnn.report.ratios import describe_figures
from a3gnn.report.rows import REJECTED
from a3gnn.report.text import describe_config
from tests.report.rows import MiB, figures, objectives


@pytest.fixture
def front() -> Front:
    predicted = {name: {"mean": 2.5, "low": 2.0, "high": 3.0} for name in METRICS}
    from_disk = replace(
        figures(throughput=0.8, host=300 * MiB, accuracy=0.90), throughput_low=0.75, throughput_high=0.9
    )
    measured = [
        MeasuredConfig(TrainConfig(), figures(throughput=1.0, host=500 * MiB, accuracy=0.90), None),
        MeasuredConfig(TrainConfig(batch_size=512), figures(throughput=2.0, host=600 * MiB, accuracy=0.89), predicted),
        MeasuredConfig(TrainConfig(feature_tier="disk"), from_disk, None),
        MeasuredConfig(TrainConfig(batch_size=64), figures(throughput=0.5, host=550 * MiB, accuracy=0.80), None),
        MeasuredConfig(TrainConfig(batch_size=128), figures(throughput=9.0, host=900 * MiB, accuracy=0.95), None),
    ]
    return Front.of(measured, objectives(host_bytes=700 * MiB), chosen=TrainConfig(batch_size=512))


def test_the_front_is_what_no_feasible_row_dominates(front: Front) -> None:
    on_front = {(row.config.batch_size, row.config.feature_tier) for row in front.rows if row.on_front}
    assert on_front == {(1024, "ram"), (512, "ram"), (1024, "disk")}
    assert [row.feasible for row in front.rows] == [False, True, True, True, True]
    assert front.limit_bytes == 700 * MiB


def test_the_best_of_each_priority_is_named(front: Front) -> None:
    labels = {(row.config.batch_size, row.config.feature_tier): row.labels for row in front.rows}
    assert labels[512, "ram"] == ("chosen", "throughput")
    assert "memory" in labels[1024, "disk"]
    assert labels[1024, "ram"][0] == "default"
    assert labels[128, "ram"] == ()


def test_the_best_by_memory_has_the_least_memory_and_the_best_by_speed_is_the_fastest() -> None:
    measured = [
        MeasuredConfig(TrainConfig(), figures(throughput=1.0, host=400 * MiB, accuracy=0.90), None),
        MeasuredConfig(TrainConfig(batch_size=256), figures(throughput=20.0, host=256 * MiB, accuracy=0.95), None),
        MeasuredConfig(TrainConfig(batch_size=128), figures(throughput=0.9, host=250 * MiB, accuracy=0.90), None),
        MeasuredConfig(TrainConfig(batch_size=64), figures(throughput=0.8, host=200 * MiB, accuracy=0.70), None),
        MeasuredConfig(TrainConfig(batch_size=512), figures(throughput=20.1, host=600 * MiB, accuracy=0.90), None),
    ]
    rows = Front.of(measured, objectives("accuracy", least_accuracy=0.85)).rows
    best = {label: row.config.batch_size for row in rows for label in row.labels}
    assert (best["memory"], best["throughput"], best["accuracy"]) == (128, 512, 256)
    (inaccurate,) = [row for row in rows if row.measured.peak_host_bytes < 250 * MiB]
    assert "accuracy" in inaccurate.describe_broken()  # the table's "why not"
    smaller = [objectives("memory").best_index([row.measured for row in some]) for some in (rows, rows[::-1])]
    assert [rows[smaller[0]], rows[::-1][smaller[1]]] == [inaccurate] * 2


def test_it_is_read_as_it_was_written(front: Front, tmp_path: Path) -> None:
    (tmp_path / "front.json").write_text(json.dumps(front.to_dict()), encoding="utf-8")
    assert Front.read(tmp_path) == front


@pytest.mark.parametrize("text", ["", "{", "[]", '{"rows": [{}]}', '{"rows": [], "memory": 1}'])
def test_a_foreign_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "front.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="must be a front that this version"):
        Front.read(tmp_path)


def test_a_folder_without_a_tune_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="run a3gnn tune --out"):
        Front.read(tmp_path)


def test_csv_holds_every_row(front: Front) -> None:
    rows = list(csv.DictReader(io.StringIO(front.csv())))
    assert len(rows) == 5
    second = next(row for row in rows if row["batch_size"] == "512")
    assert second["throughput_epochs_per_s"] == "2.0"
    assert second["predicted_throughput_epochs_per_s"] == "2.5"
    assert second["labels"] == "chosen throughput"


@pytest.fixture
def broken() -> Front:
    """Three rows that break the memory limit, the accuracy limit, and both."""
    measured = [
        MeasuredConfig(TrainConfig(), figures(throughput=1.0, host=400 * MiB, accuracy=0.90), None),
        MeasuredConfig(TrainConfig(batch_size=512), figures(throughput=2.0, host=612 * MiB, accuracy=0.90), None),
        MeasuredConfig(TrainConfig(batch_size=256), figures(throughput=3.0, host=400 * MiB, accuracy=0.872), None),
        MeasuredConfig(TrainConfig(batch_size=128), figures(throughput=4.0, host=700 * MiB, accuracy=0.80), None),
    ]
    return Front.of(measured, objectives(host_bytes=600 * MiB, least_accuracy=0.88))


def test_each_row_says_which_limits_it_breaks_and_by_how_much(broken: Front, tmp_path: Path) -> None:
    said = {row.config.batch_size: row.describe_broken() for row in broken.rows}
    assert said == {
        1024: "",
        512: "host memory +12.0 MiB",
        256: "accuracy -0.8 points",
        128: "host memory +100 MiB, accuracy -8 points",
    }
    shown = " ".join(" ".join(front_lines(broken, everything=True)).split())
    assert all(text in shown for text in said.values())
    assert next(csv.DictReader(io.StringIO(broken.csv())))["broken"] == said[128]
    (tmp_path / "front.json").write_text(json.dumps(broken.to_dict()), encoding="utf-8")
    assert Front.read(tmp_path) == broken


def test_a_front_from_before_broken_limits_were_kept_is_read(broken: Front, tmp_path: Path) -> None:
    fields = broken.to_dict()
    for row in fields["rows"]:
        del row["broken"]
    (tmp_path / "front.json").write_text(json.dumps(fields), encoding="utf-8")
    assert [row.describe_broken() for row in Front.read(tmp_path).rows] == ["over a limit"] * 3 + [""]


def test_the_figure_says_which_limits_are_broken(broken: Front) -> None:
    pytest.importorskip("matplotlib")
    from a3gnn.report.figure import front_figure

    legend = front_figure(broken).axes[0].get_legend_handles_labels()[1]
    assert "breaks a limit: host memory by up to 12.0 MiB (1)" in legend
    assert "breaks a limit: accuracy by up to 0.8 points (1)" in legend
    assert "breaks a limit: host memory by up to 100 MiB, accuracy by up to 8 points (1)" in legend


def test_the_figure_does_not_tell_unknown_accuracies_from_0(broken: Front) -> None:
    pytest.importorskip("matplotlib")
    from a3gnn.report.figure import front_figure

    def legend(*accuracies: float | None) -> list[str]:
        measured = [
            MeasuredConfig(
                TrainConfig(batch_size=64 * 2**i), figures(throughput=1.0, host=400 * MiB, accuracy=one), None
            )
            for i, one in enumerate((0.9, *accuracies))
        ]
        front = Front.of(measured, objectives(least_accuracy=0.88))
        return front_figure(front).axes[0].get_legend_handles_labels()[1]

    assert "breaks a limit: accuracy by up to 1 points (2)" in legend(0.87, None)
    assert "breaks a limit: accuracy unknown (1)" in legend(None)


def test_the_table_shows_the_front_and_the_named(front: Front) -> None:
    for everything, rows in ((False, 3), (True, 5)):
        assert len(front_cells(front, everything).rows) == rows
        assert sum("MiB" in line and "%" in line for line in front_lines(front, everything)) == rows


def test_a_label_and_a_footnote_mark_rows_that_were_not_timed_beside_the_choice(tmp_path: Path) -> None:
    timed = [TrainConfig(), TrainConfig(batch_size=512)]
    measured = [
        MeasuredConfig(config, figures(throughput=1.0, host=500 * MiB, accuracy=0.9), None, in_play_off=config in timed)
        for config in (*timed, TrainConfig(batch_size=64))
    ]
    for rows, marks in ((measured, 2), (measured[:2], 0), (measured[2:], 0)):  # a row's and the footnote's
        front = Front.of(rows, objectives(), TrainConfig(batch_size=512))
        lines = list(front_lines(front, everything=True))
        assert sum(line.lower().count("measured once") for line in lines) == marks
        (tmp_path / "front.json").write_text(json.dumps(front.to_dict()), encoding="utf-8")
        assert Front.read(tmp_path) == front
        found = {row["batch_size"]: row["in_play_off"] for row in csv.DictReader(io.StringIO(front.csv()))}
        assert all(found[str(one.config.batch_size)] == str(one.in_play_off) for one in rows)


def test_a_configuration_in_one_line() -> None:
    config = TrainConfig(512, 2, 4.0, "cpu", 2, 3 * MiB, "mode2", "disk")
    assert describe_config(config) == (
        "batch 512, workers 2 (sample), features on disk, cache 3.00 MiB, prefers cached neighbors x4, partitions 2"
    )
    assert describe_config(TrainConfig()) == "as the baseline"
    config = TrainConfig(
        num_partitions=4,
        cache_bytes=3 * MiB,
        parallel_mode="mode1",
        cache_policy="fifo",
        seed_order="proximity",
        partitioner="blocks",
        resources="auto",
    )
    assert describe_config(config) == (
        "workers 1 (sample + gather), cache 3.00 MiB by fifo, partitions 4 by blocks, clustered batches, "
        "isolated stages"
    )


@pytest.mark.parametrize(
    ("changes", "speed", "target", "line"),
    [
        ({}, "throughput_epochs_per_s", None, "1.23 epochs/s · 300 MiB · 87.60% validation accuracy"),
        (
            {"throughput_low": 1.2, "throughput_high": 1.31, "seconds_to_accuracy": 3.71},
            *("seconds_to_accuracy", 0.872),
            "3.71 s to 87.20% · 1.23 (1.2 to 1.31) epochs/s · 300 MiB · 87.60% validation accuracy",
        ),
        (
            {"seconds_to_accuracy": 3.71, "complete": False},
            *("throughput_epochs_per_s", None),
            "1.23 epochs/s · 3.71 s to accuracy · 300 MiB · >= 87.60% validation accuracy",
        ),
        (
            {},
            *("seconds_to_accuracy", 0.9),
            "90.00% not reached · 1.23 epochs/s · 300 MiB · 87.60% validation accuracy",
        ),
        (
            {"seeds": 2, "seeds_missed": 1},
            *("seconds_to_accuracy", 0.87),
            "87.00% reached with 1 of 2 seeds · 1.23 epochs/s · 300 MiB · 87.60% validation accuracy",
        ),
        (
            {"seeds": 2, "seeds_missed": 2},
            *("seconds_to_accuracy", 0.9),
            "90.00% not reached · 1.23 epochs/s · 300 MiB · 87.60% validation accuracy",
        ),
        ({"val_accuracy": None}, "throughput_epochs_per_s", None, "1.23 epochs/s · 300 MiB · no validation accuracy"),
    ],
)
def test_figures_in_one_line(changes: dict[str, object], speed: str, target: float | None, line: str) -> None:
    one = replace(figures(1.234, 300 * MiB, 0.876), **changes)
    assert describe_figures(one, "peak_host_bytes", speed, ACCURACY, target) == line


def test_a_front_that_held_metrics_is_read(front: Front, make_metrics: Callable[..., Metrics], tmp_path: Path) -> None:
    fields = front.to_dict()
    del fields["speed"], fields["target"]
    for row, new in zip(fields["rows"], front.rows, strict=True):
        measured = make_metrics(new.measured.throughput_epochs_per_s, new.measured.peak_host_bytes, 0.7)
        row["measured"] = replace(measured, curve=None, val_accuracy=0.7, test_accuracy=0.6).to_dict()
        del row["note"]
    (tmp_path / "front.json").write_text(json.dumps(fields), encoding="utf-8")
    found = Front.read(tmp_path)
    assert found.speed == "throughput_epochs_per_s"
    assert [row.measured.throughput_epochs_per_s for row in found.rows] == [9.0, 2.0, 1.0, 0.8, 0.5]
    assert {row.measured.val_accuracy for row in found.rows} == {0.7}


def test_the_figure_shows_every_row_and_the_limit(front: Front, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from a3gnn.report.figure import front_figure

    axes = front_figure(front).axes[0]
    drawn = sum(len(c.get_offsets()) for c in axes.collections if c.get_label() not in ("chosen", "baseline"))
    assert drawn == 5
    assert (0.75, 0.9) in {tuple(line.get_ydata()) for line in axes.lines}  # the range of its replicates
    legend = set(axes.get_legend_handles_labels()[1])
    assert {"memory limit", "chosen", "baseline"} <= legend
    assert "breaks a limit: host memory by up to 200 MiB (1)" in legend
    front.plot("a graph").savefig(tmp_path / "front.png")
    assert (tmp_path / "front.png").stat().st_size > 10_000


def compared(front: Front) -> dict[int, tuple[bool, bool, str]]:
    return {row.config.batch_size: (row.compared, row.on_front, row.note) for row in front.rows}


def test_what_may_not_be_chosen_is_not_compared() -> None:
    slow, fast = (figures(throughput=one, host=500 * MiB, accuracy=0.9) for one in (1.0, 2.0))
    rejected = f"{REJECTED}: out of memory"
    measured = [
        MeasuredConfig(TrainConfig(batch_size=512), slow, None, in_play_off=True),
        MeasuredConfig(TrainConfig(batch_size=256), fast, None, note=rejected),
        MeasuredConfig(TrainConfig(), fast, None, note="fixed otherwise", in_play_off=True, outside=True),
    ]
    front = Front.of(measured, objectives(), TrainConfig(batch_size=512))
    assert compared(front) == {
        512: (True, True, ""),
        256: (False, False, rejected),
        1024: (False, False, "fixed otherwise"),
    }
    assert [row.labels for row in front.rows if not row.compared] == [(), ("default",)]


@pytest.mark.parametrize("host", [400, 600])
def test_what_has_no_measurable_gain_leaves_the_choice_on_the_front(host: int) -> None:
    other = TrainConfig(batch_size=512)
    measured = [
        MeasuredConfig(TrainConfig(), figures(1.0, 500 * MiB, 0.9), None, in_play_off=True),
        MeasuredConfig(other, figures(1.01, host * MiB, 0.9), None, in_play_off=True),
        MeasuredConfig(TrainConfig(batch_size=64), figures(1.02, 300 * MiB, 0.9), None, in_play_off=True),
    ]
    found = compared(Front.of(measured, objectives(), TrainConfig().canonical(), no_gain=other))
    assert found[1024][:2] == (True, True)
    assert found[512][0] == (host > 500)  # where it dominates the choice, it is left out
    assert (found[512][2] == NO_GAIN) == (host < 500)
    assert "measured once" not in found[64][2]
    assert found[64][2].startswith("measured less often than the choice")
