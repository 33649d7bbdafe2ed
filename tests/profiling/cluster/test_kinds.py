"""Which machines of a cluster trials may be sent to, as Ray's nodes tell it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from a3gnn.cli.executor_options import refuse_executor
from a3gnn.errors import A3GNNError, UsageError
from a3gnn.hardware import Hardware
from a3gnn.profiling.cluster.connection import asked_kinds, machine_kinds, only_kind, resources_of
from a3gnn.profiling.executor_choice import ExecutorChoice
from a3gnn.service.settings import ServiceSettings

ONE, OTHER = "0123456789abcdef", "fedcba9876543210"


def node(number: int, *resources: str, alive: bool = True) -> dict[str, Any]:
    """A node as `ray.nodes()` has it."""
    has = {"CPU": 8.0, "memory": 1e9, "node:10.0.0.1": 1.0, **dict.fromkeys(resources, 1.0)}
    return {"NodeID": f"{number:056x}", "NodeManagerHostname": f"host{number}", "Alive": alive, "Resources": has}


def test_machines_of_equal_hardware_are_of_one_kind_and_the_dead_and_others_are_left_out() -> None:
    kinds = machine_kinds(
        [
            node(1, f"a3gnn-{ONE}"),
            node(2, f"a3gnn-{OTHER}-lab"),
            node(3, f"a3gnn-{ONE}"),
            node(4, f"a3gnn-{ONE}", alive=False),
            node(5, "GPU"),
        ]
    )
    assert {name: [one.host for one in kind.machines] for name, kind in kinds.items()} == {
        ONE: ["host1", "host3"],
        "lab": ["host2"],
    }
    assert kinds["lab"].resource == f"a3gnn-{OTHER}-lab"
    assert kinds[ONE].machines[0].cpus == 8.0
    assert kinds[ONE].machines[0].gpus == 0.0


def test_what_a_machine_is_started_with_is_what_it_is_found_by(hardware: Hardware) -> None:
    for machine in (hardware, dataclasses.replace(hardware, label="fast-2.x")):
        (resource,) = resources_of(machine)
        (kind,) = machine_kinds([node(1, resource)]).values()
        assert (kind.fingerprint, kind.label, kind.resource) == (machine.fingerprint, machine.label, resource)


def test_one_label_is_of_one_kind_of_hardware() -> None:
    with pytest.raises(UsageError, match=r"host1 .* of 0123.* and on host2 .* of fedc.*; give them different labels"):
        machine_kinds([node(1, f"a3gnn-{ONE}-lab"), node(2, f"a3gnn-{OTHER}-lab")])


def test_kinds_are_asked_for_by_name() -> None:
    kinds = machine_kinds([node(1, f"a3gnn-{ONE}-slow"), node(2, f"a3gnn-{OTHER}-fast")])
    assert [kind.name for kind in asked_kinds(kinds, "all")] == ["fast", "slow"]
    assert [kind.name for kind in asked_kinds(kinds, "slow, fast,slow")] == ["slow", "fast"]
    assert only_kind(kinds, "fast").fingerprint == OTHER
    with pytest.raises(UsageError, match="machines of 2 kinds, fast, slow; name one, such as machines='fast'"):
        asked_kinds(kinds, None)
    with pytest.raises(UsageError, match="did you mean 'fast'"):
        asked_kinds(kinds, "fasst")
    with pytest.raises(UsageError, match="must name one kind of machines here, got fast, slow"):
        only_kind(kinds, "all")
    del kinds["slow"]
    assert only_kind(kinds, None).name == "fast"
    with pytest.raises(A3GNNError, match="no machine for trials; start Ray on one by ray start"):
        asked_kinds({}, "all")


def test_options_of_a_cluster_need_one() -> None:
    with pytest.raises(UsageError, match="machines='all' has no effect for trials on this machine; add executor='ray'"):
        ExecutorChoice(machines="all")
    with pytest.raises(UsageError, match="did you mean 'local'"):
        ExecutorChoice("locale")
    assert not ExecutorChoice("ray").names_several
    assert not ExecutorChoice("ray", machines="fast").names_several
    assert ExecutorChoice("ray", machines="all").names_several
    assert ExecutorChoice("ray", machines="slow,fast").names_several
    with ExecutorChoice().opened(print) as executor:
        assert executor is None


def test_where_trials_run_is_refused_where_it_can_not_be_said(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="machines='all' must name one kind of machines, because a study of the service"
    ):
        ServiceSettings(folder=tmp_path, trials=ExecutorChoice("ray", machines="all"))
    usual = {"executor": "local", "ray_address": None, "machines": None}
    for flag, given in (("executor", "ray"), ("ray-address", "head:6379"), ("machines", "fast")):
        options = usual | {flag.replace("-", "_"): given}
        with pytest.raises(UsageError, match=f"--{flag} {given} has no effect with --server"):
            refuse_executor(options, "http://127.0.0.1:8642")
        refuse_executor(options, None)
    refuse_executor(usual, "http://127.0.0.1:8642")
