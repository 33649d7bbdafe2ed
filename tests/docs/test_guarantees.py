"""Each promise of docs/guarantees.md names a test that exists."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.endswith("| test |")]


@pytest.mark.parametrize("row", ROWS)
def test_a_promise_names_a_test(row: str) -> None:
    found = re.search(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?` \|$", row)
    assert found is not None, "the last column names a test"
    file, name = found.groups()
    assert re.search(rf"^def {name or 'test_'}", (ROOT / file).read_text(), re.M), "there is no such test"
