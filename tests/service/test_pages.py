"""Pages for browsers, as far as a browser is not needed; tests/page has those that are seen in one."""

import json
import re
import shutil
from urllib.parse import urlencode

from a3gnn.service.client import Client
from tests.page.conftest import REAL
from tests.service.servers import GRAPH, Server, problem

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def send(server: Server, **fields: str):
    return server.ask("POST", "/start", urlencode(fields).encode(), FORM)


def test_a_study_is_started_by_the_form_and_listed(idle: Server) -> None:
    form = idle.ask("GET", "/start").content.decode()
    fields = set(re.findall(r'name="(\w+)"', form))
    assert {"graph", "dataset", "priority", "model", "memory_limit", "budget", "max_accuracy_drop", "name"} <= fields
    for name in fields - {"viewport", "color"}:
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
    study.delete()


def test_a_form_with_a_mistake_comes_back_with_what_was_filled_in(idle: Server) -> None:
    answer = send(idle, dataset=GRAPH, budget="soon", name='"><script>')
    assert answer.status == 422
    text = answer.content.decode()
    assert "a duration such as 10min" in text
    assert f'value="{GRAPH}"' in text
    assert "<script>" not in text
    assert "accuracy_drop" in send(idle, dataset=GRAPH, max_accuracy_drop="much").content.decode()
    assert b"either graph" in send(idle).content


def test_a_form_with_too_many_fields_is_refused(idle: Server) -> None:
    many = "&".join(f"a{number}=1" for number in range(51)).encode()
    for path in ("/start", "/studies/1/page"):
        assert problem(idle, "POST", path, many, FORM)[0] == 422


def test_the_list_names_every_graph_and_pages_name_no_path_of_the_server(idle: Server) -> None:
    study = Client(idle.url).start("people.npz")
    study.stop()
    run = idle.folder / "studies" / str(study.id) / "run"
    shutil.copytree(REAL, run, dirs_exist_ok=True)  # of another graph, which a path could name
    request = json.loads((run / "request.json").read_text())
    spec = str(idle.folder.parent / "data" / "people.npz")
    (run / "request.json").write_text(json.dumps({**request, "spec": spec}))
    for file in ("tuned.json", "front.json"):
        (run / file).write_text((run / file).read_text().replace('"nell.npz"', json.dumps(spec)))
    views = idle.ask("GET", f"/studies/{study.id}/views").json
    assert views["folder"] == f"studies/{study.id}/run"
    assert views["request"]["spec"] == views["tuned"]["graph"]["spec"] == "people.npz"
    for path in ("views", "page", "tuned.html"):
        answer = idle.ask("GET", f"/studies/{study.id}/{path}")
        assert answer.status == 200
        assert str(idle.folder.parent).encode() not in answer.content
    assert b"<td>people</td>" in idle.ask("GET", "/").content
    study.delete()


def test_scripts_and_styles_come_from_the_server_alone(idle: Server) -> None:
    style = idle.ask("GET", "/static/study.css")
    assert style.headers["content-type"].startswith("text/css")
    assert style.headers["cache-control"] == "max-age=3600"
    assert idle.ask("GET", "/static/study.js").status == 200
    for name in ("study.html", "..%2f__init__.py", "%2e%2e/html.py"):
        assert idle.ask("GET", f"/static/{name}").status == 404
