"""Sessions of browsers, and the bound on wrong tokens."""

from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from tests.service.servers import Answer, Server, serving

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")

from a3gnn.service.http.sessions import Sessions, WrongTokens
from a3gnn.service.jobs.database import SESSIONS, open_service_database

TOKEN = "a-token-of-many-characters"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
HTML = {"Accept": "text/html"}


@pytest.fixture
def server(tmp_path: Path):
    """A server of the test's own."""
    with serving(tmp_path / "home", "--at-once", "0", environment={"A3GNN_TOKEN": TOKEN}) as server:
        yield server


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory):
    """A server for tests that guess no more than one token."""
    with serving(tmp_path_factory.mktemp("home"), "--at-once", "0", environment={"A3GNN_TOKEN": TOKEN}) as server:
        yield server


def log_in(server: Server, token: str = TOKEN, following: str = "/", **headers: str) -> Answer:
    return server.ask("POST", "/login", urlencode({"token": token, "next": following}).encode(), FORM | headers)


def test_the_cookie_is_a_session_of_its_own(server: Server) -> None:
    cookies = [log_in(server).headers["set-cookie"] for _ in range(2)]
    port = server.url.rpartition(":")[2]
    for cookie in cookies:
        assert TOKEN not in cookie
        assert cookie.startswith(f"a3gnn_session_{port}=")  # other servers of this machine have their own
        assert "Max-Age=86400" in cookie
        assert "Secure" not in cookie
    one, other = (cookie.partition(";")[0] for cookie in cookies)
    assert one != other
    assert server.ask("GET", "/studies", headers={"Cookie": one}).status == 200
    gone = server.ask("POST", "/logout", headers={"Cookie": one})
    assert (gone.status, gone.headers["location"]) == (303, "/login")
    assert "Max-Age=0" in gone.headers["set-cookie"]
    assert server.ask("GET", "/studies", headers={"Cookie": one}).status == 401
    assert server.ask("GET", "/studies", headers={"Cookie": other}).status == 200
    assert b"Log out" in server.ask("GET", "/", headers={"Cookie": other}).content
    server.end()
    server.start()  # a session outlives a restart, but not a new token
    assert server.ask("GET", "/studies", headers={"Cookie": other}).status == 200
    server.end()
    server._environment["A3GNN_TOKEN"] = TOKEN + "-new"
    server.start()
    assert server.ask("GET", "/studies", headers={"Cookie": other}).status == 401


@pytest.mark.parametrize("headers", [{"X-Forwarded-Proto": "https"}, {"Forwarded": "for=1.2.3.4;proto=https"}])
def test_the_cookie_is_sent_by_tls_alone_behind_tls(locked: Server, headers: dict[str, str]) -> None:
    assert "; Secure" in log_in(locked, **headers).headers["set-cookie"]


def test_login_leads_back_to_the_page_that_was_asked_for(locked: Server) -> None:
    asked = locked.ask("GET", "/start?find=a%20b", headers=HTML)
    assert (asked.status, asked.headers["location"]) == (303, f"/login?next={quote('/start?find=a%20b')}")
    form = locked.ask("GET", asked.headers["location"]).content.decode()
    assert 'value="/start?find=a%20b"' in form
    assert log_in(locked, following="/start?find=a%20b").headers["location"] == "/start?find=a%20b"
    wrong = log_in(locked, "wrong-token", "/start")
    assert wrong.status == 401
    assert 'value="/start"' in wrong.content.decode()


@pytest.mark.parametrize(
    "following", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:1", "/x\n", "", "/login"]
)
def test_login_leads_to_pages_of_this_server_alone(locked: Server, following: str) -> None:
    assert log_in(locked, following=following).headers["location"] == "/"


def test_guesses_are_bounded(server: Server) -> None:
    answers = [log_in(server, f"guess-number-{n}") for n in range(12)]
    assert [one.status for one in answers] == [401] * 10 + [429] * 2
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
    refused = server.ask("GET", "/studies", headers={"Authorization": "Bearer another-wrong-token"})
    assert refused.status == 429
    assert "try again in" in refused.json["detail"]
    assert server.ask("GET", "/studies", headers={"Authorization": f"Bearer {TOKEN}"}).status == 200
    assert log_in(server).status == 303


def test_a_program_with_a_wrong_token_guesses_once(locked: Server) -> None:
    for _ in range(30):
        assert locked.ask("GET", "/studies", headers={"Authorization": "Bearer an-old-token"}).status == 401
    assert locked.ask("GET", "/studies", headers={"Authorization": f"Bearer {TOKEN}"}).status == 200


def test_a_server_without_a_token_asks_for_none(idle: Server) -> None:
    assert idle.ask("GET", "/login").headers["location"] == "/"
    answer = log_in(idle, "")
    assert (answer.status, "set-cookie" in answer.headers) == (303, False)
    assert b"Log out" not in idle.ask("GET", "/").content


def test_guesses_of_a_network_count_together_and_are_forgotten_after_a_minute() -> None:
    now = [100.0]
    limit = WrongTokens(lambda: now[0])
    for n in range(10):
        assert limit.wait_s(f"2001:db8::{n}") == 0
        limit.add(f"2001:db8::{n}")
        now[0] += 1
    assert limit.wait_s("2001:db8::ffff") == 50
    assert limit.wait_s("2001:db8:0:1::1") == limit.wait_s("192.0.2.1") == 0
    now[0] += 50.5
    assert limit.wait_s("2001:db8::ffff") == 0


def test_guesses_from_everywhere_count_together() -> None:
    limit = WrongTokens(lambda: 0.0)
    for n in range(100):
        limit.add(f"192.0.2.{n}")
    assert limit.wait_s("198.51.100.1") == 60


def test_sessions_that_are_over_are_removed(tmp_path: Path) -> None:
    engine = open_service_database(str(tmp_path / "service.sqlite"))
    sessions = Sessions(engine, TOKEN)
    old = sessions.begin()
    with engine.begin() as connection:
        assert old not in str(connection.execute(SESSIONS.select()).all())
        connection.execute(SESSIONS.update().values(expires=1.0))
    assert not sessions.holds(old)
    new = sessions.begin()
    with engine.connect() as connection:
        assert len(connection.execute(SESSIONS.select()).all()) == 1
    assert sessions.holds(new)
    assert sessions.is_fresh(new)
    assert not Sessions(engine, "another-token-of-some-length").holds(new)
    engine.dispose()
