"""Learning curves, metrics and a machine for tests that only need one."""

from __future__ import annotations

from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn.measurement import Metrics, StageSeconds

#: A machine of two cores.
TWO_CORES = Hardware(
    "a processor",
    2,
    8 * 2**30,
    "",
    0,
    0,
    MachineProfile(
        random_reads_per_s=6e7,
        copy_bytes_per_s=1e10,
        disk_read_bytes_per_s=5e9,
        gemm_flops_per_s=8e10,
        spmm_bytes_per_s=1e10,
        thread_efficiency=0.9,
        batch_overhead_s=2e-3,
        idle_host_bytes=250 * 2**20,
    ),
)


def rising_curve(accuracy: float, points: int = 10, first: int = 10) -> LearningCurve:
    """Returns a curve that rises to `accuracy` over two thirds of its points, and stays there; at most 17 points."""
    counts = tuple(first * (point + 1) for point in range(points))
    rising = -(-2 * points // 3)
    return LearningCurve(
        counts, tuple(accuracy * min(1.0, (point + 1) / rising) for point in range(points)), CurveEnd.BUDGET
    )


def made_metrics(throughput: float, host: int, accuracy: float, points: int = 10) -> Metrics:
    """Returns metrics of a throughput, a host memory and an accuracy, which its curve rises to; see `rising_curve`.

    Ten mini-batches are an epoch, and ten lie between the curve's points.
    """
    return Metrics(
        throughput_epochs_per_s=throughput,
        peak_host_bytes=host,
        peak_device_bytes=0,
        resident_file_bytes=0,
        test_accuracy=None,
        val_accuracy=None,
        accuracy_epochs=0,
        timed_batches=10,
        batches_per_epoch=10,
        epoch_overhead_s=0.0,
        stage_seconds=StageSeconds(0.0, 0.0, 0.0, 0.0),
        cache_hit_rate=0.0,
        cache_bytes=0,
        input_nodes_per_batch=100.0,
        sampled_edges_per_batch=100.0,
        throughput_replicates=(0.95 * throughput, throughput, 1.05 * throughput),
        curve=rising_curve(accuracy, points),
    )
