"""What commands print fits a terminal of 80 columns, and nothing but results is printed where it is to be quiet."""

import dataclasses
import gzip
import json
import os
import pty
import shlex
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from a3gnn.cli.main import COMMANDS, main
from a3gnn.cli.output import fitted, progress
from a3gnn.notify import Message
from a3gnn.option_names import program
from a3gnn.profiling.store.jsonl import shipped_profiles
from a3gnn.tuning.study.budget import Budget
from a3gnn.tuning.tell.trial_lines import heading, trial_message
from tests.tuning.measured import TWO_PARTS

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests" / "tuning" / "kept"
SPEC = "synthetic:nodes=300,degree=8,classes=4,features=16"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[str, str]:
    """What a command prints on stdout and on stderr."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    found = capsys.readouterr()
    assert not ended.value.code, found.err
    return found.out, found.err


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with two tunes, and a terminal of 80 columns."""
    for name in ("memory", "time"):
        shutil.copytree(KEPT / name, tmp_path / name)
    shutil.copytree(KEPT.parent / "old_folder", tmp_path / "unfinished")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ("front", "memory"),
        ("front", "time", "--all"),
        ("front", "unfinished"),
        ("pick", "memory", "--priority", "throughput", "--max-accuracy-drop", "5"),
        ("pick", "time"),
        ("compare", "memory", "time", "unfinished"),
        ("export", "memory", "--optuna", "sqlite:///o.db"),
        ("graph", "info", SPEC),
        ("graph", "convert", SPEC, "converted"),
        ("parts", "make", SPEC, "parts", "--num-parts", "2", "--partitioner", "random"),
        ("profiles", "list"),
        ("profiles", "check"),
        ("explore", "--platform", "u250", "--dataset", SPEC),
        ("explore", "--platform", "u200"),
        ("explore", "--platform", "a5000", "--devices", "16"),
        ("cache", "clean", "--dry-run"),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_results_fit(arguments: tuple[str, ...], here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, _ = run(capsys, *arguments)
    assert found
    # A word that is longer, such as a path of this machine, stays whole.
    long = [line for line in found.splitlines() if len(line) > 80 and len(line.split()) > 1]
    assert long == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("profiles", "check", "{far}/rows.jsonl.gz"),
        ("profiles", "check", "{far}/wrong.jsonl"),
        ("profiles", "import", "{far}/rows.jsonl.gz", "--store", "{far}/own.db"),
        ("profiles", "list", "--store", "{far}/rows.db"),
        ("profiles", "export", "{far}/out.jsonl", "--store", "{far}/rows.db"),
        ("pick", "{far}/memory"),
        ("compare", "{far}/memory", "time"),
        ("export", "{far}/memory", "--optuna", "sqlite:///{far}/o.db"),
        ("parts", "make", SPEC, "{far}/parts", "--num-parts", "2", "--partitioner", "random"),
        ("cache", "clean", "--dry-run"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_results_fit_however_long_paths_are(
    arguments: tuple[str, ...], here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    far = here / "a folder of mine" / ("deep" * 30)
    shutil.copytree(KEPT / "memory", far / "memory")
    shipped = shipped_profiles()
    assert shipped is not None
    with gzip.open(shipped / "corpus.jsonl.gz", "rt") as rows, gzip.open(far / "rows.jsonl.gz", "wt") as few:
        few.writelines(islice(rows, 40))
    (far / "wrong.jsonl").write_text("{}\n")
    (far / "hardware").mkdir()
    (far / "hardware" / "0f-v1.json").write_text(json.dumps({"cpu": "a processor"}))
    monkeypatch.setenv("A3GNN_CACHE", str(far))
    if str(far / "rows.db") in [one.format(far=far) for one in arguments]:
        run(capsys, "profiles", "import", far / "rows.jsonl.gz", "--store", far / "rows.db")
    with pytest.raises(SystemExit) as ended:
        main([one.format(far=far) for one in arguments])
    assert bool(ended.value.code) == ("{far}/wrong.jsonl" in arguments)
    lines = capsys.readouterr().out.splitlines()
    assert any("deepdeep" in line for line in lines)
    # A command stays a line, which a shell takes as it is.
    commands = [shlex.split(line.removeprefix("Next ")) for line in lines if line.startswith("Next ")]
    assert commands == [[*shlex.split(program()), "train", str(far / "memory" / "picked.json")]] * (
        arguments[0] == "pick"
    )
    long = [
        line for line in lines if len(line) > 80 and len(line.split()) > 1 and not line.startswith(("Saved ", "Next "))
    ]
    assert long == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits(command: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, _ = run(capsys, command, "--help")
    assert [line for line in found.splitlines() if len(line) > 80] == []


def test_a_longer_line_is_broken_further_in() -> None:
    knobs = ", ".join(
        ["batch 8192", "workers 2 (sample)", "features on disk", "cache 1.05 MiB by fifo", "fanout 5"] * 2
    )
    lines = list(fitted(f"#1 {knobs}\n    50 epochs/s\n\n{'path/' * 30}"))
    assert lines[0].startswith("#1 batch 8192, workers 2 (sample), ")
    assert lines[1].startswith("    ")
    assert max(map(len, lines[:-1])) <= 80
    assert lines[-3:] == ["    50 epochs/s", "", "path/" * 30]
    broken = " ".join(" ".join(lines[:-3]).split())
    assert broken == f"#1 {knobs}"


@pytest.mark.parametrize("terminal", [False, True])
def test_an_error_is_one_line_but_on_a_terminal(terminal: bool) -> None:
    code = "from a3gnn.cli.output import say; say('word ' * 40)"
    reader, writer = pty.openpty() if terminal else os.pipe()
    subprocess.run([sys.executable, "-c", code], stderr=writer, check=True, cwd=ROOT)
    os.close(writer)
    said = b""
    try:
        while part := os.read(reader, 4096):
            said += part
    except OSError:  # a terminal whose other end is closed
        pass
    os.close(reader)
    lines = said.decode().split("\n")[:-1]
    assert len(lines) == (3 if terminal else 1)
    assert " ".join(lines).split() == ["word"] * 40


def test_progress_fits_80_columns_in_a_pipe_and_a_trial_has_one_line(
    measured, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = dataclasses.replace(
        TWO_PARTS, batch_size=8192, seed_fanout=5, compute_dtype="bfloat16", cache_bytes=2**20, cache_policy="fifo"
    ).canonical()
    history = measured(wide).history
    row = trial_message(history.trials[-1], history, Budget(240.0))
    notify, told = progress(), Message(" ".join(["word"] * 40))
    for message in (heading(history), row, told):
        notify(message)
    first, second, *rest = capsys.readouterr().err.splitlines()
    assert (first, second) == (heading(history), row)
    assert max(map(len, [first, second, *rest])) <= 80
    assert " ".join(" ".join(rest).split()) == told


@pytest.mark.parametrize(
    "arguments",
    [
        ("graph", "convert", SPEC, "quiet"),
        ("parts", "make", SPEC, "quiet-parts", "--num-parts", "2", "--partitioner", "random"),
        ("export", "memory", "--optuna", "sqlite:///q.db"),
        ("train", "--model", "sage", "--dataset", SPEC, "--epochs", "1", "--out", "trained"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_quiet_prints_results_alone(arguments: tuple[str, ...], here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, said = run(capsys, *arguments, "--quiet")
    assert found
    assert said == ""


def test_pick_writes_beside_the_tunes_own(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = (here / "memory" / "tuned.json").read_bytes()
    found = json.loads(run(capsys, "pick", "memory", "--priority", "throughput", "--json")[0])
    assert found["file"] == "memory/picked.json"
    assert json.loads((here / "memory" / "picked.json").read_text())["config"] == found["config"]
    assert not found["in_play_off"]
    assert "single trial" in found["doubts"][0]
    assert (here / "memory" / "tuned.json").read_bytes() == own


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("pick", "memory", "--max-memory", "200MiB"), 3, "the smallest limit that would: --max-memory 280MiB"),
        (("pick", "memory", "--memory-limit=200MiB"), 3, "the smallest limit that would: --memory-limit 280MiB"),
        (("pick", "memory", "--min-accuracy", "99.5"), 3, "--min-accuracy 9"),
        (("pick", "memory", "--target-accuracy", "99.5"), 3, "--target-accuracy 9"),
        (("pick", "memory", "--min-accuracy", "101"), 2, "--min-accuracy must be"),
        (("pick", "memory", "--out", "memory"), 2, "--out must name a new file, got memory/tuned.json"),
        (("pick", "."), 2, "it holds no request.json; run a3gnn tune --out ."),
        (("compare", "memory", "."), 2, "it holds no request.json; run a3gnn tune --out ."),
        (("export", ".", "--optuna", "sqlite:///o.db"), 2, "it holds no request.json; run a3gnn tune --out ."),
        (("report", ".", "--out", "r.html"), 2, "it holds no request.json; run a3gnn tune --out ."),
        (("report", "nowhere"), 2, "it holds no request.json; run a3gnn tune --out nowhere first"),
        (("front", "."), 2, "it has no front.json; run a3gnn tune --out ."),
        (("report", "memory", "--out", "."), 2, "--out must be a file, got the folder .; such as report.html"),
        (("pick", "memory", "--priority", "speed"), 2, "--priority must be one of"),
        (("compare", "memory"), 2, "two tunes or more, got 1"),
        (("compare", "memory", "time", "--csv", "--json"), 2, "exclude each other"),
        (("export", "memory", "--optuna", "o.db"), 2, "sqlite:///optuna.db"),
    ],
)
def test_errors_say_the_law(
    arguments: tuple[str, ...], code: int, words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    found = capsys.readouterr()
    assert (ended.value.code, found.out) == (code, "")
    assert words in found.err


@pytest.mark.weekly  # tests/docs/test_commands.py prints one
def test_a_quiet_tune_prints_its_summary(here: Path) -> None:
    command = [sys.executable, "-m", "a3gnn", "tune", "--dataset", SPEC, "--budget", "1", "--out", "tuned", "--quiet"]
    path = os.pathsep.join(str(ROOT / folder) for folder in ("", "surrogate", "envs"))
    environment = {**os.environ, "PYTHONPATH": path}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=here, env=environment)
    found = ran.stdout
    assert not ran.stderr
    lines = found.splitlines()
    assert lines[0].startswith("Tuned GraphSAGE on ")
    assert any(line.split() == ["baseline", "tuned"] or line.split()[:1] == ["baseline"] for line in lines)
    assert len(lines) <= 30
    fields = json.loads(Path("tuned", "tuned.json").read_text(encoding="utf-8"))
    assert ("no measurable gain" in found) == (fields["no_gain"] is not None)
    assert ("in turns" in found) == (fields["no_gain"] is not None or fields["against_default"] is not None)
    assert max(map(len, lines)) <= 80
