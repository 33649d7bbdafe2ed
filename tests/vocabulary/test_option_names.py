import shlex
from pathlib import Path

import pytest

from a3gnn.cli.main import main
from a3gnn.errors import ExitCode
from a3gnn.option_names import again, as_flags, as_keywords, call, name_as_typed, option, options, program
from a3gnn.tuning.tune import tune

SPEC = "synthetic:nodes=300,degree=8,classes=4,features=16"


def test_python_reads_arguments_and_the_command_line_flags() -> None:
    given = [("memory_limit", None), ("memory_limit", "4GiB"), ("out", Path("runs/a")), ("resume", True)]
    given += [("max_accuracy_drop", 2.0), ("max_accuracy_drop", 2.01), ("budget", 7)]
    arguments = ["memory_limit", "memory_limit='4GiB'", "out='runs/a'", "resume=True"]
    flags = ["--memory-limit", "--memory-limit 4GiB", "--out runs/a", "--resume"]
    assert [option(*one) for one in given] == [*arguments, "max_accuracy_drop=2", "max_accuracy_drop=2.01", "budget=7"]
    assert (options(out="a", resume=True), call()) == ("out='a', resume=True", "call")
    with as_flags():
        assert [option(*one) for one in given] == [
            *flags,
            "--max-accuracy-drop 2",
            "--max-accuracy-drop 2.01",
            "--budget 7",
        ]
        assert (options(out="a", resume=True), call()) == ("--out a --resume", "command")
        assert option("out", Path("my runs/a")) == "--out 'my runs/a'"  # as a shell takes it
    assert option("out") == "out"


def test_the_same_error_speaks_to_who_made_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["tune", "--dataset", SPEC, "--engine", "eii"])
    assert ended.value.code == ExitCode.USAGE
    assert "error: --engine must be one of" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"^engine must be one of .*got 'eii'; did you mean 'ei'"):
        tune(SPEC, engine="eii")


def test_an_option_with_two_flags_is_named_as_it_was_typed() -> None:
    flags = {"memory_limit": ["--max-memory", "--memory-limit"], "ranges": ["--range"], "folder": []}
    with as_flags():
        name_as_typed(flags, ["runs/a", "--max-accuracy-drop", "1"])
        assert option("memory_limit", "4GiB") == "--max-memory 4GiB"
        assert (option("ranges"), option("folder"), option("seed")) == ("--range", "--folder", "--seed")
        for word in ("--memory-limit", "--memory-limit=1GiB"):
            name_as_typed(flags, ["runs/a", word])
            assert option("memory_limit") == "--memory-limit"
        with as_keywords():
            assert option("memory_limit") == "memory_limit"
        assert option("memory_limit") == "--memory-limit"
    with as_flags():
        assert option("ranges") == "--ranges"


def test_a_program_is_named_by_its_path_where_path_does_not_lead_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts, other = tmp_path / ".venv" / "bin", tmp_path / "other"
    for folder in (scripts, other):
        folder.mkdir(parents=True)
    monkeypatch.setattr("sys.executable", str(scripts / "python"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(other))
    assert program() == f"{scripts}/python -m a3gnn"
    (scripts / "a3gnn").touch(mode=0o755)
    assert program() == ".venv/bin/a3gnn"
    monkeypatch.chdir(other)
    assert program() == str(scripts / "a3gnn")
    (other / "a3gnn").touch(mode=0o755)  # of another environment
    assert program() == str(scripts / "a3gnn")
    monkeypatch.setenv("PATH", str(scripts))
    assert program() == "a3gnn"


@pytest.mark.parametrize(
    "words",
    [
        ["--dataset", "my graph.npz", "--fix", "batch_size=64"],
        ["--dataset", "my graph.npz", "--budget", "1min", "--fix", "batch_size=64"],
        ["--budget=1min", "--out", "runs/x", "--dataset", "my graph.npz", "--resume", "--fix", "batch_size=64"],
    ],
)
def test_a_command_is_repeated_with_other_values(words: list[str]) -> None:
    with as_flags():
        assert again(resume=True) == ""
        flags = {name: [f"--{name}"] for name in ("dataset", "budget", "out", "resume", "fix")}
        name_as_typed(flags, words, "tune")
        command = shlex.split(again(out=Path("runs/a b"), resume=True, budget="2min"))
    start = len(shlex.split(program()))
    expected = ["tune", "--dataset", "my graph.npz", "--fix", "batch_size=64"]
    assert command[start:] == [*expected, "--out", "runs/a b", "--resume", "--budget", "2min"]
    assert again(resume=True) == ""
