"""`a3gnn serve`: runs the auto-tuning service for browsers, programs and other machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from a3gnn.cli.executor_options import ONE_KIND, executor_options, take_choice
from a3gnn.cli.options import SIZE, import_from_here


@click.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path("runs/service"),
    show_default=True,
    help="Keeps studies, graphs and the database; the same folder goes on where a server ended.",
)
@click.option("--data-root", type=click.Path(path_type=Path), help="Graphs below this folder may be tuned for.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at; others need a token.")
@click.option("--port", type=click.IntRange(0, 65535), default=8642, show_default=True, help="0 takes a free one.")
@click.option(
    "--token", envvar="A3GNN_TOKEN", show_envvar=True, help="What requests must carry; better by the variable."
)
@click.option(
    "--allow-host", multiple=True, metavar="NAME", help="A name that the server is reached by; may be repeated."
)
@click.option("--allow-model", multiple=True, metavar="PACKAGE.MODULE:FUNCTION", help="A model of your own to run.")
@click.option("--database", help="A path or a database URL; FOLDER/service.sqlite by default.")
@click.option("--max-upload", type=SIZE, default="2GiB", show_default=True, help="An uploaded graph, also unpacked.")
@click.option("--max-nodes", type=click.IntRange(1), default=50_000_000, show_default=True, help="Of a graph.")
@click.option("--max-edges", type=click.IntRange(1), default=2_000_000_000, show_default=True, help="Of a graph.")
@click.option("--max-queued", type=click.IntRange(1), default=100, show_default=True, help="Studies that may wait.")
@click.option("--at-once", type=click.IntRange(0), default=1, show_default=True, help="Studies that run; 0 for none.")
@executor_options(ONE_KIND)
def serve(**options: Any) -> None:
    """Serve studies over HTTP: start, watch, stop and resume them, and take their choice away.

    Studies wait in a queue, and their trials take turns on the machine. Whatever ends the server, the next one with the
    same --folder goes on with what was running, and runs no finished trial again. By default it answers this machine
    alone; see docs/howto/service.md.
    """
    from a3gnn.option_names import as_keywords
    from a3gnn.service.serve import serve as run
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
        max_nodes=options["max_nodes"],
        max_edges=options["max_edges"],
        max_queued=options["max_queued"],
        at_once=options["at_once"],
        trials=take_choice(options),
    )
    if settings.allowed_models:
        import_from_here()
    with as_keywords():
        run(settings, lambda line: click.echo(line, err=True))
