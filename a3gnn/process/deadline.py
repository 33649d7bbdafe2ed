"""`Deadline`: when a process has had its time, without what the hypervisor gave to other machines meanwhile."""

from __future__ import annotations

from a3gnn.threads.stolen_time import StolenTime, stretch

#: By the clock a process may take so many times its timeout, however much is stolen: one that hangs must end. Guess.
MOST_TIMES = 4


class Deadline:
    """Counts from when it is made.

    Args:
        timeout_s: Seconds that may pass, by a machine of which nothing is stolen.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._stolen = StolenTime()

    def left_s(self) -> float:
        """Returns the seconds that are left at least; 0 once it has passed. What is stolen in them adds to them."""
        return left_seconds(self._timeout_s, self._stolen.passed_s(), self._stolen.share())


def left_seconds(timeout_s: float, passed_s: float, stolen_share: float) -> float:
    """Returns how many seconds of `timeout_s` are left, if nothing is stolen in them.

    What has passed counts as what it would have taken without the stolen time; but nothing is left after
    `MOST_TIMES * timeout_s` seconds of the clock.

    Args:
        timeout_s: Seconds that may pass, by a machine of which nothing is stolen.
        passed_s: Seconds that have passed by the clock.
        stolen_share: Share of the cores' time that was stolen in them, in [0, 1].
    """
    counted_s = passed_s / stretch(stolen_share)
    return max(0.0, min(timeout_s - counted_s, MOST_TIMES * timeout_s - passed_s))
