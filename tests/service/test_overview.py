"""The list of studies, their comparison, and the pages of graphs, as far as a browser is not needed."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from a3gnn.service.client import Client, RemoteStudy
from tests.page.conftest import REAL
from tests.service.servers import GRAPH, Server, problem
from tests.service.test_pages import FORM

HTML = {"Accept": "text/html"}
#: What the stored tune of tests/page gains, as its own tuned.json has it.
GAIN = "1.15x faster (0.941 to 1.4)"


@pytest.fixture(scope="module")
def studies(idle: Server) -> Iterator[list[RemoteStudy]]:
    """Two studies with the files of a real tune, one that waits, and one that was stopped before its first trial."""
    found = []
    for name, graph in (("first", "people.npz"), ("Second_%", GRAPH), ("third", GRAPH), ("fourth", "people.npz")):
        study = Client(idle.url).start(graph, name=name, priority="throughput", budget=7)
        if name != "fourth":
            study.stop()
        found.append(study)
    for study in found[:2]:
        shutil.copytree(REAL, idle.folder / "studies" / str(study.id) / "run", dirs_exist_ok=True)
    yield found
    found[3].stop()
    for study in found:
        study.delete()


def listed(idle: Server, **query: object) -> list[str]:
    text = idle.ask("GET", f"/?{urlencode(query)}").content.decode()
    return re.findall(r'<th scope="row"><a [^>]*>(\S+)</a>', text)


def test_the_list_finds_sorts_and_filters(idle: Server, studies: list[RemoteStudy]) -> None:
    assert listed(idle) == ["fourth", "third", "Second_%", "first"]
    assert listed(idle, sort="oldest") == ["first", "Second_%", "third", "fourth"]
    assert listed(idle, sort="name") == ["first", "fourth", "Second_%", "third"]
    assert listed(idle, find="SECOND_%") == listed(idle, find=studies[1].id) == ["Second_%"]
    assert listed(idle, find="peop", state="stopped") == ["first"]  # by the name of its graph
    assert listed(idle, state="active") == ["fourth"]
    assert listed(idle, find="nothing") == listed(idle, page=2) == []
    assert [one["name"] for one in Client(idle.url).studies(called="cond_")] == ["Second_%"]
    graph = studies[0].state()["graph"]
    assert listed(idle, graph=graph) == ["fourth", "first"]
    text = idle.ask("GET", f"/?graph={graph}&sort=name").content.decode()
    assert f'href="/?graph={graph}"' in text  # the number sorts by the newest
    assert 'aria-sort="ascending"' in text
    assert problem(idle, "GET", "/?sort=size")[0] == 422


def test_the_list_sorts_by_gain(idle: Server, studies: list[RemoteStudy]) -> None:
    """The summaries are those that the queue's thread would have written, which runs no job here."""
    against = json.loads((REAL / "tuned.json").read_text())["against_default"]
    with sqlite3.connect(idle.folder / "service.sqlite") as database:
        for study, summary in ((studies[0], {"against_default": against}), (studies[1], {"no_gain": {"x": 1}})):
            database.execute("UPDATE a3gnn_jobs SET summary = ? WHERE id = ?", (json.dumps(summary), study.id))
    assert listed(idle, sort="gain") == ["first", "Second_%", "fourth", "third"]
    text = idle.ask("GET", "/").content.decode()
    assert GAIN in text
    assert '<span class="gain" data-sure="no">no measurable gain</span>' in text


def test_an_unchanged_list_is_not_sent_again(idle: Server, studies: list[RemoteStudy]) -> None:
    first = idle.ask("GET", "/", headers=HTML)
    again = idle.ask("GET", "/", headers={**HTML, "If-None-Match": first.headers["etag"]})
    assert (again.status, again.content) == (304, b"")


def test_studies_are_compared_as_the_command_compares_their_folders(idle: Server, studies: list[RemoteStudy]) -> None:
    numbers = [study.id for study in studies[:2]]
    found = Client(idle.url).compare(*numbers)
    folders = [idle.folder / "studies" / str(number) / "run" for number in numbers]
    command = [
        sys.executable,
        "-m",
        "a3gnn",
        "compare",
        *folders,
        "--json",
    ]  # a process: A3GNN_QUICK is as in the server
    expected = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert [tune.pop("study") for tune in found["tunes"]] == numbers
    assert [tune.pop("name") for tune in found["tunes"]] == ["first", "Second_%"]
    for tune, number in zip(expected["tunes"], numbers, strict=True):
        tune["folder"] = f"studies/{number}/run"
    assert found == expected
    page = idle.ask("GET", f"/compare?study={numbers[0]}&study={numbers[1]}", headers=HTML).content.decode()
    assert re.findall(r'<h2 id="head-(\w)">', page) == ["A", "B"]
    assert "1.15x (0.941 to 1.4)" in page
    assert page.count("chosen") >= 2
    places = [float(place) for place in re.findall(r"(?:left|top): ([\d.]+)%", page)]
    assert len(places) > 40
    assert all(0 <= place <= 100 for place in places)


def test_a_comparison_needs_two_to_four_studies_with_trials(idle: Server, studies: list[RemoteStudy]) -> None:
    one, two, empty = (studies[place].id for place in (0, 1, 2))
    for query in ("", f"study={one}&study={one}", "&".join(f"study={number}" for number in range(1, 6))):
        status, said = problem(idle, "GET", f"/compare?{query}")
        assert (status, "2 to 4 different studies" in said) == (422, True)
    assert problem(idle, "GET", f"/comparison?study={one}&study=999")[0] == 404
    status, said = problem(idle, "GET", f"/comparison?study={two}&study={empty}")
    assert (status, "no trial yet" in said) == (409, True)


def test_a_graph_has_a_page_with_its_characteristics(idle: Server, studies: list[RemoteStudy]) -> None:
    graph = studies[1].state()["graph"]
    page = idle.ask("GET", f"/graphs/{graph}/page").content.decode()
    for text in ("<dd>300</dd>", "<dt>Degree</dt>", "16, dense", "<dt>Classes</dt><dd>4</dd>", "Second_%"):
        assert text in page, text
    assert "Delete the graph" not in page
    assert idle.ask("POST", f"/graphs/{graph}/page", b"", FORM).status == 409
    other = Client(idle.url).add_graph(f"{GRAPH},seed=9", name="<b>other")["id"]
    rows = idle.ask("GET", "/graphs/page?find=%3Cb").content.decode()
    assert "&lt;b&gt;other" in rows
    assert f'href="/start?graph={other}"' in rows
    assert f'<option value="{other}" data-about' in idle.ask("GET", f"/start?graph={other}").content.decode()
    assert idle.ask("POST", f"/graphs/{other}/page", b"", FORM).headers["location"] == "/graphs/page"
    assert idle.ask("GET", f"/graphs/{other}/page").status == 404


def test_people_browse_the_data_root_and_nothing_else(idle: Server) -> None:
    root = idle.folder.parent / "data"
    (root / "more").mkdir()
    (root / "more" / "p.npz").write_bytes((root / "people.npz").read_bytes())
    (root / "a loop").symlink_to(root / "a loop")
    os.mkfifo(root / "pipe.npz")
    page = idle.ask("GET", "/graphs/browse", headers=HTML).content.decode()
    assert re.findall(r'<th scope="row">(?:<a [^>]*>)?([^<]+)<', page) == ["more/", "people.npz"]
    assert "p.npz" in idle.ask("GET", "/graphs/browse?folder=more").content.decode()
    for folder in ("..", "way-out", "people.npz", "/", str(idle.folder), "nowhere", "a%00b", "x" * 4000):
        status, said = problem(idle, "GET", f"/graphs/browse?folder={folder}")
        assert status == 404, folder
        assert "secret" not in said
    found = idle.ask("POST", "/graphs/browse", urlencode({"dataset": "more/p.npz", "folder": "more"}).encode(), FORM)
    assert found.status == 303
    number = found.headers["location"].split("/")[2]
    assert idle.ask("GET", f"/graphs/{number}").json["source"] == "more/p.npz"
    refused = idle.ask("POST", "/graphs/browse", b"dataset=way-out/secret.npz&folder=more", FORM)
    assert refused.status == 422
    assert b'role="alert"' in refused.content
    assert b"p.npz" in refused.content
    idle.ask("DELETE", f"/graphs/{number}")
    shutil.rmtree(root / "more")
    for name in ("a loop", "pipe.npz"):
        (root / name).unlink()


def test_a_form_without_a_script_shows_a_prediction(idle: Server) -> None:
    fields = {"dataset": GRAPH, "memory_limit_unit": "baseline", "hidden": "many"}
    page = idle.ask("POST", "/start/prediction", urlencode(fields).encode(), FORM).content.decode()
    panel = page[page.index('<section id="prediction"') :]
    assert "Hidden units: must be an integer, got &#39;many&#39;" in panel
    assert 'value="many"' in page


def test_units_of_the_form(idle: Server) -> None:
    fields = {"dataset": GRAPH, "budget": "90", "budget_unit": "min", "memory_limit": "0.5", "memory_limit_unit": "GiB"}
    more = {
        "fanouts": "10, 5",
        "residual": "yes",
        "fix": "batch_size=512, cache_bytes=1MiB",
        "ranges": "num_workers=1:2",
    }
    other = {
        "dataset": GRAPH,
        "budget": "9",
        "budget_unit": "trials",
        "memory_limit_unit": "baseline",
        "host_memory_limit_unit": "GiB",
        "residual": "linear",
    }
    found = []
    for form in (fields | more, other):
        answer = idle.ask("POST", "/start", urlencode(form).encode(), FORM)
        assert answer.status == 303, answer.content
        study = Client(idle.url).study(int(answer.headers["location"].split("/")[2]))
        found.append(study.state()["arguments"])
        study.stop()
        study.delete()
    first, second = found
    assert (first["budget"], first["memory_limit"], first["task"]["fanouts"]) == ("90min", "0.5GiB", [10, 5])
    assert first["fix"] == {"batch_size": "512", "cache_bytes": 1 << 20}
    assert first["ranges"] == {"num_workers": ["1", "2"]}
    assert (first["task"]["residual"], second["task"]["residual"]) == (True, "linear")
    assert (second["budget"], second["memory_limit"], second["host_memory_limit"]) == (9, "baseline", None)
