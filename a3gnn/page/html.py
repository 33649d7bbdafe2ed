"""`study_html`: the views of a study as one HTML page, which needs nothing else, or which a server keeps up to date."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from typing import Any

from a3gnn.page.static_files import read_part, static_file

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
        static: The URL under which a server serves `a3gnn.page.static_files`.

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
