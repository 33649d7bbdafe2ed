"""The names of the built-in algorithms, which the command line offers without importing them."""

from __future__ import annotations

from typing import Literal, get_args

AlgorithmName = Literal["distdgl", "pagraph", "p3"]
ALGORITHM_NAMES: tuple[AlgorithmName, ...] = get_args(AlgorithmName)
