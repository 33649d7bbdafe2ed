"""The kinds of machines in a Ray cluster, read from their nodes' custom resources."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from a3gnn.errors import A3GNNError, UsageError, unknown_name
from a3gnn.hardware import Hardware
from a3gnn.option_names import option

#: The name for all kinds, where several are allowed.
ALL = "all"
#: The custom resource of a machine: its hardware's fingerprint, and its label if any. A trial takes all of it.
_RESOURCE = re.compile("a3gnn-([0-9a-f]{16})(?:-(.+))?")
#: The command that starts Ray on a machine so that it takes trials.
START = """ray start --address HEAD:PORT --resources "$(a3gnn machines --here)\""""


class ClusterNode(NamedTuple):
    """A node of the cluster that takes trials.

    Attributes:
        node: Ray's id of the node.
        host: Name of its host.
        cpus: Ray's count of its cores. A trial takes all of them.
        gpus: Ray's count of its GPUs. A trial takes all of them.
    """

    node: str
    host: str
    cpus: float
    gpus: float

    @property
    def name(self) -> str:
        """The name for users; several nodes may be on one host."""
        return f"{self.host} ({self.node[:8]})"


@dataclass(frozen=True, slots=True)
class MachineKind:
    """Machines of equal hardware, which count as one machine in measurements.

    Attributes:
        fingerprint: Fingerprint of their hardware.
        label: The user's name for them; "" for none.
        machines: The machines that are alive.
    """

    fingerprint: str
    label: str
    machines: tuple[ClusterNode, ...]

    @property
    def name(self) -> str:
        """The label, or else the fingerprint."""
        return self.label or self.fingerprint

    @property
    def resource(self) -> str:
        """Name of the custom resource; each machine has one unit of it."""
        return _resource(self.fingerprint, self.label)

    def to_dict(self) -> dict[str, Any]:
        """Returns the kind as JSON types."""
        machines = [machine._asdict() for machine in self.machines]
        return {"name": self.name, "fingerprint": self.fingerprint, "label": self.label, "machines": machines}


def resources_of(hardware: Hardware) -> dict[str, int]:
    """Returns the argument of `ray start --resources` for a machine of this hardware."""
    return {_resource(hardware.fingerprint, hardware.label): 1}


def machine_kinds(nodes: Iterable[Mapping[str, Any]]) -> dict[str, MachineKind]:
    """Returns the kinds of machines among the live `nodes`, by name.

    Args:
        nodes: The list from `ray.nodes()`.

    Raises:
        UsageError: Machines of different hardware have one label.
    """
    found: dict[tuple[str, str], list[ClusterNode]] = {}
    for node in nodes:
        has: Mapping[str, float] = node["Resources"] if node["Alive"] else {}
        for match in filter(None, map(_RESOURCE.fullmatch, has)):
            machine = ClusterNode(node["NodeID"], node["NodeManagerHostname"], has.get("CPU", 0.0), has.get("GPU", 0.0))
            found.setdefault((match[1], match[2] or ""), []).append(machine)
    kinds: dict[str, MachineKind] = {}
    for (fingerprint, label), machines in sorted(found.items(), key=lambda one: (one[0][1] or one[0][0], one[0][0])):
        kind = MachineKind(fingerprint, label, tuple(sorted(machines, key=lambda machine: machine.name)))
        if (other := kinds.setdefault(kind.name, kind)) is not kind:
            raise UsageError(
                f"machines with one label must be of equal hardware, but {label} is on {_names(other)} of "
                f"{other.fingerprint} and on {_names(kind)} of {fingerprint}; label them apart"
            )
    return kinds


def asked_kinds(kinds: Mapping[str, MachineKind], asked: str | None) -> list[MachineKind]:
    """Returns the kinds named in `asked`.

    Args:
        kinds: The cluster's kinds, by name.
        asked: Names separated by commas, or "all"; None for the only kind.

    Raises:
        A3GNNError: The cluster has no machine for trials.
        UsageError: There is no kind of a given name, or `asked` is None and there are several kinds.
    """
    if not kinds:
        raise A3GNNError(
            f"the cluster has no machine that trials may be sent to; start Ray on one by {START}, see docs/howto/ray.md"
        )
    if asked is None and len(kinds) > 1:
        one = option("machines", next(iter(kinds)))
        raise UsageError(f"the cluster has machines of {len(kinds)} kinds, {', '.join(kinds)}; name one, such as {one}")
    if asked is None or asked == ALL:
        return list(kinds.values())
    names = dict.fromkeys(name.strip() for name in asked.split(","))
    for name in names:
        if name not in kinds:
            raise unknown_name(option("machines"), name, kinds)
    return [kinds[name] for name in names]


def only_kind(kinds: Mapping[str, MachineKind], asked: str | None) -> MachineKind:
    """Returns the kind named in `asked`; raises as `asked_kinds`, and a `UsageError` if it names several."""
    chosen = asked_kinds(kinds, asked)
    if len(chosen) > 1:
        names = ", ".join(kind.name for kind in chosen)
        raise UsageError(f"{option('machines')} must name one kind of machines here, got {names}")
    return chosen[0]


def _resource(fingerprint: str, label: str) -> str:
    return f"a3gnn-{fingerprint}-{label}" if label else f"a3gnn-{fingerprint}"


def _names(kind: MachineKind) -> str:
    return ", ".join(machine.name for machine in kind.machines)
