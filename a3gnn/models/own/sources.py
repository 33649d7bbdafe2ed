"""`Sources`: the user's files that a module consists of, and their hash.

Files are found by reading all import statements, anywhere in a file, so that every process finds the same files.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import sys
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Self

from a3gnn.errors import ModelError

#: Packages whose versions are stored with results anyway.
_OURS = {"a3gnn", "a3gnn_surrogate", "a3gnn_envs"}
#: Modules that the interpreter runs at its start, and that belong to no model.
_AT_START = {"sitecustomize", "usercustomize"}
#: Folders of installed packages; their versions represent them.
_INSTALLED = {"site-packages", "dist-packages"}


@dataclass(frozen=True, slots=True)
class Sources:
    """The user's files by module, and the installed packages that they import.

    Files of the module's own top package always count, even if it is installed. Other installed packages count by
    version.

    Attributes:
        top: The module's top package.
        files: The file of each module.
        packages: Installed packages that a file imports, with their versions; "" for a package without one.
    """

    top: str
    files: dict[str, Path]
    packages: dict[str, str]

    @classmethod
    def of(cls, module: str) -> Self:
        """Returns the sources of `module`, which can be imported."""
        top = module.partition(".")[0]
        files: dict[str, Path] = {}
        installed = {"torch"}
        due = list(_with_parents(module))
        while due:
            name = due.pop()
            path = None if name in files else _user_file(name, top)
            if path is not None:
                files[name] = path
                for imported in _imports(name, path):
                    due.extend(_with_parents(imported))
            elif name not in files and "." not in name and _is_foreign(name) and _is_installed(name):
                installed.add(name)
        return cls(top, files, {name: _version(name) for name in sorted(installed) if _spec(name) is not None})

    @property
    def hash(self) -> str:
        """A short stable hash of the files' contents and the packages' versions."""
        found = hashlib.blake2b(digest_size=8)
        for name, path in sorted(self.files.items()):
            content = path.read_bytes()
            found.update(f"{name} {len(content)}\n".encode() + content)
        found.update(repr(sorted(self.packages.items())).encode())
        return found.hexdigest()

    def check(self, before: Collection[str]) -> None:
        """Checks that these sources contain every user file that was imported since `before`.

        Args:
            before: Names of the modules imported earlier.

        Raises:
            ModelError: A file is missing, so its changes would go unnoticed.
        """
        for name in sorted(set(sys.modules) - set(before) - set(self.files) - _AT_START):
            path = _user_file(name, self.top)
            if path is not None and not _is_of_pyg(name, path):
                raise ModelError(
                    f"the model must import {name} ({path}) by an import statement, because results depend on its "
                    f"content; add 'import {name}' to {self.top}"
                )


def _is_of_pyg(name: str, path: Path) -> bool:
    """Whether PyG wrote module `name` from the source of a message passing class, which its file defines."""
    return name.endswith(("_propagate", "_edge_updater")) and Path(tempfile.gettempdir()) in path.parents


def _with_parents(name: str) -> Iterator[str]:
    """Yields the parent packages of module `name`, then `name`."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count])


def _is_foreign(name: str) -> bool:
    """Whether the top package `name` is neither Python's nor ours."""
    return name not in sys.stdlib_module_names and name not in _OURS


def _user_file(name: str, top: str) -> Path | None:
    """Returns the file of module `name` if it is the user's, else None; files of package `top` always are."""
    package = name.partition(".")[0]
    if not _is_foreign(package) or (package != top and _is_installed(package)):
        return None
    spec = _spec(name)
    return Path(spec.origin) if spec is not None and spec.origin is not None and spec.has_location else None


def _is_installed(package: str) -> bool:
    """Whether the top package `package` is installed, or can't be found."""
    spec = _spec(package)
    if spec is None:
        return True
    places = [spec.origin] if spec.has_location and spec.origin else list(spec.submodule_search_locations or ())
    return all(not _INSTALLED.isdisjoint(Path(place).parts) for place in places)


def _spec(name: str) -> ModuleSpec | None:
    module = sys.modules.get(name)
    if module is not None:
        return getattr(module, "__spec__", None)
    try:
        return importlib.util.find_spec(name)
    except (ImportError, AttributeError, ValueError):  # an imported name need not be a module
        return None


def _imports(name: str, path: Path) -> Iterator[str]:
    """Yields the names that the file of module `name` imports; some may be functions or classes, not modules."""
    if path.suffix != ".py":
        return
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names if alias.name != "*")


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return str(getattr(sys.modules.get(name), "__version__", ""))
