"""Random configurations, from the domains that the knobs declare."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from a3gnn.checks import Domain, OneOf, Real, Whole, WholeOrTask
from a3gnn.config import KNOBS, TrainConfig


def values_of(domain: Domain) -> st.SearchStrategy[Any]:
    match domain:
        case OneOf(choices):
            return st.sampled_from(choices)
        case WholeOrTask(least):
            return st.none() | st.integers(least)
        case Whole(least):
            return st.integers(least)
        case Real(least, _, excluded):
            return st.floats(least, exclude_min=excluded, allow_nan=False, allow_infinity=False)


configs = st.builds(TrainConfig, **{knob.name: values_of(knob.domain) for knob in KNOBS})
