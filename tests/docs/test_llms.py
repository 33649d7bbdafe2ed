"""The docs for language models: the index is up to date, and the site has all pages in one file."""

from __future__ import annotations

import re
from pathlib import Path

import a3gnn
from docs.llms import llms_txt
from tests.docs.pages import ROOT
from tests.docs.test_site import site  # noqa: F401


def test_the_index_is_up_to_date() -> None:
    assert (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8") == llms_txt(), "run python -m docs.llms"


def test_the_index_has_every_page_with_a_sentence() -> None:
    places = dict(re.findall(r"^- \[[^\]]+\]\(([^)]+)\): (.+)$", llms_txt(), re.MULTILINE))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert pages <= set(places)
    assert all(len(text) > 20 and text[0] not in "#|>" for text in places.values()), places


def test_the_site_has_the_index_and_all_pages(site: Path) -> None:  # noqa: F811
    index = (site / "llms.txt").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", index)
    assert len(links) > 50
    assert [place for place in links if not (site / place).is_file()] == []
    whole = (site / "llms-full.txt").read_text(encoding="utf-8")
    for path in (ROOT / "docs").rglob("*.md"):
        assert path.read_text(encoding="utf-8").strip() in whole, path
    for words in ("## a3gnn graph convert", "--memory-budget", "# Answers of --json", "| `against_default` |"):
        assert words in whole
    assert all(f"a3gnn.{name}" in whole for name in a3gnn.__all__)


def test_the_page_of_answers_has_every_command(site: Path) -> None:  # noqa: F811
    page = (site / "reference" / "json.html").read_text(encoding="utf-8")
    for command in ("tune", "recommend", "train", "status", "doctor", "graph-info", "profiles-check"):
        assert f'id="a3gnn-{command}"' in page
    assert 'id="trainconfig"' in page
    assert 'href="#trainconfig"' in page
