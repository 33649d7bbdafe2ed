"""What several trainers hold and cost together, by the analytic model."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.hardware import Hardware
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.physics.analytic import analytic_metrics, expected_work

ONE = TrainConfig(batch_size=256)
TWO = ONE.replace(trainers=2)
STAGES = ("sample", "gather", "transfer", "train")


@pytest.fixture
def expect(graphs, laptop):
    def metrics(*configs, task=Task(), graph="dense", hardware=laptop):  # noqa: B008
        found = analytic_metrics(as_columns(configs), Setting(task, graphs[graph], hardware))
        return {name: values.tolist() for name, values in found.items()}

    return metrics


def gpus(hardware: Hardware, count: int) -> Hardware:
    return dataclasses.replace(hardware, num_devices=count)


@pytest.mark.parametrize("model", ["sage", "gcn", "gat", "gin"])
def test_shares_repeat_what_several_reach_and_are_sampled_once(expect, graphs, laptop, accelerated, model):
    for graph in graphs:
        for hardware in (laptop, accelerated, gpus(accelerated, 2)):
            found = expect(ONE, TWO, ONE.replace(trainers=4), task=Task(model=model), graph=graph, hardware=hardware)
            for name in ("input_nodes_per_batch", "gather_seconds"):
                one, two, four = found[name]
                assert one <= two * (1 + 1e-9)
                assert two <= four * (1 + 1e-9)
            assert len(set(found["sample_seconds"])) == 1
            assert len(set(found["steps_per_epoch"])) == 1
            nodes = found["input_nodes_per_batch"]
            assert nodes[1] < 2 * nodes[0]


def test_trainers_on_processors_alone_gain_nothing_and_take_more_memory(expect, graphs):
    for graph in graphs:
        found = expect(ONE, TWO, ONE.replace(trainers=4), graph=graph)
        for name in ("train_seconds", "batch_seconds", "peak_host_bytes"):
            assert found[name] == sorted(found[name])
            assert found[name][0] < found[name][2]


def test_devices_share_out_what_one_would_train(expect, accelerated):
    one, two, four = expect(ONE, TWO, ONE.replace(trainers=4), hardware=gpus(accelerated, 4))["train_seconds"]
    assert one > two > four


def test_beside_a_device_processors_take_what_makes_both_equally_long(expect, accelerated):
    """The faster they are, the more they take, and the less is left to the device; hardly any where they are slow."""
    probed, found = accelerated.profile, []
    for factor in (1e-3, 1.0, 30.0):
        names = "gemm_flops_per_s", "spmm_bytes_per_s", "copy_bytes_per_s"
        scaled = {name: getattr(probed, name) * factor for name in names}
        profile = dataclasses.replace(probed, **scaled, batch_overhead_s=1e-9)
        # The device's own traffic, which is expected from the host's, stays.
        same = profile.spmm_bytes_per_s * probed.device_traffic_bytes_per_s / profile.device_traffic_bytes_per_s
        profile = dataclasses.replace(profile, spmm_bytes_per_s=same)
        assert profile.device_traffic_bytes_per_s == pytest.approx(probed.device_traffic_bytes_per_s)
        one, two = expect(ONE, TWO, hardware=dataclasses.replace(accelerated, profile=profile))["train_seconds"]
        found.append(two / one)
    slow, middle, fast = found
    assert fast < middle < slow
    assert fast < 0.95 * slow
    assert slow > 1  # nothing is gained, and gradients are summed


def test_rows_of_one_trainer_are_the_same_bits_beside_others(expect):
    mixed = [ONE, TWO, ONE.replace(parallel_mode="mode1"), TWO.replace(prefetch_depth=2)]
    together, alone = expect(*mixed), expect(mixed[0], mixed[2])
    assert {name: [values[0], values[2]] for name, values in together.items()} == alone


def test_stages_that_are_ahead_take_the_longest_of_them(expect, accelerated):
    """Eq. 6, softened where two are equally long; on processors no more is done at once than cores can."""
    found = expect(TWO, TWO.replace(prefetch_depth=1), TWO.replace(prefetch_depth=3), hardware=accelerated)
    stages = [found[f"{stage}_seconds"][1] for stage in STAGES]
    in_turn, ahead, further = found["batch_seconds"]
    assert max(stages) <= ahead <= 2**0.25 * max(stages)
    assert ahead < in_turn
    assert further == ahead
    host = expect(TWO, TWO.replace(prefetch_depth=1))
    total = sum(host[f"{stage}_seconds"][1] for stage in STAGES)
    assert total / 4 <= host["batch_seconds"][1] <= host["batch_seconds"][0] == pytest.approx(total)
    assert host["peak_host_bytes"][1] > host["peak_host_bytes"][0]


def test_what_is_idle_of_one_trainer_changes_nothing(graphs, laptop):
    setting = Setting(Task(), graphs["dense"], laptop)
    columns = as_columns([ONE, ONE.replace(prefetch_depth=3, adapt="on")])
    work = expected_work(columns, setting)
    assert all(np.ptp(nodes) == 0 for nodes in work.volume.nodes)
    assert all(np.ptp(values) == 0 for values in analytic_metrics(columns, setting, work=work).values())
