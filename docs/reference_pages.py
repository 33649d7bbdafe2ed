"""Makes pages of the docs site before it is built: `python -m docs.reference_pages` writes the site's sources.

Commands come from their parsers, names from docstrings, answers of --json from schemas, llms-full.txt from all pages.
These pages exist in build/docs alone, so nothing in them can be out of date. MkDocs and Zensical read that folder.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

import a3gnn
from a3gnn.cli.answers import answers
from a3gnn.cli.json_schema import schema_of
from a3gnn.cli.main import COMMANDS, app
from docs.llms import DOCS, llms_full, llms_txt

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


#: The head of the page of answers.
_JSON = """# Answers of --json

`--json` prints one object to stdout. `a3gnn schema COMMAND` prints its JSON schema, from which this page is made. An
object has no other fields. With `--json`, an error is one object in the last line of stderr ([Errors](#errors)), with
the [exit code](files.md#exit-codes) that it has without `--json`. Sizes are bytes, times seconds, qualities shares in
[0, 1]. [Knobs](knobs.md) explains the fields of a configuration, [measurement](../design/measurement.md) the figures.
"""


def write(folder: Path) -> None:
    """Writes the sources of the site to `folder`, anew: the files of docs/ and the generated pages."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    made = {place: page() for place, page in PAGES.items()}
    for place, text in {**made, "llms.txt": llms_txt(".html"), "llms-full.txt": llms_full(made)}.items():
        (folder / place).write_text(text, encoding="utf-8")


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


def json_page() -> str:
    """Returns the page of what --json prints: the fields of each command's answer, and of the objects in them."""
    parts, objects = [_JSON], dict[str, dict[str, Any]]()
    for name, kind in answers().items():
        schema = schema_of(kind)
        parts.append(f"## {'Errors' if name == 'error' else f'a3gnn {name}'}")
        for one in schema.get("anyOf", [schema]):
            parts += _object(schema["$defs"].get(_name(one), one))
        for other, fields in schema["$defs"].items():
            assert objects.setdefault(other, fields) == fields, f"two objects are called {other}"
    text = "\n".join(part for fields in objects.values() for part in _object(fields))
    for name in sorted(name for name in objects if f"(#{name.lower()})" in "\n".join([text, *parts])):
        parts += [f"## {name}", *_object(objects[name])]
    return "\n\n".join(parts) + "\n"


def _name(schema: Mapping[str, Any]) -> str:
    """Returns the name of the object that a schema refers to, or ""."""
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _object(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yields the description of an object, and the table of its fields."""
    yield _prose(schema["description"])
    rows = [
        f"| `{name}`{'' if name in schema['required'] else ', optional'} | {_json_type(one)} | "
        f"{_cell(one.get('description', ''))} |"
        for name, one in schema["properties"].items()
    ]
    yield "\n".join(["| field | type | meaning |", "|---|---|---|", *rows])


def _json_type(schema: Mapping[str, Any]) -> str:
    """Returns the type of a field in words, with links to objects."""
    if name := _name(schema):
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(_json_type, schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"array of {_json_type(schema['items'])}"
    if "properties" in schema:
        return f"object with {', '.join(f'`{name}`' for name in schema['properties'])}"
    return f"object of {_json_type(schema['additionalProperties'])}" if schema.get("additionalProperties") else kind


def _prose(text: str | None) -> str:
    """Returns what click says as Markdown: paragraphs, in which stars and angles stay as they are."""
    return re.sub(r"([*<])", r"\\\1", inspect.cleandoc(text or "").replace("\b", ""))


def _cell(text: str) -> str:
    return _prose(text).replace("|", "\\|").replace("\n", " ")


#: The pages that the site has beside those in docs/.
PAGES: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands_page,
    "reference/json.md": json_page,
    "reference/python.md": python_page,
}

if __name__ == "__main__":
    write(Path(*sys.argv[1:]) if sys.argv[1:] else DOCS.parent / "build" / "docs")
