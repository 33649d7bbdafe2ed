"""What a server answers to requests, none of which runs a trial."""

import contextlib
import http.client
import json
import re
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from a3gnn.errors import GraphError, StoreError, UsageError
from a3gnn.service.client import Client, RemoteStudy
from tests.commands import a3gnn
from tests.service.servers import GRAPH, JSON, Answer, Server, problem


@pytest.fixture(scope="module")
def graph(idle: Server) -> int:
    return idle.ask("POST", "/graphs", {"dataset": GRAPH}, JSON).json["id"]


def test_studies_wait_are_listed_and_can_be_stopped_and_deleted(idle: Server, graph: int) -> None:
    client = Client(idle.url)
    studies = [client.start(graph, name=f"study {n}", budget=2, fix={"batch_size": 64}) for n in range(3)]
    status, detail = problem(idle, "POST", "/studies", {"graph": graph}, JSON)
    assert (status, "at most 3 jobs may wait, and 3 wait already" in detail) == (429, True)
    page = client.studies(limit=2)
    assert [one["name"] for one in page] == ["study 2", "study 1"]
    assert [one["name"] for one in client.studies(before=page[-1]["id"])] == ["study 0"]
    assert client.studies(status=["running", "failed"]) == []
    state = studies[0].state()
    assert client.studies(before=page[-1]["id"]) == [state]
    assert state["status"] == "queued"
    assert state["arguments"]["fix"] == {"batch_size": 64}
    status, detail = problem(idle, "DELETE", f"/studies/{studies[0].id}")
    assert (status, "stop it, then delete it" in detail) == (409, True)
    for study in studies:
        assert study.stop()["status"] == "stopped"
    status, detail = problem(idle, "POST", f"/studies/{studies[0].id}/stop")
    assert (status, "is stopped" in detail) == (409, True)
    assert problem(idle, "GET", f"/studies/{studies[0].id}/front")[0] == 409
    assert problem(idle, "GET", f"/studies/{studies[0].id}/tuned.json")[0] == 409
    assert problem(idle, "POST", f"/studies/{studies[0].id}/train", {}, JSON)[0] == 409
    assert studies[0].trials() == []
    assert studies[0].resume(budget=3)["arguments"]["budget"] == 3
    assert problem(idle, "DELETE", f"/graphs/{graph}")[0] == 409
    assert problem(idle, "POST", f"/studies/{studies[0].id}/retry")[0] == 409
    studies[0].stop()
    assert studies[0].retry()["status"] == "queued"
    studies[0].stop()
    for study in studies:
        study.delete()
    assert client.studies() == []
    assert {one["id"] for one in client.studies(deleted=True)} == {study.id for study in studies}
    path = f"/studies/{studies[0].id}"
    assert problem(idle, "GET", path) == (
        404,
        f"study {studies[0].id} is in the trash; POST {path}/restore takes it out",
    )
    assert problem(idle, "POST", f"{path}/resume")[0] == 404
    status, detail = problem(idle, "DELETE", f"/graphs/{graph}")
    assert (status, "in the trash; remove them for good first" in detail) == (409, True)
    assert studies[0].restore()["deleted"] is None
    assert studies[0].state()["arguments"]["budget"] == 3
    for study in studies:
        study.delete(forever=True)
    assert problem(idle, "POST", f"{path}/restore")[0] == 404
    assert not list((idle.folder / "studies").iterdir())


def test_events_are_sent_from_where_a_reader_left_off(idle: Server, graph: int) -> None:
    study = Client(idle.url).start(graph)
    study.stop()
    path = f"/studies/{study.id}/events"
    answer = idle.ask("GET", path)
    assert answer.headers["content-type"].startswith("text/event-stream")
    places = [int(number) for number in re.findall(rb"id: (\d+)", answer.content)]
    statuses = [json.loads(data)["status"] for data in re.findall(rb"data: (.*)", answer.content)]
    assert statuses == ["queued", "stopped"]
    rest = idle.ask("GET", path, headers={"Last-Event-ID": str(places[0])})
    assert [int(number) for number in re.findall(rb"id: (\d+)", rest.content)] == places[1:]
    assert idle.ask("GET", path, headers={"Last-Event-ID": str(places[1])}).status == 204
    assert problem(idle, "GET", path, None, {"Last-Event-ID": "-3"})[0] == 422
    study.delete(forever=True)


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({"budgt": 3}, "budgt is no field of this request, got 3; did you mean 'budget'?"),
        ({"budget": "soon"}, "a duration such as 10min or a positive number"),
        ({"memory_limit": "lots"}, "memory_limit: a size is a number with a unit"),
        ({"memory_limit": 4}, "memory_limit must be at least 1.00 MiB, got 4 B"),
        ({"memory_limit": "4"}, "memory_limit must be at least 1.00 MiB, got '4'"),
        ({"host_memory_limit": "64k"}, "host_memory_limit must be at least 1.00 MiB, got '64k'"),
        ({"memory_limit": "99999999999TiB"}, "memory_limit: a size must be below 8,388,608 TiB"),
        ({"priority": "speed"}, "throughput, memory, accuracy, balanced"),
        ({"engine": "nsga3"}, "did you mean 'nsga2'"),
        ({"fix": {"batch_size": 2.5}}, "batch_size must be a whole number"),
        ({"fix": {"batchsize": 2}}, "batch_size"),
        ({"ranges": {"batch_size": [64]}}, "ranges.batch_size"),
        ({"model": "os:system"}, "a3gnn serve --allow-model"),
        ({"model": "saje"}, "did you mean 'sage'"),
        ({"layers": 2, "fanouts": [3]}, "a number for each of layers"),
        ({"graph": 99}, "graph 99 does not exist"),
        ({"graph": None}, "either graph, a number, or dataset"),
        ({"name": "two\nlines"}, "name must be one line without control characters"),
        ({"seed": 1e400}, "seed"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_study_is_refused_by_its_argument(idle: Server, graph: int, order: dict, words: str) -> None:
    status, detail = problem(idle, "POST", "/studies", {"graph": graph, **order}, JSON)
    assert status in (404, 422)
    assert words in detail
    assert "--max-" not in detail
    assert idle.ask("GET", "/studies").json["studies"] == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"\xff", b"nul", b"[" * 100_000])
def test_a_body_that_is_no_order_is_refused(idle: Server, body: bytes) -> None:
    assert problem(idle, "POST", "/studies", body, JSON)[0] in (400, 422)


def test_a_body_that_is_too_long_is_refused_whatever_it_says_of_its_length(idle: Server) -> None:
    assert problem(idle, "POST", "/studies", b"x" * (1 << 21), JSON)[0] == 413
    chunks = b"x" * (1 << 21)
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(chunks), chunks)
    for path in ("/studies", "/start", "/login"):
        assert problem(idle, "POST", path, chunked, {**JSON, "Transfer-Encoding": "chunked"})[0] == 413


def test_nothing_is_done_for_a_body_that_is_cut(idle: Server) -> None:
    """What could be read of it is a whole form, which would start a study."""

    def parts() -> Iterator[bytes]:
        yield f"dataset={GRAPH}&budget=2".encode()
        time.sleep(0.5)  # the server reads that first
        yield b"&graph=" + b"+" * (1 << 20)  # spaces, which the form leaves out

    connection = http.client.HTTPConnection(urlsplit(idle.url).netloc, timeout=60)
    with contextlib.closing(connection):
        form = {"Content-Type": "application/x-www-form-urlencoded", "Transfer-Encoding": "chunked"}
        connection.request("POST", "/start", parts(), form, encode_chunked=True)
        assert connection.getresponse().status == 413
    assert idle.ask("GET", "/studies").json["studies"] == []


def test_other_names_and_other_sites_are_refused(idle: Server, graph: int) -> None:
    assert problem(idle, "GET", "/studies", None, {"Host": "attacker.example"})[0] == 421
    for headers in (
        {"Origin": "http://attacker.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://localhost:1"},
        {"Origin": "http://[bad"},
        {"Origin": ""},
    ):
        assert problem(idle, "POST", "/studies", {"graph": graph}, {**JSON, **headers})[0] == 403
    own = {**JSON, "Origin": idle.url, "Sec-Fetch-Site": "same-origin"}
    answer = idle.ask("POST", "/studies", {"graph": graph}, own)
    assert answer.status == 201
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers
    study = Client(idle.url).study(answer.json["id"])
    study.stop()
    study.delete(forever=True)


def routes(method: str) -> list[str]:
    """The paths of all routes that take `method`, with 1 for each number in them."""
    from a3gnn.service.http.app import _ROUTERS

    found = [route for module in _ROUTERS for route in module.router.routes]
    return [re.sub(r"\{(\w+)(:\w+)?\}", "1", route.path) for route in found if method in route.methods]


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH"])
def test_no_route_takes_a_change_from_another_site(idle: Server, method: str) -> None:
    """The cookie of a session is SameSite=Lax, so the server itself refuses what another site's page sends."""
    paths = routes(method)
    assert len(paths) > 20 or method != "POST"
    for path in paths:
        for headers in ({"Origin": "http://attacker.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
            status, detail = problem(idle, method, path, None, headers)
            assert (status, "a change must come from a page of this server" in detail) == (403, True), path


def test_reading_changes_nothing(idle: Server, kept: RemoteStudy) -> None:
    """A link from another site carries the session, so no GET may change anything."""

    def state() -> tuple[list[str], dict[str, tuple[int, int]]]:
        with contextlib.closing(sqlite3.connect(idle.folder / "service.sqlite")) as database:
            dump = list(database.iterdump())
        files = [path for path in idle.folder.rglob("*") if path.is_file() and "service.sqlite" not in path.name]
        return dump, {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}

    before = state()
    assert any(kept.state()["name"] in line for line in before[0])
    paths = {path.replace("/1", f"/{kept.id}") for path in routes("GET")}
    queries = ("", "?action=stop", "?study=1&study=2", "?dataset=people.npz", f"?kind=study&number={kept.id}")
    for path in sorted(paths):
        for query in queries:
            assert idle.ask("GET", path + query, headers={"Accept": "text/html"}).status < 500, path
    assert state() == before


def test_measurements_of_other_machines_are_added_once(idle: Server, measurement, tmp_path: Path) -> None:
    from a3gnn.config import TrainConfig
    from a3gnn.profiling.store.jsonl import write_measurements

    file = tmp_path / "rows.jsonl"
    write_measurements(file, [measurement(TrainConfig()), measurement(TrainConfig(batch_size=64))], provenance=True)
    client = Client(idle.url)
    assert client.add_profiles(file) == {"added": 2, "rows": 2}
    assert client.add_profiles(file) == {"added": 0, "rows": 2}
    assert [one["cpu"] for one in client.machines()]
    file.write_text(file.read_text().replace('"seconds": 4.5', '"seconds": "long"'))
    with pytest.raises(StoreError, match="nothing was imported"):
        client.add_profiles(file)
    assert idle.ask("GET", "/profiles").json["rows"] == 2


def test_a_client_raises_what_a_local_call_would(idle: Server, tmp_path: Path) -> None:
    client = Client(idle.url)
    with pytest.raises(GraphError, match="below the data root"):
        client.start("nowhere.npz")
    with pytest.raises(UsageError, match="did you mean 'nsga2'"):
        client.start(GRAPH, engine="nsga3")
    with pytest.raises(UsageError, match="file can be uploaded"):
        client.add_graph(tmp_path)
    with pytest.raises(UsageError, match="be like http://127"):
        Client("localhost:8642")


@pytest.mark.slow
def test_graphs_are_looked_at_by_turns_and_the_rest_are_told_to_come_again(idle: Server) -> None:
    def register(seed: int) -> Answer:
        return idle.ask("POST", "/graphs", {"dataset": f"{GRAPH},seed={seed}"}, JSON)

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(register, range(100, 112)))
    refused = [answer for answer in answers if answer.status != 201]
    assert 0 < len(refused) <= 4  # two are looked at, six wait
    assert {(one.status, one.headers["retry-after"]) for one in refused} == {(429, "5")}
    assert "ask again in 5 seconds" in refused[0].json["detail"]


def test_health_counters_and_the_description_are_there(idle: Server) -> None:
    assert idle.ask("GET", "/healthz").json["status"] == "ok"
    text = idle.ask("GET", "/metrics").content.decode()
    assert re.search(r'^a3gnn_http_requests_total\{method="GET",status="200"\} \d+$', text, re.MULTILINE)
    assert all(
        re.fullmatch(r'# (HELP|TYPE) \S+ .+|\w+(\{(\w+="[^"]*",?)+\})? [-+.e\d]+', one) for one in text.splitlines()
    )
    paths = idle.ask("GET", "/openapi.json").json["paths"]
    page = idle.ask("GET", "/docs").content.decode()
    assert all(path in page for path in paths)
    assert "<script" not in page
    assert "://" not in page.replace(idle.url, "")


def test_a_server_that_others_reach_needs_a_token(tmp_path: Path) -> None:
    for more, words in ((), "needs a --token"), (("--token", "short"), "16 characters or more"):
        run = a3gnn("serve", "--folder", tmp_path, "--host", "0.0.0.0", *more)
        assert run.returncode == 2
        assert words in run.stderr
