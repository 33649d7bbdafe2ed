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

#: Members that the page shows of a class; of a class that is not here it shows all public ones.
MEMBERS: dict[str, tuple[str, ...]] = {
    "a3gnn.Graph": ("load", "from_pyg", "to_pyg", "load_unlabelled", "from_unlabelled", "resplit", "save", "on_disk"),
    "a3gnn.Loader": ("minibatches", "enable_cpu_affinity"),
    "a3gnn.LinkNeighborLoader": (),
    "a3gnn.Task": ("with_model", "with_values", "num_layers", "to_dict", "from_dict"),
    "a3gnn.TrainConfig": ("replace", "fanouts", "task_of", "to_dict", "from_dict"),
    "a3gnn.TunedConfig": ("read", "write", "make_model", "to_dict", "from_dict"),
    "a3gnn.Front": ("read", "records", "csv", "to_dataframe", "plot", "to_dict"),
    "a3gnn.training.saved_model.SavedModel": ("read", "write"),
}
#: The names of the page, by task.
NAMES: dict[str, tuple[str, ...]] = {
    "Tune": (
        "a3gnn.tune",
        "a3gnn.recommend",
        "a3gnn.tuning.outcome.result.TuneResult",
        "a3gnn.tuning.tell.tried_trial.TriedTrial",
        "a3gnn.tuning.beliefs.recommendation.Recommendation",
        "a3gnn.Front",
        "a3gnn.pick",
        "a3gnn.write_report",
    ),
    "Your graph": ("a3gnn.Graph", "a3gnn.graphs.convert.convert", "a3gnn.graphs.typed.read_typed"),
    "Your links": (
        "a3gnn.link_split",
        "a3gnn.graphs.link_split.LinkSplit",
        "a3gnn.graphs.link_split.LinkPart",
        "a3gnn.check_link_split",
        "a3gnn.rank_pairs",
        "a3gnn.evaluation.ranking.Ranks",
        "a3gnn.evaluation.heuristics.popularity",
        "a3gnn.evaluation.heuristics.repetition",
        "a3gnn.evaluation.heuristics.item_neighbors",
        "a3gnn.evaluation.heuristics.label_propagation",
    ),
    "Your own loop": (
        "a3gnn.Loader",
        "a3gnn.LinkNeighborLoader",
        "a3gnn.accelerate",
        "a3gnn.training.data_module.TunedDataModule",
        "a3gnn.training.batch_model.BatchModel",
    ),
    "Train and predict": (
        "a3gnn.train",
        "a3gnn.predict",
        "a3gnn.predict_links",
        "a3gnn.apply.predict_links.BestLinks",
        "a3gnn.predict_edges",
        "a3gnn.apply.predict_links.EdgeValues",
        "a3gnn.training.result.TrainResult",
        "a3gnn.training.saved_model.SavedModel",
    ),
    "Settings": ("a3gnn.Task", "a3gnn.TrainConfig", "a3gnn.TunedConfig"),
    "Models in PyG and back": (
        "a3gnn.training.pyg_modules.pyg_module",
        "a3gnn.training.pyg_modules.to_pyg_state_dict",
        "a3gnn.training.pyg_modules.from_pyg_state_dict",
    ),
    "A server": ("a3gnn.Client", "a3gnn.service.client.RemoteStudy"),
    "Where trials run": ("a3gnn.profiling.executor.TrialExecutor", "a3gnn.profiling.replay.Replay"),
    "Errors": ("a3gnn.errors",),
}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the generated pages to those in docs/."""
    files.append(File.generated(config, "reference/commands.md", content=commands_page()))
    files.append(File.generated(config, "reference/python.md", content=python_page()))
    return files


def python_page() -> str:
    """Returns the page of the public names: for each a directive, which mkdocstrings turns into its docstring."""
    shown = {name for names in NAMES.values() for name in names}
    lacking = [name for name in a3gnn.__all__ if f"a3gnn.{name}" not in shown]
    assert not lacking, f"NAMES must have every name of a3gnn.__all__, it lacks {lacking}"
    parts = ["# Python", f"`import a3gnn` has {', '.join(f'`{name}`' for name in a3gnn.__all__)}."]
    parts.append("Other names stand after their module. [Knobs](knobs.md) describes the fields of `TrainConfig`.")
    for heading, names in NAMES.items():
        parts += [f"## {heading}", *map(_directive, names)]
    return "\n\n".join(parts) + "\n"


def _directive(name: str) -> str:
    members = f"\n    options:\n      members: [{', '.join(MEMBERS[name])}]" if name in MEMBERS else ""
    return f"::: {name}{members}"


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
