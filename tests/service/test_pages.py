"""Pages for browsers, as far as a browser is not needed; tests/page has those that are seen in one."""

import os
import re
import tempfile
import threading
from pathlib import Path
from urllib.parse import urlencode

import pytest

from a3gnn.service.client import Client, RemoteStudy
from a3gnn.service.graphs.shelf import KnownGraph
from a3gnn.service.pages.start import start_page
from a3gnn.service.settings import ServiceSettings
from a3gnn.service.studies.study_files import FILES
from tests.service.servers import GRAPH, JSON, Server, problem

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def send(server: Server, **fields: str):
    return server.ask("POST", "/start", urlencode(fields).encode(), FORM)


def test_a_form_that_is_sent_twice_starts_one_study(idle: Server) -> None:
    (key,) = re.findall(r'name="idempotency-key" value="(\w{32})"', idle.ask("GET", "/start").content.decode())
    filled = {"dataset": GRAPH, "budget": "7", "name": "twice", "idempotency-key": key}
    answers: list = []
    clicks = [threading.Thread(target=lambda: answers.append(send(idle, **filled))) for _ in "123"]
    for one in clicks:
        one.start()
    for one in clicks:
        one.join()
    other = send(idle, **filled | {"budget": "8"})  # the browser's Back, and another budget
    fresh = send(idle, **filled | {"idempotency-key": "0" * 32})  # the form, loaded again
    answers += [other, fresh]
    assert {one.status for one in answers} == {303}
    assert len({one.headers["location"] for one in answers[:3]}) == 1
    assert len({one.headers["location"] for one in answers}) == 3
    assert sum(study["name"] == "twice" for study in Client(idle.url).studies()) == 3
    assert f'value="{key}"' not in idle.ask("GET", "/start").content.decode()
    for study in Client(idle.url).studies():
        if study["name"] == "twice":
            found = Client(idle.url).study(study["id"])
            found.stop()
            found.delete(forever=True)


def test_a_study_is_started_by_the_form_and_listed(idle: Server) -> None:
    form = idle.ask("GET", "/start").content.decode()
    fields = set(re.findall(r'name="(\w+)"', form))
    assert {"graph", "dataset", "priority", "model", "memory_limit", "budget", "max_accuracy_drop", "name"} <= fields
    units = {f"{name}_unit" for name in fields}
    assert {"budget_unit", "memory_limit_unit"} <= fields & units
    for name in fields - {"viewport", "color"} - units:
        assert f'<label for="{name}">' in form
        assert f'id="{name}-help"' in form
    answer = send(idle, dataset=GRAPH, priority="memory", budget="7", name="<b>mine</b>", memory_limit="", graph="")
    assert answer.status == 303
    page = idle.ask("GET", answer.headers["location"])
    assert b"is queued" in page.content
    assert "script-src 'self'" in page.headers["content-security-policy"]
    number = int(answer.headers["location"].split("/")[2])
    study = Client(idle.url).study(number)
    arguments = study.state()["arguments"]
    assert (arguments["priority"], arguments["budget"], arguments["memory_limit"]) == ("memory", 7, None)
    listed = idle.ask("GET", "/").content.decode()
    assert "&lt;b&gt;mine&lt;/b&gt;" in listed
    assert "<b>mine" not in listed
    assert "memory, 7 trials" in listed
    assert idle.ask("GET", f"/studies/{number}/views").status == 409
    study.stop()
    study.delete(forever=True)


def test_a_form_with_a_mistake_comes_back_with_what_was_filled_in(idle: Server) -> None:
    answer = send(idle, dataset=GRAPH, budget="soon", name='"><script>')
    assert answer.status == 422
    text = answer.content.decode()
    assert "a duration such as 10min" in text
    assert f'value="{GRAPH}"' in text
    assert "<script>" not in text
    assert "accuracy_drop" in send(idle, dataset=GRAPH, max_accuracy_drop="much").content.decode()
    assert b"either graph" in send(idle).content
    for name in ("graph", "budget", "max_accuracy_drop"):
        for digits in (30, 5000):
            assert send(idle, **{"dataset": GRAPH, name: "9" * digits}).status == 422, (name, digits)


def test_a_form_with_too_many_fields_is_refused(idle: Server) -> None:
    many = "&".join(f"a{number}=1" for number in range(65)).encode()
    for path in ("/start", "/studies/1/page"):
        assert problem(idle, "POST", path, many, FORM)[0] == 422


def test_what_is_told_of_a_study_calls_files_by_their_place_below_the_servers_folders(
    idle: Server, kept: RemoteStudy
) -> None:
    assert b">people</a></td>" in idle.ask("GET", "/").content
    names = ["views", "page", "tuned.html", "trials", "front", "tuned.json", "tuned.csv", "events", "log", "files"]
    lacking = ("predicted_front.json", "importance.json", "timings.jsonl")  # of a kept tune, from before there were any
    for name in (*names, *(f"files/{name}" for name in FILES if name not in lacking)):
        answer = idle.ask("GET", f"/studies/{kept.id}/{name}")
        assert answer.status == 200, name
        for folder in (idle.folder.parent, Path(pytest.__file__).parent, tempfile.gettempdir()):
            assert str(folder).encode() not in answer.content, name
    views, run = idle.ask("GET", f"/studies/{kept.id}/views").json, f"studies/{kept.id}/run"
    assert views["folder"] == run
    assert views["request"]["spec"] == views["tuned"]["graph"]["spec"] == kept.tuned().spec == "people.npz"
    detail = (
        f'Traceback\n  File "{run}/model.py", line 3\npeople.npz: no such file\nOSError: pytest/__init__.py in {run}'
    )
    assert views["rows"][4]["failure"]["detail"] == kept.trials()[4]["measurement"]["failure"]["detail"] == detail
    (idle.folder / run / "request.json").write_text("{}")
    os.utime(idle.folder / "studies" / str(kept.id) / "events.jsonl", (1, 1))  # as where something has happened
    status, said = problem(idle, "GET", f"/studies/{kept.id}/views")
    assert (status, said.partition(" must be ")[0]) == (422, f"{run}/request.json")


def test_a_graph_that_was_registered_by_its_whole_path_is_called_by_its_place(idle: Server, npz: Path) -> None:
    other = idle.folder.parent / "data" / "others.npz"
    other.write_bytes(npz.read_bytes())
    graph = idle.ask("POST", "/graphs", {"dataset": str(other)}, JSON).json
    assert (graph["name"], graph["source"]) == ("others", "others.npz")
    assert idle.ask("DELETE", f"/graphs/{graph['id']}").status == 204


def test_the_form_reaches_every_graph(idle: Server) -> None:
    names = [f"little_{number}%" for number in range(3)]
    numbers = [
        idle.ask("POST", "/graphs", {"dataset": f"{GRAPH},seed={seed}", "name": name}, JSON).json["id"]
        for seed, name in enumerate(names, 1)
    ]

    def listed(path: str) -> list[str]:
        return re.findall(r'<option value="\d+"[^>]*>(\w+%)<', idle.ask("GET", path).content.decode())

    assert [name for name in listed("/start") if name in names] == names[::-1]
    assert listed("/start?find=LITTLE_1%25") == ["little_1%"]
    assert listed("/start?find=tle%251") == []
    assert listed(f"/start?find=little&before={numbers[2]}") == names[1::-1]
    client = Client(idle.url)
    assert [one["name"] for one in client.graphs(called="little", limit=2)] == names[:0:-1]
    again = send(idle, graph=str(numbers[0]), find="little_2", budget="soon").content.decode()
    # The first is chosen, though it is not what was looked for.
    assert re.search(f'<option value="{numbers[0]}" data-about="300 nodes, [^"]* 4 classes" selected>', again)
    assert re.search(f'<option value="{numbers[2]}" data-about="[^"]*">', again)
    assert 'value="little_2"' in again
    assert idle.ask("GET", "/start?find=%22%3E%3Cscript%3E").content.count(b"<script>") == 0
    assert problem(idle, "GET", "/start?before=0")[0] == 422
    for number in numbers:
        assert idle.ask("DELETE", f"/graphs/{number}").status == 204


def test_the_form_leads_to_older_graphs(tmp_path: Path) -> None:
    settings = ServiceSettings(tmp_path)
    graphs = [KnownGraph(number, f"g{number}", "path", "", "", "", None, 0.0, {}) for number in (9, 8)]
    assert 'href="/start?find=a+%26b&amp;before=8"' in start_page(settings, graphs, {"find": "a &b"}, older=8)
    assert "Older graphs" not in start_page(settings, graphs, {})


def test_scripts_and_styles_come_from_the_server_alone(idle: Server) -> None:
    style = idle.ask("GET", "/static/study.css")
    assert style.headers["content-type"].startswith("text/css")
    assert style.headers["cache-control"] == "no-cache"
    assert idle.ask("GET", "/static/study.js").status == 200
    for name in ("study.html", "..%2f__init__.py", "%2e%2e/html.py"):
        assert idle.ask("GET", f"/static/{name}").status == 404
