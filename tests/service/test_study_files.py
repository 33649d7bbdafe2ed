"""What the files of a study say, read again only where they have changed."""

import dataclasses
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from a3gnn.config import TrainConfig
from a3gnn.service.jobs.home import JobFolder, Places
from a3gnn.service.studies import study_files
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.study.choice import NoGain
from a3gnn.tuning.study.comparison import Comparison
from a3gnn.tuning.study.folder import Journal
from a3gnn.tuning.study.trial import SpeedTiming
from tests.page.conftest import REAL


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    """The folder of a study whose files are those of a real tune, as if it still ran."""
    shutil.copytree(REAL, tmp_path / "1" / "run")
    state = tmp_path / "1" / "run" / "state.json"
    state.write_text(json.dumps({"elapsed_s": 100.0, "finished_budget": None}))
    return JobFolder(tmp_path / "1", Places((tmp_path,)))


def test_a_timing_judges_the_trials_before_it_anew(folder: JobFolder) -> None:
    journal = Journal(folder.run)
    created = [trial.measurement.created for trial in journal.read(mend=False)]
    journal.append_timing(SpeedTiming(created[0], 1.0))
    assert {one["drift"] for one in study_files.trials(folder)} == {1.0}
    folder.events.append("status", status="running")
    front, views = study_files.front_json(folder), study_files.views(folder, "nell")
    journal.append_timing(SpeedTiming(max(created), 0.5))
    judged = journal.read(mend=False)
    trials = study_files.trials(folder)
    assert [one["drift"] for one in trials] == [one.drift for one in judged] != [1.0] * len(judged)
    assert trials == [{"number": number, **one.to_dict()} for number, one in enumerate(judged)]
    assert study_files.front_json(folder) != front
    assert study_files.views(folder, "nell")["rows"] != views["rows"]


def test_a_choice_for_want_of_a_gain_is_told_with_what_it_was_chosen_over(folder: JobFolder) -> None:
    assert study_files.summary(folder)["no_gain"] is None
    tuned = TunedConfig.read(folder.run)
    no_gain = NoGain(tuned.config, Comparison.from_dict(tuned.against_default)).to_dict()
    default = TrainConfig().canonical()
    dataclasses.replace(tuned, config=default, against_default=None, no_gain=no_gain).write(folder.run / "tuned.json")
    found = study_files.summary(folder)
    assert (found["against_default"], found["no_gain"]) == (None, no_gain)
    assert found["trials"] == len(study_files.trials(folder))


def test_the_phase_of_an_earlier_run_is_not_that_of_this_one(tmp_path: Path) -> None:
    folder, now = JobFolder(tmp_path, Places(())), time.time()
    assert study_files.phase(folder, now) == ""
    folder.phase.write_text("verify", encoding="ascii")
    os.utime(folder.phase, (now - 60, now - 60))
    assert study_files.phase(folder, now - 90) == "verify"
    assert study_files.phase(folder, now) == ""
