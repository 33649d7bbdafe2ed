"""Links between pages lead somewhere, on a code host and on the site alike."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.docs.pages import PAGES, ROOT, headings, links


def on_code_host(heading: str) -> str:
    """Returns a heading's anchor as code hosts make it: every space is a hyphen."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def on_site(heading: str) -> str:
    """Returns a heading's anchor as python-markdown makes it: hyphens and spaces in a row are one hyphen."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def broken(page: str, found: list[str]) -> Iterator[str]:
    """Yields the links to files of the repository, or to headings in them, that are not there."""
    for link in found:
        if re.match(r"\w+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = ((ROOT / page).parent / place).resolve() if place else ROOT / page
        if not target.exists():
            yield link
        elif anchor:
            known = headings(str(target.relative_to(ROOT)))
            if anchor not in map(on_code_host, known) or anchor not in map(on_site, known):
                yield link


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    assert list(broken(page, links(page))) == []


def test_a_page_of_the_site_links_to_pages_of_the_site() -> None:
    """Outside of docs/ nothing is on the site, so that no page may link there."""
    docs = ROOT / "docs"
    for page in PAGES:
        if page.startswith("docs/"):
            places = [link.partition("#")[0] for link in links(page) if not re.match(r"\w+:|#", link)]
            assert all(((ROOT / page).parent / place).resolve().is_relative_to(docs) for place in places), page


def test_a_link_to_nothing_is_found() -> None:
    page = "docs/design/tuning.md"
    found = [page, f"{page}#without-a-trial", f"{page}#without", "docs/nothing.md", "https:x"]
    assert list(broken("README.md", found)) == [f"{page}#without", "docs/nothing.md"]
