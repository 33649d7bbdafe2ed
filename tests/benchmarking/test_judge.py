"""Verdicts from a stored document."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.engine.judge import COPY_BYTES_PER_S, READS_PER_S, Verdict, judge, scaled_ms
from benchmarks.engine.report import draw, new_report, read_report, write_report


def outcome(*rounds: float, missing: str = "") -> dict[str, Any]:
    columns = [{"ms": [ms, ms], "loss": [], "nodes": [1, 1], "edges": [1, 1]} for ms in rounds]
    return {"missing": missing, "variant": "one way", "screened": {}, "rounds": columns, "stages": {"sample": 1.0}}


@pytest.fixture
def report() -> dict[str, Any]:
    """A run of two rows: one peer was measured, one was not installed."""
    found = new_report({"rounds": 2})
    found["limits"] = {"entries": 1, "random_reads_per_s": READS_PER_S, "copy_bytes_per_s": COPY_BYTES_PER_S}
    absent = outcome(missing="not installed")
    found["rows"]["sample-25-10"] = {
        "products": {"a3gnn": outcome(5.0, 5.0), "DGL": outcome(40.0, 50.0), "PyG": absent}
    }
    step = {"a3gnn": outcome(60.0, 60.0), "DGL": outcome(120.0, 180.0), "PyG": absent, "PyG CSR": absent}
    other = {"a3gnn": outcome(10.0, 10.0), "DGL": outcome(14.0, 14.0), "PyG": absent, "PyG CSR": absent}
    found["rows"]["train-sage"] = {"products": step, "fb100_multi_a": other}
    return found


def of(verdicts: list[Verdict], work: str, graph: str, against: str) -> Verdict:
    return next(one for one in verdicts if (one.work, one.graph, one.against) == (work, graph, against))


def test_the_nearest_peer_counts_whether_measured_or_scaled(report: dict[str, Any]) -> None:
    verdict = of(judge(report), "sample (25,10)", "products", "DGL")
    assert (verdict.value, verdict.low, verdict.high) == (9.0, 8.0, 10.0)
    assert (verdict.basis, verdict.passed) == ("measured", True)
    report["rows"]["sample-25-10"]["products"]["DGL"] = outcome(60.0, 60.0)
    nearest = of(judge(report), "sample (25,10)", "products", "pyg-lib")
    assert nearest.basis == "scaled"
    assert nearest.value == pytest.approx(10.1)


def test_means_and_each_graph_are_judged_apart(report: dict[str, Any]) -> None:
    verdicts = judge(report)
    assert of(verdicts, "step SAGE-256", "products", "DGL").passed
    assert of(verdicts, "step SAGE-256", "fb100_multi_a", "DGL").passed is False
    mean = of(verdicts, "step SAGE-256", "mean", "DGL")
    assert mean.value == pytest.approx((2.5 * 1.4) ** 0.5)
    assert mean.passed is False


def test_what_has_no_figure_is_not_judged(report: dict[str, Any]) -> None:
    del report["rows"]["train-sage"]["products"]
    verdict = of(judge(report), "step SAGE-256", "mean", "PyG")
    assert (verdict.value, verdict.passed, verdict.basis) == (None, None, "no figure")


def test_an_engine_that_did_nothing_is_not_judged(report: dict[str, Any]) -> None:
    report["rows"]["sample-25-10"]["products"]["a3gnn"] = outcome(missing="it fell over")
    assert of(judge(report), "sample (25,10)", "products", "DGL / PyG").passed is None


def test_start_up_memory_growth_and_shares(report: dict[str, Any]) -> None:
    report["first_batch"] = {"products": {"a3gnn": {"missing": "", "variant": "v", "seconds": [0.2, 0.25, 0.5]}}}
    uses = {"a3gnn": 2_000, "DGL": 3_000, "PyG": 1_000}
    report["memory"] = {"products": {name: {"missing": "", "peak": peak} for name, peak in uses.items()}}
    report["growth"] = {"graph": "arxiv", "by_epoch": [50, 100, 100, 103]}
    report["shares"] = {"products": {"gather": {"shares": [0.96, 0.97]}, "sample (25,10)": {"shares": [0.7]}}}
    verdicts = judge(report)
    assert of(verdicts, "first batch", "products", "the clock").passed
    assert [of(verdicts, "memory", "products", peer).passed for peer in ("DGL", "PyG")] == [True, False]
    growth = of(verdicts, "growth in 4 epochs", "arxiv", "epoch 2")
    assert growth.value == pytest.approx(3.0)
    assert growth.passed is False
    assert of(verdicts, "share: gather", "products", "row copy").passed
    assert of(verdicts, "share: sample (25,10)", "products", "random reads").passed is False


def test_a_slower_machine_scales_a_peer_stage_by_stage() -> None:
    whole = scaled_ms("load", "products", "DGL", READS_PER_S, COPY_BYTES_PER_S)
    assert whole == pytest.approx(105.0)
    assert scaled_ms("load", "products", "DGL", READS_PER_S / 2, COPY_BYTES_PER_S) == pytest.approx(150.0)
    assert scaled_ms("load", "products", "DGL", READS_PER_S, COPY_BYTES_PER_S / 2) == pytest.approx(165.0)
    assert scaled_ms("load", "fb100_multi_a", "DGL", READS_PER_S, COPY_BYTES_PER_S) is None


def test_a_stored_report_is_judged_as_the_live_one(report: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "results" / "engine.json"
    report["verdicts"] = [verdict.to_dict() for verdict in judge(report)]
    write_report(report, path)
    stored = read_report(path)
    assert stored == report
    assert [verdict.to_dict() for verdict in judge(stored)] == report["verdicts"]


def test_another_format_is_refused(report: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "engine.json"
    path.write_text(json.dumps(copy.deepcopy(report) | {"format": 0}), encoding="utf-8")
    with pytest.raises(ValueError, match="must have format"):
        read_report(path)


def test_tables_fit_the_page_and_name_what_is_missing(
    report: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    draw(report, judge(report))
    printed = capsys.readouterr().out
    tables = printed.split("cores;")[0].splitlines()[:-1]
    assert max(map(len, tables)) <= 120
    assert "fb100_multi_a" in printed
    assert "PyG: not installed" in printed
