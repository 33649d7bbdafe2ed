"""Draws the pictures of README and docs from a stored tune and stored trainings of a PyG script.

`python docs/pictures.py` reads benchmarks/results/hero/ and writes docs/images/. It needs the extra plot,
and Chromium for the pictures of pages. `python docs/pictures.py measure GRAPH` makes the stored tune anew, with ten
minutes, and `python -m benchmarks.own_loop GRAPH ... --json benchmarks/results/hero/own_loop.json` the trainings. Both
keep figures alone, nothing of the graph.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "benchmarks" / "results" / "hero"
IMAGES = ROOT / "docs" / "images"
#: Files of a tune that its report needs.
KEPT = ("tuned.json", "front.json", "probes.jsonl", "request.json", "state.json", "product_speeds.json")
#: The sides of `benchmarks.own_loop` that the first picture shows, with their colors.
SIDES = {"PyG as written": "#8a8f98", "two lines": "#5c6bc0", "tuned": "#00897b"}


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
    """Tunes on `graph` and keeps the figures in `STORED`."""
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


def _without(text: str, places: dict[str, str]) -> str:
    """Returns `text` without this machine's paths."""
    for place, name in places.items():
        text = text.replace(place, name)
    return text


def hero() -> None:
    """Draws the best validation accuracy so far over seconds of training, of each way to run a PyG script.

    It reads what `python -m benchmarks.own_loop GRAPH ... --json benchmarks/results/hero/own_loop.json` wrote, the
    curves of its first seed. A point marks the first epoch that reached the script's best accuracy less half a point.
    """
    import matplotlib.pyplot as plt

    from a3gnn.config import TrainConfig

    graphs = json.loads((STORED / "own_loop.json").read_text())["graphs"]
    figure, row = plt.subplots(1, len(graphs), figsize=(4 * len(graphs), 4), layout="constrained", squeeze=False)
    for axes, (graph, result) in zip(row[0], graphs.items(), strict=True):
        target = 100 * result["targets"][0]
        first = None
        for name, color in SIDES.items():
            curve = result["curves"][name][0]
            seconds, accuracy = curve["seconds"], curve["accuracy"]
            best = [100 * value for value in itertools.accumulate(accuracy, max)]
            reached = next(second for second, value in zip(seconds, best, strict=True) if value >= target)
            first = first or reached
            label = f"{name}: {reached:.3g} s" + (f", {first / reached:.3g}x" if reached != first else "")
            if name == "tuned" and TrainConfig.from_dict(result["config"]) == TrainConfig().canonical():
                label += " (kept the baseline)"
            axes.step(
                seconds, best, ls="--" if name == "tuned" else "-", where="post", color=color, lw=2.2, label=label
            )
            axes.plot(reached, target, "o", color=color, markersize=7)
        axes.axhline(target, color="0.5", linestyle="--", linewidth=1)
        axes.set_title(Path(graph).stem, loc="left", fontsize=11)
        axes.set(xscale="log", xlabel="seconds of training", ylim=(target - 10, target + 2))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(0, -0.18))
        axes.spines[["top", "right"]].set_visible(False)
    row[0][0].set_ylabel("validation accuracy (%)")
    figure.savefig(IMAGES / "hero.png", dpi=150)


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
