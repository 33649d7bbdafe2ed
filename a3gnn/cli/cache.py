"""`a3gnn cache`: shows or empties the cache folder."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from a3gnn.cli.help import Command
from a3gnn.cli.options import DURATION
from a3gnn.cli.output import JSON, show, show_json
from a3gnn.errors import A3GNNError
from a3gnn.units import count, format_size

if TYPE_CHECKING:
    from a3gnn.storage.cache_content import Entry

_EPILOG = "The folder is $A3GNN_CACHE, else a3gnn in $XDG_CACHE_HOME or ~/.cache."


@click.group(epilog=_EPILOG)
def cache() -> None:
    """Show or empty the folder with copies of graphs and measurements of machines."""


@cache.command(cls=Command, epilog=_EPILOG)
@JSON
def info(as_json: bool) -> None:
    """List the content of the cache folder.

    The list has graphs, downloads, probes of machines, and leftovers of killed processes.
    """
    from a3gnn.storage.cache import cache_root
    from a3gnn.storage.cache_content import entries

    root, found = cache_root(), entries(cache_root())
    total = sum(entry.num_bytes for entry in found)
    if as_json:
        content = {"folder": str(root), "total_bytes": total, "entries": [entry.to_dict() for entry in found]}
        show_json(content)
        return
    click.echo(f"{root}: {format_size(total)} in {_counted(found)}")
    for entry in found:
        show(_line(entry, f"  ({entry.keep})" if entry.keep else ""))


@cache.command(cls=Command, epilog=_EPILOG)
@click.option("--older-than", type=DURATION, help="Remove only items that were not used for this time, such as 30d.")
@click.option("--downloads", is_flag=True, help="Remove the downloads of PyG and OGB too.")
@click.option("--dry-run", is_flag=True, help="List the items to remove, without removing them.")
@JSON
def clean(older_than: float | None, downloads: bool, dry_run: bool, as_json: bool) -> None:
    """Remove files that a3gnn wrote to the cache folder.

    a3gnn makes removed files again when it needs them. Graphs that a process has open stay, and so do files that a3gnn
    did not write. Downloads may contain files of yours, so they stay without --downloads.
    """
    from a3gnn.storage.cache import cache_root
    from a3gnn.storage.cache_content import entries, to_remove

    found = entries(cache_root())
    chosen = to_remove(found, None if older_than is None else time.time() - older_than, downloads=downloads)
    removed, failed = ([], []) if dry_run else _remove(chosen)
    gone = chosen if dry_run else removed
    freed = sum(entry.num_bytes for entry in gone)
    if as_json:
        show_json({"removed": [e.to_dict() for e in gone], "freed_bytes": freed, "dry_run": dry_run})
    else:
        for entry in gone:
            show(_line(entry))
        verb = "would be freed" if dry_run else "freed"
        click.echo(f"{format_size(freed)} {verb}, {_counted(gone)} of {_counted(found)}")
    if failed:
        raise A3GNNError(f"not removed: {'; '.join(failed)}")


def _remove(chosen: list[Entry]) -> tuple[list[Entry], list[str]]:
    """Removes the `chosen` entries; returns the removed ones, and an error message for each other."""
    removed, failed = [], []
    for entry in chosen:
        try:
            entry.remove()
            removed.append(entry)
        except OSError as error:
            failed.append(f"{entry.path} ({error.strerror or error})")
    return removed, failed


def _line(entry: Entry, keep: str = "") -> str:
    used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.last_used))
    return f"{entry.kind:<9}  {format_size(entry.num_bytes):>9}  {used}  {entry.name}  {entry.path}{keep}"


def _counted(found: list[Entry]) -> str:
    return count(len(found), "item")
