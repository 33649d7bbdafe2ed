"""`Target`: what is predicted, as the spec of a graph names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from a3gnn.errors import UsageError, nearest
from a3gnn.graphs.split import Split

#: The begin of a spec that names the predicted type.
_SCHEME = "target:"


class Target(NamedTuple):
    """What is predicted, as a spec names it.

    Attributes:
        kind: A node type; "" for the only one with labels. Or a relation as SOURCE,RELATION,TARGET, whose links are
            predicted; the relation `*` stands for all between both types. Or SOURCE,RELATION,TARGET=NAME: the values
            NAME of the relation's edges are predicted.
    """

    kind: str = ""

    @property
    def is_relation(self) -> bool:
        """Whether links are predicted, not nodes."""
        return "," in self.kind

    @property
    def value(self) -> str:
        """Name of the predicted values of edges; "" if nodes or links are predicted."""
        from a3gnn.graphs.links import value_in  # imports numba, which a server of studies does without

        return value_in(self.kind)[1]

    @classmethod
    def in_spec(cls, spec: str) -> tuple[Self, str]:
        """Returns the target that `spec` begins with, and the spec of the graph itself.

        Raises:
            UsageError: `spec` begins with `target:`, but names no target or no graph.
        """
        if not spec.startswith(_SCHEME):
            return cls(), spec
        kind, _, rest = spec.removeprefix(_SCHEME).partition(":")
        if not kind or not rest or rest.startswith(_SCHEME):
            raise UsageError(f"a graph with a target must have the form target:TYPE:GRAPH, got {spec!r}")
        return cls(kind), rest

    def within(self, spec: str) -> str:
        """Returns `spec` with this target, if it names one; a split stays before it."""
        split, of = Split.in_spec(spec)
        return spec if not self.kind else self.spec(of) if split is None else split.spec(self.spec(of))

    def spec(self, of: str) -> str:
        """Returns the spec of the graph `of` with this target in place of its own."""
        return f"{_SCHEME}{self.kind}:{self.in_spec(of)[1]}" if self.kind else of


#: The only type with labels.
ANY = Target()


def known_type(kind: str, types: Mapping[str, Any]) -> str:
    """Returns `kind` if it is one of `types`.

    Raises:
        UsageError: It is not.
    """
    if kind not in types:
        raise UsageError(
            f"the target must be one of the node types {', '.join(types)}, got {kind}{nearest(kind, types)}"
        )
    return kind
