"""The page as a file: whole, small, and closed against what a study holds."""

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from a3gnn.cli.report import report
from a3gnn.page.html import MEDIA_TYPES, static_file, study_html
from a3gnn.page.views import study_views


class Page(HTMLParser):
    """Takes a page's scripts with their attributes, its tags, and the addresses that it would read."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.addresses: list[str] = []
        self.policy = self.within = ""
        self.attributes: set[str] = set()
        self.data: dict[str, str | None] = {}
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.attributes |= set(found)
        given = (found.get(name) for name in ("src", "href"))
        self.addresses += [address for address in given if address and not address.startswith("#")]
        self.within = tag
        if tag == "script":
            self.scripts.append((found, ""))
        elif tag == "body":
            self.data = found
        elif found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""

    def handle_data(self, data: str) -> None:
        if self.within == "script":
            attributes, text = self.scripts.pop()
            self.scripts.append((attributes, text + data))

    def handle_endtag(self, tag: str) -> None:
        self.within = ""


@pytest.fixture
def views(failed: Path) -> dict:
    return study_views(failed)


def test_the_page_holds_the_views_whatever_they_hold(views: dict) -> None:
    page = Page(study_html(views))
    assert json.loads(page.scripts[0][1]) == json.loads(json.dumps(views))
    assert "</script>" in json.dumps(views)
    assert len(page.scripts) == 2


def test_a_report_reads_nothing_from_elsewhere_and_runs_its_own_scripts_alone(views: dict) -> None:
    page = Page(study_html(views))
    assert page.addresses == ["data:,"]
    assert "default-src 'none'" in page.policy
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for _, text in page.scripts[1:]]
    assert re.findall(r"'sha256-([^']+)'", page.policy) == hashes
    assert not {name for name in page.attributes if name.startswith("on")}


def test_a_live_page_has_no_script_of_its_own(views: dict) -> None:
    page = Page(study_html(views, live="/studies/7", before="<p>above</p>"))
    assert page.addresses == ["data:,", "/static/study.css", "/static/study.js"]
    assert [text for _, text in page.scripts[1:]] == [""]
    assert page.scripts[0][0]["type"] == "application/json"
    assert page.data == {"data-live": "/studies/7"}


@pytest.mark.parametrize("name", MEDIA_TYPES)
def test_static_files_are_there(name: str) -> None:
    assert len(static_file(name)) > 1000


def test_the_first_load_of_a_study_weighs_little_when_compressed(views: dict) -> None:
    parts = [study_html(views, live="/studies/7"), *map(static_file, MEDIA_TYPES)]
    assert sum(len(gzip.compress(part.encode())) for part in parts) <= 400_000


def test_other_files_are_not(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        static_file("../views.py")


def test_the_command_writes_the_file_and_says_which(finished: Path, tmp_path: Path) -> None:
    for arguments, file in (
        ([str(finished)], finished / "report.html"),
        ([str(finished), "--out", str(tmp_path / "new" / "a.html")], tmp_path / "new" / "a.html"),
    ):
        run = CliRunner().invoke(report, arguments)
        assert run.exit_code == 0
        assert run.stdout == f"{file}\n"
        assert "nell, GraphSAGE" in file.read_text(encoding="utf-8")
