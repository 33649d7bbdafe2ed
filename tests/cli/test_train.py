from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.cli.main import main
from a3gnn.config import TrainConfig
from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn.limits import Limits
from a3gnn.machine.other_work import OtherWork
from a3gnn.measurement import Metrics, StageSeconds
from a3gnn.option_names import program
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn.training.tuned import TunedConfig
from tests.answers import checked

SPEC = "synthetic:nodes=300,degree=8,classes=4,features=16"
METRICS = Metrics(25.0, 300 * 2**20, 0, 0, 0.6, 0.6, 5, 9, 3, 0.0, StageSeconds(0.1, 0.1, 0, 0.2), 0.0, 0, 1e3, 1e4)
HARDWARE = Hardware("Another CPU", 64, 2**38, "", 0, 0, MachineProfile(1e8, 1e10, 1e9, 1e11, 1e10, 0.9, 1e-3, 10**8))


@pytest.fixture
def tuned(tiny_graph, tmp_path) -> Path:
    graph: GraphCharacteristics = tiny_graph.characteristics()
    task = Task(hidden_channels=16, fanouts=(5, 5))
    config = TrainConfig(batch_size=32)
    path = tmp_path / "tuned.json"
    TunedConfig(config, Setting(task, graph, HARDWARE), SPEC, Limits(), {}, METRICS).write(path)
    return path


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["train", *map(str, arguments)])
    return int(ended.value.code or 0)


def test_trains_and_compares_with_the_tune(tuned, tmp_path, capsys):
    assert run("--config", tuned, "--epochs", 3, "--out", tmp_path / "run") == 0
    out, err = capsys.readouterr()
    out = " ".join(out.split())
    assert re.search(r"test accuracy [0-9.]+% at epoch \d of 3, the best by validation validation accuracy", out)
    assert f"Next {program()} predict {tmp_path / 'run'} --dataset {SPEC} --out predictions.npy" in out
    assert "NVTPS" not in out
    assert "the tune measured 25" in out
    assert "the tune measured 300 MiB" in out
    assert "tuned on another machine (Another CPU" in err
    assert err.count("epoch   ") == 3
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize(("share", "said"), [(0.0, ""), (0.04, ""), (0.2, "took 20% of the cores' time")])
def test_it_is_said_where_the_host_took_much_of_the_time(tuned, tmp_path, capsys, monkeypatch, share, said):
    monkeypatch.setattr(OtherWork, "stolen_seconds", lambda _: 0.0)
    monkeypatch.setattr(OtherWork, "stolen_share", lambda _: share)
    assert run("--config", tuned, "--epochs", 1, "--out", tmp_path / "run", "--verbose") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert ("Stolen " in out) == bool(said)
    assert "NVTPS" in out
    assert said in out
    assert json.loads((tmp_path / "run" / "result.json").read_text())["stolen_share"] == share


def test_json_is_one_object_on_stdout(tuned, tmp_path, capsys):
    assert run("--config", tuned, "--epochs", 2, "--seed", 7, "--out", tmp_path / "run", "--json") == 0
    result = checked("train", capsys.readouterr().out)
    assert result["epochs"] == 2
    assert result["task"]["seed"] == 7
    assert result["folder"] == str(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result


def test_a_target_is_said_beside_what_the_tune_promised(tuned, tmp_path, capsys):
    promise = {"median": 2.0, "low": 1.5, "high": 2.5}
    made = dataclasses.replace(TunedConfig.read(tuned), target_accuracy=0.3, seconds_to_accuracy=promise)
    made.write(tuned)
    assert run("--config", tuned, "--epochs", 20, "--until-target", "--out", tmp_path / "run") == 0
    out, err = (" ".join(text.split()) for text in capsys.readouterr())
    assert "reached 30.00% validation accuracy after" in err
    assert re.search(r"time to 30\.00% [0-9.]+ s the tune measured 2 s \(1\.5 s to 2\.5 s\)", out)
    assert re.search(r"test accuracy [0-9.]+% after \d+ mini-batches, at the target", out)
    assert json.loads((tmp_path / "run" / "result.json").read_text())["target_accuracy"] == 0.3
    dataclasses.replace(made, seconds_to_accuracy=dict.fromkeys(promise, 2.0)).write(tuned)  # of a single run
    assert run("--config", tuned, "--epochs", 1, "--out", tmp_path / "short") == 0
    assert re.search(r"the tune measured 2 s(?! \()", " ".join(capsys.readouterr().out.split()))
    assert run("--config", tuned, "--epochs", 1, "--target-accuracy", "100", "--out", tmp_path / "high") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "time to 100.00% not reached" in out
    assert "promised" not in out
    assert run("--config", tuned, "--target-accuracy", "0.9", "--out", tmp_path / "share") == 2
    assert "must be in percent" in capsys.readouterr().err


def test_the_summary_says_how_long_the_tune_trained_and_whether_more_epochs_would_help(tuned, tmp_path, capsys):
    curve = LearningCurve((9, 18, 27), (0.4, 0.5, 0.6), CurveEnd.BUDGET)
    measured = dataclasses.replace(METRICS, curve=curve, setup_seconds=0.64)
    dataclasses.replace(TunedConfig.read(tuned), measured=measured).write(tuned)
    assert run(tuned.parent, "--epochs", 8, "--out", tmp_path / "run") == 0
    out, err = (" ".join(text.split()) for text in capsys.readouterr())
    assert re.search(r"time of training [0-9.]+ s the tune trained it for 1 s", out)
    assert re.search(r"validation accuracy [0-9.]+% still improving when the epochs ended", out)
    assert f"the same command with --epochs 16 --out {tmp_path / 'run'} --resume goes on" in err
    assert run(tuned.parent, "--out", tmp_path / "whole") == 0
    out, err = (" ".join(text.split()) for text in capsys.readouterr())
    assert "still improving" not in out + err
    assert "validation accuracy has not improved since about epoch" in err
    result = json.loads((tmp_path / "whole" / "result.json").read_text())
    assert (result["ended"], result["batches"] % result["epochs"]) == ("no better", 0)
    assert result["batches"] >= 200


def test_a_falling_learning_rate_falls_over_the_epochs_or_fifty(tuned, tmp_path, capsys):
    for given, epochs in ((["--epochs", 3], 3), ([], 50), (["--lr-epochs", 2], 2)):
        out = tmp_path / f"of_{epochs}"
        assert run(tuned, "--lr-schedule", "linear", *given, "--out", out) == 0
        result = json.loads((out / "result.json").read_text())
        assert (result["task"]["lr_epochs"], result["epochs"]) == (epochs, epochs)
    capsys.readouterr()


def test_predictions_stand_beside_the_result_of_a_recommendation(tuned, tmp_path, capsys):
    speed, memory = {"mean": 25.0, "low": 20.0, "high": 30.0}, {"mean": 3e8, "low": 2e8, "high": 4e8}
    predicted = {"throughput_epochs_per_s": speed, "peak_host_bytes": memory}
    dataclasses.replace(TunedConfig.read(tuned), measured=None, predicted=predicted).write(tuned)
    assert run(tuned.parent, "--epochs", 1, "--out", tmp_path / "run", "--quiet") == 0
    out, err = capsys.readouterr()
    assert not err
    assert re.search(r"epochs per second +\S+   predicted 25 \(20 to 30; [0-9.]+x\)\n", out)
    assert re.search(r"peak memory +\S+ \SiB   predicted 286 MiB \(191 MiB to 381 MiB; [0-9.]+x\)\n", out)
    assert "the tune measured" not in out
    assert len(out.splitlines()) <= 11  # with label propagation, and a line where it is at least as good


def test_results_go_to_a_new_folder_under_runs(tuned, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert [run("--config", tuned, "--epochs", 1) for _ in range(2)] == [0, 0]
    folders = sorted(path.name for path in Path("runs").iterdir())
    assert len(folders) == 2
    assert all(name.startswith("train-") for name in folders)
    capsys.readouterr()


def test_wrong_usage_exits_with_two(tuned, tmp_path, capsys):
    assert run("--config", tmp_path / "none.json") == 2
    assert "can't read" in capsys.readouterr().err
    assert run("--config", tuned, "--epochs", 0) == 2
    assert run("--config", tuned, "--epochs", 1, "--out", tmp_path / "run") == 0
    capsys.readouterr()
    assert run("--config", tuned, "--epochs", 1, "--out", tmp_path / "run") == 2
    assert "add --resume" in capsys.readouterr().err


def test_a_broken_dataset_exits_with_one(tuned, tmp_path, capsys):
    (tmp_path / "broken.npz").write_bytes(b"PK nothing")
    assert run("--config", tuned, "--dataset", tmp_path / "broken.npz", "--out", tmp_path / "run") == 1
    assert "broken.npz" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_passed_memory_limit_exits_with_one_and_keeps_the_run(tuned, tmp_path, capsys):
    assert run("--config", tuned, "--out", tmp_path / "run", "--host-memory-limit", "1MiB") == 1
    assert "--resume goes on from there" in capsys.readouterr().err
    assert run("--config", tuned, "--out", tmp_path / "run", "--epochs", 2, "--resume") == 0
    capsys.readouterr()


def test_ctrl_c_exits_with_130_and_resumes(tuned, tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-W", "ignore", "-m", "a3gnn", "train", "--config", str(tuned), "--out", str(out)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    endless = [*command, "--epochs", "1000000", "--patience", "1000000"]
    with subprocess.Popen(endless, stderr=subprocess.PIPE, env=environment, text=True) as process:
        deadline = time.monotonic() + 120
        while not (out / "metrics.jsonl").exists() or not (out / "metrics.jsonl").read_text():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"--out {shlex.quote(str(out))} --resume goes on from there" in err
    assert "Traceback" not in err
    done = len((out / "metrics.jsonl").read_text().splitlines())
    assert run("--config", tuned, "--out", out, "--resume", "--epochs", done + 2, "--patience", 10**6) == 0
    assert len((out / "metrics.jsonl").read_text().splitlines()) == done + 2


def test_a_model_takes_the_place_of_the_tunes(tuned, tmp_path, capsys):
    assert run("--config", tuned, "--model", "gcn", "--fanouts", "3,2", "--epochs", 1, "--out", tmp_path / "run") == 0
    task = json.loads((tmp_path / "run" / "result.json").read_text())["task"]
    assert (task["model"], task["fanouts"], task["hidden_channels"]) == ("gcn", [3, 2], 16)
    assert run("--dataset", SPEC, "--model", "gcn", "--epochs", 1, "--out", tmp_path / "default") == 0
    assert json.loads((tmp_path / "default" / "result.json").read_text())["config"] == TrainConfig().to_dict()
    capsys.readouterr()
    assert run("--dataset", SPEC) == 2
    assert "train needs DIR, the folder of a tune, or --model" in capsys.readouterr().err
    assert run("--dataset", SPEC, "--model", "saeg") == 2
    assert "did you mean 'sage'?; a model of your own is package.module:function" in capsys.readouterr().err
    assert run("--dataset", SPEC, "--model", "nowhere_at_all:make") == 2
    assert "no module is named nowhere_at_all; run this from the folder with the module" in capsys.readouterr().err


@pytest.mark.parametrize(("layers", "fanouts"), [(2, [5, 5]), (3, [15, 10, 5])])
def test_layers_leave_the_tunes_fanouts_where_they_are_as_many(tuned, tmp_path, layers, fanouts):
    assert run("--config", tuned, "--layers", layers, "--epochs", 1, "--out", tmp_path / "run") == 0
    assert json.loads((tmp_path / "run" / "result.json").read_text())["task"]["fanouts"] == fanouts


def test_auto_prints_the_seconds_of_each_part(tmp_path, capsys):
    out = tmp_path / "run"
    assert run("--auto", "--dataset", SPEC, "--lr-schedule", "linear", "--lr-epochs", 3, "--out", out) == 0
    found, err = capsys.readouterr()
    assert "Took " in found
    assert "all of them training of the baseline" in " ".join(found.split())
    assert "the baseline's training has ended meanwhile" in err
    assert (out / "baseline" / "model.pt").exists()
    assert json.loads((out / "auto.json").read_text())["trains"] == "baseline"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--auto needs --dataset"),
        (("--dataset", SPEC, "--trainers", "auto"), "--auto does not take --trainers; leave it out"),
        (("--dataset", SPEC, "--config", "runs/tune"), "--auto does not take --config"),
        (("runs/tune", "--dataset", SPEC), "--auto does not take DIR"),
    ],
)
def test_auto_refuses_what_it_does_not_take(arguments, said, capsys):
    assert run("--auto", *arguments) == 2
    assert said in capsys.readouterr().err
