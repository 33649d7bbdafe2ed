from pathlib import Path

import pytest

from a3gnn.cli.main import main
from a3gnn.errors import ExitCode
from a3gnn.option_names import as_flags, as_keywords, call, name_as_typed, option, options
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
