"""The docs site: it is built without a warning, loads nothing from elsewhere, and shows what a code host shows."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

import a3gnn
from a3gnn.cli.main import COMMANDS
from docs.reference_pages import write
from tests.docs.pages import PAGES, ROOT
from tests.once import made_once

DOCS = [page for page in PAGES if page.startswith("docs/")]
#: Attributes by which a browser loads something at once; a link that someone may follow is none of them.
LOADS = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}
#: Relations of a link element that load nothing.
LOADS_NOTHING = {"canonical", "next", "prev", "alternate"}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "site", lambda folder: build(folder, "mkdocs")) / "site"


def build(project: Path, builder: str) -> None:
    """Builds the site in project/site, from sources in a folder of its own, without a warning."""
    for package in (builder, *(["material"] if builder == "mkdocs" else []), "mkdocstrings"):
        pytest.importorskip(package, reason=f"{package}, of the extra dev, is not installed")
    write(project / "build" / "docs")
    shutil.copy(ROOT / "mkdocs.yml", project)
    for name in ("a3gnn", "surrogate", "envs"):
        (project / name).unlink(missing_ok=True)
        (project / name).symlink_to(ROOT / name)
    run, env = [sys.executable, "-m", builder, "build", "--strict"], os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=project, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "WARNING" not in done.stderr


class Elements(HTMLParser):
    """Collects the elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(DOCS)
    loaded = [
        (page.name, attributes[LOADS[tag]])
        for page in pages
        for tag, attributes in Elements(page.read_text(encoding="utf-8")).found
        if tag in LOADS and LOADS[tag] in attributes and attributes.get("rel") not in LOADS_NOTHING
    ]
    assert len(loaded) > len(pages)
    assert [(page, place) for page, place in loaded if re.match(r"(\w+:)?//", place)] == []
    for style in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")) == []


def test_the_reference_has_every_command_and_every_option(site: Path) -> None:
    page = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    shown = html.unescape(re.sub(r"<[^>]*>", "", page))
    for name in COMMANDS:
        assert f'id="a3gnn-{name}"' in page
    for words in ("a3gnn graph convert", "--memory-budget", "--until-target", "PACKAGE.MODULE:FUNCTION", "A3GNN_TOKEN"):
        assert words in shown


def test_the_reference_has_every_public_name(site: Path) -> None:
    page = (site / "reference" / "python.html").read_text(encoding="utf-8")
    assert [name for name in a3gnn.__all__ if f'id="a3gnn.{name}"' not in page] == []


@pytest.mark.weekly
def test_both_builders_make_the_same_site(site: Path, tmp_path: Path) -> None:
    """MkDocs with Material, which ends in May 2027, and Zensical, its successor."""
    build(tmp_path, "zensical")
    pages = {folder: files_of(folder) for folder in (site, tmp_path / "site")}
    here, there = pages.values()
    assert {name for name in here if not name.startswith("search/")} <= there.keys()
    assert there.keys() - here.keys() <= {"search.json"}
    assert len(here) > len(DOCS)
    for name, page in here.items():
        if name.endswith(".html"):
            assert shown_by(there[name]) == shown_by(page), name


def files_of(folder: Path) -> dict[str, Path]:
    """Returns the files of a site by name, but for the theme's and the compressed copy of sitemap.xml."""
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path for name, path in found.items() if not name.startswith("assets/") and name != "sitemap.xml.gz"}


def shown_by(page: Path) -> tuple[list[str], list[str]]:
    """Returns the words of a page's article, and the anchors in it; quotes of a signature depend on its formatter."""
    text = page.read_text(encoding="utf-8")
    article = (re.search(r"<article.*</article>", text, re.DOTALL) or [text])[0]
    article = re.sub(r"<(script|style|svg).*?</\1>", "", article, flags=re.DOTALL)
    said = " ".join(words(article)).replace("'", '"')
    return re.findall(r"\w+|\S", said), re.findall(r'id="(?!__)([^"]+)"', article)


@pytest.mark.parametrize("page", DOCS)
def test_it_shows_what_a_code_host_shows(page: str) -> None:
    yaml, markdown = pytest.importorskip("yaml"), pytest.importorskip("markdown")
    text = (ROOT / page).read_text(encoding="utf-8")
    there = MarkdownIt("commonmark").enable("table").render(text)
    here = markdown.markdown(text, extensions=extensions(yaml))
    assert elements(here) == elements(there)
    assert words(here) == words(there)


def test_what_one_of_them_reads_otherwise_is_found() -> None:
    markdown = pytest.importorskip("markdown")
    text = "Some words\n* of a list\n"  # which python-markdown takes for a paragraph
    here = markdown.markdown(text, extensions=["sane_lists"])
    assert elements(here) != elements(MarkdownIt("commonmark").render(text))


def extensions(yaml: Any) -> list[str]:
    """Returns python-markdown's own extensions that mkdocs.yml names, with its own fences for pymdownx's."""
    told = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["markdown_extensions"]
    names = [one if isinstance(one, str) else next(iter(one)) for one in told]
    return [name for name in names if not name.startswith("pymdownx")] + ["fenced_code"]


def elements(page: str) -> Counter[str]:
    """Returns how many elements of each kind a page has."""
    return Counter(re.findall(r"<(\w+)", re.sub(r"<!--.*?-->", "", page, flags=re.DOTALL)))


def words(page: str) -> list[str]:
    """Returns what a page says, without comments and elements."""
    page = re.sub(r"<!--.*?-->", "", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", " ", page)).split()
