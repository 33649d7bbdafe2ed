"""The figures of the README stand on the pages that it links to, so that a table that is measured anew is noticed.

A figure of a paragraph, an item or a table must be in a section that the same block links to. A block without links is
held to the benchmark pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from markdown_it import MarkdownIt

from tests.docs.pages import ROOT, headings
from tests.docs.test_links import on_code_host

#: Blocks that belong together: a figure in one cell of a table may have its link in another.
_BLOCKS = ("paragraph_open", "table_open", "list_item_open")
_NUMBER = r"\d[\d,]*(?:\.\d+)?|\.\d+"
#: A decimal, or a whole number with a unit, or before another figure of a list or a range.
_UNIT = r"(?:x\b|\s?%|\s(?:times|s|ms|min|MiB|GiB|points)\b)"
_FIGURE = re.compile(
    rf"(?<![\w.,])({_NUMBER})(?=(?:{_UNIT})?(?:(?:,| to| and|, and) (?:{_NUMBER}))+{_UNIT}|{_UNIT})|"
    r"(?<![\w.,])(\d+\.\d+|\.\d+)(?![\w.]*\.\d)"
)


class Block(NamedTuple):
    """A block of prose: its text without code, and where its links lead."""

    text: str
    links: tuple[str, ...]


def prose(text: str) -> list[Block]:
    """Returns the paragraphs, items and tables of a page of Markdown, without pictures and code."""
    found: list[tuple[list[str], list[str]]] = []
    depth = 0
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type in _BLOCKS:
            depth += 1
            if depth == 1:
                found.append(([], []))
        elif token.type.replace("_close", "_open") in _BLOCKS:
            depth -= 1
        elif token.type == "inline" and depth:
            for child in token.children or ():
                if child.type in ("text", "softbreak"):
                    found[-1][0].append(child.content or " ")
                elif child.type == "link_open":
                    found[-1][1].append(str(child.attrs["href"]))
            found[-1][0].append(" | ")
    return [Block("".join(words), tuple(links)) for words, links in found]


def figures(text: str) -> list[str]:
    """Returns the numbers of `text` that were measured: decimals, and whole numbers with a unit."""
    return [whole or decimal for whole, decimal in _FIGURE.findall(text)]


def section(link: str) -> str:
    """Returns the part of a page of the repository that `link` leads to; "" for a link elsewhere."""
    place, _, anchor = link.partition("#")
    file = ROOT / place
    if re.match(r"\w+:", link) or file.suffix != ".md":
        return ""
    text = file.read_text(encoding="utf-8")
    if not anchor:
        return text
    title = next(one for one in headings(place) if on_code_host(one) == anchor)
    lines, level, found = text.splitlines(), 0, []
    for line in lines:
        mark = re.match(r"(#+) (.*)", line)
        if mark and re.sub(r"[`*]", "", mark[2]).strip() == title:
            level = len(mark[1])
        elif mark and level and len(mark[1]) <= level:
            break
        if level:
            found.append(line)
    return "\n".join(found)


def missing(text: str, elsewhere: str) -> Iterator[str]:
    """Yields the figures of Markdown `text` that are not in the linked sections; blocks without links use another."""
    for block in prose(text):
        places = [section(link) for link in block.links]
        known = [number.replace(",", "") for number in re.findall(_NUMBER, " ".join(places) or elsewhere)]
        for shown in figures(block.text):
            digits = len(shown.partition(".")[2])
            wanted = float(shown.replace(",", ""))
            if not any(abs(float(one) - wanted) <= 0.5 * 10**-digits + 1e-9 for one in known if _as_exact(one, digits)):
                yield f"{shown}: not in {', '.join(block.links) or 'docs/benchmarks/'} ({block.text[:60].strip()}...)"


def _as_exact(number: str, digits: int) -> bool:
    """Whether `number` has as many digits after the point as the README shows, so that it may be rounded to that."""
    return len(number.partition(".")[2]) >= digits


@pytest.fixture(scope="module")
def benchmarks() -> str:
    pages = sorted(Path(ROOT / "docs" / "benchmarks").glob("*.md"))
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)


def test_every_figure_of_the_readme_is_where_it_links_to(benchmarks: str) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert sum(len(figures(block.text)) for block in prose(text)) > 8
    assert list(missing(text, benchmarks)) == []


def test_a_figure_that_is_not_in_the_table_is_found() -> None:
    link = "([measurements](docs/benchmarks/tunes.md#in-your-own-pyg-loop))"
    assert list(missing(f"It came 10.5, 14.2 and 54 times as early, 73.5 s before {link}.", "")) == []
    for wrong in ("10.5, 13.3 and 54 times", "10.5, 14.2 and 55 times", "10.9x", "12.34 s", "18% sooner"):
        assert len(list(missing(f"It came {wrong} as early {link}.", ""))) == 1
    table = "| graph | gain |\n|---|--:|\n| a | 9.3x |\n| b | 3.9x |\n"
    assert [one.split(":")[0] for one in missing(table, "9.26x and 3.3x")] == ["3.9"]


def test_figures_are_measurements_and_not_every_number() -> None:
    assert figures("4.7, 10.5 and 54 times as early, 28% less, 27x to 40x, 3 to 9x, in 280 s") == [
        *("4.7", "10.5", "54", "28", "27", "40", "3", "9", "280"),
    ]
    assert figures("Python 3 on 2 cores, 13,752 nodes, an H100, bfloat16 and layer 2 of 256") == []
