"""Picks from tunes that are kept, against what their files say."""

import json
import math
import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import ExitCode, InfeasibleError, UsageError
from a3gnn.objectives import Priority
from a3gnn.report.front import Front
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.pick import pick
from a3gnn.tuning.outcome.picked import pick_lines
from a3gnn.tuning.outcome.result import SearchSummary, TuneResult

Kept = Callable[[str], Path]
MiB = 2**20
#: The machine's speed in the verification of both tunes.
DRIFT = 0.7


def scores(folder: Path, priority: str, least: float = 0.89) -> dict[str, float]:
    """The score of each configuration that keeps the least accuracy, by its key, from front.json alone."""
    weights, found = Priority.parse(priority), {}
    for row in Front.read(folder).rows:
        figures, pace = row.measured, 1.0 if row.in_play_off else DRIFT
        if figures.val_accuracy < least - 1e-12:
            continue
        speed = math.log2(figures.throughput_epochs_per_s * pace)
        if weights.time:
            speed = -math.inf if figures.seconds_to_accuracy is None else -math.log2(figures.seconds_to_accuracy / pace)
        points = 100 * (figures.val_accuracy if weights.accuracy_counts else least)
        memory = math.log2(figures.peak_host_bytes)
        found[row.config.key()] = weights.throughput * speed - weights.memory * memory + weights.accuracy * points / 2
    return found


@pytest.mark.parametrize("name", ["memory", "time"])
def test_the_tunes_own_question_is_answered_by_its_choice(kept: Kept, name: str) -> None:
    folder = kept(name)
    tuned, found = TunedConfig.read(folder), pick(folder)
    assert found.is_choice
    assert found.in_play_off
    assert found.tuned == tuned
    assert found.throughput.to_dict() == tuned.against_default["throughput"]
    assert found.doubts == ()


@pytest.mark.parametrize("priority", ["time", "throughput", "memory", "accuracy", "balanced", "1,0,0", "0,1,0"])
@pytest.mark.parametrize("name", ["memory", "time"])
def test_the_pick_has_the_best_score_at_one_speed_of_the_machine(kept: Kept, name: str, priority: str) -> None:
    folder = kept(name)
    found = pick(folder, priority=priority)
    if not found.is_choice:  # that stands by the verification, whatever single trials promise
        known = scores(folder, priority)
        assert known[found.config.key()] == pytest.approx(max(known.values()))
    own, figures = found.seconds[0], found.row.measured
    assert (own is None) == (figures.seconds_to_accuracy is None)
    assert own is None or own.low <= figures.seconds_to_accuracy * (1 + 1e-9) <= own.high * (1 + 2e-9)


def test_the_choice_stands_where_the_question_only_narrows_the_tunes_own(kept: Kept) -> None:
    folder = kept("memory")
    chosen = TunedConfig.read(folder)
    found = pick(folder, memory_limit="300MiB")
    assert (found.is_choice, found.config, found.tuned.limits.host_bytes) == (True, chosen.config, 300 * MiB)
    assert found.tuned.against_default == chosen.against_default
    assert not pick(folder, memory_limit="300MiB", priority="throughput").is_choice
    assert not pick(kept("time"), max_accuracy_drop=0.5).is_choice  # other seconds count
    looser = pick(folder, max_accuracy_drop=5)
    assert not looser.is_choice  # there is more to choose from
    assert looser.row.measured.peak_host_bytes < found.row.measured.peak_host_bytes


def test_a_single_trial_is_said_to_be_one_and_put_at_the_play_offs_speed(kept: Kept) -> None:
    folder = kept("memory")
    found = pick(folder, priority="throughput")
    assert not found.in_play_off
    assert "a single trial, not verified" in found.doubts[0]
    assert "at 0.7 of its earlier speed" in found.doubts[1]
    before = {row.config: row.measured for row in Front.read(folder).rows}
    own, default = found.row.measured, found.default_row.measured
    assert own.throughput_epochs_per_s == pytest.approx(DRIFT * before[found.config].throughput_epochs_per_s)
    assert own.seconds_to_accuracy == pytest.approx(before[found.config].seconds_to_accuracy / DRIFT)
    assert default == before[TrainConfig()]
    assert found.throughput.median == pytest.approx(own.throughput_epochs_per_s / default.throughput_epochs_per_s)
    assert found.throughput.low < found.throughput.median < found.throughput.high


def test_another_target_has_other_seconds(kept: Kept) -> None:
    folder = kept("time")
    curve, pace = (tuned := TunedConfig.read(folder)).measured.curve, tuned.measured.pace
    for drop in (0.5, 30.0, 60.0):
        found = pick(folder, max_accuracy_drop=drop)
        target = found.tuned.target_accuracy
        assert target == pytest.approx(0.9 - drop / 100)
        row = next(row for row in found.front.rows if row.config == tuned.config)
        assert row.measured.seconds_to_accuracy == pytest.approx(pace.seconds(curve.first_reaching(target)))
    assert pick(folder, target_accuracy=60).tuned.target_accuracy == 0.6


def test_where_nothing_keeps_the_limits_the_nearest_that_would_is_said(kept: Kept) -> None:
    folder = kept("memory")
    with pytest.raises(InfeasibleError, match="no configuration keeps every limit") as caught:
        pick(folder, memory_limit="200MiB")
    assert caught.value.exit_code == ExitCode.INFEASIBLE
    assert "73.0 MiB over the limit of 200 MiB" in str(caught.value)
    assert "memory_limit='280MiB'" in str(caught.value)
    assert pick(folder, memory_limit="280MiB").row.measured.peak_host_bytes == caught.value.smallest_limit_bytes
    with pytest.raises(InfeasibleError):
        pick(folder, memory_limit="279MiB")
    with pytest.raises(InfeasibleError, match="target_accuracy=90"):
        pick(folder, memory_limit="280MiB", target_accuracy=95, priority="time")


def test_what_the_play_off_rejected_is_left_out(kept: Kept) -> None:
    folder = kept("memory")
    chosen = pick(folder, priority="0,1,0", memory_limit="281MiB").config
    fields = json.loads((folder / "front.json").read_text())
    for row in fields["rows"]:
        if TrainConfig.from_dict(row["config"]) == chosen:
            row["note"] = "rejected in the play-off: host memory 1.00 MiB over the limit of 279 MiB"
    (folder / "front.json").write_text(json.dumps(fields))
    found = pick(folder, priority="0,1,0")
    assert found.config != chosen
    assert any("the verification rejected" in doubt for doubt in found.doubts)
    with pytest.raises(InfeasibleError):
        pick(folder, priority="0,1,0", memory_limit="281MiB")


def test_the_choice_keeps_the_limits_that_the_play_off_found_it_to_keep(kept: Kept) -> None:
    """Its accuracy was judged in the mean over seeds; the figures are of one of them."""
    folder = kept("memory")
    chosen = TunedConfig.read(folder).config
    fields = json.loads((folder / "front.json").read_text())
    for row in fields["rows"]:
        if TrainConfig.from_dict(row["config"]) == chosen:
            row["measured"]["val_accuracy"] = 0.888
    (folder / "front.json").write_text(json.dumps(fields))
    assert pick(folder).config == pick(folder, max_accuracy_drop=1.0).config == chosen
    assert pick(folder, max_accuracy_drop=0.9).config != chosen


def test_what_is_not_known_of_ended_trainings_is_said(kept: Kept) -> None:
    found = pick(kept("time"), max_accuracy_drop=5)
    assert any("may or may not reach the least accuracy" in doubt for doubt in found.doubts) == any(
        not row.measured.complete and not row.feasible for row in found.front.rows
    )
    with pytest.raises(InfeasibleError, match="may or may not reach"):
        pick(kept("memory"), target_accuracy=95)


def test_an_unfinished_tune_answers_so_far(kept: Kept) -> None:
    found = pick(kept("unfinished"), priority="memory")
    assert found.config == TrainConfig(feature_tier="disk")
    assert "has not finished" in found.doubts[0]
    assert found.tuned.measured is not None


def test_a_tune_that_runs_is_read_and_left_alone(kept: Kept) -> None:
    folder = kept("unfinished")
    journal = folder / "probes.jsonl"
    with journal.open("a") as file:
        file.write('{"reason": "best", "predic')  # a line that is being written
    before = journal.read_bytes()
    pick(folder)
    assert journal.read_bytes() == before


def test_it_writes_what_training_takes_and_never_the_tunes_own(kept: Kept, tmp_path: Path) -> None:
    folder = kept("memory")
    own = (folder / "tuned.json").read_bytes()
    found = pick(folder, priority="throughput")
    assert found.write() == folder / "picked.json"
    assert TunedConfig.read(folder / "picked.json") == found.tuned
    again = pick(folder)
    assert again.write() == folder / "picked.json"  # the next pick takes its place
    assert TunedConfig.read(folder / "picked.json") == again.tuned
    assert found.write(tmp_path / "mine") == tmp_path / "mine" / "tuned.json"
    for place in (tmp_path / "mine", folder, folder / "tuned.json"):
        with pytest.raises(UsageError, match="must name a new file"):
            found.write(place)
    assert (folder / "tuned.json").read_bytes() == own


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"priority": "speed"}, "priority must be one of"),
        ({"memory_limit": "lots"}, "a size is a number with a unit"),
        ({"host_memory_limit": "default"}, "a size is a number with a unit"),
        ({"max_accuracy_drop": -1.0}, "max_accuracy_drop must be >= 0"),
        ({"target_accuracy": 0.9}, "must be in percent"),
    ],
)
def test_a_wrong_question_says_the_law(kept: Kept, asked: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        pick(kept("memory"), **asked)


def test_a_folder_without_a_tune_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"it holds no request\.json"):
        pick(tmp_path)


def test_a_limit_of_the_tune_can_be_taken_away(kept: Kept) -> None:
    folder = kept("memory")
    fields = json.loads((folder / "request.json").read_text()) | {"memory_limit": 285 * MiB}
    (folder / "request.json").write_text(json.dumps(fields))
    assert pick(folder, priority="throughput").row.measured.peak_host_bytes <= 285 * MiB
    assert pick(folder, priority="throughput", memory_limit="none").row.measured.peak_host_bytes > 285 * MiB


def test_a_result_picks_from_its_folder(kept: Kept) -> None:
    folder = kept("memory")
    nothing = SearchSummary("random")
    result = TuneResult(folder, TunedConfig.read(folder), Front.read(folder), nothing, 12, 1.0)
    found = result.pick(priority="throughput")
    assert found == pick(folder, priority="throughput")
    assert "a single trial" in " ".join(repr(found).split())
    assert found._repr_html_().endswith(f">{escape(repr(found))}</pre>")


@pytest.mark.parametrize("priority", ["time", "throughput", "memory"])
def test_lines_name_what_was_asked_and_fit(kept: Kept, priority: str) -> None:
    found = pick(kept("memory"), priority=priority, memory_limit="4GiB")
    lines = list(pick_lines(found))
    assert max(map(len, lines)) <= 80
    said = " ".join(" ".join(lines).split())
    assert f"Picked for {priority} with host memory <= 4.00 GiB, validation accuracy >= 89.00%" in said
    assert said.index("seconds to 89.00%") > said.index("measured picked baseline")


def test_where_no_gain_could_be_measured_nothing_is_said_to_be_no_better(without_gain: Path) -> None:
    found, words = pick(without_gain), " ".join(" ".join(pick_lines(pick(without_gain))).split())
    assert (found.is_choice, found.config) == (True, TrainConfig().canonical())
    assert "No measurable gain over the baseline was found." in words
    assert "No trial beats" not in words


@pytest.mark.parametrize("more", [-0.05, 0.02])
def test_a_pick_for_memory_does_not_take_more_of_it_than_the_baseline(kept: Kept, more: float) -> None:
    """Speed weighs 5% there: three times the speed would outweigh 2% of the memory."""
    folder = kept("time")
    fields = json.loads((folder / "front.json").read_text())
    baseline = next(row for row in fields["rows"] if "default" in row["labels"])
    for row in fields["rows"]:
        if row is not baseline:
            row["measured"]["peak_host_bytes"] = 4 * baseline["measured"]["peak_host_bytes"]
    other = next(row for row in fields["rows"] if "chosen" in row["labels"])
    other["measured"]["peak_host_bytes"] = round((1 + more) * baseline["measured"]["peak_host_bytes"])
    for name in ("throughput_epochs_per_s", "throughput_low", "throughput_high"):
        other["measured"][name] = 3 * baseline["measured"][name]
    fields["rows"] = [baseline, other]
    (folder / "front.json").write_text(json.dumps(fields))
    lines = (folder / "probes.jsonl").read_text().splitlines()
    measured = [row["config"] for row in fields["rows"]]
    lines = [line for line in lines if json.loads(line)["measurement"]["config"] in measured]
    (folder / "probes.jsonl").write_text("".join(f"{line}\n" for line in lines))
    found = pick(folder, priority="memory")
    assert (found.config == TrainConfig().canonical()) is (more > 0)
    row = next(row for row in found.front.rows if "memory" in row.labels)
    assert row.config == found.config
    assert all(row.measured.peak_host_bytes <= one.measured.peak_host_bytes for one in found.front.rows)
    assert ("No trial beats the baseline" in "\n".join(pick_lines(found))) is (more > 0)


def test_a_single_measurement_has_no_range(kept: Kept) -> None:
    folder = kept("time")
    fields = json.loads((folder / "front.json").read_text())
    for row in fields["rows"]:
        own = row["measured"]
        own |= {"throughput_low": own["throughput_epochs_per_s"], "throughput_high": own["throughput_epochs_per_s"]}
        own |= {"seconds_low": own["seconds_to_accuracy"], "seconds_high": own["seconds_to_accuracy"]}
        own["seconds_repeats"] = 1
    (folder / "front.json").write_text(json.dumps(fields))
    found = pick(folder, priority="throughput", max_accuracy_drop=0.9)  # its comparison is for another target
    assert found.default_row is not None
    assert found.throughput.repeats == 1
    shown = "\n".join(pick_lines(found))
    assert re.search(r"^epochs/s +[\d.]+ +[\d.]+\n  over the baseline +[\d.]+x$", shown, re.M)
    assert re.search(r"^  over the baseline +[\d.]+x sooner", shown, re.M)
