"""Makes the reference pages of the docs site when it is built: commands from their parsers, names from docstrings.

A hook of MkDocs (`mkdocs.yml`). The pages exist in the site alone, so nothing in them can be out of date.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import a3gnn
from a3gnn.cli.main import COMMANDS, app

#: Names beside `a3gnn.__all__` that the docs tell users of, under the heading that the page gives them.
FURTHER_NAMES = {
    "What they return": (
        "a3gnn.tuning.outcome.result.TuneResult",
        "a3gnn.tuning.beliefs.recommendation.Recommendation",
        "a3gnn.training.result.TrainResult",
        "a3gnn.report.front.Front",
        "a3gnn.service.client.RemoteStudy",
    ),
    "A built-in model in a loop of your own": (
        "a3gnn.training.batch_model.BatchModel",
        "a3gnn.training.saved_model.SavedModel",
    ),
    "After a tune": ("a3gnn.tuning.outcome.pick.pick", "a3gnn.training.data_module.TunedDataModule"),
    "Models in PyG and back": (
        "a3gnn.training.pyg_modules.pyg_module",
        "a3gnn.training.pyg_modules.to_pyg_state_dict",
        "a3gnn.training.pyg_modules.from_pyg_state_dict",
    ),
    "Larger graphs": ("a3gnn.graphs.conversion.convert.convert",),
    "Where trials run": ("a3gnn.profiling.executor.TrialExecutor", "a3gnn.profiling.replay.Replay"),
    "Errors": ("a3gnn.errors",),
}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the pages to those that are in docs/."""
    files.append(File.generated(config, "reference/commands.md", content=commands_page()))
    files.append(File.generated(config, "reference/python.md", content=python_page()))
    return files


def python_page() -> str:
    """Returns the page of the public names: of each a directive, which mkdocstrings turns into its docstring."""
    parts = ["# Python", "`import a3gnn` gives these names; each is imported when it is first used."]
    parts += [f"::: a3gnn.{name}" for name in a3gnn.__all__]
    for heading, names in FURTHER_NAMES.items():
        parts += [f"## {heading}", *(f"::: {name}" for name in names)]
    parts.insert(2, "## From a3gnn itself")
    return "\n\n".join(parts) + "\n"


def commands_page() -> str:
    """Returns the page of every command and subcommand, with what their parsers say of them."""
    context = click.Context(app, info_name="a3gnn")
    parts = ["# Commands", _prose(app.help), _prose(app.epilog)]
    for name in COMMANDS:
        command = app.get_command(context, name)
        assert command is not None
        parts += _command(command, click.Context(command, info_name=name, parent=context), 2)
    return "\n\n".join(part for part in parts if part) + "\n"


def _command(command: click.Command, context: click.Context, level: int) -> Iterator[str]:
    yield f"{'#' * level} {context.command_path}"
    yield f"```text\n{' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n```"
    yield _prose(command.help)
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    if options:
        rows = [f"| {_flags(one)} | {_values(one, context)} | {_cell(one.help or '')} |" for one in options]
        table = "\n".join(["| option | value | meaning |", "|---|---|---|", *rows])
        yield f'<div class="options" markdown="1">\n\n{table}\n\n</div>'
    yield _prose(command.epilog)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, click.Context(inner, info_name=name, parent=context), level + 1)


def _flags(option: click.Option) -> str:
    both = ", ".join(f"`{flag}`" for flag in option.opts)
    return f"{both} / {', '.join(f'`{flag}`' for flag in option.secondary_opts)}" if option.secondary_opts else both


def _values(option: click.Option, context: click.Context) -> str:
    """Returns what an option takes, and whether it must be given, may be repeated or has a default."""
    extra: Any = option.get_help_extra(context)
    if isinstance(option.type, click.Choice):
        found = [" or ".join(f"`{choice}`" for choice in option.type.choices)]
    else:
        found = [] if option.is_flag else [f"`{option.make_metavar(context).removesuffix(' RANGE')}`"]
    found += [f"default {extra['default']}"] if "default" in extra else []
    found += [_cell(extra[key]) for key in ("range", "required") if key in extra]
    found += ["may be repeated"] if option.multiple else []
    found += [f"or `${name}`" for name in extra.get("envvars", ())]
    return ", ".join(found)


def _prose(text: str | None) -> str:
    """Returns what click says as Markdown: paragraphs, in which stars and angles stay as they are."""
    return re.sub(r"([*<])", r"\\\1", inspect.cleandoc(text or "").replace("\b", ""))


def _cell(text: str) -> str:
    return _prose(text).replace("|", "\\|").replace("\n", " ")
