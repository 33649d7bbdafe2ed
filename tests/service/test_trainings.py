"""The page of a training: what it shows of the files, and its buttons."""

import json
import re
import shutil
from typing import Any
from urllib.parse import urlencode

import pytest

from a3gnn.service.client import Client, RemoteStudy
from a3gnn.training.tuned import TunedConfig
from tests.page.conftest import REAL
from tests.service.servers import Answer, Server

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def training(idle: Server, kept: RemoteStudy):
    """A training that waits."""
    number = kept.train(epochs=4)["id"]
    yield number
    idle.ask("POST", f"/trainings/{number}/stop")
    assert idle.ask("DELETE", f"/trainings/{number}?forever=true").status == 204


def press(server: Server, path: str, **fields: Any) -> Answer:
    return server.ask("POST", path, urlencode(fields).encode(), FORM)


def view(server: Server, training: int) -> dict[str, Any]:
    found: dict[str, Any] = server.ask("GET", f"/trainings/{training}/view").json
    return found


def test_the_curve_stands_beside_the_promise(idle: Server, training: int) -> None:
    folder = idle.folder / "trainings" / str(training)
    shown = view(idle, training)
    assert (shown["curve"], shown["target"], shown["head"]["state"]) == ([], None, "queued")
    (folder / "run").mkdir()
    shutil.copy(REAL / "tuned.json", folder)
    epochs = [
        {"epoch": n, "train_s": 2.0, "val_accuracy": q, "epochs_per_s": 0.5} for n, q in enumerate((0.6, 0.77), 1)
    ]
    metrics = folder / "run" / "metrics.jsonl"
    metrics.write_text(json.dumps(epochs[1]) + "\n" + json.dumps(epochs[0]) + "\n")
    assert view(idle, training)["target"]["reached_s"] is None, "the next epoch fell back"
    metrics.write_text("".join(json.dumps(one) + "\n" for one in epochs) + '{"epoch": 3, "tr')
    promised = json.loads((REAL / "tuned.json").read_text())
    measured = TunedConfig.read(REAL).measured
    assert measured is not None
    setup_s = measured.pace.setup_s
    shown = view(idle, training)
    assert shown["epochs"] == 2
    assert shown["curve"] == [[round(setup_s + 2, 4), 60.0], [round(setup_s + 4, 4), 77.0]]
    assert len(shown["promised"]) == len(promised["measured"]["curve"]["batches"])
    seconds = promised["seconds_to_accuracy"]
    assert shown["target"]["promised_s"] == [seconds[name] for name in ("median", "low", "high")]
    assert shown["target"]["reached_s"] == pytest.approx(setup_s + 4)
    assert "by the end of its epoch" in shown["head"]["figures"]
    result = {"val_accuracy": 0.77, "test_accuracy": 0.75, "train_seconds": 4.5, "throughput_epochs_per_s": 0.5}
    result |= {"target_accuracy": 0.765, "seconds_to_accuracy": 3.9, "ended": "epochs", "peak_host_bytes": 1 << 30}
    metric = {"name": "accuracy", "scale": None}
    (folder / "run" / "result.json").write_text(json.dumps({**result, "metric": metric, "peak_device_bytes": 0}))
    shown = view(idle, training)
    assert [round(at, 4) for at, _ in shown["curve"]] == [2.5, 4.5]  # the set-up is known now
    for words in ("75.00%", "3.9 s", f"{3.9 / seconds['median']:.2f}x the promise", "1.00 GiB"):
        assert words in shown["head"]["figures"], words
    result |= {"ended": "target", "train_seconds": 5.5}
    (folder / "run" / "result.json").write_text(json.dumps({**result, "metric": metric, "peak_device_bytes": 0}))
    assert view(idle, training)["curve"][-1] == [5.5, 77.0]
    page = idle.ask("GET", f"/trainings/{training}/page").content.decode()
    assert f"a3gnn pull {idle.url}" in page
    assert "&lt;script" not in page


def test_its_buttons(idle: Server, kept: RemoteStudy, training: int) -> None:
    path = f"/trainings/{training}/page"
    assert b"Stop at a checkpoint" in idle.ask("GET", path).content
    assert press(idle, path, action="stop").headers["location"] == path
    assert b">Continue</button>" in idle.ask("GET", path).content
    wrong = press(idle, path, action="resume", epochs="many")
    assert wrong.status == 422
    assert b"epochs must be" in wrong.content
    assert b'value="many"' in wrong.content
    assert press(idle, path, action="dance").status == 422
    assert press(idle, path, action="resume", epochs="9").status == 303
    assert Client(idle.url).training(training)["arguments"]["epochs"] == 9
    press(idle, path, action="stop")
    gone = press(idle, path, action="delete").headers["location"]
    trash = idle.ask("GET", gone).content.decode()
    assert ">Undo</button>" in trash
    assert f"(training {training}) is in the trash" in trash
    assert idle.ask("GET", path).status == 404
    asked = press(idle, "/trash", action="remove", kind="training", number=training)
    assert b"for good?" in asked.content
    assert press(idle, "/trash", action="restore", kind="training", number=training).headers["location"] == path
    assert idle.ask("GET", path).status == 200
    for fields in ({"kind": "job"}, {"number": "0"}, {"number": "x"}, {"action": "burn"}):
        given = {"action": "restore", "kind": "training", "number": training, **fields}
        assert press(idle, "/trash", **given).status == 422, fields


def test_the_buttons_of_its_study(idle: Server, kept: RemoteStudy) -> None:

    path = f"/studies/{kept.id}/page"
    begun = press(idle, path, action="train").headers["location"]
    number = int(begun.split("/")[2])
    assert begun == f"/trainings/{number}/page"
    idle.ask("POST", f"/trainings/{number}/stop")
    assert press(idle, path, action="delete").headers["location"] == f"/trash?kind=study&number={kept.id}"
    assert idle.ask("GET", begun).status == 200
    assert press(idle, "/trash", action="restore", kind="study", number=kept.id).headers["location"] == path
    retry = press(idle, path, action="retry")
    assert (retry.status, kept.state()["status"]) == (303, "queued")
    kept.stop()
    idle.ask("DELETE", f"/trainings/{number}?forever=true")


def test_the_same_form_again_starts_no_second_training(idle: Server, kept: RemoteStudy) -> None:
    path, hidden = f"/studies/{kept.id}/page", re.compile(r'form="actions" name="idempotency-key" value="([^"]+)"')

    def key() -> str:
        (found,) = hidden.findall(idle.ask("GET", path).content.decode())
        return found

    def train(key: str) -> str:
        answer = press(idle, path, action="train", **{"idempotency-key": key})
        assert answer.status == 303, answer.content
        return answer.headers["location"]

    old = key()
    assert key() == old  # two readers of one page, or one who loads it again
    begun = train(old)
    assert train(old) == begun
    fresh = key()
    another = train(fresh)
    assert another != begun
    assert (train(old), train(fresh)) == (begun, another)
    number = another.split("/")[2]
    idle.ask("POST", f"/trainings/{number}/stop")
    idle.ask("DELETE", f"/trainings/{number}")
    third = train(key())  # the one in the trash is no answer
    assert third not in (begun, another)
    for one in (begun, another, third):
        idle.ask("POST", f"/trainings/{one.split('/')[2]}/stop")
        assert idle.ask("DELETE", f"/trainings/{one.split('/')[2]}?forever=true").status == 204
    last = train(key())
    assert last not in (begun, another, third)
    assert len(idle.ask("GET", f"/trainings?study={kept.id}").json["trainings"]) == 1
    idle.ask("POST", f"/trainings/{last.split('/')[2]}/stop")
