"""A user's search space: names of a task's fields or of a factory's arguments, each with the values to try.

A name becomes a column of the `SearchSpace` beside the knobs, and its values are in `TrainConfig.searched`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import numbers
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from a3gnn.checks import Anything
from a3gnn.config import KNOBS
from a3gnn.errors import UsageError, unknown_name
from a3gnn.knobs import ALWAYS, NEVER, Knob, Phrase, Scale, Where, where
from a3gnn.task import (
    ATTENTION,
    EMBEDDING,
    LEARNING_FIELDS,
    MODELS,
    NUMBER_OPTIONS,
    SEARCHED_FIELDS,
    Task,
    as_tuple,
    names_factory,
)

#: Values of a range that are tried, evenly spaced on its scale: neighbors differ by a seventh of the range.
GRID = 15
#: Most values of a name, and most layers, that a search may have: far more than trials can tell apart.
_MOST_VALUES, _MOST_LAYERS = 1_000, 1_000
#: Combinations of fields that are tried out before anything is trained; more are checked in part.
_MOST_CHECKED = 5_000
#: Fields whose values exclude each other (`Task.__post_init__`).
_TIED = ("model", "layers", "hidden_channels", "heads", "norm", "residual", "lr_schedule", "lr_epochs")
#: What an entry of a search may consist of.
_PARTS = ("values", "low", "high", "log", "step", "when")
_COMPARED = {">=": lambda one, other: one >= other, "<=": lambda one, other: one <= other}


@dataclass(frozen=True, slots=True)
class Searched:
    """One name of a search.

    Attributes:
        name: A field of the task (`SEARCHED_FIELDS`), or an argument of the user's factory.
        values: The values to try, ascending if they are numbers.
        scale: How numbers are spaced; `choice` for names.
        is_range: Whether `values` is a grid of a range, to which values between its ends can be added.
        when: Names, each with the values at which this one counts; all must hold. Otherwise the task's value stands.
    """

    name: str
    values: tuple[Any, ...]
    scale: Scale = "choice"
    is_range: bool = False
    when: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    @classmethod
    def of(cls, name: str, given: Any) -> Self:
        """Returns the name with the values of an entry: see `search_of`."""
        parts = _parts(name, given)
        when = tuple((key, _listed(one)) for key, one in parts.get("when", {}).items())
        if "values" in parts:
            values = tuple(dict.fromkeys(_plain(name, one) for one in parts["values"]))
            if not values:
                raise UsageError(f"search: {name} must have at least one value, got none")
            if not all(map(_is_number, values)):
                return cls(name, values, "choice", False, when)
            return cls(name, tuple(sorted(values)), "linear", False, when)
        low, high, log = parts["low"], parts["high"], bool(parts.get("log"))
        if not (low < high and math.isfinite(high - low)) or (log and low <= 0):
            least = " and low above 0, because it is logarithmic" if log else ""
            raise UsageError(f"search: {name} must have low < high{least}, got {low} and {high}")
        return cls(name, _grid(low, high, log, parts.get("step")), "log2" if log else "linear", True, when)

    def with_value(self, value: Any) -> Self | None:
        """Returns the name with `value` among its values; None if it does not belong there."""
        if value in self.values:
            return self
        if self.is_range and _is_number(value) and self.values[0] <= value <= self.values[-1]:
            return dataclasses.replace(self, values=tuple(sorted((*self.values, value))))
        return None

    def position(self, value: Any) -> tuple[float, ...]:
        """Returns the coordinates of `value`: a number's place in its range, from 0 to 1, or one per choice.

        Different choices are 1 apart.
        """
        if self.scale == "choice":
            return tuple(float(value == one) / math.sqrt(2) for one in self.values)
        if value is None:  # a schedule's epochs where the rate is constant
            return (0.5,)
        if self.is_range:
            low, high, own = (
                math.log(one) if self.scale == "log2" else one for one in (*self.ends, max(value, 1e-300))
            )
            return (float((own - low) / (high - low)),)
        places = np.linspace(0, 1, len(self.values)) if len(self.values) > 1 else [0.0]
        return (float(np.interp(value, self.values, places)),)

    @property
    def ends(self) -> tuple[Any, Any]:
        """The first and the last value."""
        return self.values[0], self.values[-1]

    def knob(self, task: Task, others: Mapping[str, Searched]) -> Knob:
        """Returns the column of the search space, in the place of a knob; `task` has the value of the baseline."""
        return Knob(
            name=self.name,
            default=task.value(self.name),
            domain=Anything(),
            help="Of the search.",
            values=self.values,
            at=None,
            scale=self.scale,
            idle=self._idle(task, others),
            idle_at=None,
            learns=ALWAYS,
            later=True,
            show=Phrase(len(KNOBS), f"{self.name} {{}}"),
        )

    def _idle(self, task: Task, others: Mapping[str, Searched]) -> Where:
        """Returns the condition on which the task's value stands."""
        needs = dict(self.when)
        if not names_factory(task.model) and "model" in others and self.name == "heads":
            needs.setdefault("model", ATTENTION)
        if "lr_schedule" in others and self.name == "lr_epochs":
            needs.setdefault("lr_schedule", ("linear", "cosine"))
        met = [where(**{name: tuple(_matching(others[name].values, ones))}) for name, ones in needs.items()]
        return NEVER if not met else Where(others=tuple(~one for one in met))

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return dataclasses.asdict(self) | {"values": list(self.values), "when": {k: list(v) for k, v in self.when}}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the name of `to_dict`."""
        values = tuple(map(as_tuple, fields["values"]))
        when = tuple((name, as_tuple(ones)) for name, ones in fields["when"].items())
        return cls(fields["name"], values, fields["scale"], fields["is_range"], when)


#: A whole search, in the order in which it was given.
Search = tuple[Searched, ...]


def search_of(given: Mapping[str, Any] | None) -> Search:
    """Returns the search of a mapping from names to values to try.

    An entry is a list of choices, a pair (low, high), one of Optuna's distributions, or a mapping of `values`, or of
    `low`, `high`, `log` and `step`, with `when`: names with the values at which this one counts, a list of them, or
    text such as ">=3".

    Raises:
        UsageError: An entry is none of these, or `when` has no such name.
    """
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise UsageError(f'search must map names to values, such as {{"hidden": [64, 128]}}, got {given!r}')
    found = {name: Searched.of(name, one) for name, one in given.items()}
    for name, one in found.items():
        for other, wanted in one.when:
            if other not in found or other == name:
                raise unknown_name(f"search: {name}'s when", other, [known for known in found if known != name])
            if found[other].when:
                raise UsageError(
                    f"search: {name} depends on {other}, which depends on others itself; list all of them in {name}'s "
                    "when"
                )
            if not list(_matching(found[other].values, wanted)):
                raise UsageError(
                    f"search: {name}'s when must hold for one of {other}'s values {list(found[other].values)}, got "
                    f"{list(wanted)}"
                )
    return tuple(found.values())


def search_from(texts: Sequence[str]) -> dict[str, Any]:
    """Returns the mapping for `search_of` of texts such as layers=2,3 and lr=1e-4:1e-1:log, or paths of TOML files.

    Raises:
        UsageError: A text is neither, or a file can't be read.
    """
    found: dict[str, Any] = {}
    for text in texts:
        given = _from_file(Path(text)) if "=" not in text and text.endswith(".toml") else entry_of(text)
        if again := found.keys() & given.keys():
            raise UsageError(f"--search must have each name once, got {', '.join(sorted(again))} twice")
        found |= given
    return found


def entry_of(text: str) -> dict[str, Any]:
    """Returns the entry, by its name, of a text such as layers=2,3 or lr=1e-4:1e-1:log.

    Raises:
        UsageError: It is none.
    """
    name, _, values = text.partition("=")
    if not (name and values):
        example = "KEY=VALUES such as layers=2,3 or lr=1e-4:1e-1:log, or FILE.toml"
        raise UsageError(f"--search must be {example}, got {text!r}")
    return {name: _from_text(name, values)}


def entry_text(name: str, entry: Any) -> str | None:
    """Returns the text of an entry of JSON types, as `entry_of` takes it; None if it has parts that no text has."""
    parts = _parts(name, entry)
    if parts.get("when") or parts.get("step"):
        return None
    if "values" in parts:
        return f"{name}={','.join(map(str, parts['values']))}"
    return f"{name}={parts['low']}:{parts['high']}{':log' if parts.get('log') else ''}"


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--search {path} must be a TOML file with a line or a table per name: {error}") from error


def _from_text(name: str, text: str) -> dict[str, Any]:
    """Returns the parts of the entry LOW:HIGH, LOW:HIGH:log or VALUE,VALUE."""
    low, colon, rest = text.partition(":")
    if not colon:
        return {"values": [_value(one) for one in text.split(",")]}
    high, _, log = rest.partition(":")
    if log not in ("", "log"):
        raise UsageError(f"--search {name} must be LOW:HIGH or LOW:HIGH:log, got {text!r}")
    return {"low": _value(low), "high": _value(high), "log": bool(log)}


def _value(text: str) -> Any:
    """Returns the number or the truth value that `text` is, or the text itself."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def named(name: str, task: Task) -> str:
    """Returns the name of a search for `name`, which may be an option's, such as lr or hidden."""
    known = NUMBER_OPTIONS.get(name, name)
    return known if not names_factory(task.model) or known in LEARNING_FIELDS else name


def checked_search(search: Search, task: Task) -> Search:
    """Returns `search` for `task`, as far as it can be checked without building a factory's model.

    Raises:
        UsageError: A name or a value is not one of a task's.
    """
    own = names_factory(task.model)
    knobs = {knob.name for knob in KNOBS}
    search = tuple(
        dataclasses.replace(
            one, name=named(one.name, task), when=tuple((named(name, task), ones) for name, ones in one.when)
        )
        for one in search
    )
    if len({one.name for one in search}) < len(search):
        raise UsageError(f"search: names must differ, got {', '.join(one.name for one in search)}")
    for one in search:
        if one.name in knobs:
            raise UsageError(
                f"search: {one.name} is a knob, which every tune tries; leave it out, or use ranges or fix"
            )
        if not own and one.name not in SEARCHED_FIELDS:
            raise unknown_name("search", one.name, SEARCHED_FIELDS)
        _check_values(one, task)
    found = tuple(_with_base(one, task) for one in search)
    if not own:
        _check_together(found, task)
    return found


def factory_names(search: Search) -> Search:
    """Returns the names of `search` that a factory takes as arguments."""
    return tuple(one for one in search if one.name not in LEARNING_FIELDS)


def with_arguments(search: Search, task: Task, defaults: Mapping[str, Any]) -> tuple[Search, Task]:
    """Returns the search, and the task with a factory's arguments for the baseline.

    They are the task's own, or else the factory's defaults, or else the middle of the values.

    Args:
        search: The whole search.
        task: Names a factory.
        defaults: The factory's own values of the searched names that have one.

    Raises:
        UsageError: The factory's default is not among the values.
    """
    values = {}
    for one in factory_names(search):
        given = task.value(one.name)
        values[one.name] = one.values[len(one.values) // 2] if given is None else given
        if given is None and one.name in defaults:
            values[one.name] = defaults[one.name]
        if one.with_value(values[one.name]) is None:
            raise UsageError(
                f"search: the values of {one.name} must include {values[one.name]!r}, which {task.model} takes by "
                f"default and the baseline trains, got {list(one.values)}; add it, or change the default"
            )
    task = task.with_values(values) if values else task
    return tuple(one.with_value(task.value(one.name)) or one for one in search), task


def enqueued(search: Search, given: Iterable[Mapping[str, Any]]) -> Search:
    """Returns `search` with the values of trials that a user asked for; names of knobs are left alone.

    Raises:
        UsageError: A value is not among the values of its name.
    """
    found = {one.name: one for one in search}
    for trial in given:
        for name, value in trial.items():
            if name in found:
                wider = found[name].with_value(value)
                if wider is None:
                    raise UsageError(
                        f"enqueue: {name} must be one of the search's {list(found[name].values)}, got {value!r}"
                    )
                found[name] = wider
    return tuple(found.values())


def _with_base(one: Searched, task: Task) -> Searched:
    base = task.value(one.name)
    return one if base is None else one.with_value(base) or one


def _check_values(one: Searched, task: Task) -> None:
    """Raises a `UsageError` if the task can't have a value of `one` by itself."""
    own = names_factory(task.model) and one.name not in LEARNING_FIELDS
    whole = [value for value in one.values if isinstance(value, int)]
    if one.name == "layers" and (max(whole, default=0) > _MOST_LAYERS or (own and min((*whole, 1)) < 1)):
        raise UsageError(f"search: layers must be integers from 1 to {_MOST_LAYERS:,}, got {list(one.values)}")
    if own:
        if one.name == "layers" and len(whole) < len(one.values):
            raise UsageError(f"search: layers must be integers, got {list(one.values)}")
        return
    if one.name == "model" and (unknown := [value for value in one.values if value not in MODELS]):
        raise unknown_name("search: model", str(unknown[0]), MODELS)
    if one.name in ("lr_schedule", "lr_epochs", "heads", "hidden_channels", "model"):
        return  # only together
    for value in one.values:
        try:
            task.with_values({one.name: value})
        except (UsageError, TypeError) as error:
            raise UsageError(f"search: {one.name}={value!r} is refused: {error}") from error


def _check_together(search: Search, task: Task) -> None:
    """Raises a `UsageError` for values of a built-in model that exclude each other."""
    if task.model == EMBEDDING and any(one.name == "layers" for one in search):
        raise UsageError("search: layers must be left out for an embedding per node, which has none")
    tied = [one for one in search if one.name in _TIED]
    for values in itertools.islice(_combinations(tied, task, search), _MOST_CHECKED):
        try:
            task.with_values(values)
        except (UsageError, TypeError) as error:
            shown = ", ".join(f"{name}={value}" for name, value in values.items())
            raise UsageError(f"search: {shown} is refused: {error}") from error


def _combinations(tied: Sequence[Searched], task: Task, search: Search) -> Iterator[dict[str, Any]]:
    """Yields the values of every combination of `tied` names that count there."""
    others = {one.name: one for one in search}
    knobs = [one.knob(task, others) for one in tied]
    for values in itertools.product(*(one.values for one in tied)):
        named = dict(zip((one.name for one in tied), values, strict=True))
        known = {name: task.value(name) for name in others} | named
        yield {knob.name: named[knob.name] for knob in knobs if not knob.idle.holds(known)}


def _parts(name: Any, given: Any) -> dict[str, Any]:
    """Returns the parts of an entry: `values`, or `low` and `high`."""
    if not isinstance(name, str) or not name.isidentifier():
        raise UsageError(f"search: a name must be that of an argument, got {name!r}")
    if type(given).__module__.partition(".")[0] == "optuna":
        own = {key: getattr(given, key) for key in ("choices", *_PARTS) if hasattr(given, key)}
        given = {"values": own["choices"]} if "choices" in own else own
    if isinstance(given, tuple) and len(given) == 2 and all(map(_is_number, given)):
        given = {"low": given[0], "high": given[1]}
    if isinstance(given, list | tuple):
        given = {"values": given}
    if not isinstance(given, Mapping):
        raise UsageError(
            f"search: {name} must be a list of values, (low, high), a distribution of Optuna, or a mapping "
            f"of {', '.join(_PARTS)}, got {given!r}"
        )
    for key in given:
        if key not in _PARTS:
            raise unknown_name(f"search: a part of {name}", str(key), _PARTS)
    if not isinstance(given.get("when", {}), Mapping):
        raise UsageError(f"search: {name}'s when must map names to values, got {given['when']!r}")
    if ("values" in given) == ("low" in given and "high" in given):
        raise UsageError(f"search: {name} must have either values, or low and high, got {dict(given)}")
    _check_parts(name, given)
    return {key: one.item() if isinstance(one, np.generic) else one for key, one in given.items()}


def _check_parts(name: str, given: Mapping[str, Any]) -> None:
    """Raises a `UsageError` if a part of an entry has a wrong type or value."""
    if "values" in given:
        if not isinstance(given["values"], list | tuple):
            raise UsageError(f"search: {name} must have a list as values, got {given['values']!r}")
        if len(given["values"]) > _MOST_VALUES:
            raise UsageError(f"search: {name} must have at most {_MOST_VALUES:,} values, got {len(given['values']):,}")
        return
    low, high, step = given["low"], given["high"], given.get("step")
    if not (_is_number(low) and _is_number(high)):
        raise UsageError(f"search: {name} must have numbers as low and high, got {low!r}, {high!r}")
    if step is not None and not (_is_number(step) and step > 0 and (step == 1 or high - low <= _MOST_VALUES * step)):
        raise UsageError(
            f"search: {name} must have a step above 0 that gives at most {_MOST_VALUES:,} values, got {step!r}"
        )


def _grid(low: Any, high: Any, log: bool, step: Any) -> tuple[Any, ...]:
    """Returns values of a range, ascending: all that `step` reaches, or up to `GRID` evenly spaced ones."""
    whole = all(isinstance(one, numbers.Integral) for one in (low, high))
    if step is not None and (step != 1 or not whole):
        return tuple(round(low + number * step, 12) for number in range(int((high - low) / step + 1e-9) + 1))
    if whole and not log and high - low < GRID:
        return tuple(range(int(low), int(high) + 1))
    spaced = np.geomspace(low, high, GRID) if log else np.linspace(low, high, GRID)
    rounded = [round(one) if whole else float(f"{one:.3g}") for one in spaced[1:-1].tolist()]
    ends = (int(low), int(high)) if whole else (float(low), float(high))
    return tuple(dict.fromkeys((ends[0], *(one for one in rounded if ends[0] < one < ends[1]), ends[1])))


def _listed(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def _matching(values: Sequence[Any], wanted: Sequence[Any]) -> Iterator[Any]:
    """Yields the `values` that are among `wanted`, which may have text such as ">=3"."""
    for value in values:
        for one in wanted:
            compared = _COMPARED.get(one[:2]) if isinstance(one, str) else None
            if value == one or (compared is not None and _is_number(value) and compared(value, _bound(one))):
                yield value
                break


def _bound(text: str) -> float:
    """Returns the number of a condition such as ">=3"."""
    try:
        return float(text[2:])
    except ValueError:
        raise UsageError(f"search: a condition must be >= or <= and a number, such as '>=3', got {text!r}") from None


def _plain(name: str, value: Any) -> Any:
    """Returns a choice as a JSON type."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple):
        return tuple(_plain(name, one) for one in value)
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"search: numbers of {name} must be finite, got {value}")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise UsageError(f"search: values of {name} must be numbers, text, booleans or lists of them, got {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
