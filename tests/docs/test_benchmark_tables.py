"""The tables of docs/benchmarks/ hold the stored results: `python -m benchmarks.tables` writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.tables import PAGES, TABLES, filled


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_a_page_has_the_tables_of_the_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert filled(text) == text


def test_every_table_is_on_a_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [name for name in TABLES if f"<!-- table: {name} -->\n\n| " not in pages] == []


def test_an_outdated_table_is_found() -> None:
    old = "<!-- table: live_tunes -->\n\n| graph |\n\n<!-- end -->\n"
    assert filled(old) != old
    assert filled(old).endswith("|\n\n<!-- end -->\n")
