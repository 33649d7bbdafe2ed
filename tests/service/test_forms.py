"""The forms of a real server in a real browser: from logging in to a training with what a study chose."""

import json
import re
from pathlib import Path

import pytest

from tests.page.conftest import browser  # noqa: F401
from tests.service.servers import GRAPH, serving

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
pytestmark = pytest.mark.slow
TOKEN = "a-token-of-many-characters"


@pytest.mark.weekly  # tests/page/test_service_page.py tells the whole story
def test_a_person_starts_a_study_watches_it_and_takes_away_its_choice(browser, tmp_path: Path) -> None:  # noqa: F811
    with serving(tmp_path / "home", environment={"A3GNN_TOKEN": TOKEN}) as server:
        context, complaints = browser.new_context(accept_downloads=True), []
        page = context.new_page()
        page.set_default_timeout(90_000)
        page.on("console", lambda message: complaints.append(f"{message.text} {message.location}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(server.url)
        assert page.url == f"{server.url}/login"
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("link", name="Start one").click()
        page.get_by_label("Another graph").fill(GRAPH)
        page.get_by_label("Budget").fill("50")
        page.get_by_label("minutes, hours, trials").select_option("trials")
        page.get_by_label("Accuracy drop").fill("100")
        page.get_by_role("button", name="Start").click()
        page.wait_for_url(f"{server.url}/studies/1/page")
        page.wait_for_selector("body[data-ready]")  # its tune has begun
        page.locator("#trial-table tbody tr").nth(1).wait_for()
        page.get_by_role("button", name="Stop with the best so far").click()
        page.locator("#status", has_text=re.compile("^stopped")).wait_for()
        page.reload()
        with page.expect_download() as started:
            page.get_by_role("link", name="tuned.json").click()
        run = tmp_path / "home" / "studies" / "1" / "run"
        assert json.loads(Path(started.value.path()).read_text()) == json.loads((run / "tuned.json").read_text())
        page.get_by_role("button", name="Train with the choice").click()
        page.get_by_role("heading", name="(training 2)").wait_for()  # the second job
        context.close()
        assert not complaints
