"""`printable`: text with the name of a file, for people and for what takes only Unicode."""

from __future__ import annotations

import os


def printable(text: str) -> str:
    """Returns `text` with a replacement character for each byte of a file name that is not UTF-8, such as of Latin-1.

    Python keeps such bytes as lone surrogates, which can be neither printed, drawn nor stored in a database.
    """
    return os.fsencode(text).decode("utf-8", "replace")
