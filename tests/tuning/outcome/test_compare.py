import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from a3gnn.errors import UsageError
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.compare import compare, compare_lines
from a3gnn.tuning.study.comparison import Comparison

Kept = Callable[[str], Path]
#: The ratio of a single pair of runs.
ONE = {"median": 1.77, "low": 1.77, "high": 1.77, "repeats": 1}


def test_a_tune_beside_itself_differs_in_nothing(kept: Kept) -> None:
    folder = kept("memory")
    found = compare([folder, folder])
    assert (found.caveats, found.knobs) == ((), {})
    assert [tune.letter for tune in found.tunes] == ["A", "B"]


def test_what_was_asked_and_found_is_that_of_the_files(kept: Kept) -> None:
    folders = [kept("memory"), kept("time")]
    found = compare(folders)
    for tune, folder in zip(found.tunes, folders, strict=True):
        tuned = TunedConfig.read(folder)
        assert (tune.config, tune.against) == (tuned.config, Comparison.from_dict(tuned.against_default))
        assert tune.choice.throughput_epochs_per_s == tuned.measured.throughput_epochs_per_s
        assert tune.default.throughput_epochs_per_s == tuned.default.throughput_epochs_per_s
    assert [tune.request.priority.name for tune in found.tunes] == ["memory", "time"]
    configs = [tune.config.to_dict() for tune in found.tunes]
    assert found.knobs == {
        name: (value, configs[1][name]) for name, value in configs[0].items() if value != configs[1][name]
    }


def test_a_name_that_one_tune_searched_has_the_other_tasks_value(kept: Kept) -> None:
    folders = [kept("memory"), kept("time")]
    fields = json.loads((folders[0] / "tuned.json").read_text())
    fields["config"]["searched"] = {"hidden_channels": 12, "learning_rate": 0.003}
    (folders[0] / "tuned.json").write_text(json.dumps(fields))
    first, second = compare(folders).tunes
    assert dict(first.config.searched) == {"hidden_channels": 12, "learning_rate": 0.003}
    knobs = compare(folders).knobs
    own = second.setting.task
    assert own.hidden_channels != 12
    assert knobs["hidden_channels"] == (12, own.hidden_channels)
    assert ("learning_rate" in knobs) == (own.learning_rate != 0.003)


def test_other_graphs_machines_metrics_and_versions_are_said_not_to_compare(kept: Kept) -> None:
    mine, other = kept("memory"), kept("time")
    assert [line.split(":")[0] for line in compare([mine, other]).caveats] == ["Other graphs"]
    fields = json.loads((other / "tuned.json").read_text())
    fields["versions"]["a3gnn"] = "0.0.1"
    (other / "tuned.json").write_text(json.dumps(fields))
    lines = [json.loads(line) for line in (other / "probes.jsonl").read_text().splitlines()]
    for line in lines:
        line["measurement"]["hardware"]["num_cores"] = 64
        line["measurement"]["task"]["hidden_channels"] = 512
        line["measurement"]["task"]["metric"] = "macro_f1"
    (other / "probes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    caveats = compare([mine, other]).caveats
    assert [line.split(":")[0] for line in caveats] == [
        *("Other graphs", "Other machines", "Other tasks", "Other metrics", "Other versions"),
    ]
    assert "a3gnn 0.0.1" in caveats[4]


def test_a_tune_without_a_version_is_not_of_another_one(kept: Kept) -> None:
    """A journal has the version of its measurements, and only a finished tune that of a3gnn."""
    mine, running = kept("memory"), kept("time")
    state = json.loads((running / "state.json").read_text())
    (running / "state.json").write_text(json.dumps(state | {"finished_budget": None}))
    found = compare([mine, running])
    assert [tune.finished for tune in found.tunes] == [True, False]
    assert not any("version" in line for line in found.caveats)
    assert found.tunes[1].to_dict()["version"] == found.tunes[0].version.split(", ")[1]
    assert not any(found.tunes[0].setting.hardware.fingerprint in line for line in compare_lines(found))


def test_an_unfinished_tune_is_shown_so_far(kept: Kept) -> None:
    found = compare([kept("memory"), kept("unfinished")])
    assert found.tunes[1].against is None
    assert any(line.startswith("B has not finished") for line in found.caveats)
    assert "(not finished)" in " ".join(" ".join(compare_lines(found)).split())


def test_a_default_at_other_speeds_is_said(kept: Kept) -> None:
    mine = kept("memory")
    again = Path(shutil.copytree(mine, mine.parent / "again"))
    fields = json.loads((again / "front.json").read_text())
    for row in fields["rows"]:
        for name in ("throughput_epochs_per_s", "throughput_low", "throughput_high"):
            row["measured"][name] *= 2
    (again / "front.json").write_text(json.dumps(fields))
    (caveat,) = compare([mine, again]).caveats
    assert caveat.startswith("The baseline ran at different speeds in A and B")


@pytest.mark.parametrize("many", [2, 3, 5])
def test_lines_fit_however_many_there_are(kept: Kept, many: int) -> None:
    folders = [kept("memory"), kept("time"), kept("unfinished")]
    lines = list(compare_lines(compare([folders[i % 3] for i in range(many)])))
    assert max(len(line) for line in lines if "/" not in line) <= 80
    assert sum(line.startswith("  epochs/s") for line in lines) % 3 == 0
    assert all(any(line.startswith(letter) for line in lines) for letter in "ABCDE"[:many])


def test_csv_and_json_hold_the_same(kept: Kept) -> None:
    found = compare([kept("memory"), kept("time")])
    rows = list(csv.DictReader(io.StringIO(found.csv())))
    told = json.loads(json.dumps(found.to_dict()))["tunes"]
    for row, one in zip(rows, told, strict=True):
        assert float(row["choice_throughput_epochs_per_s"]) == one["choice"]["throughput_epochs_per_s"]
        assert float(row["over_default_throughput_low"]) == one["over_default"]["throughput"]["low"]
        assert row["batch_size"] == str(one["config"]["batch_size"])


def test_one_tune_is_refused(kept: Kept) -> None:
    with pytest.raises(UsageError, match="two tunes or more, got 1"):
        compare([kept("memory")])


@pytest.mark.parametrize(
    ("name", "changes", "verdict"),
    [
        ("memory", {}, "yes, by memory"),
        ("time", {}, "yes, by seconds"),
        ("time", {"time": {"median": 0.897, "low": 0.824, "high": 1.46, "repeats": 15}}, "no"),
        ("time", {"throughput": {"median": 4.39, "low": 1.24, "high": 7.53, "repeats": 2}}, "no"),
        ("time", {"differs": False}, "no"),
        ("time", {"disturbed": 1.0}, "not settled"),
        ("time", {"disturbed": 1.0, "left_out": 3}, "yes, by seconds"),  # those that disturbed do not count
        (
            "time",
            {"throughput": ONE, "time": ONE, "disturbed": 1.0, "memory_most": 1.0},
            "not settled",
        ),
    ],
)
def test_the_verdict_follows_from_the_figures_above_it(kept: Kept, name: str, changes: dict, verdict: str) -> None:
    file = kept(name) / "tuned.json"
    fields = json.loads(file.read_text())
    fields["against_default"] |= changes
    file.write_text(json.dumps(fields))
    found = compare([file.parent, kept("unfinished")])
    (line,) = (line for line in compare_lines(found) if "measurable gain" in line)
    assert line.split("gain")[1].strip().split("  ")[0] == verdict
    differs, runs = verdict != "no", found.tunes[0].against.throughput.repeats
    told = [line for line in found.caveats if line.startswith("The gain of A is not settled: ")]
    assert len(told) == (verdict == "not settled")
    assert all(("disturbed" in line, "one run" in line) == ("disturbed" in changes, runs < 5) for line in told)
    assert found.tunes[0].to_dict()["over_default"]["differs"] is differs
    assert next(csv.DictReader(io.StringIO(found.csv())))["differs"] == str(differs)


def test_a_tune_that_found_no_gain_says_no_and_over_what(kept: Kept, without_gain: Path) -> None:
    found = compare([without_gain, kept("time")])
    (line,) = (line for line in compare_lines(found) if "measurable gain" in line)
    assert line.split("gain")[1].split() == ["no", "yes,", "by", "seconds"]
    no_gain = TunedConfig.read(without_gain).no_gain
    told = json.loads(json.dumps(found.to_dict()))["tunes"]
    assert [(one["no_gain"], one["differs"]) for one in told] == [(no_gain, False), (None, True)]
    assert told[0]["over_default"] is None
    rows = list(csv.DictReader(io.StringIO(found.csv())))
    assert [row["differs"] for row in rows] == ["False", "True"]
    against = no_gain["against_default"]
    assert float(rows[0]["no_gain_throughput_median"]) == against["throughput"]["median"]
    assert float(rows[0]["no_gain_memory"]) == against["memory"]
    assert (rows[1]["no_gain_memory"], rows[0]["over_default_memory"]) == ("", "")


def test_an_unfinished_tune_has_compared_nothing(kept: Kept) -> None:
    found = compare([kept("memory"), kept("unfinished")])
    (line,) = (line for line in compare_lines(found) if "measurable gain" in line)
    assert line.split()[-1] == "-"
    assert found.tunes[1].to_dict()["differs"] is None
    assert list(csv.DictReader(io.StringIO(found.csv())))[1]["differs"] == ""
