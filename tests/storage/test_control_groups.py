"""The limits of control groups of both versions, wherever the process's own group is and its trees are mounted."""

from __future__ import annotations

from pathlib import Path

import pytest

from a3gnn.storage import host_limits as control_groups
from a3gnn.storage.host_limits import available_bytes, cpu_limit, host_memory_bytes, memory_limits
from a3gnn.threads import affinity

MIB = 2**20
NO_LIMIT_1 = "9223372036854771712"


class Machine:
    """A machine's control groups as files; `{root}` in what is written stands for its folder."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        monkeypatch.setattr(control_groups, "_GROUPS", str(root / "own"))
        monkeypatch.setattr(control_groups, "_MOUNTS", str(root / "mounts"))
        monkeypatch.setattr(control_groups, "_USUAL", str(root / "usual"))

    def write(self, own: str, mounts: str = "", **_: str) -> None:
        (self.root / "own").write_text(own)
        (self.root / "mounts").write_text(mounts.replace("{root}", str(self.root)))

    def group(self, folder: str, **files: object) -> None:
        """Makes a group with `files`, named with `_` for `.` where that is the first one."""
        path = self.root / folder
        path.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (path / name.replace("_", ".", 1)).write_text(f"{text}\n")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_a_limit_above_the_own_group_counts(machine):
    """Slurm limits a job; its tasks lie three groups below, without limits of their own."""
    job = "usual/system.slice/slurmstepd.scope/job_7"
    machine.group(job, memory_max=64 * MIB, cpu_max="100000 100000")
    for inner in ("step_0", "step_0/user", "step_0/user/task_0"):
        machine.group(f"{job}/{inner}", memory_max="max", cpu_max="max 100000")
    machine.write("0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n")
    assert host_memory_bytes() == 64 * MIB
    assert cpu_limit() == 1


def test_the_tightest_of_several_limits_counts(machine):
    machine.group("usual/a", memory_max=64 * MIB, cpu_max="150000 100000")
    machine.group("usual/a/b", memory_max=96 * MIB, memory_high=80 * MIB, cpu_max="300000 100000")
    machine.write("0::/a/b\n")
    assert [limit for _, limit in memory_limits()] == [80 * MIB, 64 * MIB]
    assert cpu_limit() == 1.5
    assert affinity.available_cores() == 1


def test_a_soft_limit_is_one(machine):
    machine.group("usual/a", memory_max="max", memory_high=80 * MIB)
    machine.write("0::/a\n")
    assert host_memory_bytes() == 80 * MIB


def test_version_1_has_a_tree_per_controller(machine):
    machine.group("usual/memory", memory_limit_in_bytes=NO_LIMIT_1)
    machine.group("usual/memory/slurm/job_7", memory_limit_in_bytes=64 * MIB)
    machine.group("usual/cpu,cpuacct", cpu_cfs_quota_us=-1, cpu_cfs_period_us=100_000)
    machine.group("usual/cpu,cpuacct/slurm", cpu_cfs_quota_us=250_000, cpu_cfs_period_us=100_000)
    machine.write("4:memory:/slurm/job_7/step_0\n3:cpu,cpuacct:/slurm/job_7/step_0\n1:name=systemd:/\n")
    assert host_memory_bytes() == 64 * MIB
    assert cpu_limit() == 2.5


def test_a_container_sees_its_group_as_the_root_of_the_mount(machine):
    """Docker on version 1 without a namespace: the path is the host's, and the mount begins with it."""
    machine.group("c/memory", memory_limit_in_bytes=64 * MIB)
    machine.group("c/cpu", cpu_cfs_quota_us=100_000, cpu_cfs_period_us=100_000)
    mount = "30 29 0:2{n} /docker/ab {{root}}/c/{name} ro,nosuid - cgroup cgroup rw,{name}\n"
    mounts = mount.format(n=1, name="memory") + mount.format(n=2, name="cpu")
    machine.write("4:memory:/docker/ab\n3:cpu:/docker/ab\n", mounts)
    assert host_memory_bytes() == 64 * MIB
    assert cpu_limit() == 1


@pytest.mark.parametrize("own", ["/", "/../../other"])
@pytest.mark.parametrize("root", ["/", "/.."])
def test_in_a_namespace_the_mount_is_all_that_is_seen(machine, own, root):
    machine.group("c", memory_max=64 * MIB, cpu_max="200000 100000")
    machine.write(f"0::{own}\n", f"30 29 0:21 {root} {{root}}/c rw - cgroup2 cgroup rw\n")
    assert host_memory_bytes() == 64 * MIB
    assert cpu_limit() == 2


def test_of_a_hybrid_machine_both_versions_count(machine):
    machine.group("usual/memory/a", memory_limit_in_bytes=64 * MIB)
    machine.group("usual/unified/b", cpu_max="200000 100000", memory_max=96 * MIB)
    mounts = "30 29 0:21 / {root}/usual/unified rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    machine.write("9:memory:/a\n8:cpu:/\n0::/b\n", mounts)
    assert host_memory_bytes() == 64 * MIB
    assert cpu_limit() == 2


def test_a_mount_may_have_a_space_in_its_path(machine):
    machine.group("my groups/a b", memory_max=64 * MIB)
    machine.write("0::/a b (deleted)\n", "30 29 0:21 / {root}/my\\040groups rw - cgroup2 cgroup rw\n")
    assert host_memory_bytes() == 64 * MIB


def test_without_the_lists_of_the_system_the_usual_folders_count(machine):
    machine.group("usual", memory_max=64 * MIB, cpu_max="100000 100000")
    assert host_memory_bytes() == 64 * MIB
    assert cpu_limit() == 1


def test_a_process_that_is_moved_has_the_limits_of_its_new_group(machine):
    machine.group("usual/a", memory_max=64 * MIB)
    machine.group("usual/b", memory_max=32 * MIB)
    machine.write("0::/a\n")
    assert host_memory_bytes() == 64 * MIB
    machine.write("0::/b\n")
    assert host_memory_bytes() == 32 * MIB


def test_no_groups_limit_nothing(machine):
    assert cpu_limit() is None
    assert list(memory_limits()) == []
    assert host_memory_bytes() > 64 * MIB
    assert affinity.available_cores() == len(affinity.cores())


def test_what_is_free_is_the_least_that_any_group_leaves(machine):
    stat = f"anon 9\nfile {21 * MIB}\nshmem {MIB}"
    machine.group("usual/a", memory_max=128 * MIB, memory_current=120 * MIB, memory_stat=stat)
    machine.group("usual/a/b", memory_max=64 * MIB, memory_current=30 * MIB, memory_stat=stat)
    machine.write("0::/a/b\n")
    assert available_bytes() == (128 - 120 + 20) * MIB
