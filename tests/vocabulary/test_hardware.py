"""Which machine a measurement is of: fingerprints, old ones too."""

from __future__ import annotations

import dataclasses
import gzip
import json

import pytest

from a3gnn.errors import UsageError
from a3gnn.hardware import Hardware
from a3gnn.machine.host import cache_sizes, host_with, instruction_sets
from a3gnn.profiling.store.jsonl import shipped_profiles


def test_what_was_stored_keeps_its_fingerprint() -> None:
    folder = shipped_profiles()
    assert folder is not None
    rows = [
        json.loads(line) for path in folder.glob("*.gz") for line in gzip.decompress(path.read_bytes()).splitlines()
    ]
    assert rows
    for row in rows:
        assert Hardware.from_dict(row["hardware"]).fingerprint == row["hardware"]["fingerprint"]


def test_the_fingerprint_of_a_machine_without_a_told_processor(hardware: Hardware) -> None:
    # As it was computed before instruction sets and caches were noted.
    assert hardware.fingerprint == "be5125c375a55989"


def test_instruction_sets_and_caches_tell_machines_apart_and_timings_do_not(hardware: Hardware) -> None:
    told = dataclasses.replace(hardware, instruction_sets=("avx2",), cache_bytes=(32768, 1 << 20, 1 << 25))
    others = [
        hardware,
        dataclasses.replace(told, instruction_sets=("avx2", "avx512f")),
        dataclasses.replace(told, cache_bytes=(32768, 1 << 20, 1 << 26)),
        dataclasses.replace(told, num_cores=8),
    ]
    assert len({told.fingerprint, *(other.fingerprint for other in others)}) == 5
    slower = dataclasses.replace(told, profile=dataclasses.replace(told.profile, gemm_flops_per_s=1.0))
    assert slower.fingerprint == told.fingerprint
    assert [told.may_be(other) for other in others] == [True, False, False, False]


def test_hardware_survives_json(hardware: Hardware) -> None:
    here = host_with(hardware.profile)
    assert Hardware.from_dict(json.loads(json.dumps(here.to_dict()))) == here
    assert (here.instruction_sets, here.cache_bytes) == (instruction_sets(), cache_sizes())
    assert here.fingerprint == host_with(hardware.profile).fingerprint


def test_caches_grow_with_their_level() -> None:
    sizes = [size for size in cache_sizes() if size]
    assert sizes == sorted(sizes)
    assert all(1 << 12 <= size <= 1 << 34 for size in sizes)


def test_a_label_tells_apart_machines_that_look_alike(hardware: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
    fast, slow = (dataclasses.replace(hardware, label=label) for label in ("fast", "slow"))
    assert len({one.fingerprint for one in (hardware, fast, slow)}) == 3
    assert not fast.may_be(slow)
    assert not fast.may_be(hardware)
    assert Hardware.from_dict(json.loads(json.dumps(fast.to_dict()))) == fast
    assert "label" not in hardware.to_dict()  # rows stay as they were
    monkeypatch.setenv("A3GNN_MACHINE_LABEL", "fast")
    assert host_with(hardware.profile).label == "fast"
    monkeypatch.setenv("A3GNN_MACHINE_LABEL", "../fast")
    with pytest.raises(UsageError, match="A3GNN_MACHINE_LABEL must have at most 40 letters"):
        host_with(hardware.profile)


@pytest.mark.parametrize("label", ["all", "stop", "0123456789abcdef"])
def test_a_label_that_means_something_else_is_refused(
    label: str, hardware: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A3GNN_MACHINE_LABEL", label)
    with pytest.raises(UsageError, match=f"must not be all, stop or 16 digits .* got '{label}'.* my-{label}"):
        host_with(hardware.profile)
    monkeypatch.setenv("A3GNN_MACHINE_LABEL", f"my-{label}")
    assert host_with(hardware.profile).label == f"my-{label}"
