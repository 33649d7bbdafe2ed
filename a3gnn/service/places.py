"""`Places`: what texts that leave the server call its files: where they lie below its folders, not where those are."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from a3gnn.storage.cache import cache_root

#: What a3gnn's own messages tell people to ask the server, which is no path even where a folder is called the same.
_REQUEST = r"(?P<request>\b(?:GET|POST|DELETE) /(?:graphs|studies|trainings|docs)(?![\w~-]))"
#: What a path may begin after: no name that goes on, or a line break or tab as `repr` writes it.
_BEFORE = r"(?:(?<![a-zA-Z0-9_.~-])|(?<=\\[ntr]))"
#: A folder with what lies below it, or alone; not the beginning of another name. The dot of a sentence ends it, too.
_AFTER = r"(?:(?P<below>/+(?=[\w.~-]))|(?!\.*[\w~-]|\.+/))"


class Places:
    """Shortens the paths of files below the server's folders, and below those that its Python lives in.

    Args:
        folders: The server's own.

    Attributes:
        folders: The same, for another process.
    """

    def __init__(self, folders: Iterable[str | Path | None]) -> None:
        self.folders = tuple(str(folder) for folder in folders if folder is not None)
        python = (*sys.path, sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"))
        ours = (*self.folders, str(cache_root()), tempfile.gettempdir(), os.path.expanduser("~"), os.getcwd())
        named = {os.path.abspath(folder) for folder in (*python, *ours) if folder}
        known = {name for folder in named for name in (folder, os.path.realpath(folder))} - {os.sep}
        longest_first = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
        self._known = re.compile(rf"{_REQUEST}|{_BEFORE}(?:{longest_first}){_AFTER}")

    def shown(self, text: str) -> str:
        """Returns `text` with paths of files below the folders as paths from there; a folder's own is a dot."""
        if os.sep not in text:
            return text
        return self._known.sub(lambda found: found["request"] or ("" if found["below"] else "."), text)

    def shown_in(self, value: Any) -> Any:
        """Returns JSON types with every text in them as `shown` has it."""
        if isinstance(value, str):
            return self.shown(value)
        if isinstance(value, dict):
            return {self.shown_in(name): self.shown_in(one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.shown_in(one) for one in value]
        return value
