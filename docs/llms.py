"""Makes docs/llms.txt, the index of the docs for language models, and the site's llms-full.txt, all pages in one.

`python -m docs.llms` writes docs/llms.txt; tests/docs/test_llms.py holds it up to date. The form is llmstxt.org's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from a3gnn.version import PURPOSE

DOCS = Path(__file__).parent
#: What the index says of pages that are made as the site is built.
_MADE = {
    "reference/commands.md": "Every command and option, from the parsers.",
    "reference/json.md": "The fields of every answer of --json, from the schemas.",
    "reference/python.md": "Every public name of Python, from the docstrings.",
}
_NO_PROSE = ("* ", "[![", "```")
_HEAD = f"""# a3gnn

> {PURPOSE}

SKILL.md in the repository has the five commands for a program that uses a3gnn. `a3gnn COMMAND --help` lists options,
`--json` prints one object, and `a3gnn schema COMMAND` prints its schema.
"""


def llms_txt(ending: str = ".md") -> str:
    """Returns the index: each page with its title and first sentence, under its section.

    Args:
        ending: End of the links: .md in the repository, .html in the site.
    """
    parts = [_HEAD]
    for section, pages in _sections():
        rows = [f"- [{title}]({place.removesuffix('.md')}{ending}): {_first(place)}" for title, place in pages]
        parts.append("\n".join([f"## {section}", "", *rows]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def llms_full(made: Mapping[str, str]) -> str:
    """Returns the text of all pages in order; `made` has the pages that are not in docs/."""
    pages = (place for _, pages in _sections() for _, place in pages)
    texts = ((place, made.get(place) or (DOCS / place).read_text(encoding="utf-8")) for place in pages)
    return "\n\n".join(f"<!-- {place} -->\n\n{text.strip()}" for place, text in texts) + "\n"


def _sections() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yields the sections of the navigation and of the contributors' page, each with its pages' titles and places."""
    text = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    for one in yaml.safe_load(text)["nav"]:
        for title, inner in one.items():
            yield title, list(_pages(title, inner))
    for section in re.split(r"^## ", (DOCS / "contributing.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        yield section.partition("\n")[0], re.findall(r"^\* \[([^\]]+)\]\(([^)]+)\)$", section, re.MULTILINE)


def _pages(title: str, inner: Any) -> Iterator[tuple[str, str]]:
    if isinstance(inner, str):
        yield title, inner
        return
    for one in inner:
        for name, further in one.items():
            yield from _pages(name, further)


def _first(place: str) -> str:
    """Returns the first sentence of a page, without its links."""
    if place in _MADE:
        return _MADE[place]
    paragraphs = re.split(r"\n\s*\n", (DOCS / place).read_text(encoding="utf-8"))
    prose = next(one for one in paragraphs if re.match(r"[A-Za-z`*\[(]", one) and not one.startswith(_NO_PROSE))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(prose.split()).replace("**", ""))
    return re.split(r"(?<=[.:?])\s", text)[0].rstrip(":")


if __name__ == "__main__":
    (DOCS / "llms.txt").write_text(llms_txt(), encoding="utf-8")
