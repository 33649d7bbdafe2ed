"""What every command keeps: exit codes, streams, help."""

import importlib
import importlib.util
import json
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from a3gnn._imports import install_line
from a3gnn.cli.main import COMMANDS, main
from a3gnn.version import PURPOSE
from tests.commands import ROOT, a3gnn, process


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    run = a3gnn(command, "--help")
    assert run.returncode == 0
    assert "Usage: a3gnn" in run.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_another_system_is_named_in_one_line(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Windows")
    run = a3gnn(command) if command == "doctor" else a3gnn(command, "--help")
    said = run.stdout if command == "doctor" else run.stderr
    assert run.returncode == 1
    assert "a3gnn runs on Linux only, this system is Windows; use WSL\n" in said
    assert "All packages are installed" not in said
    assert command == "doctor" or len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tnue"], "did you mean 'tune'"),
        (["tune"], "--dataset"),
        (["tune", "--dataset", "synthetic:", "--memory-limit", "lots"], "a size is a number with a unit"),
        (["tune", "--dataset", "synthetic:", "--memory-limit", "4XB"], "got '4XB'; write 512MiB or 4GiB, for example"),
        (["tune", "--dataset", "synthetic:", "--budget", "soon"], "a duration such as 10min or a positive number"),
        (["tune", "--dataset", "synthetic:", "--priority", "speed"], "throughput, memory, accuracy, balanced"),
        (["tune", "--dataset", "synthetic:", "--fix", "batch_size"], "KNOB=VALUE"),
        (["tune", "--dataset", "synthetic:", "--range", "batch_size=3"], "KNOB=LOW:HIGH"),
        (["tune", "--dataset", "synthetic:", "--resume"], "--resume needs the --out folder"),
        (["tune", "--dataset", "synthetic:", "--engine", "nsga3"], "did you mean 'nsga2'"),
        (["tune", "--dataset", "synthetic:", "--fix", "batch_size=2.5"], "batch_size must be a whole number"),
        (
            ["accelerator", "generate", "--units", "6", "--multipliers", "64", "--out", "x"],
            "--units must be a power of two",
        ),
        (["tune", "--dataset", "synthetic:", "--memory-limit", "4"], "error: --memory-limit: a size is a number with"),
        (
            ["tune", "--dataset", "synthetic:", "--memory-limit", "4k"],
            "error: --memory-limit must be at least 1.00 MiB",
        ),
        (["tune", "--dataset", "synthetic:", "--host-memory-limit", "900KiB"], "got '900KiB', because a process takes"),
        (["recommend", "--dataset", "synthetic:", "--memory-limit", "900KiB"], "got '900KiB', because a process takes"),
        (["pick", ".", "--max-memory", "900KiB"], "error: --max-memory must be at least 1.00 MiB, got '900KiB'"),
        (["recommend", "--dataset", "synthetic:", "--memory-limit", "99999999999TiB"], "must be below 8,388,608 TiB"),
        (
            ["tune", "--dataset", "synthetic:", "--fix", "cache_bytes=64"],
            "error: --fix cache_bytes: a size is a number",
        ),
        (["graph", "convert", "synthetic:", "x", "--memory-budget", "1"], "error: --memory-budget: a size is a number"),
        (["serve", "--max-upload", "2"], "error: --max-upload: a size is a number with a unit"),
        (["pick", ".", "--max-memory", "4"], "error: --max-memory: a size is a number with a unit"),
        (["pick", ".", "--memory-limit", "4"], "error: --memory-limit: a size is a number with a unit"),
        (["tune", "--dataset", "synthetic:", "--fix", "batch_size=lots"], "error: batch_size must be a whole number"),
        (["tune", "--dataset", "synthetic:", "--fix", "batch_size"], "error: --fix must be KNOB=VALUE"),
        (["recommend", "--dataset", "synthetic:", "--range", "batch_size=1"], "error: --range must be KNOB=LOW:HIGH"),
        (["train", "--dataset", "synthetic:", "--lr-schedule", "linear"], "error: "),
        (["tune"], "error: missing option '--dataset'"),
        (["graph", "conv"], "error: no such command 'conv'"),
        (["tuen"], "try: a3gnn --help error: no such command 'tuen'; did you mean 'tune'?"),
        (["xyzzy"], "error: no such command 'xyzzy'; a3gnn --help lists the commands"),
        (["tune", "--gpu"], "error: no such option '--gpu'; a3gnn uses a GPU if torch finds one"),
        (["tune", "--dataset", "synthetic:", "--split", "0.6,0.2,0.3"], "error: --split must be three shares"),
        (["front", "nowhere"], "but it does not exist; run a3gnn tune --out nowhere first"),
        (["report", "nowhere"], "but does not exist: it holds no request.json"),
        (["graph", "info", "nowhere"], "error: a graph is one of"),
        (["graph", "info", "nowhere.npz"], "error: nowhere.npz does not exist"),
        (["graph", "info", "pyg:Coraa"], "did you mean 'pyg:Cora'?"),
        (["front", "."], "run a3gnn tune --out"),
        (["report", "."], "it holds no request.json; run a3gnn tune --out . first"),
    ],
)
def test_wrong_usage_exits_with_two_and_says_the_law(arguments: list[str], words: str) -> None:
    run = a3gnn(*arguments)
    assert run.returncode == 2
    assert words in " ".join(run.stderr.split())
    usage, tried, empty, error = run.stderr.splitlines()[-4:]
    assert (usage[:13], tried[:11], empty, error[:7]) == ("Usage: a3gnn ", "try: a3gnn ", "", "error: ")
    assert run.stdout == ""
    assert "Traceback" not in run.stderr


def test_a_process_ends_and_prints_as_the_command_does() -> None:
    for arguments in (["tnue"], ["profiles", "--help"]):
        run, here = process(*arguments), a3gnn(*arguments)
        assert (run.returncode, run.stdout.split(), run.stderr.split()) == (
            here.returncode,
            here.stdout.split(),
            here.stderr.split(),
        )


def test_a_missing_graph_is_wrong_usage(tmp_path: Path) -> None:
    run = a3gnn("tune", "--dataset", "nowhere.npz", "--out", str(tmp_path / "run"))
    assert run.returncode == 2
    assert "nowhere.npz" in run.stderr
    assert "Traceback" not in run.stderr
    assert not (tmp_path / "run").exists()


def test_doctor_probes_again_and_shows_what_it_finds() -> None:
    text = a3gnn("doctor", "--probe").stdout
    said, _, shown = text.partition("stored in\n")
    place, *limits = shown.splitlines()
    kept = json.loads(Path(place.strip()).read_text())
    assert f"Probe of machine {kept['fingerprint']}, measured now" in said
    assert f"Instructions {' '.join(kept['instruction_sets'])} " in " ".join(said.split())
    assert [line.split()[0] for line in limits] == list(kept["limits"])


def test_doctor_names_versions_and_devices() -> None:
    found = json.loads(a3gnn("doctor", "--json").stdout)
    assert found["cores"] >= 1
    assert {p["name"]: p["version"] for p in found["packages"]}["numpy"]
    text = a3gnn("doctor").stdout
    assert "cores" in text


@pytest.mark.weekly  # tests/docs/test_commands.py runs those of README.md
@pytest.mark.slow
def test_tune_front_and_train_from_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "run"
    spec = "synthetic:nodes=800,degree=6,classes=3,features=16"
    options = ["--hidden", "16", "--fanouts", "4,4", "--accuracy-epochs", "1", "--max-accuracy-drop", "100"]
    limit = ["--memory-limit", "1GiB", "--budget", "10s"]
    run = process("tune", "--dataset", spec, *options, *limit, "--out", str(out), "--json")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["search"]["engine"] == "ppo"
    assert "baseline" in run.stderr

    table = a3gnn("front", str(out))
    assert "Pareto front" in table.stdout
    assert json.loads(a3gnn("front", str(out), "--json").stdout)["rows"]

    trained = process(
        "train", "--config", str(out / "tuned.json"), "--epochs", "2", "--out", str(tmp_path / "m"), "--json"
    )
    assert trained.returncode == 0, trained.stderr
    result = json.loads(trained.stdout)
    assert result["config"] == found["config"]
    assert 0 < result["peak_host_bytes"] <= 2**30


@pytest.mark.slow
def test_an_interrupted_tune_resumes(tmp_path: Path) -> None:
    out = tmp_path / "run"
    spec = "synthetic:nodes=800,degree=6,classes=3,features=16"
    options = ["--hidden", "16", "--fanouts", "4,4", "--accuracy-epochs", "1", "--max-accuracy-drop", "100"]
    command = ["tune", "--dataset", spec, *options, "--engine", "random", "--out", str(out), "--budget"]
    with subprocess.Popen(
        [sys.executable, "-m", "a3gnn", *command, "1000"], stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith("#1 "):
                running.send_signal(signal.SIGINT)
                break
        said = running.stderr.read()
        assert running.wait(timeout=60) == 130
    assert "--resume goes on" in said
    assert "Traceback" not in said
    kept = (out / "probes.jsonl").read_text()
    assert kept.count("\n") >= 2
    assert not (out / "tuned.json").exists()
    so_far = a3gnn("front", str(out), "--json")
    assert "is not finished" in so_far.stderr
    assert len(json.loads(so_far.stdout)["rows"]) == kept.count("\n")

    run = process(*command, "2", "--resume")
    assert run.returncode == 0, run.stderr
    assert (out / "probes.jsonl").read_text().startswith(kept)
    assert (out / "tuned.json").exists()
    again = a3gnn(*command, "2", "--resume")
    assert again.returncode == 0
    assert "is finished" in " ".join(again.stderr.split())
    assert not any(line.startswith("baseline ") for line in again.stderr.splitlines())  # no trial


def test_doctor_knows_every_package_of_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    told = {p["name"]: p["install"] for p in json.loads(a3gnn("doctor", "--json").stdout)["packages"]}
    for extra in set(extras) - {"dev"}:
        for requirement in extras[extra]:
            name = re.split(r"[\[><=]", requirement)[0]
            assert name in told
            if name != "matplotlib":  # of two extras
                assert told[name].endswith(f'[{extra}]"')


def test_doctor_names_the_packages_of_a_missing_extra_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = ("ray", "fastapi", "uvicorn", "alembic")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in absent else find(name))
    with pytest.raises(SystemExit) as ended:
        main(["doctor"])
    assert ended.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    optional = said.partition("Not installed (optional): ")[2]
    assert f"ray, for trials on a Ray cluster: {install_line('ray')}" in optional
    assert f"fastapi, uvicorn, alembic, for a3gnn serve: {install_line('serve')}" in optional


def test_the_line_that_installs_an_extra_suits_how_a3gnn_was_installed() -> None:
    assert install_line("serve") == 'pip install "a3gnn[serve]"'
    code = "import a3gnn._imports as own; print(own.install_line('serve'))"
    bare = subprocess.run(  # without site-packages, as a copy of the repository that was never installed
        [sys.executable, "-S", "-E", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert bare.stdout.strip() == f'pip install "{ROOT}[serve]"'


def test_one_line_says_what_it_is_for_everywhere() -> None:
    line = re.search(r"^\*\*(Train .*\.)\*\*$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M).group(1)
    places = ("pyproject.toml", "mkdocs.yml", "CITATION.cff", "docs/index.md")
    assert [place for place in places if line[:-1] not in (ROOT / place).read_text(encoding="utf-8")] == []
    assert line == PURPOSE
    assert line in " ".join(a3gnn("--help").stdout.split())
    assert (importlib.import_module("a3gnn").__doc__ or "").startswith(f"{line}\n")
