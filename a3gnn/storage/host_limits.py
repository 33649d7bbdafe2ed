"""Memory and cores that this process may use, by the machine and by its control groups; and how much memory is free.

A limit of any group from the process's own up to the root applies, so the tightest one counts. Version 1 has a tree of
folders per controller, version 2 a single tree; a machine may have both. The page cache counts as free memory.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

GroupController = Literal["memory", "cpu"]

#: Files with this process's groups, and with the mount points of their trees.
_GROUPS, _MOUNTS = "/proc/self/cgroup", "/proc/self/mountinfo"
#: Usual mount point of the trees (cgroups(7)), for processes that don't see their mounts.
_USUAL = "/sys/fs/cgroup"
#: Controllers of the version 2 tree in `/proc/self/cgroup`.
_UNIFIED = frozenset([""])
#: An evaluation may take a memory limit, or the machine's memory without one, divided by these, as
#: docs/reference/own_models.md promises.
_OF_LIMIT, _OF_MACHINE = 4, 8


class Group(NamedTuple):
    """A control group.

    Attributes:
        folder: Folder of its files.
        version: 1 or 2.
    """

    folder: Path
    version: int

    def number(self, name: str) -> int | None:
        """Returns the number in the file `name`; None for other content, such as "max", and below 0 (no limit)."""
        try:
            found = int((self.folder / name).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        return found if found >= 0 else None


class _Mount(NamedTuple):
    version: int
    controllers: frozenset[str]
    root: str
    folder: Path


def host_memory_bytes() -> int:
    """Returns the machine's memory, or the tightest limit of this process's control groups if that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *(limit for _, limit in memory_limits())])


def available_bytes() -> int | None:
    """Returns the bytes that programs may take without swapping, by machine and control groups; None if unknown."""
    left = [_of_machine(), *(_of_group(group, limit) for group, limit in memory_limits())]
    return min((one for one in left if one is not None), default=None)


def evaluation_bytes(limit_bytes: int | None) -> int:
    """Returns the bytes that an evaluation pass may take under a host memory limit; None is no limit."""
    return host_memory_bytes() // _OF_MACHINE if limit_bytes is None else limit_bytes // _OF_LIMIT


def cpu_limit() -> float | None:
    """Returns the smallest CPU quota of this process's groups, in cores; None without a quota."""
    return min((quota for group in _groups("cpu") if (quota := _quota(group)) is not None), default=None)


def memory_limits() -> Iterator[tuple[Group, int]]:
    """Yields each group that limits this process's memory, and its limit in bytes."""
    for group in _groups("memory"):
        names = ("memory.limit_in_bytes",) if group.version == 1 else ("memory.max", "memory.high")
        found = [limit for name in names if (limit := group.number(name)) is not None]
        if found:
            yield group, min(found)


def own_memory_groups(usual: str = _USUAL) -> Iterator[Group]:
    """Yields this process's own group in each tree of the memory controller, without the groups above it.

    Args:
        usual: Usual mount point of the trees.
    """
    for tree in _trees("memory", tuple(_lines(_GROUPS)), _MOUNTS, usual):
        yield tree[0]


def _of_machine() -> int | None:
    try:
        with open("/proc/meminfo", "rb") as file:
            for line in file:
                if line.startswith(b"MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return None


def _of_group(group: Group, limit: int) -> int | None:
    """Returns the bytes that programs may still take within the group's limit.

    The page cache, except shared memory, counts as free, because the kernel drops it under pressure. So do the kernel's
    caches of file names, which version 2 counts as used too.
    """
    first = group.version == 1
    taken = group.number("memory.usage_in_bytes" if first else "memory.current")
    if taken is None:
        return None
    cache, shared = ("total_cache", "total_shmem") if first else ("file", "shmem")
    try:
        with open(group.folder / "memory.stat", encoding="ascii") as file:
            stat = dict(line.split() for line in file)
        names = 0 if first else int(stat.get("slab_reclaimable", 0))
        return max(0, limit - taken + int(stat[cache]) - int(stat[shared]) + names)
    except (OSError, ValueError, KeyError):
        return max(0, limit - taken)


def _quota(group: Group) -> float | None:
    if group.version == 1:
        quota, period = group.number("cpu.cfs_quota_us"), group.number("cpu.cfs_period_us")
        return quota / period if quota is not None and period else None
    try:
        first, second = (group.folder / "cpu.max").read_text(encoding="ascii").split()
        return int(first) / int(second)
    except (OSError, ValueError, ZeroDivisionError):  # "max" means no limit
        return None


def _groups(controller: GroupController) -> tuple[Group, ...]:
    """Returns the groups of a controller that contain this process, its own first in each tree."""
    return _groups_of(controller, tuple(_lines(_GROUPS)), _MOUNTS, _USUAL)


@functools.lru_cache(maxsize=8)  # keyed by paths, which change if the process is moved; mounts stay
def _groups_of(controller: GroupController, paths: tuple[str, ...], mounts: str, usual: str) -> tuple[Group, ...]:
    return tuple({group.folder: group for tree in _trees(controller, paths, mounts, usual) for group in tree}.values())


def _trees(controller: GroupController, paths: tuple[str, ...], mounts: str, usual: str) -> Iterator[list[Group]]:
    """Yields for each tree the groups that contain this process, its own first."""
    for version, path, names in _own_paths(controller, paths):
        folders = [usual] if version == 2 else [f"{usual}/{name}" for name in names]
        trees = [mount for mount in _mounts(mounts) if mount.version == version and mount.controllers & names]
        for mount in [*trees, *(_Mount(version, names, "/", Path(folder)) for folder in folders)]:
            inner = _inside(path, mount.root)
            yield [Group(mount.folder / folder, version) for folder in (inner, *inner.parents)]


def _own_paths(controller: GroupController, lines: Iterable[str]) -> list[tuple[int, str, frozenset[str]]]:
    """Returns version, path and controllers of each tree in which this process's groups may have the controller."""
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        path = path.removesuffix(" (deleted)")
        if not controllers:
            found.append((2, path, _UNIFIED))
        elif controller in (names := frozenset(controllers.split(","))):
            found.append((1, path, names | {controllers}))
    return found or [(2, "/", _UNIFIED), (1, "/", frozenset([controller]))]


def _mounts(path: str) -> list[_Mount]:
    """Returns the mounted trees (proc_pid_mountinfo(5))."""
    found = []
    for line in _lines(path):
        mount, _, system = line.partition(" - ")
        kind, *_, options = system.split(" ")
        if kind in ("cgroup", "cgroup2"):
            root, folder = (
                re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), word) for word in mount.split(" ")[3:5]
            )
            version, names = (1, frozenset(options.split(","))) if kind == "cgroup" else (2, _UNIFIED)
            found.append(_Mount(version, names, root, Path(folder)))
    return found


def _inside(path: str, root: str) -> Path:
    """Returns `path` relative to a mount of `root`; the mount itself if `path` isn't below it, as in a namespace."""
    own, mounted = Path(path), Path(root)
    inner = own.relative_to(mounted) if own.is_relative_to(mounted) else Path()
    return Path() if ".." in inner.parts else inner


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
