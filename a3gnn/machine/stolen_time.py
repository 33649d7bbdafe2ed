"""What the time that a hypervisor gives to other machines (steal time) makes of timed work."""

from __future__ import annotations

#: Threads wait for the one whose core was taken, so that work takes longer than by the share of the cores alone: with
#: an exponent of 1 for threads that never wait, and of about 2 for two that wait for each other all the time. Chosen
#: cautiously from what `python -m benchmarks.stolen_time amazon_computers` fits on 2 cores: 1.7, 2.2 and 2.6.
_WAITING = 1.8
#: A share beyond this one stretches no further: what is then left of the machine says nothing of it. Guess.
_MOST = 0.9


def stretch(share: float) -> float:
    """Returns how many times as long work takes where `share` of its cores' time, in [0, 1], is stolen."""
    return float((1.0 - min(share, _MOST)) ** -_WAITING)
