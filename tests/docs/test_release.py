"""Everything that names the version agrees, and a released change has one line in CHANGELOG.md."""

from __future__ import annotations

import re

from a3gnn.version import __version__
from tests.docs.pages import ROOT

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
#: Most characters of an entry, once it is released.
LONGEST = 170


def test_the_newest_release_is_the_version() -> None:
    sections = re.findall(r"^## \[(.+?)\](?: - (\S+))?$", CHANGELOG, re.MULTILINE)
    assert sections[0] == ("Unreleased", "")
    version, date = sections[1]
    assert version == __version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {version}\ndate-released: {date}\n" in citation
    assert f"\na3gnn {version}, Python" in (ROOT / "docs" / "start" / "tutorial.md").read_text(encoding="utf-8")
    news = (ROOT / "docs" / "whats_new.md").read_text(encoding="utf-8")
    assert news.startswith(f"# New in {version}\n\nVersion {version} of {date} ")


def test_a_released_change_has_a_line() -> None:
    released = CHANGELOG.partition(f"## [{__version__}]")[2]
    _, *sections = re.split(r"^### \w+\n\n", released, flags=re.MULTILINE)
    entries = [line for section in sections for line in section.strip().splitlines()]
    assert len(entries) > 100
    assert [line for line in entries if not line.startswith("- ") or len(line) > LONGEST] == []
