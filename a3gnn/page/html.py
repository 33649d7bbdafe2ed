"""`study_html`: the views of a study as one HTML page, which needs nothing else, or which a server keeps up to date."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib import resources
from typing import Any

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


#: What a page that needs nothing else may do: run the scripts in it, and nothing from elsewhere.
_POLICY = "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:"
#: How every page begins, in its head.
BEGIN = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
"""
_PAGE = (
    BEGIN
    + """<title>{title}</title>
{head}
</head>
<body{live}>
{body}
<script type="application/json" id="views">{views}</script>
{scripts}
</body>
</html>
"""
)


def study_html(views: Mapping[str, Any], live: str | None = None, before: str = "", static: str = "/static") -> str:
    """Returns the page of `study_views`.

    Args:
        views: What it shows.
        live: None for a page with everything in it, which can be mailed. Otherwise the URL of a study on a server, such
            as /studies/7: the page takes its scripts and style from `static`, and reads `live`/views again when a
            server-sent event of the type trial or status comes from `live`/events, until a status is finished, stopped
            or failed.
        before: HTML that stands above the page, such as a server's navigation.
        static: The URL under which a server serves `a3gnn.page.html`.

    Raises:
        MissingDependencyError: The page is to hold everything, and Plotly is not installed.
    """
    if live is None:
        scripts = [static_file("plotly.min.js"), static_file("study.js")]
        policy = _POLICY.format(scripts=" ".join(f"'sha256-{_sha256(script)}'" for script in scripts))
        head = (
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            f"<style>\n{static_file('study.css')}</style>"
        )
        tags = [f"<script>{script}</script>" for script in scripts]
    else:
        head = f'<link rel="stylesheet" href="{escape(static)}/study.css">'
        tags = [f'<script src="{escape(static)}/{name}"></script>' for name in ("plotly.min.js", "study.js")]
    return _PAGE.format(
        title=escape(f"{views['title']}: a3gnn study"),
        head=head,
        live="" if live is None else f' data-live="{escape(live)}"',
        body=before + read_part("study.html"),
        views=_as_json(views),
        scripts="\n".join(tags),
    )


def _as_json(views: Mapping[str, Any]) -> str:
    """Returns `views` as JSON that no parser of HTML takes for its own: none of < > & stands in it."""
    text = json.dumps(views, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
