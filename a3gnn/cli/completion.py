"""Shell completion of option values: graphs, priorities, engines and knobs; and bash's words with `=` or `:`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

if TYPE_CHECKING:
    from click import Context, Parameter

#: Bash splits words at these (COMP_WORDBREAKS), and completes only the part after the last one.
_BREAKS = ("=", ":")


class Text(click.ParamType[str]):
    """A text option whose known values the shell completes; accepts other values too.

    Args:
        name: The type's name in help.
        known: Returns the known values for an incomplete one.
        files: Whether to complete paths if no known value matches.
    """

    def __init__(self, name: str, known: Callable[[str], Iterable[str]], files: bool = False) -> None:
        self.name, self._known, self._files = name, known, files

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> str:
        """Returns `value` unchanged; the command checks it."""
        return str(value)

    def shell_complete(self, ctx: Context, param: Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Returns the known values that begin with `incomplete`; if there are none, files, provided that they fit."""
        found = [CompletionItem(value) for value in self._known(incomplete) if value.startswith(incomplete)]
        return found or [CompletionItem(incomplete, type="file")] * self._files


def datasets(incomplete: str) -> Iterable[str]:
    """Returns graph specs that continue `incomplete`: schemes, then their names or parameters."""
    from a3gnn.graphs.pyg_names import PYG_NAMES
    from a3gnn.graphs.synthetic_recipe import Recipe

    scheme, colon, rest = incomplete.partition(":")
    if not colon:
        return [f"{one}:" for one in ("synthetic", "pyg", "ogb") if incomplete]
    if scheme == "pyg":
        return [f"pyg:{name}" for name in PYG_NAMES]
    given, comma, _ = rest.rpartition(",")
    return [f"synthetic:{given}{comma}{name}=" for name in Recipe.__dataclass_fields__] if scheme == "synthetic" else []


def priorities(incomplete: str) -> Iterable[str]:
    """Returns the named priorities."""
    from a3gnn.objectives import PRESETS, QUALITY

    return (*PRESETS, QUALITY)


def engines(incomplete: str) -> Iterable[str]:
    """Returns the engines."""
    from a3gnn.tuning.study.study import ENGINES

    return ENGINES


def fixed(incomplete: str) -> Iterable[str]:
    """Returns the knobs as NAME=, or the values of the knob in `incomplete`."""
    from a3gnn.config import KNOBS

    name, sign, _ = incomplete.partition("=")
    if not sign:
        return [f"{knob.name}=" for knob in KNOBS]
    values = [knob.text(value) for knob in KNOBS if knob.name == name for value in knob.values]
    return [f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for value in values]


def ranges(incomplete: str) -> Iterable[str]:
    """Returns the knobs that have a range as NAME=."""
    from a3gnn.config import KNOBS

    return [f"{knob.name}=" for knob in KNOBS if knob.scale != "choice"]


def platforms(incomplete: str) -> Iterable[str]:
    """Returns the names of the built-in platforms."""
    from a3gnn.hitgnn.platforms.metadata import names

    return names("platforms")


class Dataset(Text):
    """A graph, with the target of `--target`, which is read before it."""

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> str:
        """Returns the spec of the graph with its target."""
        from a3gnn.graphs.target import Target

        return Target(ctx.meta.get(TARGET, "") if ctx else "").within(str(value))


#: Where the context of a command has the value of `--target`.
TARGET = "a3gnn.target"
DATASET = Dataset("graph", datasets, files=True)
PRIORITY = Text("priority", priorities)
ENGINE = Text("engine", engines)
PLATFORM = Text("platform", platforms, files=True)
FIX = Text("knob=value", fixed)
RANGE = Text("knob=low:high", ranges)


class Bash(BashComplete):
    """Bash completion of words with `=` or `:`, which bash passes in parts."""

    name = "bash"

    def get_completion_args(self) -> tuple[list[str], str]:
        """Returns the whole words before the incomplete one, and the incomplete one."""
        arguments, incomplete = super().get_completion_args()
        *whole, last = _joined([*arguments, incomplete])
        self._before = "" if last == incomplete else last[: max(map(last.rfind, _BREAKS)) + 1]
        return whole, last

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Returns the replacement for the last part: the value without the parts before it."""
        return f"{item.type},{str(item.value).removeprefix(self._before)}"


def _joined(parts: Iterable[str]) -> list[str]:
    """Joins `parts`, in which `=` and `:` are separate, to words; an empty part begins a word."""
    words: list[str] = []
    for part in parts:
        continued = bool(words) and (part in _BREAKS or words[-1][-1:] in _BREAKS)
        if continued and part and not part.startswith("-") and not words[-1].startswith("-"):
            words[-1] += part
        else:
            words.append(part)
    return words


def install() -> None:
    """Registers `Bash` with click."""
    add_completion_class(Bash)
