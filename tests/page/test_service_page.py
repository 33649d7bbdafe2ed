"""The pages of a real server in a real browser: true at every moment, and usable by everybody."""

import contextlib
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from a3gnn.errors import A3GNNError
from a3gnn.service.client import Client, RemoteStudy
from tests.commands import a3gnn
from tests.service.servers import GRAPH, JSON, Server, serving
from tests.service.test_studies import wait_for

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("service") / "home") as started:
        yield started


@pytest.fixture
def told(server: Server) -> Iterator[Callable[..., RemoteStudy]]:
    """Starts a study whose trials this process "runs", and tells some of them; it is stopped after the test."""
    started: list[RemoteStudy] = []

    def start(trials: int = 3, budget: int = 8, name: str = "Monday, without cache") -> RemoteStudy:
        study = Client(server.url).start(GRAPH, trainer="client", budget=budget, name=name, memory_limit="1GiB")
        started.append(study)
        tell(study, trials)
        return study

    yield start
    for study in started:
        with contextlib.suppress(A3GNNError):  # deleted, or ended
            study.stop()


@pytest.fixture(scope="module")
def lasting(server: Server) -> RemoteStudy:
    """A study that runs while tests look at it: three trials, of which one failed at length."""
    study = Client(server.url).start(GRAPH, trainer="client", budget=40, memory_limit="1GiB")
    tell(study, 3)
    tell(study, 1, failure="invalid", detail="undefined symbol: _ZN3c106detail14torchCheckFail" + "EPKcS2_jRKNSt7" * 12)
    return study


def tell(study: RemoteStudy, trials: int, **failure: str) -> int:
    told = 0
    while told < trials and study.state()["status"] in ("queued", "running"):
        if asked := study.suggest():
            curve = {"batches": [1, 2, 4, 8], "val_accuracy": [0.5, 0.6, 0.7, 0.78]} if asked["plan"]["curve"] else {}
            speeds = [10.0 + asked["number"]] * 3
            figures = failure or {"throughput_epochs_per_s": speeds, "peak_host_bytes": 300_000_000, **curve}
            study.tell(asked["number"], **figures)
            told += 1
    return told


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    contexts, errors = [], []

    def run(url: str, width: int = 1440, scheme: str = "light") -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(url)
        return page

    yield run
    for context in contexts:
        context.close()
    assert not errors


def tell_until_shown(page: Any, study: RemoteStudy) -> None:
    """Tells trials, some of which only time the baseline, and waits until the page has another trial."""
    before = page.locator("#trial-words").inner_text()
    tell(study, 2)
    page.wait_for_function("(before) => document.querySelector('#trial-words').innerText !== before", arg=before)


def address(server: Server, study: RemoteStudy) -> str:
    return f"{server.url}/studies/{study.id}/page"


def test_the_head_is_true_from_the_start_to_the_end(server: Server, told, open_page) -> None:
    study = told(2, budget=3)
    page = open_page(address(server, study))
    assert page.title() == f"Monday, without cache (study {study.id}): a3gnn"
    page.locator("#status", has_text="running: exploring").wait_for()
    assert page.locator("#progress").is_visible()
    while tell(study, 1):
        continue
    wait_for(lambda: study.state()["status"] not in ("running", "queued"))
    page.locator("#status", has_text=re.compile("^finished")).wait_for()
    page.get_by_role("button", name="Train with the choice").wait_for()
    assert page.get_by_role("button", name="Stop").count() == 0
    assert page.locator("#line").inner_text() == study.state()["line"]
    assert not page.locator("#progress").is_visible()


def test_the_verification_shows_its_lines(server: Server, told, open_page) -> None:
    study = told(2, budget=2)
    page = open_page(address(server, study))
    verifying = re.compile("comparing|verifying")
    wait_for(lambda: tell(study, 1) and verifying.search(study.state().get("line", "")) is not None)
    page.locator("#line", has_text=verifying).wait_for()
    page.locator("#status", has_text="verifying").wait_for()


def test_a_stopped_study_is_called_stopped_and_its_page_follows_when_it_goes_on(
    server: Server, told, open_page
) -> None:
    study = told(3, budget=12)
    study.stop()
    wait_for(lambda: study.state()["status"] == "stopped")
    page = open_page(address(server, study))
    page.locator("#status", has_text=re.compile("^stopped")).wait_for()
    study.resume(budget=12)
    page.locator("#status", has_text=re.compile("^running")).wait_for()
    tell_until_shown(page, study)
    other = open_page(address(server, study))  # its events have an old "stopped"
    tell_until_shown(other, study)
    assert other.locator("#status").inner_text().startswith("running")


def test_without_plotly_the_page_works_and_says_what_figures_need(tmp_path: Path, open_page) -> None:
    fake = tmp_path / "fake" / "plotly"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("raise ImportError('no plotly')\n")
    with serving(tmp_path / "home", environment={"PYTHONPATH": str(fake.parent)}) as server:
        study = Client(server.url).start(GRAPH, trainer="client", budget=8)
        tell(study, 2)
        page = open_page(address(server, study))
        page.wait_for_selector("body[data-ready]")
        assert "a3gnn[report]" in page.locator("#no-figures").inner_text()
        tell_until_shown(page, study)


def test_delete_asks_first(server: Server, told, open_page) -> None:
    study = told(1)
    study.stop()
    wait_for(lambda: study.state()["status"] == "stopped")
    page = open_page(address(server, study))
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("heading", name=f"Delete Monday, without cache (study {study.id})?").wait_for()
    page.get_by_role("link", name="Keep it").click()
    assert study.state()["status"] == "stopped"
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete for good").click()
    page.wait_for_url(f"{server.url}/")
    assert server.ask("GET", f"/studies/{study.id}").status == 404


def test_a_study_goes_on_with_a_larger_budget(server: Server, told, open_page) -> None:
    study = told(2, budget=5)
    study.stop()
    wait_for(lambda: study.state()["status"] == "stopped")
    page = open_page(address(server, study))
    page.locator("#budget").fill("soon")
    page.get_by_role("button", name="Continue").click()
    assert "a duration such as 10min" in page.locator("#alert").inner_text()
    page.locator("#budget").fill("9")
    page.get_by_role("button", name="Continue").click()
    page.locator("#status", has_text="running").wait_for()
    assert study.state()["arguments"]["budget"] == 9


def test_the_command_of_a_pick_works_elsewhere(
    server: Server, lasting: RemoteStudy, open_page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = lasting
    page = open_page(address(server, study))
    page.select_option("#pick-priority", "memory")
    monkeypatch.chdir(tmp_path)
    command = shlex.split(page.locator("#pick-command").inner_text())
    assert command[:3] == ["a3gnn", "pick", f"{server.url}/studies/{study.id}"]
    run = a3gnn(*command[1:])
    assert run.returncode == 0, run.stderr
    assert (tmp_path / f"picked-study-{study.id}.json").is_file()
    assert a3gnn("pick", f"{server.url}/studies/999").returncode == 1


def test_the_focus_stays_when_the_page_changes(server: Server, lasting: RemoteStudy, open_page) -> None:
    study = lasting
    page = open_page(address(server, study))
    page.locator("#trial-table tbody button").nth(1).focus()
    tell_until_shown(page, study)
    assert (
        page.evaluate("document.activeElement.innerText")
        == page.locator("#trial-table tbody button").nth(1).inner_text()
    )
    page.get_by_role("button", name="Stop").focus()
    tell_until_shown(page, study)
    assert page.evaluate("document.activeElement.innerText") == "Stop with the best so far"


@pytest.mark.parametrize("width", [390, 1440])
def test_a_long_failure_fits(server: Server, lasting: RemoteStudy, open_page, width: int) -> None:
    page = open_page(address(server, lasting), width)
    page.locator("#failures").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width + 2
    page.locator("#failure-list summary").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width + 2


def test_a_training_is_followed(server: Server, told, open_page) -> None:
    study = told(3, budget=12)
    study.stop()
    wait_for(lambda: study.state()["status"] == "stopped")
    page = open_page(address(server, study))
    page.get_by_role("button", name="Train with the choice").click()
    page.locator("#trainings", has_text="is finished").wait_for(timeout=120_000)
    assert page.locator("#trainings a").all_inner_texts() == ["model.pt", "result.json"]


#: Returns texts whose contrast with what is behind them is below 4.5 to 1, as WCAG 2.1 AA counts.
CONTRASTS = """() => {
  const parse = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    const whole = text.startsWith("color(srgb") ? found.map((v, i) => (i < 3 ? v * 255 : v)) : found;
    return whole.length < 4 ? [...whole, 1] : whole;
  };
  const over = (top, under) => top.slice(0, 3).map((v, i) => v * top[3] + under[i] * (1 - top[3]));
  const light = (rgb) => rgb.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.unshift(parse(getComputedStyle(at).backgroundColor));
    return layers.reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    if (element.closest("svg, option, :disabled")) continue;
    const behind = ground(element);
    const text = over(parse(getComputedStyle(element).color), behind);
    const [a, b] = [light(text), light(behind)].sort((x, y) => y - x);
    const words = walker.currentNode.textContent.trim().slice(0, 40);
    if ((a + 0.05) / (b + 0.05) < 4.5) low.push(`${element.tagName} ${words}`);
  }
  return low;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(server: Server, lasting: RemoteStudy, open_page, scheme: str) -> None:
    for path in (f"/studies/{lasting.id}/page", "/", "/start", "/docs", "/nowhere"):
        page = open_page(f"{server.url}{path}", scheme=scheme)
        if path.endswith("page"):
            page.wait_for_selector("body[data-ready]")
            for button in page.locator("#trial-table tbody button").all()[-1:]:
                button.click()
        assert page.evaluate(CONTRASTS) == [], path


def test_a_missing_study_has_a_page(server: Server, open_page) -> None:
    server.ask("POST", "/graphs", {"dataset": GRAPH}, JSON)
    page = open_page(f"{server.url}/studies/999/page")
    assert page.get_by_role("alert").inner_text() == "study 999 does not exist; the list has all studies"
    page.get_by_role("link", name="All studies").click()
    page.get_by_role("heading", name="Studies").wait_for()
