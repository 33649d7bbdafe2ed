"""The help of every command: groups, examples, and the wording of each option."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from a3gnn.cli.help import EXAMPLES, GROUPS, Command, full_name, key, options_of
from a3gnn.cli.main import COMMANDS, SECTIONS, app
from tests.commands import a3gnn

#: Most options of a command whose help has no groups, --help among them.
_MOST = 9
#: Words that can't start a sentence whose subject comes first.
_OPENERS = {
    "of",
    "what",
    "such",
    "how",
    "whether",
    "beside",
    "as",
    "their",
    "its",
    "for",
    "in",
    "by",
    "a",
    "an",
    "there",
}


def leaves() -> Iterator[click.Context]:
    """The context of every command without subcommands."""
    root = click.Context(app, info_name="a3gnn")
    for name in COMMANDS:
        command = app.get_command(root, name)
        assert command is not None
        own = click.Context(command, info_name=name, parent=root)
        if isinstance(command, click.Group):
            for inner in command.list_commands(own):
                found = command.get_command(own, inner)
                assert found is not None
                yield click.Context(found, info_name=inner, parent=own)
        else:
            yield own


LEAVES = {full_name(context): context for context in leaves()}


def test_every_command_is_in_one_section_of_the_first_help() -> None:
    assert sorted(name for _, names in SECTIONS for name in names) == sorted(COMMANDS)
    assert SECTIONS[0] == ("Start here", ("tune", "recommend", "train", "report"))
    for arguments in ((), ("--help",)):
        run = a3gnn(*arguments)
        shown = run.stdout + run.stderr
        assert shown.index("Start here:") < shown.index("  tune ") < shown.index("Results:") < shown.index("  front ")


@pytest.mark.parametrize("name", LEAVES)
def test_options_are_in_one_group_each(name: str) -> None:
    context = LEAVES[name]
    assert isinstance(context.command, Command)
    options = options_of(context.command, context)
    if name in GROUPS:
        assert sorted(one for _, group in GROUPS[name] for one in group) == sorted(map(key, options))
    else:
        assert len(options) <= _MOST
    shown = a3gnn(*name.split(), "--help").stdout.splitlines()
    for option in options:
        begins = "  " + ", ".join(sorted(option.opts, key=lambda flag: flag.startswith("--")))
        assert sum(line.startswith(f"{begins} ") or line == begins for line in shown) == 1


def test_groups_and_examples_name_commands() -> None:
    assert set(EXAMPLES) == set(LEAVES)
    assert set(GROUPS) <= set(LEAVES)


@pytest.mark.parametrize("name", LEAVES)
def test_examples_are_valid(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("graphs/mine", "parts/part-0"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    shown = a3gnn(*name.split(), "--help").stdout
    for line in EXAMPLES[name]:
        assert f"  {line}\n" in shown
        words = shlex.split(line.partition(" > ")[0])[1:]
        assert words[: len(name.split())] == name.split()
        command = LEAVES[name].command
        command.make_context(name, words[len(name.split()) :], parent=LEAVES[name].parent)


@pytest.mark.parametrize("name", LEAVES)
def test_help_starts_with_its_subject_or_a_verb(name: str) -> None:
    command = LEAVES[name].command
    texts = {param.opts[0]: param.help for param in command.params if isinstance(param, click.Option)}
    for flag, text in {"": command.help, **texts}.items():
        assert text, flag
        first = text.split()[0]
        assert first.lower() not in _OPENERS, (flag, text)
        assert first[0].isupper() or first == "a3gnn", (flag, text)
        assert text.split("\n")[0].endswith((".", ",")) or "\n" in text, (flag, text)
