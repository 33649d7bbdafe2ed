"""The list, the form, the graphs and the comparison of a real server in a real browser, by mouse and by keyboard."""

import re
from pathlib import Path

import pytest

from a3gnn.graphs.graph import Graph
from a3gnn.service.client import Client, RemoteStudy
from tests.page.test_service_page import CONTRASTS, end, open_page, server, tell  # noqa: F401
from tests.service.conftest import write_npz
from tests.service.servers import GRAPH, Server

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def two(server: Server) -> list[RemoteStudy]:  # noqa: F811
    """Two studies that run, one with a long name: their processes take long to start."""
    studies = []
    for name, trials in (("a-name-without-a-break-" * 6, 3), ("short", 2)):
        options = {"engine": "random", "budget": 30, "memory_limit": "1GiB"}
        study = Client(server.url).start(GRAPH, trainer="client", name=name, **options)
        tell(study, trials)
        studies.append(study)
    return studies


def test_rows_follow_what_happens_and_keep_focus_and_ticks(server: Server, two, open_page) -> None:  # noqa: F811
    first, second = two
    page = open_page(server.url)
    row = page.locator(f'tr[data-key="{first.id}"]')
    assert page.get_by_role("button", name="Compare").is_disabled()
    row.get_by_role("checkbox").check()
    row.get_by_role("checkbox").focus()
    before = row.inner_text()
    tell(first, 2)
    page.wait_for_function("([row, before]) => row.innerText !== before", arg=[row.element_handle(), before])
    assert "running" in row.inner_text()
    assert row.get_by_role("checkbox").is_checked()
    assert page.evaluate("document.activeElement.value") == str(first.id)
    third = Client(server.url).start(GRAPH, trainer="client", budget=9, name="third")
    page.locator(f'tr[data-key="{third.id}"]').wait_for()  # a new row comes by itself
    assert page.evaluate("document.activeElement.value") == str(first.id)
    for key in ("Shift+Tab", "Shift+Tab", "Shift+Tab", "Space"):  # over the links of the row above to its box
        page.keyboard.press(key)
    assert page.locator("#picked").inner_text() == "2 of 2 to 4 chosen"
    page.get_by_role("button", name="Compare").press("Enter")
    page.get_by_role("heading", name="Compare studies").wait_for()
    assert page.locator(".beside h2").all_inner_texts() == [f"A {second.state()['name']}", f"B {first.state()['name']}"]
    assert page.locator(".plot .dot").count() >= 4
    third.stop()


def test_a_dropped_graph_is_predicted_and_studied(server: Server, open_page, tmp_path: Path) -> None:  # noqa: F811
    file = write_npz(tmp_path / "mine.npz", Graph.load(GRAPH))
    page = open_page(f"{server.url}/start")
    page.locator("#file").set_input_files({"name": "no.npz", "mimeType": "x", "buffer": b"no graph"})
    page.locator("#upload-status", has_text="not a readable .npz").wait_for()
    content = page.evaluate_handle(
        """(bytes) => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(bytes)], "mine.npz"));
          return data;
        }""",
        list(file.read_bytes()),
    )
    page.dispatch_event(".upload", "drop", {"dataTransfer": content})
    page.locator("#upload-status", has_text=re.compile(r" is graph \d+")).wait_for()
    assert page.locator("#graph-about").inner_text().startswith("300 nodes, ")
    page.get_by_text("Without a trial, a3gnn would choose").wait_for(timeout=120_000)
    page.get_by_label("Budget").fill("no")
    page.get_by_role("button", name="Start").click()
    page.get_by_role("alert").get_by_role("link", name="Budget").click()
    assert page.evaluate("document.activeElement.id") == "budget"
    assert page.get_by_label("Budget").get_attribute("aria-invalid") == "true"
    page.get_by_label("Budget").fill("40")
    page.get_by_label("minutes, hours, trials").select_option("trials")
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(re.compile(r"/studies/\d+/page$"))
    study = Client(server.url).study(int(page.url.split("/")[-2]))
    assert study.state()["arguments"]["budget"] == 40
    end(study)


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "dark"),
        *(pytest.param(*one, marks=pytest.mark.weekly) for one in ((390, "light"), (1440, "light"), (1440, "dark"))),
    ],
)
def test_every_page_fits_and_has_contrast(server: Server, two, open_page, width, scheme) -> None:  # noqa: F811
    Client(server.url).add_graph(f"{GRAPH},seed=3", name="a-name-without-a-break-" * 6)
    compared = "&".join(f"study={study.id}" for study in two)
    for path in ("/", f"/compare?{compared}", "/start?graph=2", "/graphs/page", "/graphs/2/page", "/docs", "/nowhere"):
        page = open_page(f"{server.url}{path}", width, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.evaluate(CONTRASTS) == [], path
