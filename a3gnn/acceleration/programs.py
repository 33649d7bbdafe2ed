"""PyG's `to_hetero` with one aggregation of all relations into a type.

`to_hetero` makes a `torch.fx.GraphModule` that calls a convolution per relation, and adds up the outputs of a type two
by two. Here the convolutions of a sum become one call of their `ModuleDict`, which keeps its name and its parameters.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
from torch import Tensor, fx, nn

from a3gnn.acceleration.calls import Accelerated
from a3gnn.acceleration.hetero import JOINED, Addend, Joining
from a3gnn.models.layers.compiled import is_traced

_ARGUMENTS = ("x", "edge_index")


class ModuleDict(nn.ModuleDict, Joining):
    """Convolutions by relation, of which a call adds up the outputs of some."""

    def unsupported(self) -> str | None:
        """Returns why no call can run natively, or None."""
        return None

    def forward(self, *calls: tuple[str, Any, Any]) -> Tensor:
        """Returns the sum of the outputs of convolutions.

        Args:
            calls: For each convolution its name and its arguments `x` and `edge_index`.
        """
        kind, outs = calls[0][0], None
        if not is_traced():
            self.accept()
            given = [Addend(kind, name, self._modules[name], args) for name, *args in calls]
            outs = self.joined(given, mean=False, least=1)
            self.__dict__.setdefault("_a3gnn_reasons", {})[kind] = super().refused
        if outs is None:
            outs = {kind: reduce(torch.add, [self[name](*args) for name, *args in calls])}
        return outs[kind]  # type: ignore[no-any-return]

    @property
    def refused(self) -> str | None:
        """Why PyG's code runs some of the convolutions, or ran the last call of a type; None if there is no reason."""
        return next(filter(None, self.__dict__.get("_a3gnn_reasons", {}).values()), super().refused)


def join_program(program: fx.GraphModule) -> None:
    """Changes the calls of convolutions in a program of `to_hetero` to calls of their `ModuleDict`."""
    sums: dict[str, list[list[fx.Node]]] = {}
    for nodes in _sums(program):
        sums.setdefault(_names(nodes[0])[0], []).append(nodes)
    for name, of_parent in sums.items():
        parent: Any = program.get_submodule(name)
        parent.__class__ = ModuleDict
        reason = _reason(parent, of_parent)
        if reason is not None:
            parent.refuse(reason)
            continue
        for nodes in of_parent:
            calls = tuple((_names(one)[1], *(_given(one) or ())) for one in nodes if one.op == "call_module")
            with program.graph.inserting_before(nodes[-1]):
                nodes[-1].replace_all_uses_with(program.graph.call_module(name, calls))
            for one in reversed(nodes):
                program.graph.erase_node(one)
    program.recompile()


def _sums(program: fx.GraphModule) -> list[list[fx.Node]]:
    """Returns the sums of convolutions of a `ModuleDict`: the nodes of each, of which the last one is the sum.

    Between them are no nodes but sums, and quotients, which change nothing.
    """
    found: list[list[fx.Node]] = []
    open_sums: dict[fx.Node, list[fx.Node]] = {}
    for node in program.graph.nodes:
        is_conv = _is_convolution(program, node)
        parents = {_names(one)[0] for one in open_sums}
        if not (is_conv and {_names(node)[0]} >= parents) and node.target not in (torch.add, torch.div):
            found += open_sums.values()
            open_sums = {}
        if is_conv:
            open_sums[node] = [node]
        elif node.target is torch.add and len(node.all_input_nodes) == len(node.args) == 2 and not node.kwargs:
            left, right = node.all_input_nodes
            if left in open_sums and right in open_sums and len(left.users) == len(right.users) == 1:
                open_sums[node] = [*open_sums.pop(left), *open_sums.pop(right), node]
    return [*found, *open_sums.values()]


def _is_convolution(program: fx.GraphModule, node: fx.Node) -> bool:
    """Returns whether `node` calls a native convolution of a `ModuleDict`."""
    if node.op != "call_module" or not _names(node)[0]:
        return False
    parent, conv = program.get_submodule(_names(node)[0]), program.get_submodule(str(node.target))
    return type(parent) in (nn.ModuleDict, ModuleDict) and isinstance(conv, Accelerated)


def _names(node: fx.Node) -> tuple[str, str]:
    """Returns the name of the module that holds the one that is called, and the name that it has there."""
    parent, _, name = str(node.target).rpartition(".")
    return parent, name


def _given(node: fx.Node) -> list[Any] | None:
    """Returns a call's arguments x and edge_index, or None if it has others."""
    rest = _ARGUMENTS[len(node.args) :]
    fits = len(node.args) <= len(_ARGUMENTS) and {*rest} == {*node.kwargs}
    return [*node.args, *map(node.kwargs.get, rest)] if fits else None


def _reason(parent: nn.ModuleDict, sums: list[list[fx.Node]]) -> str | None:
    """Returns why the convolutions in `parent` run one by one, or None."""
    calls = [one for nodes in sums for one in nodes if one.op == "call_module"]
    if all(type(one) not in JOINED for one in parent.values()):
        return f"{type(next(iter(parent.values()))).__name__} is not joined"
    if any(_given(one) is None for one in calls):
        return "arguments other than x and edge_index"
    if len({one.target for one in calls}) < len(calls):
        return "a relation is called more than once"
    return "no sum of two or more relations" if len(calls) == len(sums) else None
