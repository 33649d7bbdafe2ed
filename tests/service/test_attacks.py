"""What keeps others out, or does more than it should: slow bodies, races, repeated requests, limits, streams."""

import http.client
import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from tests.service.servers import JSON, Server, problem, serving
from tests.service.test_connections import FILES, LimitedServer, opened

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")

from a3gnn.profiling.executor_choice import ExecutorChoice
from a3gnn.service.client import Client, HttpClient, ServerAwayError
from a3gnn.service.graphs.shelf import GraphShelf, KnownGraph
from a3gnn.service.http.connections import Bounds
from a3gnn.service.http.problems import ProblemDetails
from a3gnn.service.http.sessions import WrongTokens
from a3gnn.service.jobs.database import GRAPHS, JOBS, open_service_database
from a3gnn.service.jobs.home import Home
from a3gnn.service.jobs.job import Job
from a3gnn.service.jobs.jobs import Jobs
from a3gnn.service.jobs.worker import QueueWorker
from a3gnn.service.pages.code import study_code
from a3gnn.service.settings import ServiceSettings
from a3gnn.service.studies.told_trials import Suggestions

TOKEN = "a-token-of-many-characters"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[LimitedServer]:
    server = LimitedServer(tmp_path / "home", "--at-once", "0", environment={"A3GNN_TOKEN": TOKEN})
    yield server
    server.process.kill()
    server.process.wait()


@pytest.fixture
def graph(idle: Server) -> int:
    return idle.ask("POST", "/graphs", {"dataset": "people.npz"}, JSON).json["id"]


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nt\r\n",
        b"POST /graphs/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 6000\r\n\r\nt",
        *(
            pytest.param(one + b"Host: 127.0.0.1\r\nContent-Length: 6000\r\n\r\nt", marks=pytest.mark.weekly)
            for one in (b"POST /login HTTP/1.1\r\n", b"GET /healthz HTTP/1.1\r\n", b"POST /studies HTTP/1.1\r\n")
        ),
    ],
    ids=["chunked", "upload", "login", "healthz", "studies"],
)
def test_slow_bodies_without_the_token_keep_nobody_out(locked: LimitedServer, sent: bytes) -> None:
    links = opened(locked, FILES + 40, sent)
    for _ in range(3):
        assert locked.ask("GET", "/studies", headers=BEARER).status == 200
        assert locked.ask("GET", "/healthz").status == 200
    for link in links:
        link.close()


def test_a_slow_body_with_the_token_keeps_its_place(locked: LimitedServer) -> None:
    head = f"POST /graphs HTTP/1.1\r\nHost: 127.0.0.1\r\n{JSON_HEADERS}Content-Length: 33\r\n\r\n"
    (own,) = opened(locked, 1, f"{head}{{".encode())
    time.sleep(0.2)
    links = opened(locked, FILES + 40, b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 60\r\n\r\nt")
    own.sendall(b'"dataset": "synthetic:nodes=oh"}')
    answer = http.client.HTTPResponse(own)
    answer.begin()
    assert answer.status == 422
    for link in (own, *links):
        link.close()


JSON_HEADERS = f"Content-Type: application/json\r\nAuthorization: Bearer {TOKEN}\r\n"


def test_a_login_has_a_small_body_and_little_time(locked: LimitedServer) -> None:
    status, detail = problem(locked, "POST", "/login", b"token=" + b"x" * 9000, FORM)
    assert status == 413
    assert "8,192 bytes" in detail
    begun = time.monotonic()
    (link,) = opened(locked, 1, b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 60\r\n\r\nt")
    link.settimeout(60)
    with link:
        assert b" 408 " in link.recv(100)
    assert time.monotonic() - begun > 4


class _Link:
    def __init__(self, network: str) -> None:
        self.network = network


def test_the_network_with_the_most_connections_makes_room() -> None:
    bounds, few, many = Bounds(10), [_Link("a"), _Link("a")], [_Link("b") for _ in range(4)]
    for one in (*few, *many):
        bounds.put(one)
    assert bounds.longest("a", False) is bounds.longest("b", False) is None
    assert bounds.longest("a", True) is bounds.longest("c", True) is many[0]
    bounds.put(last := _Link("b"))
    assert bounds.longest("b", False) is many[0]  # half of all
    assert bounds.longest("a", False) is None
    for one in (*few, *many, last):
        bounds.take(one)
    assert bounds.longest("a", True) is None
    assert not bounds.waiting


def test_after_too_many_wrong_tokens_checks_take_turns() -> None:
    now = [0.0]
    limit = WrongTokens(lambda: now[0])
    turns = [limit.turn_s("192.0.2.1") for _ in range(13)]
    assert turns[:11] == [0.5 * n for n in range(11)]
    assert turns[11:] == [None, None]
    assert limit.turn_s("192.0.2.2") == 0
    now[0] = 5.0
    assert limit.turn_s("192.0.2.1") == 0.5


def test_the_right_token_is_found_late_among_many_guesses(locked: LimitedServer) -> None:
    for number in range(10):
        assert locked.ask("POST", "/login", urlencode({"token": f"guess-{number}"}).encode(), FORM).status == 401
    begun, found = time.monotonic(), []
    guesses = [{"Authorization": f"Bearer wrong-{number}"} for number in range(40)]
    ask = [threading.Thread(target=lambda h=h: found.append(locked.ask("GET", "/studies", headers=h))) for h in guesses]
    for one in ask:
        one.start()
    for one in ask:
        one.join()
    assert {one.status for one in found} == {429}
    assert locked.ask("GET", "/studies", headers=BEARER).status == 200
    assert time.monotonic() - begun > 4  # some ten were checked, half a second apart


@pytest.mark.parametrize(
    "host",
    ["[::1]evil.example", "a::1]", "127.0.0.1:evil", "127.0.0.1:8642:1", "127.0.0.1:99999", "127.0.0.1:", "x[::1]:80",
     "127.0.0.1:8642@evil.example", "127.0.0.1/x", "localhost.", "[::1", "127.0.0.1:\u0663".encode().decode("latin-1")],
)  # fmt: skip
def test_odd_hosts_are_refused(idle: Server, host: str) -> None:
    assert idle.ask("GET", "/healthz", headers={"Host": host}).status == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "LOCALHOST:8642", "[::1]:80", "[::1]"])
def test_the_servers_own_names_pass(idle: Server, host: str) -> None:
    assert idle.ask("GET", "/healthz", headers={"Host": host}).status == 200


@pytest.mark.parametrize(("path", "most"), [("/graphs/upload?name=x", 1 << 20), ("/profiles", 64 << 20)])
def test_an_upload_above_its_limit_is_refused_at_once(idle: Server, path: str, most: int) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 20000000000\r\n\r\n"
    (link,) = opened(idle, 1, head.encode() + b"x" * 1000)
    answer = http.client.HTTPResponse(link)
    answer.begin()
    assert answer.status == 413
    assert f"at most {most:,} bytes" in json.loads(answer.read())["detail"]
    link.close()


def test_a_stream_ends_with_its_session(tmp_path: Path) -> None:
    with serving(tmp_path / "home", "--at-once", "0", environment={"A3GNN_TOKEN": TOKEN}) as server:
        server.ask("POST", "/graphs", {"dataset": "synthetic:nodes=300,degree=8"}, JSON | BEARER)
        study = server.ask("POST", "/studies", {"graph": 1}, JSON | BEARER).json["id"]
        cookies = [
            server.ask("POST", "/login", f"token={TOKEN}".encode(), FORM).headers["set-cookie"].split(";")[0]
            for _ in range(2)
        ]
        streams = []
        for cookie in cookies:
            link = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
            link.request("GET", f"/studies/{study}/events", headers={"Cookie": cookie})
            streams.append((link, link.getresponse()))
            streams[-1][1].readline()
        server.ask("POST", "/logout", headers={"Cookie": cookies[0]})
        assert b"stopped" not in streams[0][1].read()  # it has ended
        server.ask("POST", f"/studies/{study}/stop", headers=BEARER)
        assert b"stopped" in streams[1][1].read()  # the other one goes on
        for link, answer in streams:
            answer.close()
            link.close()


def shelf(tmp_path: Path) -> tuple:
    engine = open_service_database(str(tmp_path / "service.sqlite"))
    home = Home(tmp_path / "home", None)
    with engine.begin() as connection:
        row = {"name": "g", "origin": "synthetic", "source": "", "spec": "", "fingerprint": "", "created": 0.0}
        connection.execute(GRAPHS.insert().values(id=1, about="{}", **row))
    return engine, GraphShelf(engine, home, ServiceSettings(folder=tmp_path), None), Jobs(engine, "", 100)


def test_no_job_begins_on_a_graph_or_a_study_that_is_gone(tmp_path: Path) -> None:
    engine, graphs, jobs = shelf(tmp_path)
    study = jobs.add("study", "", 1, {}, None, key="")
    with pytest.raises(ProblemDetails, match="is used by jobs"):
        graphs.delete(1)
    jobs.ask_to_stop(study.id, "study")
    jobs.delete(jobs.get(study.id))
    with pytest.raises(ProblemDetails, match="study 1 does not exist"):
        jobs.add("training", "", 1, {}, None, study.id, key="")
    jobs.remove(jobs.get(study.id, deleted=True))
    graphs.delete(1)
    with pytest.raises(ProblemDetails, match="graph 1 does not exist"):
        jobs.add("study", "", 1, {}, None, key="")
    with engine.connect() as connection:
        assert connection.execute(JOBS.select()).first() is None


def test_a_repeated_request_makes_one_study(idle: Server, graph: int) -> None:
    key, order = {"Idempotency-Key": "my key"}, {"graph": graph, "name": "once"}
    answers: list = []
    ask = [
        threading.Thread(target=lambda: answers.append(idle.ask("POST", "/studies", order, JSON | key)))
        for _ in "12345"
    ]
    for one in ask:
        one.start()
    for one in ask:
        one.join()
    assert {one.status for one in answers} == {201}
    assert len({one.json["id"] for one in answers}) == 1
    other = idle.ask("POST", "/studies", {**order, "seed": 1}, JSON | key)
    assert (other.status, other.json["type"]) == (422, "urn:a3gnn:key")
    assert sum(one["name"] == "once" for one in Client(idle.url).studies()) == 1
    study = Client(idle.url).study(answers[0].json["id"])
    study.stop()
    study.delete(forever=True)


def test_the_client_repeats_what_is_not_answered_with_one_key(idle: Server, graph: int, monkeypatch) -> None:
    client, seen, content = Client(idle.url), [], HttpClient.content

    def lossy(self: HttpClient, *request, **query) -> bytes:
        found = content(self, *request, **query)
        seen.append(request[3]["Idempotency-Key"])
        if len(seen) == 1:
            raise ServerAwayError("the answer is lost")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(HttpClient, "content", lossy)
        study = client.start(graph, name="lost")
    assert len(seen) == 2
    assert len(set(seen)) == 1
    assert sum(one["name"] == "lost" for one in client.studies()) == 1
    study.stop()
    study.delete(forever=True)


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({"budget": "30000d"}, "budget must be at most 168 h 0 min here, .*--max-budget"),
        ({"budget": 1_000_000}, "budget must be at most 10,000 here, got 1,000,000; .*--max-trials"),
        ({"hidden": 65_536}, "hidden must be at most 4,096 here, got 65,536; a3gnn serve --max-hidden"),
        ({"accuracy_epochs": 999_999}, "accuracy_epochs must be at most 10,000 here"),
    ],
)
def test_the_server_bounds_what_a_study_asks_for(idle: Server, graph: int, order: dict, words: str) -> None:
    status, detail = problem(idle, "POST", "/studies", {"graph": graph, **order}, JSON)
    assert status == 422
    assert re.search(words, detail), detail


def test_studies_have_the_servers_memory_limit(tmp_path: Path) -> None:
    with serving(tmp_path / "home", "--at-once", "0", "--max-memory", "4GiB") as server:
        server.ask("POST", "/graphs", {"dataset": "synthetic:nodes=300,degree=8"}, JSON)
        found = server.ask("POST", "/studies", {"graph": 1}, JSON).json
        assert found["arguments"]["host_memory_limit"] == 4 << 30
        status, detail = problem(server, "POST", "/studies", {"graph": 1, "host_memory_limit": "5GiB"}, JSON)
        assert status == 422
        assert "at most 4.00 GiB here, got 5.00 GiB; a3gnn serve --max-memory" in detail


def test_a_study_resumes_with_no_smaller_budget(idle: Server, graph: int) -> None:
    study = Client(idle.url).start(graph, budget="10min")
    study.stop()
    for budget, words in (("1s", "at least the study's 10 min, got 1"), ("30000d", "--max-budget")):
        status, detail = problem(idle, "POST", f"/studies/{study.id}/resume", {"budget": budget}, JSON)
        assert status == 422
        assert words in detail
    assert study.state()["arguments"]["budget"] == "10min"
    assert study.resume("20min")["arguments"]["budget"] == "20min"
    study.stop()
    study.delete(forever=True)


def test_scripts_are_asked_for_again(idle: Server) -> None:
    for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', idle.ask("GET", "/").content.decode()):
        found = idle.ask("GET", address)
        assert found.headers["cache-control"] == "no-cache"
        assert idle.ask("GET", address, headers={"If-None-Match": found.headers["etag"]}).status == 304


def test_operation_ids_are_unique(idle: Server) -> None:
    paths = idle.ask("GET", "/openapi.json").json["paths"]
    counted = Counter(route["operationId"] for path in paths.values() for route in path.values())
    assert max(counted.values()) == 1


def test_an_uploaded_graph_is_named_by_its_number(idle: Server, npz: Path) -> None:
    client = Client(idle.url)
    number = client.add_graph(npz)["id"]
    assert client.add_graph(f"graph:{number}")["id"] == number
    assert problem(idle, "POST", "/graphs", {"dataset": "graph:999999"}, JSON)[0] == 404
    job = client.start(number).state()
    own = {name: job.get(name) for name in Job.__dataclass_fields__} | {
        "stop_asked": False,
        "home": None,
        "summary": {},
    }
    source = KnownGraph(number, "people", "upload", "people.npz", "", "", None, 0.0, {})
    line = study_code(Job(**own), source, idle.url, False)[0].text.splitlines()[-1]
    assert f"--dataset graph:{number}" in line
    client.study(job["id"]).stop()
    client.study(job["id"]).delete(forever=True)


class _Told:
    """A running study whose trials the client runs, without its process."""

    def __init__(self, home: Home, job: Job) -> None:
        self.job, self.folder, self.begun, self.is_ending = job, home.of(job), time.time() - 100, False
        self.folder.asked.mkdir(parents=True)

    def stop(self) -> None:
        self.is_ending = True


def test_a_study_without_a_client_makes_room_after_its_lease(tmp_path: Path) -> None:
    _, graphs, jobs = shelf(tmp_path)
    home = Home(tmp_path / "home", None)
    worker = QueueWorker(jobs, graphs, home, "", 1, ExecutorChoice(), lease_s=50.0)
    told = [_Told(home, jobs.add("study", "", 1, {"trainer": "client"}, None)) for _ in range(5)]
    waits = told.pop().job
    worker._running = {one.job.id: one for one in told}  # type: ignore[assignment]
    for one in told:
        jobs.update(one.job.id, status="running", home=home.id)
        Suggestions(one.folder.asked).note_client()
    assert not worker._has_room(waits)
    worker._look()
    assert not any(one.is_ending for one in told)
    os.utime(told[2].folder.asked / "seen", (0, 0))
    worker._look()
    worker._look()
    assert [one.is_ending for one in told] == [False, False, True, False]
    (line,) = [one.data["text"] for one in told[2].folder.events.since(0)]
    assert "no client for 50 s" in line
