"""The page's script, style and figures' library, as a report holds them and a server serves them under /static/."""

from __future__ import annotations

from functools import cache
from importlib import resources

from a3gnn._imports import optional

#: Parts of the script, in the order in which they are put together; each uses names of those before it.
_SCRIPTS = ("dom", "law", "front", "curves", "parallel", "table", "picker", "summary", "study")
#: What `static_file` has, each with its media type.
MEDIA_TYPES = {
    "study.js": "text/javascript; charset=utf-8",
    "study.css": "text/css; charset=utf-8",
    "plotly.min.js": "text/javascript; charset=utf-8",
}


def static_file(name: str) -> str:
    """Returns the text of a file that the page takes, one of `MEDIA_TYPES`.

    Raises:
        KeyError: There is no such file.
        MissingDependencyError: It is of Plotly, and that is not installed.
    """
    if name not in MEDIA_TYPES:
        raise KeyError(name)
    if name == "plotly.min.js":
        return _plotly()
    return _script() if name == "study.js" else read_part(name)


@cache
def read_part(name: str) -> str:
    """Returns the text of the file `name` beside this module, in static/."""
    return (resources.files("a3gnn.page") / "static" / name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    """Returns the script: its parts in one function, so that their names are no one else's."""
    parts = "\n".join(read_part(f"{name}.js") for name in _SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();\n'


@cache
def _plotly() -> str:
    """Returns Plotly's library as its Python package brings it, of about 5 MB."""
    optional("plotly", "report", "The page of a study")
    from plotly.offline import get_plotlyjs

    library: str = get_plotlyjs()
    return library
