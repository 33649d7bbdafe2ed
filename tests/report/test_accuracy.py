from dataclasses import replace

from a3gnn.config import TrainConfig
from a3gnn.measurement import METRICS
from a3gnn.report.front import Front, MeasuredConfig, prediction_errors
from tests.report.rows import figures, objectives


def test_errors_are_of_what_was_found_out() -> None:
    predicted = {name: {"mean": 2.0, "low": 1.0, "high": 3.0} for name in METRICS}
    old = {"test_accuracy": predicted["val_accuracy"]}
    measured = [
        MeasuredConfig(TrainConfig(), figures(4.0, 4, 0.5, 4.0), predicted),
        MeasuredConfig(TrainConfig(batch_size=512), replace(figures(2.0, 2, 0.5), complete=False), predicted),
        MeasuredConfig(TrainConfig(batch_size=256), figures(2.0, 2, 0.5, 2.0), old),
    ]
    errors = prediction_errors(Front.of(measured, objectives()))
    assert (errors["throughput_epochs_per_s"].median, errors["throughput_epochs_per_s"].count) == (0.25, 2)
    assert errors["throughput_epochs_per_s"].covered == 1
    assert errors["val_accuracy"].count == 1
    assert errors["seconds_to_accuracy"].count == 1
    assert "peak_device_bytes" not in errors
