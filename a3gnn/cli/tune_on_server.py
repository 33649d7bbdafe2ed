"""`a3gnn tune --server URL`: the same command, measured by a server's machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a3gnn.errors import UsageError

if TYPE_CHECKING:
    from a3gnn.tuning.outcome.result import TuneResult

#: Options of `a3gnn tune` that are not a study's.
_OWN = ("dataset", "split", "split_seed", "store", "out", "resume", "task")


def tune_on_server(
    url: str, token: str | None, options: Mapping[str, Any], asked: Mapping[str, Any], notify: Callable[[str], None]
) -> TuneResult:
    """Returns what a study on the server found; the folder here has then what that of a local tune has.

    Args:
        url: Where the server is.
        token: What it wants requests to carry, if anything.
        options: The command's options.
        asked: The same as `tune` takes them.
        notify: Takes each line of output.

    Raises:
        UsageError: An option is not what it must be, or means nothing there.
    """
    from a3gnn.service.client import Client
    from a3gnn.storage.claim import reserved_next
    from a3gnn.tuning.study.folder import check_folder

    if options["split"] is not None:
        raise UsageError(
            "--split means nothing with --server, which splits no graph: a3gnn graph convert GRAPH FOLDER --split "
            f"{options['split']} makes a folder that it takes"
        )
    for name in ("store", "resume"):
        if options[name]:
            raise UsageError(
                f"--{name} means nothing with --server, which keeps its own measurements and studies; Client(URL)"
                ".study(N).resume() goes on with one"
            )
    if options["out"] is not None:
        check_folder(options["out"], resume=False)
    order = {name: value for name, value in options.items() if name not in _OWN}
    order |= {name: asked[name] for name in ("fix", "ranges")}
    if isinstance(order["budget"], float):
        order["budget"] = f"{order['budget']}s"
    study = Client(url, token).start(options["dataset"], **order)
    notify(f"study {study.id} at {url}; Ctrl-C leaves it running there")
    tuned = study.wait(notify)
    out: Path = options["out"] or reserved_next(tuned.setting.graph.name)
    result = study.save(out, options["dataset"], notify)
    assert result is not None, "it has chosen"
    return result
