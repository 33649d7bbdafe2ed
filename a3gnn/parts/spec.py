"""What names a graph by parts: `parts:HOST:PORT,HOST:PORT,...`, with `wait=10min` among them if need be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from a3gnn.errors import UsageError
from a3gnn.units import parse_duration

SCHEME = "parts"
#: Seconds for which servers that can't be reached are asked again. Guess: a server is started in seconds.
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class PartsSpec:
    """Where the parts of a graph are.

    Attributes:
        addresses: host:port of each server, in any order.
        patience_s: Seconds for which a server that can't be reached is asked again.
    """

    addresses: tuple[str, ...]
    patience_s: float = _PATIENCE_S

    @classmethod
    def parse(cls, spec: str) -> Self:
        """Returns what `spec` says.

        Raises:
            UsageError: It has another form.
        """
        addresses, patience_s = [], _PATIENCE_S
        for item in spec.removeprefix(f"{SCHEME}:").split(","):
            name, sign, value = item.strip().partition("=")
            if sign and name == "wait":
                patience_s = parse_duration(value)
                continue
            host, colon, port = item.strip().rpartition(":")
            if sign or not colon or not host or not port.isdecimal() or not 0 < int(port) < 2**16:
                raise UsageError(
                    f"a graph by parts is {SCHEME}:HOST:PORT,HOST:PORT,... with the address of each of its graph "
                    f"servers, and wait=2min for how long one that is gone is asked again; got {item.strip()!r} in "
                    f"{spec!r}"
                )
            addresses.append(item.strip())
        if not addresses or len(set(addresses)) < len(addresses):
            raise UsageError(f"a graph by parts needs the address of each graph server once, got {spec!r}")
        return cls(tuple(addresses), patience_s)


def names_parts(data: object) -> bool:
    """Returns whether `data` is the spec of a graph by parts."""
    return isinstance(data, str) and data.startswith(f"{SCHEME}:")
