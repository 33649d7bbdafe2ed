"""`a3gnn serve`: runs the auto-tuning service for browsers, programs and other machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from a3gnn.cli.executor_options import ONE_KIND, executor_options, take_choice
from a3gnn.cli.help import Command
from a3gnn.cli.options import DURATION, SIZE, address_options, import_from_here


@click.command(cls=Command)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path("runs/service"),
    show_default=True,
    help="Folder for studies, graphs and the database. A new server in the same folder continues its studies.",
)
@click.option(
    "--data-root", type=click.Path(path_type=Path), metavar="DIR", help="Folder whose graphs studies may use."
)
@address_options(8642, "A3GNN_TOKEN")
@click.option(
    "--allow-host", multiple=True, metavar="NAME", help="Host name that reaches this server. May be repeated."
)
@click.option(
    "--allow-model",
    multiple=True,
    metavar="PACKAGE.MODULE:FUNCTION",
    help="Your own model that studies may use. May be repeated.",
)
@click.option("--database", metavar="PATH|URL", help="Database of studies. Default: FOLDER/service.sqlite.")
@click.option(
    "--max-upload", type=SIZE, default="2GiB", show_default=True, help="Largest uploaded graph, packed and unpacked."
)
@click.option(
    "--max-uploads", type=SIZE, default="20GiB", show_default=True, help="Most bytes of all uploaded graphs together."
)
@click.option(
    "--max-nodes", type=click.IntRange(1), default=50_000_000, show_default=True, help="Most nodes of a graph."
)
@click.option(
    "--max-edges", type=click.IntRange(1), default=2_000_000_000, show_default=True, help="Most edges of a graph."
)
@click.option("--max-budget", type=DURATION, default="7d", show_default=True, help="Longest budget of a study.")
@click.option(
    "--max-trials", type=click.IntRange(1), default=10_000, show_default=True, help="Largest budget in trials."
)
@click.option(
    "--max-epochs", type=click.IntRange(1), default=10_000, show_default=True, help="Most epochs of a request."
)
@click.option("--max-hidden", type=click.IntRange(1), default=4096, show_default=True, help="Widest hidden layers.")
@click.option("--max-memory", type=SIZE, help="Largest host memory limit, also of studies without one.")
@click.option("--max-queued", type=click.IntRange(1), default=100, show_default=True, help="Most waiting studies.")
@click.option(
    "--lease",
    type=DURATION,
    default="1h",
    show_default=True,
    help="Time without a client after which a study with client trials makes room for another.",
)
@click.option(
    "--at-once",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Studies that run at the same time; 0 runs none.",
)
@click.option("--access-log", is_flag=True, help="Print a line per request: time, path, status, duration, address.")
@executor_options(ONE_KIND)
def serve(**options: Any) -> None:
    """Serve studies over HTTP: start, watch, stop and resume tunes, and download their results.

    Studies wait in a queue, and their trials take turns on the machine. After a crash or a restart, a server with the
    same --folder continues the running studies and repeats no finished trial. By default the server answers only this
    machine; see docs/howto/service.md.
    """
    from a3gnn.option_names import as_keywords
    from a3gnn.service.http.serve import serve as run
    from a3gnn.service.settings import ServiceSettings

    settings = ServiceSettings(
        folder=options["folder"],
        data_root=options["data_root"],
        host=options["host"],
        port=options["port"],
        token=options["token"] or None,
        allowed_hosts=options["allow_host"],
        allowed_models=options["allow_model"],
        database=options["database"],
        max_upload_bytes=options["max_upload"],
        max_uploads_bytes=options["max_uploads"],
        max_nodes=options["max_nodes"],
        max_edges=options["max_edges"],
        max_budget_s=options["max_budget"],
        max_trials=options["max_trials"],
        max_epochs=options["max_epochs"],
        max_hidden=options["max_hidden"],
        max_memory_bytes=options["max_memory"],
        max_queued=options["max_queued"],
        lease_s=options["lease"],
        at_once=options["at_once"],
        access_log=options["access_log"],
        trials=take_choice(options),
    )
    if settings.allowed_models:
        import_from_here()
    with as_keywords():
        run(settings, lambda line: click.echo(line, err=True))
