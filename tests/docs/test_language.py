"""The pages for users and contributors are plain English: short sentences, plain openings, one spelling.

Tables, code, headings and links' targets are no prose. A sentence ends at a period, an exclamation mark, a question
mark or a colon, at the end of a paragraph, and at the end of an item of a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from markdown_it import MarkdownIt

from tests.docs.pages import ROOT

FOLDERS = ("start", "howto", "concepts", "reference")
CONTRIBUTOR_FOLDERS = ("benchmarks", "design", "research")


def _in(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the pages in these folders of `docs/`."""
    paths = (path for folder in folders for path in sorted((ROOT / "docs" / folder).rglob("*.md")))
    return tuple(str(path.relative_to(ROOT)) for path in paths)


USER_PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "AGENTS.md",
    "SKILL.md",
    "docs/index.md",
    "docs/whats_new.md",
    *_in(FOLDERS),
)
CONTRIBUTOR_PAGES = ("docs/architecture.md", "docs/contributing.md", *_in(CONTRIBUTOR_FOLDERS))
#: The pages that are measured.
MEASURED = (*USER_PAGES, *CONTRIBUTOR_PAGES)
MOST_WORDS = 30
#: Share of all sentences that may be longer; of a page, at least one may.
MOST_LONG = 0.02
#: Openings of sentences that hide the subject, and of clauses that stand for a noun.
OPENINGS = re.compile(r"(What|Of|That|Where nothing) ")
#: Clauses that stand for a noun, and the limit of them over all pages for users and over all for contributors.
NOUN_CLAUSE = re.compile(r"\b(what|that of|those of)\b", re.IGNORECASE)
MOST_NOUN_CLAUSES = 30
MOST_FOR_CONTRIBUTORS = 15
#: Stems that are spelled with -ize.
_STEMS = (
    *("optimi", "normali", "initiali", "seriali", "synchroni", "summari", "maximi", "minimi", "standardi"),
    *("vectori", "organi", "recogni"),
)
_ISE = rf"({'|'.join(_STEMS)})s(e|ed|es|er|ing|ation)\b"
#: Spellings that are not used, with the one that is.
SPELLINGS = {
    r"per cent\b": "percent, or % after a number",
    r"\d %": "% directly after the number",
    r"neighbour": "neighbor",
    r"colour": "color",
    r"behaviour": "behavior",
    r"favour": "favor",
    r"labell(ed|ing)\b": "labeled",
    r"modell(ed|ing)\b": "modeled",
    r"cancelled\b": "canceled",
    _ISE: "-ize",
    r"\b(analyse[ds]?|catalogue|centre|licence|artefact|grey)\b": "the American spelling",
    r"\blearnt\b": "learned",
    r"\blikewise\b": "too, or the same",
}
_ENDS = re.compile(r"(?<=[.!?:])[)\"*_]*\s+|\n")
_NO_ENDS = re.compile(r"\b(e\.g|i\.e|vs|et al|Eq|Eqs|Fig|No)\.")
_WORD = re.compile(r"[^\W_]")


class Sentence(NamedTuple):
    """A sentence of a page: the line on which its paragraph begins, and its text, code as one word."""

    page: str
    line: int
    text: str

    @property
    def words(self) -> int:
        """Number of words; signs alone are none."""
        return sum(bool(_WORD.search(word)) for word in self.text.split())

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def sentences(page: str) -> list[Sentence]:
    """Returns the sentences of a page's paragraphs and lists."""
    return list(_sentences(page, (ROOT / page).read_text(encoding="utf-8")))


def _sentences(page: str, text: str) -> Iterator[Sentence]:
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    skipped = 0
    for before, token in zip([None, *tokens], tokens, strict=False):
        skipped += {"table_open": 1, "table_close": -1}.get(token.type, 0)
        if token.type != "inline" or skipped or before is None or before.type == "heading_open":
            continue
        shown = "".join(_shown(child.type, child.content) for child in token.children or ())
        for sentence in _ENDS.split(_NO_ENDS.sub(r"\1", shown)):
            if sentence.strip():
                yield Sentence(page, token.map[0] + 1 if token.map else 0, " ".join(sentence.split()))


def _shown(kind: str, content: str) -> str:
    """Returns the text that a reader sees of a part of a paragraph; code and formulas are one word."""
    if kind == "code_inline":
        return "`code`" if " " in content.strip() else f"`{content.replace('.', '_').replace(':', '_')}`"
    return {"softbreak": " ", "hardbreak": "\n", "html_inline": " ", "image": " "}.get(kind, content)


def long_ones(found: list[Sentence]) -> list[str]:
    """Returns the sentences above `MOST_WORDS`."""
    return [f"{one.words} words: {one}" for one in found if one.words > MOST_WORDS]


def opened(found: list[Sentence]) -> list[str]:
    """Returns the sentences with an opening that is not used."""
    return [str(one) for one in found if OPENINGS.match(one.text) and not one.text.endswith("?")]


def spelled(page: str, text: str) -> list[str]:
    """Returns the lines with a spelling that is not used, outside of code."""
    without = re.sub(r"```.*?```", lambda block: re.sub(r"[^\n]", "", block[0]), text, flags=re.DOTALL)
    without = re.sub(r"`[^`\n]*`|\]\([^)\n]*\)", "", without)
    return [
        f"{page}:{number}: {found[0]!r}: write {remedy}"
        for number, line in enumerate(without.splitlines(), 1)
        for pattern, remedy in SPELLINGS.items()
        for found in re.finditer(pattern, line, re.IGNORECASE)
    ]


@pytest.mark.parametrize("page", MEASURED)
def test_sentences_are_short(page: str) -> None:
    found = sentences(page)
    long = long_ones(found)
    assert len(long) <= max(1, MOST_LONG * len(found)), "\n".join(long)


@pytest.mark.parametrize("pages", [USER_PAGES, CONTRIBUTOR_PAGES], ids=["users", "contributors"])
def test_few_sentences_of_all_are_long(pages: tuple[str, ...]) -> None:
    found = [one for page in pages for one in sentences(page)]
    long = long_ones(found)
    assert len(long) <= MOST_LONG * len(found), "\n".join(long)


@pytest.mark.parametrize("page", MEASURED)
def test_sentences_begin_with_their_subject(page: str) -> None:
    assert opened(sentences(page)) == []


@pytest.mark.parametrize("page", MEASURED)
def test_one_spelling_is_used(page: str) -> None:
    assert spelled(page, (ROOT / page).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("pages", "most"),
    [(USER_PAGES, MOST_NOUN_CLAUSES), (CONTRIBUTOR_PAGES, MOST_FOR_CONTRIBUTORS)],
    ids=["users", "contributors"],
)
def test_nouns_are_nouns(pages: tuple[str, ...], most: int) -> None:
    found = [
        str(one)
        for page in pages
        for one in sentences(page)
        if not one.text.endswith("?")
        for _ in NOUN_CLAUSE.findall(one.text)
    ]
    assert len(found) < most, "\n".join(found)


def test_prose_is_found_without_tables_and_code() -> None:
    text = "# What it is\n\nOne: two `a b.c`\nthree. Four?\n\n| what |\n|---|\n| of |\n\n* five ([six](x.md#y)).\n"
    found = list(_sentences("page.md", text))
    assert [(one.line, one.text) for one in found] == [
        (3, "One:"),
        (3, "two `code` three."),
        (3, "Four?"),
        (10, "five (six)."),
    ]
    assert [one.words for one in found] == [1, 3, 1, 2]


def test_foreign_sentences_are_found() -> None:
    text = f"What is measured counts. Of the host. That of it. {'word ' * 31}end.\n"
    found = list(_sentences("page.md", text))
    assert len(opened(found)) == 3
    assert long_ones(found) == [f"32 words: page.md:1: {'word ' * 31}end."]
    assert spelled("page.md", "colour `colour` 5 % [a](colour.md)\n\n```text\n5 %\n```\nlikewise\n") == [
        "page.md:1: '5 %': write % directly after the number",
        "page.md:1: 'colour': write color",
        "page.md:6: 'likewise': write too, or the same",
    ]
