"""Draws the pictures of README and docs from a stored tune and two stored trainings.

`python docs/pictures.py` reads benchmarks/results/hero/ and writes docs/images/. It needs the extra plot,
and Chromium for the pictures of pages. `python docs/pictures.py measure GRAPH` makes the stored files anew: it tunes
for ten minutes, trains baseline and choice until validation no longer improves, and keeps figures alone, nothing of the
graph.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "benchmarks" / "results" / "hero"
IMAGES = ROOT / "docs" / "images"
#: Files of a tune that its report needs.
KEPT = ("tuned.json", "front.json", "probes.jsonl", "request.json", "state.json", "product_speeds.json")
#: Colors of baseline and choice.
GRAY, TEAL = "#8a8f98", "#00897b"
#: Epochs without a better validation accuracy after which the stored trainings ended.
PATIENCE = 30
#: Points below the baseline's best accuracy at which the picture compares.
DROP = 0.5


def main() -> None:
    """Draws all pictures, or measures what they show."""
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2])
        return
    IMAGES.mkdir(exist_ok=True)
    hero()
    front()
    terminal()
    pages()


def measure(graph: str) -> None:
    """Tunes on `graph` and trains baseline and choice to the end; keeps the figures in `STORED`."""
    STORED.mkdir(parents=True, exist_ok=True)
    a3gnn = str(Path(sys.executable).with_name("a3gnn"))
    with tempfile.TemporaryDirectory() as folder:
        tune, log = Path(folder) / "tune", STORED / "tune.log"
        command = [a3gnn, "tune", "--dataset", graph, "--memory-limit", "1GiB", "--budget", "10min"]
        command += ["--out", str(tune)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        places = {str(tune): "runs/mine", graph: Path(graph).name}
        log.write_text(_without(run.stderr + run.stdout, places), encoding="utf-8")
        for name in KEPT:
            (STORED / name).write_text(_without((tune / name).read_text(encoding="utf-8"), places), encoding="utf-8")
        fields = json.loads((tune / "tuned.json").read_text())
        baseline = Path(folder) / "baseline.json"
        from a3gnn.config import TrainConfig

        baseline.write_text(json.dumps(fields | {"config": TrainConfig().to_dict()}))
        for name, config in (("baseline", baseline), ("tuned", tune)):
            out = Path(folder) / name
            stop = ["--patience", str(PATIENCE), "--epochs", "500"]
            subprocess.run([a3gnn, "train", str(config), "--out", str(out), "-q", *stop], check=True)
            lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
            result = json.loads((out / "result.json").read_text())
            kept = {name: result[name] for name in ("test_accuracy", "val_accuracy", "peak_host_bytes", "seconds")}
            kept |= {"epochs": lines}
            (STORED / f"{name}_training.json").write_text(json.dumps(kept))


def _without(text: str, places: dict[str, str]) -> str:
    """Returns `text` without this machine's paths."""
    for place, name in places.items():
        text = text.replace(place, name)
    return text


def curve(name: str) -> tuple[list[float], list[float]]:
    """Returns the seconds of training, evaluations left out, and the validation accuracy in % of a stored training."""
    epochs: list[dict[str, Any]] = json.loads((STORED / f"{name}_training.json").read_text())["epochs"]
    seconds, total = [], 0.0
    for epoch in epochs:
        total += epoch["train_s"]
        seconds.append(total)
    return seconds, [100 * epoch["val_accuracy"] for epoch in epochs]


def hero() -> None:
    """Draws the best validation accuracy so far over seconds of training, of baseline and choice.

    The seconds to the target are those of the first epoch that reached it and kept it, as in a tune.
    """
    import matplotlib.pyplot as plt

    from a3gnn.learning_curve import CurveEnd, LearningCurve

    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    target, reached = None, {}
    for name, color in (("baseline", GRAY), ("tuned", TEAL)):
        seconds, accuracy = curve(name)
        epochs = LearningCurve(tuple(range(1, len(accuracy) + 1)), tuple(accuracy), CurveEnd.BUDGET)
        target = epochs.best_held() - DROP if target is None else target
        axes.plot(seconds, accuracy, color=color, linewidth=0.8, alpha=0.35)
        axes.step(seconds, epochs.running_best(), where="post", color=color, linewidth=2.4)
        epoch = epochs.first_reaching(target)
        assert epoch is not None, f"the training of {name} does not keep {target:.2f}%"
        reached[name] = seconds[epoch - 1]
        axes.plot(reached[name], target, "o", color=color, markersize=7)
        axes.annotate(
            f"{name}: {reached[name]:.1f} s", (reached[name], target), (4, -16), textcoords="offset points", color=color
        )
    axes.axhline(target, color="0.5", linestyle="--", linewidth=1)
    ratio = reached["baseline"] / reached["tuned"]
    axes.set_title(
        f"{ratio:.1f}x sooner at {target:.1f}%, the baseline's best less {DROP:g} points", loc="left", fontsize=11
    )
    axes.set(
        xlabel="seconds of training",
        ylabel="validation accuracy (%)",
        xlim=(0, 1.6 * reached["baseline"]),
        ylim=(target - 12, target + 2),
    )
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "hero.png", dpi=150)
    print(f"target {target:.2f}: baseline {reached['baseline']:.3g} s, tuned {reached['tuned']:.3g} s")


def front() -> None:
    """Draws the measured front of the stored tune."""
    from a3gnn.report.front import Front

    Front.read(STORED).plot("").savefig(IMAGES / "front.png", dpi=110)


def terminal() -> None:
    """Draws the lines of the stored tune as a terminal shows them."""
    from rich.console import Console
    from rich.text import Text

    log = (STORED / "tune.log").read_text(encoding="utf-8")
    log = re.sub(r"\n {4}(?! )", " ", log).splitlines()  # as one line each, which a terminal cuts
    shown = [line for line in log if line.startswith(("graph", "machine", "goal", "trial", "base", "#"))]
    console = Console(record=True, width=88, file=io.StringIO())
    for line in shown[:22]:
        console.print(Text(line), no_wrap=True, overflow="ellipsis")
    drawn = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="a3gnn tune"), flags=re.DOTALL)
    (IMAGES / "terminal.svg").write_text(drawn, encoding="utf-8")  # with the reader's own fonts


def pages() -> None:
    """Takes pictures of the report's views in Chromium."""
    from playwright.sync_api import sync_playwright

    from a3gnn.page.views import write_report

    with tempfile.TemporaryDirectory() as folder:
        page_file = Path(folder) / "report.html"
        study = Path(folder) / "amazon"
        shutil.copytree(STORED, study)
        write_report(study, page_file)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1200, "height": 1000})
            page.goto(page_file.as_uri())
            page.wait_for_timeout(1500)
            page.screenshot(path=IMAGES / "report.png", clip={"x": 0, "y": 0, "width": 1200, "height": 980})
            for section in ("curves", "step", "knobs"):
                page.locator(f"#{section}").screenshot(path=IMAGES / f"report_{section}.png")
            browser.close()


if __name__ == "__main__":
    main()
