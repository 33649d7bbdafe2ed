"""`a3gnn profiles`: lists, checks, exports and imports measurements, both stored ones and those in the package."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from a3gnn.cli.output import show
from a3gnn.errors import StoreError, UsageError
from a3gnn.profiling.store.existing import DEFAULT_STORE
from a3gnn.units import count

if TYPE_CHECKING:
    from a3gnn.profiling.store.check import Checked
    from a3gnn.profiling.store.provenance import Holding
    from a3gnn.profiling.store.store import ProfileStore

_STORE = click.option("--store", help=f"A path or a database URL; {DEFAULT_STORE} by default.")
_SUFFIXES = (".jsonl", ".jsonl.gz")


@click.group()
def profiles() -> None:
    """List, check, export or import measurements: your own store's, and those that come with a3gnn.

    A store is what a3gnn profile fills, or the profiles.sqlite in the folder of a tune.
    """


@profiles.command("list", short_help="Print what the store and the shipped profiles hold.")
@_STORE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_(store: str | None, as_json: bool) -> None:
    """Print what the store and the shipped profiles hold: rows by graph, model and machine."""
    from a3gnn.profiling.store.check import check_store
    from a3gnn.profiling.store.existing import existing_store
    from a3gnn.profiling.store.jsonl import shipped_measurements
    from a3gnn.profiling.store.provenance import holdings

    found = {"shipped with a3gnn": holdings(shipped_measurements())}
    opened = existing_store(store)
    if opened is not None:
        with opened as own:
            checked = check_store(own)
        found[store or str(DEFAULT_STORE)] = holdings(checked.sound.values())
        if checked.faults:
            click.echo("rows that are wrong are left out; a3gnn profiles check names them", err=True)
    elif not as_json:
        click.echo(f"there is no store at {DEFAULT_STORE}; a3gnn profile makes one, --store names another", err=True)
    if as_json:
        machines = {one.hardware.fingerprint: one.hardware.to_dict() for own in found.values() for one in own}
        sources = {place: [one.to_dict() for one in own] for place, own in found.items()}
        click.echo(json.dumps({"sources": sources, "machines": machines}))
        return
    for line in _listed(found):
        show(line)


@profiles.command(short_help="Check every row of a file or a store.")
@click.argument("place", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(place: str | None, as_json: bool) -> None:
    """Check every row of PLACE, a .jsonl or .jsonl.gz file or a store; by default the store and the shipped profiles.

    Each must have the fields of a measurement and no other, of their types and schema versions, finite numbers, and
    hashes that are those of what it holds. Exits with 1 where one does not, and names it with the rule.
    """
    from a3gnn.profiling.store.jsonl import shipped_profiles

    shipped = shipped_profiles()
    own = [str(DEFAULT_STORE)] if DEFAULT_STORE.exists() else []
    places = [place] if place else [*(map(str, sorted(shipped.glob("*.jsonl.gz"))) if shipped else ()), *own]
    found = {one: _checked(one) for one in places}
    if as_json:
        faults = {one: [fault._asdict() for fault in checked.faults] for one, checked in found.items()}
        click.echo(json.dumps({"rows": {one: checked.num_rows for one, checked in found.items()}, "faults": faults}))
    for one, checked in () if as_json else found.items():
        for fault in checked.faults:
            show(fault.describe())
        wrong = len({fault.row for fault in checked.faults})
        show(f"{one}: {count(checked.num_rows, 'row')}, {f'{wrong:,} wrong' if wrong else 'all sound'}")
    if any(checked.faults for checked in found.values()):
        raise SystemExit(1)


@profiles.command("export", short_help="Write the rows of the store to a file.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_STORE
def export(file: Path, store: str | None) -> None:
    """Write every row of the store to FILE, .jsonl or .jsonl.gz, with a first line that says where they come from.

    Nothing is written where a row does not check.
    """
    from a3gnn.profiling.store.check import export_rows

    _need_suffix(file)
    with _existing(store) as opened:
        rows = export_rows(opened, file)
    show(f"{count(rows, 'row')} of {store or DEFAULT_STORE} in {file}")


@profiles.command("import", short_help="Add the rows of a file to the store.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_STORE
def import_(file: Path, store: str | None) -> None:
    """Add the rows of FILE, .jsonl or .jsonl.gz, to the store, which is made where there is none.

    Nothing is added where a row does not check. What the store holds stays: of a configuration that it has already for
    the same task, graph, hardware and version, the row of FILE is left out.
    """
    from a3gnn.profiling.store.check import import_rows

    _need_suffix(file)
    place = store or str(DEFAULT_STORE)
    added, rows = import_rows(file, place)
    left_out = f"; {rows - added:,} left out, as it has those configurations already" if rows > added else ""
    show(f"{added:,} of {count(rows, 'row')} added to {place}{left_out}")


def _need_suffix(file: Path) -> None:
    if not file.name.endswith(_SUFFIXES):
        raise UsageError(f"FILE must end in {' or '.join(_SUFFIXES)}, got {str(file)!r}")


def _existing(store: str | None) -> ProfileStore:
    from a3gnn.profiling.store.existing import existing_store

    opened = existing_store(store)
    if opened is None:
        raise StoreError(f"there is no store at {DEFAULT_STORE}; a3gnn profile makes one, --store names another")
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

    for place, own in found.items():
        rows, failed = sum(one.rows for one in own), sum(one.failed for one in own)
        yield f"{place}: {count(rows, 'measurement')}, {failed:,} failed"
        yield f"  {'graph':<28} {'model':<5} {'rows':>5} {'failed':>6} {'version':>7}  {'machine':<8} measured"
        for one in own:
            versions = ",".join(map(str, one.versions))
            yield (
                f"  {_short(one.graph):<28} {one.model:<5} {one.rows:>5} {one.failed:>6} {versions:>7}  "
                f"{one.hardware.fingerprint[:8]} {one.measured[1][:10]}"
            )
        yield ""
    yield "machines"
    for machine in dict.fromkeys(describe_machine(one.hardware) for own in found.values() for one in own):
        yield from textwrap.wrap(machine, 80, initial_indent="  ", subsequent_indent="    ")


def _short(name: str) -> str:
    """Shortens a name that is too long for its column to its first and last characters."""
    return name if len(name) <= 28 else f"{name[:12]}...{name[-13:]}"
