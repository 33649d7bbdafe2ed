"""`study_html`: the views of a study as one HTML page, either self-contained or kept up to date by a server."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib import resources
from typing import Any

_COMMAND = "a3gnn pick {place}{flags}"
#: Code of a pick, for a report (`file`) and for a study on a server (`live`). The parts: `place` is the folder or the
#: study's URL, quoted for a shell; `flags` and `arguments` are the changes, as options and as keyword arguments;
#: `folder`, `origin` and `number` are Python values; `body` is JSON, quoted for a shell. `imports`, `token` and
#: `header` are empty without a token.
PICK: dict[str, dict[str, str]] = {
    "file": {"Command line": _COMMAND, "Python": "import a3gnn\n\nprint(a3gnn.pick({folder}{arguments}).config)"},
    "live": {
        "Command line": _COMMAND,
        "Python": "import {imports}a3gnn\n\n"
        "study = a3gnn.Client({origin}{token}).study({number})\nprint(study.pick({arguments}).config)",
        "curl": "curl{header} -OJ {place}/pick -H 'Content-Type: application/json' -d {body}",
    },
}


#: Parts of each script, in the order in which they are put together; each uses names of those before it.
_SCRIPTS = {
    "study.js": (
        *("dom", "connection", "chart", "law", "front", "curves", "parallel", "table", "picker", "head", "log"),
        *("summary", "importance", "timeline", "study", "copy"),
    ),
    "training.js": ("dom", "connection", "chart", "head", "training", "copy"),
    "pages.js": ("dom", "connection", "pages"),
}
#: Media types of the files that `static_file` returns.
MEDIA_TYPES = {
    **dict.fromkeys(_SCRIPTS, "text/javascript; charset=utf-8"),
    **dict.fromkeys(("study.css", "pages.css"), "text/css; charset=utf-8"),
}
#: Policy of a self-contained page: it may run its own scripts, and nothing from elsewhere.
_POLICY = "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:"
#: Start of every page, inside its head.
BEGIN = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
"""
#: A study's page.
_PAGE = (
    BEGIN
    + """<title>{title}</title>
{head}
</head>
<body{live}>
<a class="skip" href="#main">Skip to the views</a>
{body}
<script type="application/json" id="views">{views}</script>
{script}
</body>
</html>
"""
)


def study_html(
    views: Mapping[str, Any],
    live: str | None = None,
    before: str = "",
    actions: str = "",
    after: str = "",
    head: Mapping[str, Any] | None = None,
) -> str:
    """Returns the page of `study_views`.

    Args:
        views: The views of a study.
        live: None for a self-contained page, which can be mailed. Otherwise the URL of a study on a server, such as
            /studies/7. The page then takes its scripts and style from /static. While it is visible, it reads
            `live`/views again every few seconds, and soon after an event from `live`/events.
        before: HTML that stands above the page, such as a server's navigation.
        actions: HTML inside the page's header, such as a server's buttons.
        after: HTML that stands below the page.
        head: What a server's page shows above the views, as JSON types. The page reads it again from `live`/head, and
            then reads the views only if their trials or the state have changed.
    """
    if live is None:
        script = static_file("study.js")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = _POLICY.format(scripts=f"'sha256-{digest}'")
        style = static_file("study.css")
        top = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>\n{style}</style>'
        tag = f"<script>{script}</script>"
    else:
        top = '<link rel="stylesheet" href="/static/study.css">'
        tag = '<script src="/static/study.js"></script>'
    return _PAGE.format(
        title=escape(f"{views['title']}: a3gnn study"),
        head=top,
        live="" if live is None else f' data-live="{escape(live)}"' + _head_data(head),
        body=before + read_part("study.html").replace("<!-- actions -->", actions) + after,
        views=_as_json(views),
        script=tag,
    )


def _head_data(head: Mapping[str, Any] | None) -> str:
    return "" if head is None else f' data-head="{escape(json.dumps(head))}"'


def _as_json(views: Mapping[str, Any]) -> str:
    """Returns `views` as JSON without the characters < > &, so that it is safe inside HTML."""
    text = json.dumps(views, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def static_file(name: str) -> str:
    """Returns the text of a file that the page loads, one of `MEDIA_TYPES`.

    Raises:
        KeyError: There is no such file.
    """
    if name not in MEDIA_TYPES:
        raise KeyError(name)
    return _script(_SCRIPTS[name]) if name in _SCRIPTS else read_part(name)


@cache
def read_part(name: str) -> str:
    """Returns the text of the file `name` beside this module, in static/."""
    return (resources.files("a3gnn.page") / "static" / name).read_text(encoding="utf-8")


@cache
def _script(names: tuple[str, ...]) -> str:
    """Returns the script: its parts in one function, so that their names stay private."""
    parts = "\n".join(read_part(f"{name}.js") for name in names)
    if "picker" in names:
        parts = f"const PICK_SNIPPETS = {json.dumps(PICK)};\n{parts}"
    return f'(() => {{\n"use strict";\n{parts}\n}})();\n'
