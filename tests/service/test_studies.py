"""Studies from their start to a training with what they chose, on a real server with real trials."""

import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from a3gnn.errors import InfeasibleError
from a3gnn.service.client import Client, RemoteStudy
from a3gnn.tuning.study.folder import Journal
from tests.commands import Ended, a3gnn, process
from tests.service.servers import GRAPH, QUICK, SMALL, Server, journal, serving

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("service") / "home") as server:
        yield server


@pytest.fixture(scope="module")
def tuned_there(server: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    """The folder and the end of a command that tunes on the server."""
    out = tmp_path_factory.mktemp("tuned") / "run"
    options = ["--hidden", "16", "--fanouts", "4,4", "--accuracy-epochs", "1", "--max-accuracy-drop", "100"]
    options += [f"--fix={name}={value}" for name, value in SMALL["fix"].items() if value is not None]
    options += ["--engine", "random", "--budget", "2"]
    return out, a3gnn("tune", "--server", server.url, "--dataset", GRAPH, "--out", out, *options)


@pytest.fixture(scope="module")
def finished(server: Server, tuned_there: tuple[Path, Ended]) -> RemoteStudy:
    """The study of that command."""
    assert tuned_there[1].returncode == 0, tuned_there[1].stderr
    return Client(server.url).study(1)


def wait_for(condition, seconds: float = 120.0):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


def test_a_study_is_the_very_tune(server: Server, finished: RemoteStudy) -> None:
    state = finished.state()
    assert (state["status"], state["error"]) == ("finished", None)
    run = server.folder / "studies" / str(finished.id) / "run"
    assert server.ask("GET", f"/studies/{finished.id}/tuned.json").content == (run / "tuned.json").read_bytes()
    assert server.ask("GET", f"/studies/{finished.id}/tuned.csv").content == (run / "front.csv").read_bytes()
    assert server.ask("GET", f"/studies/{finished.id}/front").json == json.loads((run / "front.json").read_text())
    lines = journal(server.folder, finished.id)
    trials = finished.trials()
    assert [trial.pop("number") for trial in trials] == list(range(len(lines)))
    judged = [trial.to_dict() for trial in Journal(run).read(mend=False)]  # with the drifts as known by now
    assert trials == json.loads(json.dumps(judged))
    assert state["trials"] == len(lines)
    fastest = finished.trials(sort="throughput")
    speeds = [one["measurement"]["metrics"]["throughput_epochs_per_s"] for one in fastest]
    assert speeds == sorted(speeds, reverse=True)
    assert [one["reason"] for one in finished.trials(reason="default")] == ["default"]
    assert finished.trials(outcome="failed") == []
    chosen = [row for row in finished.front().rows if "chosen" in row.labels]
    assert [row.config for row in chosen] == [finished.tuned().config]
    assert server.ask("GET", "/machines").json["machines"][0]["num_cores"] >= 1


def test_whoever_follows_late_reads_all_lines(server: Server, finished: RemoteStudy) -> None:
    lines: list[str] = []
    finished.wait(lines.append)
    assert any(line.startswith("baseline ") for line in lines)
    assert any(line.startswith("#1 ") for line in lines)
    content = server.ask("GET", f"/studies/{finished.id}/events").content
    assert content.count(b"event: trial\n") == len(journal(server.folder, finished.id))


@pytest.mark.weekly  # the story goes on, tests/tuning/test_resume has the tune
def test_a_finished_study_goes_on_under_a_larger_budget(server: Server, finished: RemoteStudy) -> None:
    before = journal(server.folder, finished.id)
    finished.resume(budget=3)
    wait_for(lambda: len(journal(server.folder, finished.id)) > len(before))
    finished.stop()
    finished.wait()
    after = journal(server.folder, finished.id)
    assert after[: len(before)] == before
    assert len(after) == len(before) + 1


@pytest.mark.weekly  # test_an_interrupted_tune_resumes; the story stops and resumes one
def test_a_study_that_is_stopped_chooses_the_best_so_far_and_goes_on_later(server: Server) -> None:
    study = Client(server.url).start(GRAPH, **QUICK, budget=1000, seed=1)
    for _ in range(2):
        before = journal(server.folder, study.id) if study.trials() else []
        wait_for(lambda before=before: len(study.trials()) >= len(before) + 2)
        assert study.front().rows  # so far
        assert study.stop()["status"] in ("stopped", "stopping")
        tuned = study.wait()
        assert study.state()["status"] == "stopped"
        assert "the tune was stopped" in tuned.left_out[0]
        assert journal(server.folder, study.id)[: len(before)] == before
        assert len(study.trials()) < 100
        assert study.resume()["status"] == "queued"
    study.stop()


@pytest.mark.weekly  # tests/tuning has the tune by formulas
def test_a_study_that_nothing_can_keep_the_limits_of_fails_as_a_tune_does(server: Server) -> None:
    study = Client(server.url).start(GRAPH, **SMALL, budget=1, memory_limit="1MiB")
    with pytest.raises(InfeasibleError, match="memory"):
        study.wait()
    error = study.state()["error"]
    assert error["type"] == "urn:a3gnn:infeasible"
    study.delete(forever=True)


def test_the_page_of_a_study_shows_it_and_acts_on_it(server: Server, finished: RemoteStudy) -> None:
    path, form = f"/studies/{finished.id}/page", {"Content-Type": "application/x-www-form-urlencoded"}
    page = server.ask("GET", path).content.decode()
    assert f'data-live="/studies/{finished.id}"' in page
    assert f'href="/studies/{finished.id}/tuned.json"' in page
    report = server.ask("GET", f"/studies/{finished.id}/tuned.html").content.decode()
    assert "data-live" not in report
    assert "/static/study" in page
    assert "/static/study" not in report
    views = server.ask("GET", f"/studies/{finished.id}/views").json
    assert len(views["rows"]) == len(finished.trials())
    refused = server.ask("POST", path, b"action=stop", form)
    assert refused.status == 409
    assert "only a waiting or running study can be stopped" in refused.content.decode()
    assert server.ask("POST", path, b"action=explode", form).status == 422
    assert server.ask("POST", path, b"action=train", form).status == 303
    training = server.ask("GET", f"/trainings?study={finished.id}").json["trainings"][0]
    assert f"training {training['id']}</a> is " in server.ask("GET", path).content.decode()
    server.ask("POST", f"/trainings/{training['id']}/stop")


def test_the_choice_is_trained_and_its_weights_are_taken_away(server: Server, finished: RemoteStudy) -> None:
    training = finished.train(epochs=2)
    state = wait_for(lambda: (found := Client(server.url).training(training["id"]))["ended"] and found)
    assert (state["status"], state["study"]) == ("finished", finished.id)
    result = server.ask("GET", f"/trainings/{training['id']}/result.json").json
    assert result["config"] == finished.tuned().config.to_dict()
    assert result["epochs"] <= 2
    assert server.ask("GET", f"/trainings/{training['id']}/model.pt").content[:2] == b"PK"
    assert server.ask("DELETE", f"/trainings/{training['id']}").status == 204


def test_a_recommendation_is_what_a3gnn_recommend_says(server: Server, finished: RemoteStudy) -> None:
    asked = {"dataset": GRAPH, "hidden": 16, "fanouts": [4, 4]}
    headers = {"Content-Type": "application/json"}
    answer = server.ask("POST", "/recommend", asked, headers)
    assert answer.status == 200, answer.content
    assert answer.json == server.ask("POST", "/recommend", asked, headers).json
    store = server.folder / "service.sqlite"
    task = ["--dataset", GRAPH, "--hidden", 16, "--fanouts", "4,4"]
    run = process("recommend", *task, "--store", store, "--json")  # whose measurements are as few as the server's
    assert answer.json["config"] == json.loads(run.stdout)["config"]
    refused = server.ask("POST", "/recommend", {**asked, "memory_limit": "default"}, headers)
    assert refused.status == 422
    assert "must be a size" in refused.json["detail"]


def test_the_command_line_tunes_on_the_server(server: Server, tuned_there: tuple[Path, Ended]) -> None:
    out, run = tuned_there
    assert run.returncode == 0, run.stderr
    assert "baseline " in run.stderr
    assert run.stdout.lstrip().startswith("Tuned GraphSAGE on ")
    assert f"a3gnn train {shlex.quote(str(out))}" in run.stdout
    kept = {path.name for path in out.iterdir()}
    assert {"tuned.json", "front.csv", "front.json", "front.png", "request.json", "probes.jsonl", "state.json"} <= kept
    shown = a3gnn("pick", out, "--json")
    assert json.loads(shown.stdout)["config"] == json.loads((out / "tuned.json").read_text())["config"]
    again = a3gnn("tune", "--server", server.url, "--dataset", GRAPH, "--out", out)
    assert again.returncode == 2
    assert "must be a new or empty folder" in again.stderr
