"""Pages for browsers, as far as a browser is not needed; tests/page has those that are seen in one."""

import re
from urllib.parse import urlencode

from a3gnn.service.client import Client
from tests.service.servers import GRAPH, Server

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


def test_scripts_and_styles_come_from_the_server_alone(idle: Server) -> None:
    style = idle.ask("GET", "/static/study.css")
    assert style.headers["content-type"].startswith("text/css")
    assert style.headers["cache-control"] == "max-age=3600"
    assert idle.ask("GET", "/static/study.js").status == 200
    for name in ("study.html", "..%2f__init__.py", "%2e%2e/html.py"):
        assert idle.ask("GET", f"/static/{name}").status == 404
