"""Pages of a server in a browser: many at once, hidden ones, and those whose session or server has ended."""

import re
import shutil
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from a3gnn.service.client import Client, RemoteStudy
from tests.page.conftest import REAL
from tests.page.test_service_page import open_page  # noqa: F401
from tests.service.servers import GRAPH, Server, serving
from tests.service.test_studies import wait_for

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
pytestmark = pytest.mark.slow
TOKEN = "a-token-of-many-characters"
#: As if another tab covered the page, or no longer; a headless browser shows all its pages.
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that begins no job, and asks for a token."""
    folder = tmp_path_factory.mktemp("connection")
    with serving(folder / "home", "--at-once", "0", environment={"A3GNN_TOKEN": TOKEN}) as started:
        yield started


@pytest.fixture
def study(server: Server) -> Iterator[RemoteStudy]:
    """A study that waits."""
    study = Client(server.url, TOKEN).start(GRAPH, name="waiting")
    yield study
    if study.state()["status"] == "queued":
        study.stop()


@pytest.fixture
def logged_in(server: Server, open_page) -> Callable[[str], Any]:  # noqa: F811
    """Opens a page and logs in; another page in the same browser is `page.context.new_page()`."""

    def run(path: str) -> Any:
        page = open_page(f"{server.url}{path}")
        page.fill("input[name=token]", TOKEN)
        page.click("button")
        page.wait_for_url(f"{server.url}{path}")
        return page

    return run


#: One test in the set goes through all kinds of pages, others through one: what is told comes from the same script.
EACH_WEEKLY = ["study", *(pytest.param(kind, marks=pytest.mark.weekly) for kind in ("training", "list"))]


@pytest.fixture
def live(request: pytest.FixtureRequest, server: Server, study: RemoteStudy) -> str:
    """The path of a kind of page that follows its server, of a job that waits."""
    if request.param == "study":
        return f"/studies/{study.id}/page"
    if request.param == "list":
        return "/"
    client = Client(server.url, TOKEN)
    chosen = client.start(GRAPH, name="chosen")
    chosen.stop()
    shutil.copytree(REAL, server.folder / "studies" / str(chosen.id) / "run", dirs_exist_ok=True)
    return f"/trainings/{chosen.train()['id']}/page"


def end_session(page: Any, server: Server) -> None:
    """Logs out in another tab."""
    other = page.context.new_page()
    other.goto(f"{server.url}/docs")
    other.get_by_role("button", name="Log out").click()
    other.wait_for_url(re.compile("/login"))
    other.close()


def test_many_open_pages_leave_connections_to_others(server: Server, logged_in) -> None:
    client = Client(server.url, TOKEN)
    studies = [client.start(GRAPH, name=f"study {n}") for n in range(7)]  # a browser has six connections
    page = logged_in(f"/studies/{studies[0].id}/page")
    pages = [page, *(page.context.new_page() for _ in studies[1:])]
    for one, study in zip(pages[1:], studies[1:], strict=True):
        one.goto(f"{server.url}/studies/{study.id}/page", wait_until="domcontentloaded")
        one.wait_for_selector("body[data-ready]")
    wait_for(lambda: readers(server) > 0)
    assert readers(server) == 1
    for study in studies:
        study.stop()
    for one in pages:  # those without the stream follow, too
        one.locator("#status", has_text="stopped").wait_for()


def readers(server: Server) -> int:
    """The number of open event streams."""
    said = server.ask("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).content.decode()
    return int(said.split("\na3gnn_event_readers ")[1].split()[0])


def test_the_stream_goes_to_another_page_when_its_own_is_closed(server: Server, study: RemoteStudy, logged_in) -> None:
    page = logged_in(f"/studies/{study.id}/page")
    wait_for(lambda: readers(server) == 1)
    other = page.context.new_page()
    other.goto(page.url)
    with other.expect_request(re.compile("/events")):
        page.close()
    wait_for(lambda: readers(server) == 1)


@pytest.mark.parametrize("live", EACH_WEEKLY, indirect=True)
def test_a_hidden_page_asks_nothing_and_catches_up_when_it_is_shown(server: Server, live: str, logged_in) -> None:
    page, asked = logged_in(live), []
    page.wait_for_load_state("networkidle" if live == "/" else "domcontentloaded")
    page.evaluate(HIDE, True)
    wait_for(lambda: readers(server) == 0)
    page.wait_for_timeout(500)  # what it had asked for
    page.on("request", lambda request: asked.append(request.url))
    stop(server, live)
    page.wait_for_timeout(7000)  # three looks of a visible one
    assert not asked
    page.evaluate(HIDE, False)
    page.locator("main, header", has_text="stopped").first.wait_for()


def stop(server: Server, live: str) -> None:
    """Stops the job that the page at `live` shows; of the list, the newest study."""
    path = live.removesuffix("/page")
    if live == "/":
        path = f"/studies/{Client(server.url, TOKEN).studies()[0]['id']}"
    assert server.ask("POST", f"{path}/stop", None, {"Authorization": f"Bearer {TOKEN}"}).status == 200


@pytest.mark.parametrize("live", ["study", "training", "list"], indirect=True)
def test_a_page_says_that_its_session_has_ended_and_recovers(server: Server, live: str, logged_in) -> None:
    page = logged_in(live)
    assert page.locator("#connection").count() == 0
    end_session(page, server)
    page.locator("#connection", has_text="Your session has ended. This page shows the state of").wait_for()
    assert page.evaluate("document.body.hasAttribute('data-stale')")
    stop(server, live)
    other = page.context.new_page()
    with other.expect_navigation():
        other.goto(server.url + page.get_by_role("link", name="Log in").get_attribute("href"))
    other.fill("input[name=token]", TOKEN)
    other.click("button")
    other.wait_for_url(server.url + live)  # the link leads back
    other.close()
    page.locator("main, header", has_text="stopped").first.wait_for()
    page.locator("#connection").wait_for(state="detached")
    assert not page.evaluate("document.body.hasAttribute('data-stale')")


@pytest.mark.parametrize("live", EACH_WEEKLY, indirect=True)
def test_a_page_says_that_its_server_is_away_and_recovers(server: Server, live: str, logged_in) -> None:
    page = logged_in(live)
    server.end()
    page.locator("#connection", has_text="The server does not answer.").wait_for()
    page.locator("#connection", has_text=re.compile(r"Trying again in \d+ s")).wait_for()
    server.start()
    page.locator("#connection").wait_for(state="detached")
    stop(server, live)
    page.locator("main, header", has_text="stopped").first.wait_for()


@pytest.mark.parametrize("live", EACH_WEEKLY, indirect=True)
def test_a_page_says_that_its_server_hangs(server: Server, live: str, logged_in) -> None:
    page = logged_in(live)
    server.process.send_signal(signal.SIGSTOP)
    try:
        page.locator("#connection", has_text="The server takes long to answer.").wait_for()
    finally:
        server.process.send_signal(signal.SIGCONT)
    page.locator("#connection").wait_for(state="detached")


def test_a_page_says_that_its_study_is_gone(server: Server, study: RemoteStudy, logged_in) -> None:
    page = logged_in(f"/studies/{study.id}/page")
    study.stop()
    study.delete()
    page.locator("#connection", has_text="It may be in the trash").wait_for()
    study.restore()
    page.get_by_role("button", name="Try now").click()
    page.locator("#connection").wait_for(state="detached")
    page.locator("#status", has_text="stopped").wait_for()


def test_a_link_from_another_site_needs_no_second_login(server: Server, study: RemoteStudy, logged_in) -> None:
    """`localhost` is another site than 127.0.0.1, whose pages may link to ours, but may not change anything."""
    page = logged_in("/start")
    path = f"{server.url}/studies/{study.id}/page"
    form = f'<form method="post" action="{path}"><button name="action" value="stop">Win</button></form>'
    html = f'<a href="{path}">the study</a>{form}'
    page.route("http://localhost/*", lambda route: route.fulfill(content_type="text/html", body=html))
    page.goto("http://localhost/wiki")
    page.get_by_role("link", name="the study").click()
    page.locator("#status", has_text="queued").wait_for()
    page.goto("http://localhost/wiki")
    with page.expect_response(path) as answer:
        page.get_by_role("button", name="Win").click()
    assert answer.value.status == 403
    assert study.state()["status"] == "queued"


def test_a_form_says_why_it_has_no_prediction(server: Server, study: RemoteStudy, logged_in) -> None:
    page = logged_in("/start")
    end_session(page, server)
    page.locator("#graph").select_option(index=1)
    page.locator("#prediction [role=alert]", has_text="No prediction. Your session has ended.").wait_for()
