"""The code that the picker shows to copy, by language: templates, whose {parts} the page's script fills in."""

from __future__ import annotations

_COMMAND = "a3gnn pick {place}{flags}"
#: Code of a pick, for a report (`file`) and for a study on a server (`live`). The parts: `place` is the folder or the
#: study's URL, quoted for a shell; `flags` and `arguments` are the changes, as options and as keyword arguments;
#: `folder`, `origin` and `number` are Python values; `body` is JSON, quoted for a shell. `imports`, `token` and
#: `header` are empty without a token.
PICK: dict[str, dict[str, str]] = {
    "file": {
        "Command line": _COMMAND,
        "Python": "import a3gnn\n\nprint(a3gnn.pick({folder}{arguments}).config)",
    },
    "live": {
        "Command line": _COMMAND,
        "Python": "import {imports}a3gnn\n\n"
        "study = a3gnn.Client({origin}{token}).study({number})\nprint(study.pick({arguments}).config)",
        "curl": "curl{header} -OJ {place}/pick -H 'Content-Type: application/json' -d {body}",
    },
}
