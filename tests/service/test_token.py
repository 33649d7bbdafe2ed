"""A server with a token answers those who carry it."""

from collections.abc import Iterator

import pytest

from a3gnn.errors import A3GNNError
from a3gnn.service.client import Client
from tests.service.servers import Server, serving

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
TOKEN = "a-token-of-many-characters"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("guarded")
    with serving(folder, "--at-once", "0", "--host", "0.0.0.0", environment={"A3GNN_TOKEN": TOKEN}) as server:
        server.url = server.url.replace("0.0.0.0", "127.0.0.1")
        yield server


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer ü"},
        {"Cookie": f"a3gnn_token={TOKEN}"},  # not the token itself
        {"Cookie": "=;;=\x7f"},
    ],
)
def test_without_the_token_nothing_is_answered(server: Server, headers: dict[str, str]) -> None:
    for path in ("/studies", "/", "/docs", "/openapi.json", "/metrics"):
        answer = server.ask("GET", path, headers=headers)
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert TOKEN.encode() not in answer.content
    for path in ("/healthz", "/livez", "/readyz"):
        assert server.ask("GET", path, headers=headers).status == 200


def test_with_the_token_everything_is(server: Server) -> None:
    assert Client(server.url, TOKEN).studies() == []
    with pytest.raises(A3GNNError, match="must carry the server's token"):
        Client(server.url).studies()


def test_a_browser_gets_a_cookie_for_the_token(server: Server) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert server.ask("POST", "/login", b"token=guessed", form).status == 401
    answer = server.ask("POST", "/login", f"token={TOKEN}".encode(), form)
    assert answer.status == 303
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=lax" in cookie.lower()  # links from other sites keep the session; changes from them get 403
    kept = cookie.partition(";")[0]
    for cookies in (kept, f'foo={{"x": 1}}; {kept}', f"=; odd name=\x7f; {kept}; {{}}"):
        assert server.ask("GET", "/studies", headers={"Cookie": cookies}).status == 200
    many = "&".join(f"a{number}=1" for number in range(5))
    assert server.ask("POST", "/login", f"token={TOKEN}&{many}".encode(), form).status == 422
