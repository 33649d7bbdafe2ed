"""How much RAM this process may fill, page cache included, and how much of it nobody needs.

A limit of any group from the process's own up to the root holds, so the tightest one counts. Version 1 has a tree of
folders per controller, version 2 one for all; a machine may have both.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

GroupController = Literal["memory", "cpu"]

#: This process's groups, and where their trees are mounted.
_GROUPS, _MOUNTS = "/proc/self/cgroup", "/proc/self/mountinfo"
#: Where the trees are by convention (cgroups(7)), for processes that don't see their mounts.
_USUAL = "/sys/fs/cgroup"
#: How `/proc/self/cgroup` names the controllers of the tree of version 2.
_UNIFIED = frozenset([""])


class Group(NamedTuple):
    """A control group.

    Attributes:
        folder: Its files.
        version: 1 or 2.
    """

    folder: Path
    version: int

    def number(self, name: str) -> int | None:
        """Returns the number in the file `name`; None without one, such as "max", and below 0, which is no limit."""
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


def memory_limits() -> Iterator[tuple[Group, int]]:
    """Yields each group that limits this process's memory, and that limit in bytes."""
    for group in _groups("memory"):
        names = ("memory.limit_in_bytes",) if group.version == 1 else ("memory.max", "memory.high")
        found = [limit for name in names if (limit := group.number(name)) is not None]
        if found:
            yield group, min(found)


def own_memory_groups(usual: str = _USUAL) -> Iterator[Group]:
    """Yields the group of each tree of the memory's in which this process itself is, without those above it.

    Args:
        usual: Where the trees are by convention.
    """
    for tree in _trees("memory", tuple(_lines(_GROUPS)), _MOUNTS, usual):
        yield tree[0]


def cpu_limit() -> float | None:
    """Returns the least quota of this process's groups, in cores; None without one."""
    return min((quota for group in _groups("cpu") if (quota := _quota(group)) is not None), default=None)


def _quota(group: Group) -> float | None:
    if group.version == 1:
        quota, period = group.number("cpu.cfs_quota_us"), group.number("cpu.cfs_period_us")
        return quota / period if quota is not None and period else None
    try:
        first, second = (group.folder / "cpu.max").read_text(encoding="ascii").split()
        return int(first) / int(second)
    except (OSError, ValueError, ZeroDivisionError):  # "max" is no number: there is no limit
        return None


def _groups(controller: GroupController) -> tuple[Group, ...]:
    """Returns the groups of a controller that hold this process, its own first in each tree."""
    return _groups_of(controller, tuple(_lines(_GROUPS)), _MOUNTS, _USUAL)


@functools.lru_cache(maxsize=8)  # a process may be moved, which changes its paths; mounts of the trees stay
def _groups_of(controller: GroupController, paths: tuple[str, ...], mounts: str, usual: str) -> tuple[Group, ...]:
    return tuple({group.folder: group for tree in _trees(controller, paths, mounts, usual) for group in tree}.values())


def _trees(controller: GroupController, paths: tuple[str, ...], mounts: str, usual: str) -> Iterator[list[Group]]:
    """Yields of each tree the groups that hold this process, its own first."""
    for version, path, names in _own_paths(controller, paths):
        folders = [usual] if version == 2 else [f"{usual}/{name}" for name in names]
        trees = [mount for mount in _mounts(mounts) if mount.version == version and mount.controllers & names]
        for mount in [*trees, *(_Mount(version, names, "/", Path(folder)) for folder in folders)]:
            inner = _inside(path, mount.root)
            yield [Group(mount.folder / folder, version) for folder in (inner, *inner.parents)]


def _own_paths(controller: GroupController, lines: Iterable[str]) -> list[tuple[int, str, frozenset[str]]]:
    """Returns version, path and names of the trees in which this process's groups may have the controller."""
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
            root, folder = (_unescaped(word) for word in mount.split(" ")[3:5])
            version, names = (1, frozenset(options.split(","))) if kind == "cgroup" else (2, _UNIFIED)
            found.append(_Mount(version, names, root, Path(folder)))
    return found


def _inside(path: str, root: str) -> Path:
    """Returns where `path` is below a mount of `root`; the mount itself where it isn't below it, as in a namespace."""
    own, mounted = Path(path), Path(root)
    inner = own.relative_to(mounted) if own.is_relative_to(mounted) else Path()
    return Path() if ".." in inner.parts else inner


def _unescaped(word: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), word)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []


def host_memory_bytes() -> int:
    """Returns the machine's memory, or the tightest limit of this process's control groups if that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *(limit for _, limit in memory_limits())])


def available_bytes() -> int | None:
    """Returns what programs may take without swapping, on this machine and in its control groups; None if not known."""
    left = [_of_machine(), *(_of_group(group, limit) for group, limit in memory_limits())]
    return min((one for one in left if one is not None), default=None)


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
    """Returns what its limit leaves to programs.

    The page cache, shared memory aside, is dropped when there is need, and so are the kernel's caches of files' names,
    which version 2 counts too.
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


#: Share of a memory limit, and of the machine's memory where there is none: one over these. Guesses.
_OF_LIMIT, _OF_MACHINE = 4, 8


def evaluation_bytes(limit_bytes: int | None) -> int:
    """Returns what a pass may take under a limit on the host's memory; None is none."""
    return host_memory_bytes() // _OF_MACHINE if limit_bytes is None else limit_bytes // _OF_LIMIT
