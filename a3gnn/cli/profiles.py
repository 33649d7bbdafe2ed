"""`a3gnn profiles`: lists, checks, exports and imports measurements, both stored ones and those in the package."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from a3gnn.addresses import without_password
from a3gnn.cli.help import Command
from a3gnn.cli.output import JSON, show, show_json
from a3gnn.errors import StoreError, UsageError
from a3gnn.profiling.store.existing import DEFAULT_STORE
from a3gnn.units import count

if TYPE_CHECKING:
    from a3gnn.profiling.store.check import Checked
    from a3gnn.profiling.store.provenance import Holding
    from a3gnn.profiling.store.store import ProfileStore

_STORE = click.option("--store", metavar="PATH|URL", help=f"Store of measurements. Default: {DEFAULT_STORE}.")
_SUFFIXES = (".jsonl", ".jsonl.gz")


@click.group()
def profiles() -> None:
    """List, check, export or import measurements.

    a3gnn profile fills a store, and each tune fills profiles.sqlite in its folder. Some measurements are shipped with
    a3gnn.
    """


@profiles.command("list", cls=Command, short_help="List the rows of the store and the shipped rows.")
@_STORE
@JSON
def list_(store: str | None, as_json: bool) -> None:
    """List the rows of the store and the shipped rows by graph, model and machine."""
    from a3gnn.profiling.store.check import check_store
    from a3gnn.profiling.store.existing import existing_store
    from a3gnn.profiling.store.jsonl import shipped_measurements
    from a3gnn.profiling.store.provenance import holdings

    found = {"shipped with a3gnn": holdings(shipped_measurements(typed=True))}
    opened = existing_store(store)
    if opened is not None:
        with opened as own:
            checked = check_store(own)
        found[store or str(DEFAULT_STORE)] = holdings(checked.sound.values())
        if checked.faults:
            click.echo("the list leaves out wrong rows; a3gnn profiles check names them", err=True)
    elif not as_json:
        click.echo(
            f"no store exists at {DEFAULT_STORE}; run a3gnn profile to make one, or give another with --store", err=True
        )
    if as_json:
        machines = {one.hardware.fingerprint: one.hardware.to_dict() for own in found.values() for one in own}
        sources = {place: [one.to_dict() for one in own] for place, own in found.items()}
        show_json({"sources": sources, "machines": machines})
        return
    for line in _listed(found):
        show(line)


@profiles.command(cls=Command, short_help="Check every row of a file or a store.")
@click.argument("place", required=False)
@JSON
def check(place: str | None, as_json: bool) -> None:
    """Check every row of PLACE: a .jsonl or .jsonl.gz file, or a store.

    Without PLACE, checks your store and the shipped rows. A row must have exactly the fields of a measurement, with
    their types and schema versions, finite numbers and correct hashes. Exits with 1 if a row is wrong, and names the
    row and the rule.
    """
    from a3gnn.profiling.store.jsonl import shipped_profiles

    shipped = shipped_profiles()
    own = [str(DEFAULT_STORE)] if DEFAULT_STORE.exists() else []
    places = [place] if place else [*(map(str, sorted(shipped.glob("*.jsonl.gz"))) if shipped else ()), *own]
    found = {one: _checked(one) for one in places}
    if as_json:
        faults = {one: [fault._asdict() for fault in checked.faults] for one, checked in found.items()}
        show_json({"rows": {one: checked.num_rows for one, checked in found.items()}, "faults": faults})
    for one, checked in () if as_json else found.items():
        for fault in checked.faults:
            show(fault.describe())
        wrong = len({fault.row for fault in checked.faults})
        show(f"{one}: {count(checked.num_rows, 'row')}, {f'{wrong:,} wrong' if wrong else 'all sound'}")
    if any(checked.faults for checked in found.values()):
        raise SystemExit(1)


@profiles.command("export", cls=Command, short_help="Write the rows of the store to a file.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_STORE
@JSON
def export(file: Path, store: str | None, as_json: bool) -> None:
    """Write every row of the store to FILE (.jsonl or .jsonl.gz).

    The first line of FILE contains the origin of the rows. Writes nothing if a row is wrong.
    """
    from a3gnn.profiling.store.check import export_rows

    _need_suffix(file)
    with _existing(store) as opened:
        rows = export_rows(opened, file)
    if as_json:
        show_json({"file": str(file), "rows": rows})
        return
    show(f"wrote {count(rows, 'row')} of {store or DEFAULT_STORE} to {file}")


@profiles.command("import", cls=Command, short_help="Add the rows of a file to the store.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_STORE
@JSON
def import_(file: Path, store: str | None, as_json: bool) -> None:
    """Add the rows of FILE (.jsonl or .jsonl.gz) to the store.

    Makes the store if there is none, and adds nothing if a row is wrong. Rows in the store stay: if the store has a
    configuration with the same task, graph, hardware and version, the row of FILE is left out.
    """
    from a3gnn.profiling.store.check import import_rows

    _need_suffix(file)
    place = store or str(DEFAULT_STORE)
    added, rows = import_rows(file, place)
    if as_json:
        show_json({"store": without_password(place), "added": added, "rows": rows})
        return
    left_out = f"; left out {rows - added:,} configurations that it has already" if rows > added else ""
    show(f"added {added:,} of {count(rows, 'row')} to {without_password(place)}{left_out}")


def _need_suffix(file: Path) -> None:
    if not file.name.endswith(_SUFFIXES):
        raise UsageError(f"FILE must end in {' or '.join(_SUFFIXES)}, got {str(file)!r}")


def _existing(store: str | None) -> ProfileStore:
    from a3gnn.profiling.store.existing import existing_store

    opened = existing_store(store)
    if opened is None:
        raise StoreError(
            f"no store exists at {DEFAULT_STORE}; run a3gnn profile to make one, or give another with --store"
        )
    return opened


def _checked(place: str) -> Checked:
    from a3gnn.profiling.store.check import check_file, check_store

    if place.endswith(_SUFFIXES):
        return check_file(place)
    with _existing(place) as opened:
        return check_store(opened)


def _listed(found: dict[str, list[Holding]]) -> Iterator[str]:
    """Yields a table per source, and the machines named in them."""
    from a3gnn.profiling.store.provenance import describe_machine

    machines = dict.fromkeys(describe_machine(one.hardware) for own in found.values() for one in own)
    letters = {machine: _letter(i) for i, machine in enumerate(machines)}
    for place, own in found.items():
        rows, failed = sum(one.rows for one in own), sum(one.failed for one in own)
        yield f"{without_password(place)}: {count(rows, 'measurement')}, {failed:,} failed{_origin(own)}"
        if own:
            yield f"  {'rows':>5} {'failed':>6}  {'model':<5}  {'machine':<7}  graph"
        for one in own:
            machine = letters[describe_machine(one.hardware)]
            figures = f"  {one.rows:>5} {one.failed:>6}  {_model(one.model):<5}  {machine:<7}  "
            first, *rest = _parts(one.graph, 80 - len(figures))
            yield f"{figures}{first}"
            yield from (f"{'':{len(figures)}}{part}" for part in rest)
        yield ""
    yield "Machines"
    for machine, letter in letters.items():
        yield from textwrap.wrap(machine, 80, initial_indent=f"  {letter}  ", subsequent_indent="     ")


def _origin(own: list[Holding]) -> str:
    """Returns the versions and the days of the measurements, as the end of a heading."""
    if not own:
        return ""
    versions = sorted({version for one in own for version in one.versions})
    days = sorted({day[:10] for one in own for day in one.measured})
    span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"; version {', '.join(map(str, versions))}, {span}"


def _letter(place: int) -> str:
    """Returns A to Z, then A2 to Z2, and so on."""
    again, letter = divmod(place, 26)
    return chr(ord("A") + letter) + (str(again + 1) if again else "")


def _model(name: str) -> str:
    """Returns a model's name; for a user's model, its function."""
    return name.rpartition(":")[2]


def _parts(name: str, width: int) -> list[str]:
    """Returns `name` in parts of at most `width` characters, cut after commas where possible."""
    parts = [""]
    for piece in re.findall(r"[^,]*,|[^,]+", name) or [""]:
        if parts[-1] and len(parts[-1]) + len(piece) > width:
            parts.append("")
        parts[-1] += piece
    return [part[i : i + width] for part in parts for i in range(0, max(len(part), 1), width)]
