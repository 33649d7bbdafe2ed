"""Turns the arguments of `tune`, some of them text, into a checked request, before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from a3gnn.checks import checked_limit
from a3gnn.errors import StoreError, UsageError
from a3gnn.objectives import QUALITY, Priority
from a3gnn.option_names import option
from a3gnn.profiling.store.database import database_url
from a3gnn.search import named, search_of
from a3gnn.task import Task, as_values
from a3gnn.tuning.study.folder import check_folder
from a3gnn.tuning.study.quality import recipe_search
from a3gnn.tuning.study.study import DEFAULT_PEAK, TuneRequest
from a3gnn.units import parse_budget

T = TypeVar("T")


def make_request(
    *,
    priority: str | Priority,
    memory_limit: str | int | None,
    host_memory_limit: str | int | None,
    budget: str | float | int,
    task: Task | None,
    fix: Mapping[str, Any] | None,
    ranges: Mapping[str, tuple[Any, Any]] | None,
    search: Mapping[str, Any] | None = None,
    enqueue: Sequence[Mapping[str, Any]] = (),
    **options: Any,
) -> TuneRequest:
    """Returns the request with an empty `spec`, because the graph is not known yet.

    Raises:
        UsageError: An argument has a wrong type or value.
    """
    task = Task() if task is None else task
    if not isinstance(enqueue, list | tuple) or not all(isinstance(one, Mapping) for one in enqueue):
        raise UsageError(f"enqueue must be a list of mappings from names to values, got {enqueue!r}")
    priority = priority if isinstance(priority, Priority) else Priority.parse(priority)
    recipe = priority.final and not search
    check_recipe(recipe, task)
    return TuneRequest(
        spec="",
        task=task,
        search=search_of(recipe_search(task) if recipe else search),
        recipe=recipe,
        enqueue=tuple(as_values({named(name, task): value for name, value in one.items()}) for one in enqueue),
        priority=priority,
        memory_limit=parsed_limit("memory_limit", memory_limit),
        host_memory_limit=parsed_limit("host_memory_limit", host_memory_limit),
        budget=_parsed("budget", budget, parse_budget),
        fixed=tuple(_entries("fix", fix, "{'batch_size': 512}").items()),
        ranges=tuple(map(_range, _entries("ranges", ranges, "{'batch_size': (64, 512)}").items())),
        **options,
    )


def check_recipe(recipe: bool, task: Task) -> None:
    """Raises a `UsageError` if the `recipe` for quality is asked for, and the model of `task` has no such shapes."""
    if recipe and task.is_own:
        raise UsageError(
            f"{option('priority')} {QUALITY} needs a built-in model or a search of your own, got {task.model}; give "
            f"{option('search')} values of the arguments of its factory"
        )


def _parsed(name: str, value: Any, parse: Callable[[str], T]) -> Any:
    """Returns `value`, parsed if it is text."""
    try:
        return parse(value) if isinstance(value, str) else value
    except UsageError as error:
        raise UsageError(f"{option(name)}: {error}") from error


def parsed_limit(name: str, value: Any) -> Any:
    """Returns a limit on memory, parsed if it is text, and checked; memory_limit may be "baseline".

    Raises:
        UsageError: It is not a size, or too small (`checked_limit`).
    """
    if name == "memory_limit" and value in ("baseline", DEFAULT_PEAK):
        return DEFAULT_PEAK
    return checked_limit(option(name), value)


def _entries(name: str, value: Any, example: str) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise UsageError(f"{name} must map knobs to values such as {example}, got {value!r}")
    return value or {}


def _range(entry: tuple[str, Any]) -> tuple[str, Any, Any]:
    name, ends = entry
    if not isinstance(ends, tuple | list) or len(ends) != 2:
        raise UsageError(f"ranges must map knobs to (low, high), got {ends!r} for {name}")
    return name, ends[0], ends[1]


def check_places(out: str | Path | None, store: str | Path | None, resume: bool) -> None:
    """Raises a `UsageError` if `out` can't hold a tune, or `store` can't be a store; writes nothing."""
    for name, place in (("out", out), ("store", store)):
        if place is not None and not isinstance(place, str | Path):
            raise UsageError(f"{name} must be a path, got {place!r}")
    if out is not None:
        check_folder(Path(out), resume)
    elif resume:
        raise UsageError(f"{option('resume')} needs the {option('out')} folder of the tune that is to go on")
    if store is not None:
        try:
            database_url(str(store))
        except StoreError as error:
            raise UsageError(f"{option('store')}: {error}") from error
