"""The pages of a real server in a real browser: true at every moment, and usable by everybody."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from a3gnn.graphs.graph import Graph
from a3gnn.service.client import Client, RemoteStudy
from a3gnn.training.tuned import TunedConfig
from tests.commands import a3gnn
from tests.service.conftest import write_npz
from tests.service.servers import GRAPH, JSON, QUICK, Server, serving
from tests.service.test_studies import wait_for

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server, whose studies end with the tests that start them; none without a browser."""
    with serving(tmp_path_factory.mktemp("pages") / "home") as started:
        yield started


@pytest.fixture
def told(server: Server) -> Iterator[Callable[..., RemoteStudy]]:
    """Starts a study whose trials this process "runs", and tells some of them."""
    studies = []

    def start(trials: int = 3, budget: int = 8, name: str = "Monday, without cache") -> RemoteStudy:
        study = Client(server.url).start(GRAPH, trainer="client", budget=budget, name=name, memory_limit="1GiB")
        studies.append(study)
        tell(study, trials)
        return study

    yield start
    for study in studies:
        end(study)


@pytest.fixture(scope="module")
def shared(server: Server) -> RemoteStudy:
    """A study with three told trials, for tests that tell it more: its process takes long to start."""
    study = Client(server.url).start(GRAPH, trainer="client", engine="random", budget=40, memory_limit="1GiB")
    tell(study, 3)
    return study


def end(study: RemoteStudy) -> None:
    if study.state()["status"] in ("queued", "running"):
        study.stop()
    wait_for(lambda: study.state()["status"] not in ("queued", "running"))


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
    page.get_by_role("button", name="Stop with the best so far").wait_for(state="detached")
    assert page.locator("#line").inner_text() == study.state()["line"]
    assert not page.locator("#progress").is_visible()


def test_a_waiting_study_shows_its_place_and_its_log_and_becomes_live_by_itself(server: Server, open_page) -> None:
    first = Client(server.url).start(GRAPH, **QUICK, budget=1000)
    study = Client(server.url).start(GRAPH, **QUICK, budget=1000, name="second")
    page = open_page(address(server, study))
    page.locator("#line", has_text="is queued and begins after 1 other job").wait_for()
    page.locator("#log-lines", has_text="[queued]").wait_for()
    assert not page.locator("#summary").is_visible()
    page.get_by_role("button", name="Stop with the best so far").focus()
    first.stop()
    page.locator("#phases [aria-current]", has_text=re.compile("preparing|compiling")).wait_for()
    page.locator("#trial-table tbody tr").nth(1).wait_for(timeout=60_000)
    page.locator("#phases [aria-current]", has_text="exploring").wait_for()
    assert page.locator("#log-lines div", has_text="baseline").count() > 0
    assert page.evaluate("document.activeElement.innerText") == "Stop with the best so far"
    study.stop()
    page.locator("#log-lines", has_text="[stopped]").wait_for()
    end(first)
    end(study)


@pytest.mark.weekly  # the story waits for its end
def test_the_verification_shows_its_lines(server: Server, told, open_page) -> None:
    study = told(2, budget=2)
    page = open_page(address(server, study))
    verifying = re.compile("comparing|verifying")
    wait_for(lambda: tell(study, 1) and verifying.search(study.state().get("line", "")) is not None)
    page.locator("#line", has_text=verifying).wait_for()
    page.locator("#status", has_text="verifying").wait_for()


@pytest.mark.weekly
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


def test_the_focus_stays_when_the_page_changes(server: Server, shared: RemoteStudy, open_page) -> None:
    study = shared
    page = open_page(address(server, study))
    page.locator("#trial-table tbody button").nth(1).focus()
    tell_until_shown(page, study)
    assert (
        page.evaluate("document.activeElement.innerText")
        == page.locator("#trial-table tbody button").nth(1).inner_text()
    )
    page.get_by_role("button", name="Stop with the best so far").focus()
    tell_until_shown(page, study)
    assert page.evaluate("document.activeElement.innerText") == "Stop with the best so far"


@pytest.mark.parametrize("width", [390, pytest.param(1440, marks=pytest.mark.weekly)])
def test_a_long_failure_fits(server: Server, shared: RemoteStudy, open_page, width: int) -> None:
    study = shared
    tell(study, 2, failure="invalid", detail="undefined symbol: _ZN3c106detail14torchCheckFail" + "EPKcS2_jRKNSt7" * 12)
    page = open_page(address(server, study), width)
    page.locator("#failures").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width + 2
    page.locator("#failure-list summary").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width + 2


@pytest.fixture(scope="module")
def quick_server(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("story")
    with serving(folder / "home", environment={"A3GNN_QUICK": "1"}) as started:
        yield started


@pytest.fixture(scope="module")
def npz(tiny_graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_npz(tmp_path_factory.mktemp("files") / "people.npz", tiny_graph)


@pytest.mark.parametrize("width", [pytest.param(1440, marks=pytest.mark.weekly), 390])
def test_the_whole_story(
    quick_server: Server, npz: Path, open_page, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upload, start, watch, stop, resume, pick, train, download, delete and undo: as a person does it."""
    monkeypatch.chdir(tmp_path)
    page = open_page(f"{quick_server.url}/start", width)
    page.set_default_timeout(120_000)

    def press(name: str) -> None:
        page.get_by_role("button", name=name, exact=True).click()

    def is_shown(selector: str, text: str) -> None:
        page.locator(selector, has_text=re.compile(text)).first.wait_for()
        page.wait_for_load_state()  # without its style sheet a page is wider
        assert page.evaluate("document.documentElement.scrollWidth") <= width + 2

    page.locator("#file").set_input_files(npz)
    page.locator("#upload-status", has_text="is graph").wait_for()
    assert page.locator("#graph option:checked").inner_text().startswith("people")
    page.locator("#name").fill(f"story at {width}")
    page.locator("#budget").fill("60")
    page.locator("select[name=budget_unit]").select_option("trials")
    page.locator("#max_accuracy_drop").fill("100")
    page.locator("details", has=page.locator("#engine")).locator("summary").click()
    page.locator("#engine").select_option("random")  # the default may find that no other trial is worth its time
    press("Start")
    page.wait_for_url(re.compile(r"/studies/\d+/page$"))
    study = Client(quick_server.url).study(int(page.url.split("/")[-2]))
    is_shown("#status", "^running: exploring")
    wait_for(lambda: len(study.trials()) >= 3)
    page.locator("#trial-table tbody tr").nth(2).wait_for()

    press("Stop with the best so far")
    is_shown("#status", "^stopped")
    before = len(study.trials())
    page.locator("#budget").fill("soon")
    press("Continue")
    is_shown("#alert", "a duration such as 10min")
    with page.expect_response(lambda answer: answer.url.endswith("/head")) as news:
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    news.value.finished()
    page.wait_for_timeout(200)
    is_shown("#alert", "a duration such as 10min")  # a look at what is new leaves it
    page.locator("#budget").fill("70")
    press("Continue")
    is_shown("#status", "^running")
    assert study.state()["arguments"]["budget"] == 70
    wait_for(lambda: len(study.trials()) > before)
    press("Stop with the best so far")
    is_shown("#status", "^stopped")

    page.select_option("#pick-priority", "memory")
    own = study.pick(priority="memory")
    for language, written in (("command", f"picked-study-{study.id}.json"), ("curl", f"study-{study.id}-picked.json")):
        words = shlex.split(page.locator(f"#pick-{language}").inner_text())
        program = [sys.executable, "-m"] if words[0] == "a3gnn" else []
        run = subprocess.run([*program, *words], cwd=tmp_path, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        assert TunedConfig.read(tmp_path / written).config == own.config
    pull = shlex.split(page.locator("#code-1").inner_text().splitlines()[0])
    assert pull[:4] == ["a3gnn", "pull", quick_server.url, str(study.id)]
    for command in (pull[1:], ["front", pull[4]], ["report", pull[4]]):
        assert a3gnn(*command).returncode == 0, command

    press("Train with the choice")
    page.wait_for_url(re.compile(r"/trainings/\d+/page$"))
    number = int(page.url.split("/")[-2])
    is_shown("#status", "^finished: [0-9,]+ epoch")
    is_shown("#figures", "test accuracy")
    page.locator("#curve-figure svg.chart").wait_for()
    with page.expect_download() as download:
        page.get_by_role("link", name="model.pt").click()
    model = quick_server.folder / "trainings" / str(number) / "run" / "model.pt"
    assert Path(download.value.path()).read_bytes() == model.read_bytes()

    press("Delete")
    is_shown(".notice", f"training {number}\\) is in the trash")
    assert quick_server.ask("GET", f"/trainings/{number}").status == 404
    press("Undo")
    is_shown("#status", "^finished")
    page.goto(address(quick_server, study))
    press("Delete")
    is_shown(".notice", f"study {study.id}\\) is in the trash")
    page.get_by_role("link", name="Trash").click()
    page.get_by_role("button", name=f"Delete study {study.id} for good").click()
    page.get_by_role("link", name="Keep it").click()
    page.get_by_role("button", name=f"Restore study {study.id}").click()
    is_shown("#status", "^stopped")
    assert len(study.trials()) > before


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


@pytest.mark.weekly
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(server: Server, told, open_page, scheme: str) -> None:
    study = told(3, budget=12)
    tell(study, 1, failure="invalid", detail="why")
    for path in (f"/studies/{study.id}/page", "/", "/start", "/docs", "/nowhere"):
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
