"""Listing 1's handshake: DONE, the sum in trainer order, the broadcast, the acknowledgement."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from a3gnn.errors import TrainerStalledError
from a3gnn.hybrid.trainers.trainer_thread import Synchronizer
from a3gnn.pipeline.watch import StoppedError, Watch

#: Added in another order they come to other bits.
VALUES = [torch.tensor([1e8]), torch.tensor([1.0]), torch.tensor([-1e8])]


def synchronizer(size: int = 3) -> Synchronizer:
    return Synchronizer(size, Watch([f"cpu:{place}" for place in range(size)], 60.0))


def never() -> None:
    pass


def until_one_waits(made: Synchronizer) -> None:
    while not made._done:
        time.sleep(1e-3)


@pytest.mark.parametrize("arrival", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_sums_are_in_the_order_of_trainers_whoever_comes_first(arrival):
    made, begun = synchronizer(), [threading.Event() for _ in arrival]

    def work(place: int) -> torch.Tensor:
        begun[place].wait(10)
        total = made.exchange(place, VALUES[place])
        with made.update(place):
            pass
        return total

    def let_in() -> None:
        for place in arrival:
            begun[place].set()
            time.sleep(0.02)

    with ThreadPoolExecutor(4) as threads:
        found = [threads.submit(work, place) for place in range(3)]
        threads.submit(let_in)
        made.serve(never)
    in_order = (VALUES[0] + VALUES[1]) + VALUES[2]
    assert not torch.equal(in_order, (VALUES[0] + VALUES[2]) + VALUES[1])
    assert all(torch.equal(one.result(), in_order) for one in found)


def test_done_is_set_back_and_counts_again():
    made = synchronizer(2)

    def work(place: int) -> list[float]:
        found = [float(made.exchange(place, torch.tensor(float(10 * turn + place)))) for turn in range(5)]
        with made.update(place):
            pass
        return found

    with ThreadPoolExecutor(2) as threads:
        for _ in range(3):  # mini-batches, each with several sums, as of batch statistics
            made.begin()
            found = [threads.submit(work, place) for place in range(2)]
            made.serve(never)
            assert [one.result() for one in found] == [[1.0, 21.0, 41.0, 61.0, 81.0]] * 2
            assert made.acknowledged == {0, 1}


def test_no_mini_batch_ends_before_all_have_acknowledged():
    made, late = synchronizer(2), threading.Event()
    served = threading.Event()

    def work(place: int) -> None:
        if place:
            late.wait(10)
        with made.update(place):
            pass

    with ThreadPoolExecutor(3) as threads:
        for place in range(2):
            threads.submit(work, place)
        threads.submit(lambda: (made.serve(never), served.set()))
        assert not served.wait(0.2)
        late.set()
        assert served.wait(10)


def test_a_failure_stops_those_who_wait_and_those_who_would_update():
    made = synchronizer(2)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(made.exchange, 0, VALUES[0])
        made.fail(RuntimeError("why"))
        with pytest.raises(StoppedError):
            waiting.result(60)
    with pytest.raises(StoppedError), made.update(0):
        pytest.fail("nothing is to be updated")
    with pytest.raises(RuntimeError, match="why"):
        made.serve(never)
    made.reset()
    with made.update(0):
        assert made.updating == {0}
    assert made.acknowledged == {0}


def test_an_update_that_fails_is_known_to_be_torn():
    made = synchronizer(2)
    with pytest.raises(ZeroDivisionError), made.update(1):
        _ = 1 / 0
    assert made.updating == {1}
    assert not made.acknowledged


def test_who_waits_for_others_is_not_late():
    watch = Watch(["cpu:1", "cpu:1"], 0.2)
    made = Synchronizer(2, watch)

    def wait() -> None:
        with watch.at("synchronization", 0, 0, 0), pytest.raises(StoppedError):
            made.exchange(0, VALUES[0])

    with ThreadPoolExecutor(1) as threads:
        ended = threads.submit(wait)
        until_one_waits(made)
        time.sleep(0.4)
        watch.check()
        made.fail(RuntimeError())
        ended.result(60)


def test_who_waits_on_a_thread_of_autograd_is_not_late():
    watch = Watch(["cuda:0", "cpu:1"], 0.2)
    made = Synchronizer(2, watch)

    def propagate(threads: ThreadPoolExecutor) -> None:
        with watch.at("propagation", 0, 0, 0), pytest.raises(StoppedError):
            threads.submit(made.exchange, 0, VALUES[0]).result(60)

    with ThreadPoolExecutor(2) as threads, watch.at("loading", 0, 1, 0):  # of the next mini-batch, which is late
        ended = threads.submit(propagate, threads)
        until_one_waits(made)
        time.sleep(0.4)
        with pytest.raises(TrainerStalledError, match="loading of trainer 0"):
            watch.check()
        late = [thread for thread in threading.enumerate() if watch.is_late(thread.ident)]
        made.fail(RuntimeError())
        ended.result(60)
    assert late == [threading.current_thread()]


def test_who_is_late_is_named():
    watch, release = Watch(["cpu:1", "sim:u250"], 0.2), threading.Event()

    def stall() -> None:
        with watch.at("propagation", 1, 7, 1):
            release.wait(10)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(stall)
        with pytest.raises(
            TrainerStalledError, match=r"propagation of trainer 1 \(sim:u250\) for mini-batch 7 of epoch 2"
        ):
            synchronizer(2).serve(watch.check)
        assert watch.is_late()
        release.set()
    assert not watch.is_late()
