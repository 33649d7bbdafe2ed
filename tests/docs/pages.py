"""The pages of the docs, and the blocks of code in them, as CommonMark reads them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
#: Every page that shows commands, by its place in the repository.
PAGES = tuple(
    str(path.relative_to(ROOT))
    for path in (
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "AGENTS.md", "SKILL.md")),
        ROOT / "profiles" / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    )
)
_COMMENT = re.compile(r"(^|\s+)#(?=\s).*$")


class Block(NamedTuple):
    """A fenced block of a page; `language` is "" where the fence names none, "indented" where there is no fence."""

    page: str
    line: int
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The commands of a bash block without their comments; one that goes on after a backslash is one."""
        joined = re.sub(r"\\\n\s*", "", self.text)
        found = [_COMMENT.sub("", line).strip() for line in joined.splitlines()]
        return [command for command in found if command]


def blocks(page: str) -> list[Block]:
    """Returns the blocks of a page in their order."""
    tokens = MarkdownIt("commonmark").parse((ROOT / page).read_text(encoding="utf-8"))
    return [
        Block(page, token.map[0] + 1, token.info.strip() if token.type == "fence" else "indented", token.content)
        for token in tokens
        if token.type in ("fence", "code_block") and token.map
    ]


def shown(page: str, language: str) -> list[Block]:
    """Returns a page's blocks of a language."""
    return [block for block in blocks(page) if block.language == language]


def links(page: str) -> list[str]:
    """Returns where a page's links lead, those in tables too."""
    tokens = MarkdownIt("commonmark").enable("table").parse((ROOT / page).read_text(encoding="utf-8"))
    inner = [child for token in tokens for child in token.children or ()]
    return [str(child.attrs["href"]) for child in inner if child.type == "link_open"]


def headings(page: str) -> list[str]:
    """Returns the text of a page's headings, as a reader sees it."""
    tokens = MarkdownIt("commonmark").parse((ROOT / page).read_text(encoding="utf-8"))
    after = [tokens[at + 1] for at, token in enumerate(tokens) if token.type == "heading_open"]
    return ["".join(child.content for child in token.children or ()) for token in after]
