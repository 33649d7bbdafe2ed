"""Synchronous training algorithms: a partitioner, a feature-storing strategy and an exchange (HitGNN)."""

from typing import Literal, get_args

AlgorithmName = Literal["distdgl", "pagraph", "p3"]
ALGORITHM_NAMES: tuple[AlgorithmName, ...] = get_args(AlgorithmName)
