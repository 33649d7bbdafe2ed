"""The licenses of what a3gnn installs are known, and what it always needs may be used in any program."""

from __future__ import annotations

import re

from docs.licenses import licensed

#: Licenses with conditions on the programs that use a package.
COPYLEFT = re.compile(r"GPL|General Public License|EUPL|SSPL", re.IGNORECASE)


def test_every_package_names_a_license() -> None:
    assert [one.name for one in licensed() if not one.license] == []


def test_the_list_has_what_dependencies_need_and_nothing_of_contributors() -> None:
    found = {one.name: one.extra for one in licensed()}
    assert found["numpy"] == found["torch"] == found["llvmlite"] == ""  # numba needs llvmlite
    assert found.get("h11", "serve") == found.get("uvicorn", "serve") == "serve"
    assert found.keys().isdisjoint({"pytest", "ruff", "mypy", "mkdocs", "ipykernel"})


def test_only_an_extra_has_a_copyleft_license() -> None:
    found = {one.name: one.extra for one in licensed() if COPYLEFT.search(one.license)}
    assert found in ({}, {"psycopg": "postgres"}), "an LGPL package that users install by name"
