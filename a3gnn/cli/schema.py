"""`a3gnn schema`: prints the JSON schema of a command's answer, made from the types that the answer is made of."""

from __future__ import annotations

import click

from a3gnn.cli.help import Command
from a3gnn.cli.output import show, show_json
from a3gnn.errors import unknown_name


@click.command(cls=Command)
@click.argument("words", metavar="COMMAND...", nargs=-1)
def schema(words: tuple[str, ...]) -> None:
    """Print the JSON schema of the answer that COMMAND --json prints, such as a3gnn schema tune.

    Without COMMAND, lists the commands that have one. `error` is the schema of an error, which stderr gets.
    """
    from a3gnn.cli.answers import answers
    from a3gnn.cli.json_schema import schema_of

    known, name = answers(), " ".join(words)
    if not words:
        for one in known:
            show(one)
        return
    if name not in known:
        raise unknown_name("COMMAND", name, known)
    show_json(schema_of(known[name]))
