"""Lists the licenses of the packages that a3gnn installs: `python -m docs.licenses` prints the table.

It reads pyproject.toml and the metadata of the installed packages, so that it names what runs here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

#: Extras of those who change a3gnn. The others are for its users.
CONTRIBUTORS = ("dev", "docs", "notebook")
_CLASSIFIER = "License :: OSI Approved :: "


class Licensed(NamedTuple):
    """An installed package.

    Attributes:
        name: Its name on the package index.
        version: Its version.
        license: Its license by its metadata; "" if that names none.
        extra: The extra that installs it; "" if a3gnn always needs it.
    """

    name: str
    version: str
    license: str
    extra: str


def licensed() -> list[Licensed]:
    """Returns the installed packages that a3gnn and its extras for users need, directly or not, each once by name."""
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    extras = project["optional-dependencies"]
    found: dict[str, Licensed] = {}
    for extra, needed in [("", project["dependencies"]), *extras.items()]:
        if extra not in CONTRIBUTORS:
            for one in filter(_has_files, _installed(list(needed))):
                name = _normal(one.name)
                found.setdefault(name, Licensed(name, one.version, license_of(one), extra))
    return sorted(found.values())


def license_of(one: Distribution) -> str:
    """Returns the license by the metadata: the expression, the classifiers or the first line of the free text."""
    told = one.metadata
    classifiers = [text.removeprefix(_CLASSIFIER) for text in told.get_all("Classifier", ()) if _CLASSIFIER in text]
    free = (told.get("License") or "").strip().partition("\n")[0]
    return told.get("License-Expression") or ", ".join(classifiers) or free


def _has_files(one: Distribution) -> bool:
    """Returns whether a package has files of its own; `cuda-toolkit` only names others, and has no license."""
    return any(not file.parts[0].endswith(".dist-info") for file in one.files or ())


def _installed(needed: list[str]) -> Iterator[Distribution]:
    """Yields the installed packages that requirements need, directly or not; a package may come again."""
    seen = set[tuple[str, str]]()
    while needed:
        one = Requirement(needed.pop())
        for extra in ("", *one.extras):
            key = (_normal(one.name), extra)
            if key in seen or (one.marker and not one.marker.evaluate({"extra": ""})):
                continue
            seen.add(key)
            try:
                package = distribution(one.name)
            except PackageNotFoundError:
                continue
            yield package
            needed += [text for text in package.requires or () if _applies(Requirement(text), extra)]


def _applies(one: Requirement, extra: str) -> bool:
    """Returns whether a requirement of a package is one of its extra; "" stands for those without an extra."""
    return (one.marker is None and not extra) or (one.marker is not None and one.marker.evaluate({"extra": extra}))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    print("| package | version | license | installed by |\n|---|---|---|---|")
    for row in licensed():
        print(f"| {row.name} | {row.version} | {row.license or 'not named'} | {row.extra or 'a3gnn'} |")
