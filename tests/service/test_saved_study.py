"""A server's study as a folder of this machine, to which commands do what they do to a tune's."""

import json
from pathlib import Path

import pytest

from a3gnn.cli.main import main
from a3gnn.errors import A3GNNError, InfeasibleError, UsageError
from a3gnn.page.views import study_views
from a3gnn.report.front import Front
from a3gnn.service.client import AbsentError, Client, RemoteStudy
from a3gnn.tuning.outcome.kept_tune import KeptTune
from a3gnn.tuning.outcome.pick import pick
from a3gnn.tuning.study.folder import read_request
from tests.answers import checked
from tests.service.servers import GRAPH, Server

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
MINE = "elsewhere/people.npz"


def run_of(server: Server, study: RemoteStudy) -> Path:
    return server.folder / "studies" / str(study.id) / "run"


def test_what_is_said_of_it_is_what_is_said_on_the_server(idle: Server, kept: RemoteStudy, tmp_path: Path) -> None:
    lines: list[str] = []
    out = tmp_path / "mine"
    found = kept.save(out, MINE, lines.append)
    run = run_of(idle, kept)
    assert found is not None
    assert (found.folder, found.tuned.spec) == (out, MINE)
    assert {path.name for path in run.iterdir()} <= {path.name for path in out.iterdir()}
    assert not [path.name for path in out.iterdir() if str(idle.folder.parent).encode() in path.read_bytes()]
    assert Front.read(out) == Front.read(run)
    views, theirs = (
        study_views(folder, MINE) | {"folder": "", "time": None}  # what is left goes on
        for folder in (out, run)
    )
    assert views["rows"][4].pop("failure")["kind"] == theirs["rows"][4].pop("failure")["kind"] == "crashed"
    assert views == theirs
    assert (found.trials, found.seconds) == (19, json.loads((run / "state.json").read_text())["elapsed_s"])
    asked = {"priority": "memory", "max_accuracy_drop": 3.0}
    mine, own = pick(out, **asked), pick(run, **asked)
    assert mine.tuned.config == own.tuned.config
    assert mine.tuned.spec == MINE


def test_commands_take_what_pull_has_copied(
    idle: Server, kept: RemoteStudy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine"
    for arguments in (
        ("pull", idle.url, str(kept.id), str(out), "--dataset", MINE),
        ("front", str(out)),
        ("pick", str(out), "--priority", "memory"),
        ("compare", str(out), str(out)),
        ("export", str(out), "--optuna", f"sqlite:///{tmp_path}/optuna.db"),
        ("report", str(out)),
    ):
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        assert ended.value.code in (0, None), capsys.readouterr().err
        assert capsys.readouterr().out
    assert read_request(out).spec == MINE
    with pytest.raises(SystemExit):
        main(["pull", idle.url, str(kept.id), str(tmp_path / "again"), "--json"])
    assert checked("pull", capsys.readouterr().out)["trials"] > 0
    with pytest.raises(SystemExit):
        main(["pull", idle.url, "999", str(tmp_path / "none")])
    assert "study 999 does not exist" in capsys.readouterr().err


def test_a_pick_at_the_server_is_the_local_one(idle: Server, kept: RemoteStudy) -> None:
    local = pick(run_of(idle, kept), priority="memory", max_accuracy_drop=3.0).tuned
    there = kept.pick(priority="memory", max_accuracy_drop=3.0)
    assert (there.config, there.limits, there.spec) == (local.config, local.limits, "people.npz")
    assert there.config != kept.tuned().config
    with pytest.raises(InfeasibleError, match="closest"):
        kept.pick(memory_limit="2MiB")


def test_a_study_that_has_not_chosen_is_saved_as_far_as_it_is(
    idle: Server, kept: RemoteStudy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(idle, kept)
    (run / "state.json").write_text('{"elapsed_s": 9.0, "finished_budget": null}')
    with (run / "probes.jsonl").open("a") as journal:
        journal.write('{"reason": "a line that is being wri')
    for name in ("front.json", "front.csv", "tuned.json"):
        (run / name).unlink()
    assert kept.save(tmp_path / "mine") is None
    with pytest.raises(SystemExit):
        main(["front", str(tmp_path / "mine")])
    assert "is not finished" in capsys.readouterr().err


def test_what_can_not_be_saved_leaves_nothing(idle: Server, kept: RemoteStudy, tmp_path: Path) -> None:
    begun = Client(idle.url).start(GRAPH)
    with pytest.raises(AbsentError, match=r"has no request\.json so far"):
        begun.save(tmp_path / "mine")
    begun.stop()
    begun.delete(forever=True)
    with pytest.raises(AbsentError, match=r"study \d+ does not exist"):
        begun.save(tmp_path / "mine")
    with pytest.raises(A3GNNError, match=r"must have at most 1\.00 KiB, got more"):
        kept.save(tmp_path / "mine", most_bytes=1 << 10)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("mine")
    with pytest.raises(
        A3GNNError, match=r"can't be written to .*/file/folder/mine \(Not a directory\), and nothing was left"
    ):
        kept.save(tmp_path / "file" / "folder" / "mine")
    with pytest.raises(UsageError, match="must be a new or empty folder"):
        kept.save(tmp_path)


def test_a_study_that_was_dropped_is_not_called_saved(
    kept: RemoteStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, read = tmp_path / "mine", KeptTune.read

    def intruding(folder: Path) -> object:
        out.mkdir()
        (out / "theirs").write_text("theirs")
        return read(folder)

    monkeypatch.setattr(KeptTune, "read", intruding)
    with pytest.raises(UsageError, match="must stay empty while a study is saved"):
        kept.save(out)
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "theirs"]
