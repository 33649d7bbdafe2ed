"""Every command that the docs show is listed, and its options are those that the program takes."""

from __future__ import annotations

import re
import shlex
import tomllib
from dataclasses import fields
from pathlib import Path

import click
import pytest

from a3gnn.cli.main import app
from a3gnn.cli.study_options import as_arguments
from a3gnn.errors import A3GNNError
from a3gnn.tuning.study.arguments import make_request
from a3gnn.tuning.study.study import TuneRequest
from tests.docs.listed import COMMANDS, ELSEWHERE, RUN, SUBSTITUTIONS
from tests.docs.pages import PAGES, ROOT, Block, blocks, shown
from tests.docs.running import substituted

#: What is asked of a tune, and what `a3gnn recommend` does not ask.
REQUESTED = {field.name for field in fields(TuneRequest)} - {"spec", "fixed", "recipe", "enqueue"} | {"fix"}
WITHOUT_TRIALS = {"budget": 1, "engine": "ppo", "accuracy_epochs": None, "target_accuracy": None, "references": True}
#: Folders that must be there for an option or an argument to be taken.
FOLDERS = ("fast/huge", "data/parts/part-0")
LANGUAGES = {"bash", "python", "diff", "text", "json", "yaml", "toml", "ini", "nginx"}
SHOWN = [(page, command) for page in PAGES for block in shown(page, "bash") for command in block.commands]


@pytest.mark.parametrize("page", sorted({*PAGES, *COMMANDS}))
def test_what_a_page_shows_is_what_is_listed_of_it(page: str) -> None:
    assert page in PAGES, "the page is gone"
    assert set(COMMANDS.get(page, {})) == {command for found, command in SHOWN if found == page}


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_fenced_and_names_its_language(page: str) -> None:
    assert [(one.line, one.language) for one in blocks(page) if one.language not in LANGUAGES] == []


def test_commands_are_found_without_their_comments() -> None:
    block = Block("page.md", 1, "bash", "# why\na3gnn front \\\n  runs/mine  # which\n\nmake '# not'\n")
    assert block.commands == ["a3gnn front runs/mine", "make '# not'"]


@pytest.mark.parametrize(("page", "command"), SHOWN, ids=[f"{page}-{at}" for at, (page, _) in enumerate(SHOWN)])
def test_its_words_are_known(page: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place in FOLDERS:
        (tmp_path / place).mkdir(parents=True)
    check(shlex.split(substituted(command, SUBSTITUTIONS)))


@pytest.mark.parametrize(
    "command",
    [
        "a3gnn tune --dataset graph.npz --memory 4GiB",
        "a3gnn tune --budget 2min",
        "a3gnn tune --dataset graph.npz --fix feature_tier=tape",
        "a3gnn recommend --dataset graph.npz --range seed_fanout=10:3",
        "a3gnn tune --dataset graph.npz --priority speed",
        "a3gnn tnue --dataset graph.npz",
        "a3gnn graph verify",
        "torchrun --nproc-per-node 2 -m a3gnn train --confg tuned.json",
        "make tnue",
        'pip install "a3gnn[severe]"',
        "python -m benchmarks.nothing",
        "python -m benchmarks.engine --quik",
        "A=1 a3gnn front",
    ],
)
def test_unknown_words_are_found(command: str) -> None:
    with pytest.raises((click.ClickException, A3GNNError, AssertionError)):
        check(shlex.split(command))


def check(words: list[str]) -> None:
    """Checks the words of a command as far as its program is known."""
    while words and re.fullmatch(r"\w+=.*", words[0]):
        words = words[1:]
    match words:
        case ["a3gnn", ">", _]:
            pass  # a shell's completion, asked for by a variable
        case ["a3gnn", *rest]:
            parse(app, "a3gnn", rest)
        case ["torchrun", *rest] if "a3gnn" in rest:
            parse(app, "a3gnn", rest[rest.index("a3gnn") + 1 :])
        case ["make", target, *_]:
            assert re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        case ["pip", "install", *packages]:
            for package in packages:
                check_extra(package)
        case ["python", "-m", module, *rest] if module.startswith("benchmarks."):
            check_benchmark(module, rest)
        case ["python", *_]:
            raise AssertionError(f"python with {words[1:]}: only benchmarks are run so")


def parse(command: click.Command, name: str, words: list[str], parent: click.Context | None = None) -> None:
    """Parses the words as the command line does, without running anything."""
    if isinstance(command, click.Group):
        context = command.make_context(name, words[:0], parent=parent, resilient_parsing=True)
        assert words, f"{name} needs a command"
        inner = command.get_command(context, words[0])
        assert inner is not None, f"{name} has no command {words[0]}"
        parse(inner, words[0], words[1:], context)
        return
    given = command.make_context(name, words, parent=parent).params
    if name in ("tune", "recommend"):
        asked = WITHOUT_TRIALS | as_arguments(given)
        make_request(**{name: asked[name] for name in REQUESTED if name in asked or name != "search"})


def check_extra(package: str) -> None:
    """Checks that an extra of a3gnn's is one of those that pyproject.toml declares."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    if found := re.fullmatch(r"(?:a3gnn|\.)\[(.+)\]", package):
        assert set(found[1].split(",")) <= set(extras)


def check_benchmark(module: str, words: list[str]) -> None:
    """Checks that a benchmark is there, and that each of its options stands in its sources."""
    path = ROOT.joinpath(*module.split("."))
    files = [path.with_suffix(".py")] if path.with_suffix(".py").exists() else sorted(path.rglob("*.py"))
    assert files, f"there is no {module}"
    source = "\n".join(file.read_text(encoding="utf-8") for file in files)
    for word in words:
        if word.startswith("--"):
            assert f'"{word}"' in source, f"{module} has no {word}"


def test_reasons_are_given() -> None:
    assert all(what == RUN or len(what) > len(RUN) for told in COMMANDS.values() for what in told.values())


def test_what_is_run_elsewhere_is_run_on_a_page() -> None:
    found = {command for told in COMMANDS.values() for command, what in told.items() if what == ELSEWHERE}
    run = {command for told in COMMANDS.values() for command, what in told.items() if what == RUN}
    assert found
    assert found <= run
