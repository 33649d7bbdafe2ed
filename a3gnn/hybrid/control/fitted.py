"""`FittedScaling`: dynamic resource management that moves seeds and threads of all stages at once."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from typing import Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from a3gnn.hybrid.assignment import Assignment, Threads
from a3gnn.hybrid.control.controller import ShareBounds
from a3gnn.hybrid.control.drift import CHANGED, KEPT, LEAST_GAIN, PATIENCE
from a3gnn.hybrid.schedule import TWO_STAGE_PREFETCHING, Schedule
from a3gnn.hybrid.stage_times import StageTimes

Array = NDArray[np.float64]
#: Seeds of a stage, its threads, and the share of work beside it.
_Inputs: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]

#: The prior: seconds are proportional to seeds and to one over threads, and other stages don't matter. Then the
#: standard deviations of these exponents, and of the logarithm of measured seconds. Guesses.
_EXPECTED, _SPREAD, _NOISE = np.array([1.0, -1.0, 0.0]), np.array([0.3, 0.3, 0.5]), 0.03
#: Bounds of the exponents: no stage gets slower with fewer seeds, more threads, or less work beside it.
_LOW, _HIGH = np.array([0.0, -1.2, 0.0]), np.array([1.2, 0.0, 3.0])
#: Steps of the processors' shares and of the seeds that accelerators sample, and most numbers of threads per stage.
#: Guesses: finer steps gain less than measurements scatter.
_SHARE_STEPS, _SAMPLING_STEPS, _THREAD_STEPS = 64, 16, 24
#: A gain of this many times `hysteresis` needs no second measurement. Guess.
_CLEAR = 3.0
#: A probe must have at most this many times the best division's time, by the fit. Without this bound, some of
#: 100 simulated platforms still change after 15 steps (`python -m benchmarks.hybrid management`).
_PROBED = 1.3


class Scaling:
    """Fits log seconds = a + b log seeds + c log threads + d beside by ridge regression towards b, c, d = 1, -1, 0.

    `beside` is the work of another stage that shares a resource, as a share of the mini-batch. Trainers on processors
    share the host's memory with loading, and sampling shares the accelerators with training.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[float, float, float, float]] = []
        self._level, self._exponents = 0.0, _EXPECTED

    @property
    def known(self) -> bool:
        """Whether anything was measured."""
        return bool(self._rows)

    def add(self, seeds: float, threads: float, beside: float, seconds: float) -> None:
        """Adds a measurement; `seeds` and `threads` must be positive. Pass 1 thread if threads don't matter."""
        self._rows.append((np.log(seeds), np.log(threads), beside, np.log(seconds)))
        table = np.array(self._rows)
        inputs, outputs = table[:, :3], table[:, 3]
        mean_in, mean_out = inputs.mean(axis=0), outputs.mean()
        centered = inputs - mean_in
        left = outputs - mean_out - centered @ _EXPECTED
        precision = centered.T @ centered / _NOISE**2 + np.diag(1 / _SPREAD**2)
        found = _EXPECTED + np.linalg.solve(precision, centered.T @ left / _NOISE**2)
        self._exponents = np.clip(found, _LOW, _HIGH)
        self._level = float(mean_out - mean_in @ self._exponents)

    def seconds(self, seeds: Array, threads: Array, beside: Array) -> Array:
        """Returns the expected seconds, float64, broadcast over the arguments; 0 without seeds."""
        logs = np.log(np.maximum(seeds, 1e-9)), np.log(np.maximum(threads, 1e-9))
        by_seeds, by_threads, by_others = self._exponents
        found = np.exp(self._level + by_seeds * logs[0] + by_threads * logs[1] + by_others * beside)
        return np.where(seeds > 0, found, 0.0)


class Divisions:
    """Ways to divide the mini-batch and the threads of one assignment.

    Args:
        table: float64, shape (5, n_divisions): seeds that processors train, seeds that accelerators sample, and the
            threads of sampling, loading and training.

    Attributes:
        processor: Seeds that processors train; these and the others are float64, shape (n_divisions,).
        accelerator: Seeds that accelerators train.
        here: Seeds that processors sample.
        there: Seeds that accelerators sample.
        sampling: Threads for sampling.
        loading: Threads for loading.
        training: Threads for trainers.
    """

    def __init__(self, like: Assignment, table: NDArray[np.float64]) -> None:
        self._like, self._table = like, table
        self.processor, self.there, self.sampling, self.loading, self.training = table
        self.accelerator, self.here = like.batch_size - self.processor, like.batch_size - self.there

    @classmethod
    def single(cls, assignment: Assignment) -> Self:
        """Returns the division of `assignment` as the only one."""
        return cls(assignment, _row(assignment)[:, None])

    @classmethod
    def grid(cls, like: Assignment, bounds: ShareBounds) -> Self:
        """Returns all divisions on a grid; accelerators sample in some if they do in `like`.

        Args:
            like: The assignment.
            bounds: Bounds of shares. If threads may not move, all divisions have the threads of `like`.
        """
        batch, total = like.batch_size, like.threads.total
        most = min(bounds.accelerators, batch) if "accelerator" in like.kinds else 0
        own = np.unique(np.maximum(np.round(np.linspace(0, batch, _SHARE_STEPS + 1)), batch - most))
        steps = _SAMPLING_STEPS if like.sampled_on_accelerators else 0
        sampled = np.round(np.linspace(0, batch, steps + 1))
        if not bounds.threads:
            return cls(like, _product(own, sampled, _threads(like.threads)[None, :]))
        numbers = np.arange(0, total, -(-total // _THREAD_STEPS))
        numbers[0] = 1
        one, two = (axis.ravel() for axis in np.meshgrid(np.unique(numbers), np.unique(numbers)))
        splits = np.stack([one, two, total - one - two], axis=1)
        idle = np.array([[n, total - n, 0] for n in range(1, total)])
        columns = [_product(own[own > 0], sampled, splits[splits[:, 2] > 0]), _product(own[own == 0], sampled, idle)]
        return cls(like, np.concatenate(columns, axis=1))

    def places(self, assignments: Iterable[Assignment]) -> NDArray[np.bool_]:
        """Returns a mask of the divisions that are among `assignments`."""
        found = np.zeros(self._table.shape[1], dtype=np.bool_)
        for one in assignments:
            found |= (self._table == _row(one)[:, None]).all(axis=0)
        return found

    def assignment(self, place: int) -> Assignment:
        """Returns the assignment of one division."""
        share, sampled, sampling, loading, training = (int(value) for value in self._table[:, place])
        return self._like.divided(share, sampled, Threads(sampling, loading, training))


class FittedScaling:
    """Tries the division that is expected to be the fastest, from the measurements of all earlier ones.

    Each stage's seconds are a power of its seeds and of its threads (`Scaling`), fitted anew after every measurement.
    If more threads did not help a stage, the fit no longer expects a gain from them.

    The search ends if no division is expected to be `hysteresis` faster than the fastest measured one, or if several
    expected gains in a row did not come true. It then probes a few divisions that the fit does not expect to be faster
    (`_PROBES`), and the fastest measured division stays. A small gain counts only after a second measurement.

    Unlike Algorithm 1 it can move threads to processors that train while accelerators are the bottleneck, move more
    than one pair at once, leave a trainer out, and go back.

    Args:
        schedule: The stages that overlap.
        hysteresis: Least gain that counts, as a share of the time.
    """

    def __init__(
        self, bounds: ShareBounds, schedule: Schedule = TWO_STAGE_PREFETCHING, hysteresis: float = LEAST_GAIN
    ) -> None:
        self._bounds, self._schedule, self._hysteresis = bounds, schedule, hysteresis
        self._divisions: Divisions | None = None
        self._forget()

    def _forget(self) -> None:
        self._measured: dict[Assignment, list[float]] = {}
        self._scalings: defaultdict[str, Scaling] = defaultdict(Scaling)
        self._synchronization = 0.0
        self._best: Assignment | None = None
        self._futile, self._probes = 0, list[_Probe]()

    def adjust(self, assignment: Assignment, times: StageTimes) -> Assignment:
        """Returns the division to measure next, or the best measured one."""
        assert times.iteration is not None, "the pipeline measures from one mini-batch to the next"
        known = self._measured.get(assignment)
        if known and abs(times.iteration / statistics.fmean(known) - 1) > CHANGED:
            self._forget()
        latest = self._measured.setdefault(assignment, [])
        latest.append(times.iteration)
        if len(latest) <= KEPT:
            self._fit(assignment, times)
        else:
            del latest[0]
        best = self._best or assignment
        gain = 1 - self._mean(assignment) / self._mean(best)
        if self._hysteresis < gain < _CLEAR * self._hysteresis and len(latest) == 1:
            return assignment
        if gain > self._hysteresis or self._best is None:
            self._best = best = assignment
            self._futile, self._probes = 0, list(_PROBES)
        if self._divisions is None:
            self._divisions = Divisions.grid(assignment, self._bounds)
        place = self._next(self._divisions, best, self._mean(best))
        return best if place is None else self._divisions.assignment(place)

    def _next(self, divisions: Divisions, best: Assignment, fastest: float) -> int | None:
        """Returns the place of the division to try next, or None if enough were tried."""
        # Stages that hinder each other take longer together than the slowest one alone.
        together = fastest / float(self._expected(Divisions.single(best))[0])
        expected = self._expected(divisions) * together
        expected[divisions.places(self._measured)] = np.inf
        place = int(np.argmin(expected))
        if self._futile < PATIENCE and expected[place] < (1 - self._hysteresis) * fastest:
            self._futile += 1
            return place
        while self._probes:
            near = self._probes.pop(0).near(divisions, best)
            place = int(np.argmin(np.where(near, expected, np.inf)))
            if near[place] and expected[place] < _PROBED * fastest:
                return place
        return None

    def _mean(self, assignment: Assignment) -> float:
        return statistics.fmean(self._measured[assignment])

    def _fit(self, assignment: Assignment, times: StageTimes) -> None:
        """Adds the measured seconds of each stage that had work."""
        seconds = {
            "here": times.sampling_processor,
            "there": times.sampling_accelerators,
            "loading": times.loading,
            "transfer": max(times.transfer),
            "processor": times.training_processor,
            "accelerator": times.training_accelerators,
        }
        for name, inputs in _inputs(Divisions.single(assignment)).items():
            seeds, threads, beside = (float(axis[0]) for axis in inputs)
            if seeds > 0 and seconds[name] > 0:
                self._scalings[name].add(seeds, threads, beside, seconds[name])
        self._synchronization = times.synchronization or self._synchronization

    def _expected(self, divisions: Divisions) -> NDArray[np.float64]:
        """Returns the seconds from one mini-batch to the next by the fitted stages; infinite if one is not known."""

        def of(name: str, inputs: _Inputs) -> NDArray[np.float64]:
            scaling, (seeds, threads, beside) = self._scalings[name], inputs
            return scaling.seconds(seeds, threads, beside) if scaling.known else np.where(seeds > 0, np.inf, 0.0)

        stage = {name: of(name, inputs) for name, inputs in _inputs(divisions).items()}
        both = (divisions.processor > 0) & (divisions.accelerator > 0)
        trained = np.maximum(stage["processor"], stage["accelerator"])
        return self._schedule.iteration_seconds(
            {
                "sampling": np.maximum(stage["here"], stage["there"]),
                "loading": stage["loading"],
                "transfer": stage["transfer"],
                "propagation": trained + np.where(both, self._synchronization, 0.0),
            }
        )


class _Probe(NamedTuple):
    """A change of one number of a division, tried although the fit expects no gain."""

    axis: Literal["processor", "there", "loading"]  # the attribute of `Divisions` with the number
    factor: float  # the factor by which it is changed

    def near(self, divisions: Divisions, best: Assignment) -> NDArray[np.bool_]:
        """Returns a mask of the divisions with about `factor` times the number of `best`; none if that is 0."""
        values: NDArray[np.float64] = getattr(divisions, self.axis)
        now = float(getattr(Divisions.single(best), self.axis)[0])
        off = np.abs(values - self.factor * now)
        near: NDArray[np.bool_] = (off == off.min()) & (values != now) & (now > 0)
        return near


#: Trainers and loading share the host's memory, and accelerators both train and sample. No fit of single stages shows
#: how the others gain if one stage takes less. Each probe is tried once beside every new best.
#: Without probes, 98 of 100 simulated platforms end within 5 % of the best division, in place of all.
_PROBES = (
    _Probe("processor", 0.0),
    _Probe("processor", 0.5),
    _Probe("loading", 0.5),
    _Probe("there", 0.5),
    _Probe("processor", 1.5),
)


def _inputs(divisions: Divisions) -> dict[str, _Inputs]:
    """Returns, for each stage, its seeds, its threads, and the share of work beside it."""
    of, alone, nothing = divisions, np.ones_like(divisions.processor), np.zeros_like(divisions.processor)
    batch = of.processor + of.accelerator
    return {
        "here": (of.here, of.sampling, nothing),
        "there": (of.there, alone, of.accelerator / batch),
        "loading": (batch, of.loading, of.processor / batch),
        "transfer": (of.accelerator, alone, of.processor / batch),
        "processor": (of.processor, of.training, nothing),
        "accelerator": (of.accelerator, alone, of.there / batch),
    }


def _row(assignment: Assignment) -> NDArray[np.float64]:
    shares = np.array([assignment.seeds_of("processor"), assignment.sampled_on_accelerators], dtype=np.float64)
    return np.concatenate([shares, _threads(assignment.threads)])


def _threads(threads: Threads) -> NDArray[np.float64]:
    return np.array([threads.sampling, threads.loading, threads.training], dtype=np.float64)


def _product(
    shares: NDArray[np.float64], sampled: NDArray[np.float64], splits: NDArray[np.int64] | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns shares, sampled seeds and threads in all combinations, shape (5, n)."""
    places = np.indices((len(shares), len(sampled), len(splits))).reshape(3, -1)
    return np.concatenate([[shares[places[0]], sampled[places[1]]], splits[places[2]].T], axis=0)
